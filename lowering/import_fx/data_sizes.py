"""Upper bounds that torch does not give to sizes although the operator that gives them, or ``cond``, implies them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp

from etir.dialects.control.ops import CondOp, yielded
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
    """The largest value of symbols that are a size of what such an operator, or ``cond``, gives."""
    found: dict[str, int] = {}
    while True:  # A bound may follow from another one, which is found inside of a region or after it.
        known = {name: (low, found.get(name, high) if high is None else high) for name, (low, high) in ranges.items()}
        more = _chosen_sizes(func, known) | _branch_sizes(func, known)
        if more.keys() <= found.keys():
            return found
        found |= {name: most for name, most in more.items() if name not in found}


def _branch_sizes(func: FuncOp, ranges: Mapping[str, tuple[int, int | None]]) -> dict[str, int]:
    """Symbols that stand for a size that differs between the branches of a ``cond``: the larger of the two."""
    found: dict[str, int] = {}
    for op in func.walk():
        if not isinstance(op, CondOp):
            continue
        for result, *branches in zip(op.outputs, yielded(op.then_region), yielded(op.else_region), strict=True):
            types = [value.type for value in (result, *branches)]
            dims = [dims_of(type) for type in types if isinstance(type, TensorType)]
            if len(dims) != len(types) or len({len(d) for d in dims}) != 1:
                continue
            for size, *own in zip(*dims, strict=True):
                highest = [d if isinstance(d, int) else bounds(d, ranges)[1] for d in own]
                if isinstance(size, SymExpr) and str(size) in size.symbols and None not in highest:
                    found[str(size)] = max(h for h in highest if h is not None)
    return found


def _chosen_sizes(func: FuncOp, ranges: Mapping[str, tuple[int, int | None]]) -> dict[str, int]:
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
