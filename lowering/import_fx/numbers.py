"""Operators that give numbers: sizes, strides, counts, what a dtype holds.

What export knows while it traces is a literal, whatever the operator: the graph has been specialized on it. A size that
it does not know is ``aten.sym_size.int``; everything else that an operator says of a shape is a product of such sizes.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from xdsl.ir import Block, Operation, SSAValue

from etir.diagnostics import EtirError
from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import i64
from etir.dialects.sym.expr import SymExpr, as_expr
from etir.dialects.sym.ops import ARITHMETIC_OPS
from etir.lowering.import_fx.structures import Value, as_number, flat_outputs, restore
from etir.lowering.import_fx.types import dim_of

SHAPE_OPERATORS = frozenset(
    f"aten.{name}"
    for name in (
        "size.int",
        "size.default",
        "sym_size.default",
        "numel.default",
        "stride.int",
        "stride.default",
        "sym_stride.int",
        "sym_stride.default",
    )
)
"""Operators that read a shape and that no kernel has; ``sym_size.int`` and ``sym_numel`` are primitive operators."""


def gives_numbers(target: torch._ops.OpOverload) -> bool:
    """Whether an operator has no effect and no result that is a tensor: where nothing uses it, nothing is lost."""
    returns = target._schema.returns
    return bool(returns) and not target._schema.is_mutable and not any("Tensor" in str(r.type) for r in returns)


_NOT_NEGATIVE = ("aten.sym_storage_offset.default", "aten.storage_offset.default", "aten.sym_stride.int")
"""Numbers that torch asserts to be at least 0 where they depend on data. They always are."""


def is_said_anyway(node: fx.Node) -> bool:
    """Whether a node only serves an assertion that holds for every program: ``_assert_scalar(storage_offset >= 0)``."""
    if str(node.target) in _NOT_NEGATIVE:
        return bool(node.users) and all(map(_is_not_negative, node.users))
    return _is_not_negative(node)


def _is_not_negative(node: fx.Node) -> bool:
    if node.target is not operator.ge or node.args[1] != 0 or not isinstance(node.args[0], fx.Node):
        return False
    asserted = (user.target is torch.ops.aten._assert_scalar.default for user in node.users)
    return str(node.args[0].target) in _NOT_NEGATIVE and all(asserted)


def asserted_orders(graph: fx.Graph) -> list[tuple[SymExpr, SymExpr]]:
    """Pairs of sizes whose first one the graph asserts to be the smaller one, or equal."""
    found: list[tuple[SymExpr, SymExpr]] = []
    for node in graph.nodes:
        condition = node.args[0] if node.target is torch.ops.aten._assert_scalar.default else None
        value = condition.meta.get("val") if isinstance(condition, fx.Node) else None
        if not isinstance(value, torch.SymBool) or not isinstance(condition, fx.Node):
            continue
        sides = [side.meta.get("val") if isinstance(side, fx.Node) else side for side in condition.args]
        try:
            dims = [as_expr(dim_of(side)) for side in sides if isinstance(side, (int, torch.SymInt))]
        except EtirError:
            continue  # A number that is no size (1 if a bool holds, else 0): the assertion stays, it bounds no dim.
        if len(dims) == 2 and condition.target in (operator.le, operator.lt):
            found.append((dims[0], dims[1]))
        elif len(dims) == 2 and condition.target in (operator.ge, operator.gt):
            found.append((dims[1], dims[0]))
    return found


def known_numbers(value: Any, target: torch._ops.OpOverload) -> Value | None:
    """What an operator gives when these are numbers that export knows: literals in the structure of its results."""
    if not gives_numbers(target):
        return None
    flat = flat_outputs(value)
    if any(type(v) not in (bool, int, float) for v in flat):
        return None
    return restore(value, iter(flat))


def shape_numbers(name: str, node: fx.Node, tensor: SSAValue, block: Block) -> Value | None:
    """What one of :data:`SHAPE_OPERATORS` gives, computed from sizes at the end of ``block``; None when its strides are
    not those of a contiguous tensor.
    """
    _, packet, overload = name.split(".")
    source: Any = node.args[0]
    fake: torch.Tensor = source.meta["val"]
    rank = fake.dim()
    match packet.removeprefix("sym_"):
        case "size":
            factors: list[Sequence[int]] = [(d,) for d in range(rank)]
        case "numel":
            return _product(fake, tensor, range(rank), 0, block)
        case _:
            if not fake.is_contiguous():
                return None
            factors = [range(d + 1, rank) for d in range(rank)]
    least = 0 if "size" in packet else 1  # A stride counts empty dims as if they had one element.
    if overload == "int":
        factors = [factors[int(node.args[1])]]  # type: ignore[arg-type]
    results = tuple(_product(fake, tensor, dims, least, block) for dims in factors)
    return results[0] if overload == "int" else results


def _product(fake: torch.Tensor, tensor: SSAValue, dims: Sequence[int], least: int, block: Block) -> Value:
    known, result = 1, None
    for d in dims:
        size = fake.shape[d]
        if isinstance(size, int):
            known *= max(size, least)
            continue
        value: SSAValue = _added(aten.sym_size.int.make({"self": tensor, "dim": d}, [i64]), block)
        if least:
            value = _arithmetic("sym.max", value, least, block)
        result = value if result is None else _arithmetic("sym.mul", result, value, block)
    if result is None:
        return known
    return result if known == 1 else _arithmetic("sym.mul", result, known, block)


def _arithmetic(name: str, x: SSAValue, y: SSAValue | int, block: Block) -> SSAValue:
    return _added(ARITHMETIC_OPS[name]([x, as_number(y, block)]), block)


def _added(op: Operation, block: Block) -> SSAValue:
    block.add_op(op)
    return op.results[0]
