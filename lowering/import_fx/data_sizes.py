"""Upper bounds that torch does not give to sizes although the operator that gives them, or ``cond``, implies them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp

from etir.dialects.control.ops import CondOp, yielded
from etir.dialects.et.layout import dims_of
from etir.dialects.schema_op import SchemaOp
from etir.dialects.sym.expr import SymExpr, as_expr, bounds
from etir.dialects.sym.ops import ArithmeticOp, AssertOp
from etir.lowering.build.sizes import dim_of

_CHOOSES = (
    "aten._unique2.default",
    "aten.unique_dim.default",
    "aten.unique_consecutive.default",
    "aten.unique_dim_consecutive.default",
)
"""Operators whose results hold some of the elements, or of the slices along ``dim``, of their input."""


_ORDERS = {"sym.le": True, "sym.lt": True, "sym.ge": False, "sym.gt": False}
"""Comparisons of numbers, by whether the first one is the smaller one."""


def implied_bounds(
    func: FuncOp, ranges: Mapping[str, tuple[int, int | None]], asserted: Sequence[tuple[SymExpr, SymExpr]] = ()
) -> dict[str, int]:
    """The largest value of symbols that are a size of what such an operator, or ``cond``, gives, or that the program
    asserts not to be larger than another size: the pairs ``asserted``, and what ``func`` asserts of its inputs."""
    found: dict[str, int] = {}
    while True:  # A bound may follow from another one, which is found inside of a region or after it.
        known = {name: (low, found.get(name, high) if high is None else high) for name, (low, high) in ranges.items()}
        more = _chosen_sizes(func, known) | _branch_sizes(func, known) | _asserted_sizes(func, asserted, known)
        if more.keys() <= found.keys():
            return found
        found |= {name: most for name, most in more.items() if name not in found}


def _asserted_sizes(
    func: FuncOp, asserted: Sequence[tuple[SymExpr, SymExpr]], ranges: Mapping[str, tuple[int, int | None]]
) -> dict[str, int]:
    """Symbols that are at most another size: ``torch._check(n <= x.shape[0])``."""
    pairs = list(asserted)
    for op in func.body.block.ops:
        made = op.condition.owner if isinstance(op, AssertOp) else None
        if not isinstance(made, ArithmeticOp) or made.name not in _ORDERS:
            continue
        sides = [dim_of(argument) for argument in made.arguments]
        known = [as_expr(side) for side in sides if side is not None]
        if len(known) == 2:
            small, large = known if _ORDERS[made.name] else reversed(known)
            pairs.append((small, large))
    found: dict[str, int] = {}
    for small, large in pairs:
        most = bounds(large, ranges)[1]
        if str(small) in small.symbols and most is not None:
            found[str(small)] = min(most, found.get(str(small), most))
    return found


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
