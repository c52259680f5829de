"""What a method's declaration requires of the sizes of its inputs; ``sym/requirements.py`` has the rules."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr, TensorType
from xdsl.dialects.func import FuncOp

from etir.dialects.et.layout import dims_of
from etir.dialects.sym.normal import SymExpr
from etir.dialects.sym.requirements import Ranges, Requirements, Size, requirements
from etir.dialects.sym.text import parse

SIZE, EXAMPLE = "et.size", "et.example"
"""Attributes of an argument that is a number and varies: its size as an expression, and its value at export."""


def requirements_of(func: FuncOp, ranges: Ranges) -> Requirements:
    """The rules for the inputs of ``func``; ``ranges`` are those of its module's symbols."""
    shapes: list[Sequence[Size] | None] = []
    numbers: list[int] = []
    for index, argument in enumerate(func.body.block.args):
        size = number_input(func, index)
        if size is not None:
            numbers.append(index)
        shapes.append(
            dims_of(argument.type) if isinstance(argument.type, TensorType) else None if size is None else [size]
        )
    return requirements(shapes, ranges, input_names(func), numbers)


def number_input(func: FuncOp, index: int) -> SymExpr | None:
    """The size that an input stands for which is a number and varies; None for any other input."""
    if func.arg_attrs is None:
        return None
    text = func.arg_attrs.data[index].data.get(SIZE)
    return parse(text.data) if isinstance(text, StringAttr) else None


def input_names(func: FuncOp) -> list[str]:
    """The names of the inputs as the user's program has them, else those of the values, else their numbers."""
    arguments = func.body.block.args
    names = func.attributes.get("et.input_names")
    given = [n.data if isinstance(n, StringAttr) else "" for n in names.data] if isinstance(names, ArrayAttr) else []
    given += [""] * (len(arguments) - len(given))
    return [name or a.name_hint or str(i) for i, (name, a) in enumerate(zip(given, arguments, strict=False))]
