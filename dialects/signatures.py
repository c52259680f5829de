"""What a method's declaration requires of the sizes of its inputs; ``sym/requirements.py`` has the rules."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, StringAttr, TensorType
from xdsl.dialects.func import FuncOp

from etir.dialects.et.layout import dims_of
from etir.dialects.sym.requirements import Ranges, Requirements, requirements


def requirements_of(func: FuncOp, ranges: Ranges) -> Requirements:
    """The rules for the inputs of ``func``; ``ranges`` are those of its module's symbols."""
    arguments = func.body.block.args
    return requirements(
        [dims_of(a.type) if isinstance(a.type, TensorType) else None for a in arguments], ranges, input_names(func)
    )


def input_names(func: FuncOp) -> list[str]:
    """The names of the inputs as the user's program has them, else those of the values, else their numbers."""
    arguments = func.body.block.args
    names = func.attributes.get("et.input_names")
    given = [n.data if isinstance(n, StringAttr) else "" for n in names.data] if isinstance(names, ArrayAttr) else []
    given += [""] * (len(arguments) - len(given))
    return [name or a.name_hint or str(i) for i, (name, a) in enumerate(zip(given, arguments, strict=False))]
