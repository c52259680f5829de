"""How a method's inputs and outputs are packed into containers, as its ``et.method`` and the file say it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.dialects.func import FuncOp

from etir.runtime.structure import flat_arguments, flat_structure


def packing_of(func: FuncOp) -> tuple[str | None, str | None]:
    """The descriptions of inputs and outputs. Where a function has only names of them, they are flat, side by side."""
    inputs = _packing(func, "et.in_spec", "et.input_names", flat_arguments)
    return inputs, _packing(func, "et.out_spec", "et.output_names", flat_structure)


def _packing(func: FuncOp, spec: str, names: str, flat: Callable[[Sequence[str]], str]) -> str | None:
    text, named = func.attributes.get(spec), func.attributes.get(names)
    given = text.data if isinstance(text, StringAttr) else None
    if not given and isinstance(named, ArrayAttr) and named.data:
        return flat([name.data for name in named.data if isinstance(name, StringAttr)])
    return given
