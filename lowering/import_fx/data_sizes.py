"""Upper bounds that torch does not give to sizes from data although the operator implies them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp

from etir.dialects.et.layout import dims_of
from etir.dialects.schema_op import SchemaOp
from etir.dialects.sym.expr import SymExpr, bounds

_CHOOSES = (
    "aten._unique2.default",
    "aten.unique_dim.default",
    "aten.unique_consecutive.default",
    "aten.unique_dim_consecutive.default",
)
"""Operators whose results hold some of the elements, or of the slices along ``dim``, of their input."""


def implied_bounds(func: FuncOp, ranges: Mapping[str, tuple[int, int | None]]) -> dict[str, int]:
    """The largest value of symbols that are a size of what such an operator gives."""
    found: dict[str, int] = {}
    for op in func.walk():
        if not isinstance(op, SchemaOp) or op.name not in _CHOOSES:
            continue
        source, result = op.operands[0].type, op.results[0].type
        if not isinstance(source, TensorType) or not isinstance(result, TensorType):
            continue
        dim = op.arg("dim") if "dim" in op.SCHEMA.index else None
        given = dims_of(source) if dim is None else (dims_of(source)[dim],)
        chosen = dims_of(result)[0 if dim is None else dim]
        sizes = [d if isinstance(d, int) else bounds(d, ranges)[1] for d in given]
        if isinstance(chosen, SymExpr) and str(chosen) in chosen.symbols and None not in sizes:
            found[str(chosen)] = math.prod(s for s in sizes if s is not None)
    return found
