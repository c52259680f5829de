"""Inputs that are numbers and vary: which size each is, and what it was while the program was exported.

As attributes of the argument: ``et.size`` is an expression of symbols, as in the layout of tensor types, and
``et.example`` the number that files hold for runtimes that take no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from etir.dialects.literals import scalar_attr
from etir.dialects.signatures import EXAMPLE, SIZE, number_input
from etir.dialects.sym.expr import SymExpr
from etir.lowering.import_fx.types import dim_of


def varying_number(value: Any) -> dict[str, Attribute]:
    """The attributes of an input that is a ``SymInt``, ``SymFloat`` or ``SymBool``."""
    found: dict[str, Attribute] = {}
    if isinstance(value, torch.SymInt):
        found[SIZE] = StringAttr(str(dim_of(value)))
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)) and value.node.has_hint():
        found[EXAMPLE] = scalar_attr(value.node.hint)
    return found


def rename_numbers(func: FuncOp, renamed: Mapping[str, SymExpr]) -> None:
    """Put other symbols into the inputs of a function that are numbers."""
    if func.arg_attrs is None:
        return
    changed: list[DictionaryAttr] = []
    for index, attributes in enumerate(func.arg_attrs.data):
        size = number_input(func, index)
        if size is not None:
            attributes = DictionaryAttr({**attributes.data, SIZE: StringAttr(str(size.substitute(renamed)))})
        changed.append(attributes)
    func.arg_attrs = ArrayAttr(changed)
