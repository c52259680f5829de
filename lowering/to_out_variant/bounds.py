"""What to tell about a size without an upper bound (E0416): whose size it is, and the line that gives it a bound.

A dim has the user's name where the program knows it. torch's own names (``s77``) tell nothing: saved programs, which do
not keep names, and ``Dim.AUTO`` have only those. Such a dim is named by its input and index, and for the line of code a
name is made of these.
"""

from __future__ import annotations

import re

from xdsl.dialects.builtin import ArrayAttr, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from etir.diagnostics import Diagnostic, SourceLocation
from etir.dialects.et.layout import Dim, dims_of, is_static
from etir.dialects.signatures import input_names, number_input
from etir.lowering.errors import E0416, E0419

_TORCH = re.compile(r"s\d+")
"""Torch's names of sizes of inputs."""

_EXAMPLE = 1024
"""The bound in the line of code that is proposed."""


MOST_PLANNED = 1 << 36
"""Bytes of the largest dynamic tensor that is planned: no machine has a memory for bounds whose product is more."""


LARGEST = 1 << 62
"""Bytes of a static tensor that no machine can address; sums of what is below it still are numbers of a file."""


def oversized(source: SSAValue, size: int, func: FuncOp, location: SourceLocation | None) -> Diagnostic:
    """The diagnostic for a tensor whose dims, or the upper bounds of them, together are more than any memory."""
    made = f"a result of '{source.owner.name}'" if isinstance(source.owner, Operation) else "an input"
    value = f"%{source.name_hint}" if source.name_hint else made
    assert isinstance(source.type, TensorType)
    if is_static(source.type):
        return E0419.diagnostic(
            f"{value} of method '{func.sym_name.data}' has {size:,} bytes",
            location,
            help="no memory holds it: change the sizes, or what makes it so large",
        )
    return E0419.diagnostic(
        f"{value} of method '{func.sym_name.data}' has up to {size:,} bytes by the upper bounds of its dims",
        location,
    )


def unbounded_dim(symbol: str, dim: Dim, source: SSAValue, func: FuncOp, location: SourceLocation | None) -> Diagnostic:
    """The diagnostic for ``symbol``, met in the size ``dim`` of ``source``, a value of ``func``."""
    made = f"a result of '{source.owner.name}'" if isinstance(source.owner, Operation) else "an input"
    value = f"%{source.name_hint}" if source.name_hint else made
    whose = f"the size '{dim}' of {value} in method '{func.sym_name.data}'"
    places = _places(symbol, func)
    names = input_names(func)
    numbers = [names[i] for i in range(len(func.body.block.args)) if str(number_input(func, i)) == symbol]
    if numbers:
        return E0416.diagnostic(
            f"the number '{numbers[0]}', an input, has no upper bound: {whose} cannot be planned",
            location,
            help=f"say in the model how large it gets: torch._check({numbers[0]} <= {_EXAMPLE}); torch.export takes no "
            "bounds for numbers in dynamic_shapes",
        )
    if not places:
        return E0416.diagnostic(
            f"dim '{symbol}' has no upper bound: {whose} cannot be planned",
            location,
            help="the size comes from data; in the model, where it is first known and before it is used, say how "
            f"large it gets: torch._check(size <= {_EXAMPLE})",
        )
    shown = " and ".join(f"dim {index} of input '{name}'" for name, index in places)
    subject, name = f"dim '{symbol}', which is {shown},", symbol
    if _TORCH.fullmatch(symbol):
        subject = f"{shown}, '{symbol}' in the exported program,"
        name = "{}_dim{}".format(*places[0])
    shapes = ", ".join(f'"{input}": {{{index}: {name}}}' for input, index in places)
    return E0416.diagnostic(
        f"{subject} has no upper bound: {whose} cannot be planned",
        location,
        help=f'export with {name} = torch.export.Dim("{name}", max={_EXAMPLE}) in dynamic_shapes={{{shapes}}}',
    )


def _places(symbol: str, func: FuncOp) -> list[tuple[str, int]]:
    """The inputs, by name, and their dims that are ``symbol``."""
    names = func.attributes.get("et.input_names")
    given = [a.data if isinstance(a, StringAttr) else "?" for a in names.data] if isinstance(names, ArrayAttr) else []
    found: list[tuple[str, int]] = []
    for number, argument in enumerate(func.body.block.args):
        type: Attribute = argument.type
        if isinstance(type, TensorType):
            name = given[number] if number < len(given) else argument.name_hint or str(number)
            found += [(name, i) for i, d in enumerate(dims_of(type)) if str(d) == symbol]
    return found
