"""Sizes of tensors that operators of a partition are given as numbers, computed in the outlined function.

A backend whose delegates take tensors alone (``Backend.sizes_inside``) has ``view_copy(%x, size = [1, %n, 2])`` with
``%n`` read from ``%x`` inside of its function, where the dims of ``%x`` tell it; a number that they do not tell
stays an input of the delegate.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import dims_of
from etir.dialects.schema_op import SchemaOp
from etir.dialects.sym.expr import SymExpr
from etir.dialects.walking import ops_of
from etir.lowering.build.sizes import SizePool, dim_of

MOST_PRODUCERS = 12
"""Operators that are looked at between what tells a size and what is given it, as a view as rows, products, a norm."""


def _edge(operator: type[SchemaOp]) -> type[SchemaOp]:
    assert operator.SCHEMA.qualified_name == "aten::sym_size.int", operator.SCHEMA.qualified_name
    return edge.aten.sym_size.int


def telling(op: Operation, inside: Container[Operation] | None = None) -> list[SSAValue]:
    """The tensors that tell an operator's sizes: its own, then those of which these are made, the nearest first, as
    rows ``b * n`` of a product are those of a tensor of ``b`` and ``n``. With ``inside``, by these operators alone.
    """
    found = dict.fromkeys(value for value in op.operands if isinstance(value.type, TensorType))
    waiting, seen = [value for value in found if _is_dynamic(value)], 0
    while waiting and seen < MOST_PRODUCERS:
        producer = waiting.pop(0).owner
        if not isinstance(producer, Operation) or (inside is not None and producer not in inside):
            continue
        seen += 1
        tensors = [v for v in producer.operands if isinstance(v.type, TensorType) and v not in found and _is_dynamic(v)]
        found |= dict.fromkeys(tensors)
        waiting += tensors
    return [*found]


def _is_dynamic(value: SSAValue) -> bool:
    return DYNAMIC_INDEX in cast("TensorType[Attribute]", value.type).get_shape()


def told_numbers(op: Operation, inside: Container[Operation]) -> dict[SSAValue, SymExpr]:
    """The runtime scalars among an operator's operands that are sizes, and that dims of its tensors tell, or of those
    which they are made of by operators ``inside`` of its partition (:func:`telling`).
    """
    found: dict[SSAValue, SymExpr] = {}
    for value in op.operands:
        expr = None if isinstance(value.type, TensorType) else dim_of(value)
        if isinstance(expr, SymExpr) and _pool(op, inside, lambda made: made).evaluate(expr) is not None:
            found[value] = expr
    return found


def has_untold_numbers(op: Operation, inside: Container[Operation]) -> bool:
    """Whether an operator is given a size that no tensor inside of its partition tells (:func:`told_numbers`)."""
    sizes = [v for v in op.operands if not isinstance(v.type, TensorType) and isinstance(dim_of(v), SymExpr)]
    return len(dict.fromkeys(sizes)) > (len(told_numbers(op, inside)) if sizes else 0)


def read_sizes_of_inputs(func: FuncOp) -> None:
    """Read sizes of tensors that a method computes from the method's inputs, where a dim of one is the same, or tells
    what the size is computed of.

    What needs such a size then waits for no tensor, so that it can be in a partition with what computes the tensor.
    """
    block = func.body.block
    told = {
        expr: (arg, dim)
        for arg in reversed(block.args)
        if isinstance(arg.type, TensorType)
        for dim, expr in reversed([*enumerate(dims_of(arg.type))])
        if isinstance(expr, SymExpr)
    }
    made: dict[SymExpr, SSAValue] = {}
    start = block.first_op

    def put(op: Operation) -> Operation:
        assert start is not None
        block.insert_op_before(op, start)
        return op

    pool = SizePool(put, block.args, _edge)
    for op in ops_of(block):
        if not isinstance(op, edge.aten.sym_size.int) or op.self_ in block.args:
            continue
        expr = dim_of(op.results[0])
        if not isinstance(expr, SymExpr):
            continue
        if expr not in made and expr not in told:
            found = pool.evaluate(expr)
            if found is None:
                continue
            made[expr] = pool.scalar(found)
        if expr not in made:
            arg, dim = told[expr]
            read = edge.aten.sym_size.int.make({"self": arg, "dim": dim}, [op.results[0].type])
            read.location = op.location
            first = block.first_op
            assert first is not None
            block.insert_op_before(read, first)
            made[expr] = read.results[0]
        op.results[0].replace_all_uses_with(made[expr])
        block.erase_op(op)


def compute_inside(
    op: Operation,
    numbers: dict[SSAValue, SymExpr],
    inside: Container[Operation],
    insert: Callable[[Operation], Operation],
) -> None:
    """Give an operator of an outlined function sizes that are read from its tensors. ``numbers`` are those of
    :func:`told_numbers`, for operands that it still has, and ``inside`` is what it was given; ``insert`` puts
    operations before the operator.
    """

    def put(made: Operation) -> Operation:
        made.location = op.location
        return insert(made)

    pool = _pool(op, inside, put)
    for index, value in enumerate(op.operands):
        if value in numbers:
            found = pool.evaluate(numbers[value])
            assert found is not None, "told_numbers says that the tensors tell it"
            op.operands[index] = pool.scalar(found)


def _pool(op: Operation, inside: Container[Operation], insert: Callable[[Operation], Operation]) -> SizePool:
    return SizePool(insert, telling(op, inside), _edge)
