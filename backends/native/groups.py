"""Groups as the operators that they have: for the fallback, and for asking what the backend claims."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from etir.backends.native.dialect import GroupOp, YieldOp
from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import EdgeOp
from etir.dialects.walking import ops_of
from etir.passes.backend.add_in_product import ADDING


@contextmanager
def inlined(group: GroupOp) -> Iterator[list[Operation]]:
    """Copies of a group's operators on the values outside of it, in no block; they are gone afterwards."""
    values: dict[SSAValue, SSAValue] = dict(zip(group.body.block.args, group.inputs, strict=True))
    made: list[Operation] = []
    for op in group.body.block.ops:
        if not isinstance(op, YieldOp):
            clone = op.clone(values)
            clone.location = op.location
            made.append(clone)
    try:
        yield made
    finally:
        for clone in reversed(made):
            clone.erase()


def ungroup(func: FuncOp) -> None:
    """Take operators out of their groups again."""
    block = func.body.block
    for group in [op for op in ops_of(block) if isinstance(op, GroupOp)]:
        values: dict[SSAValue, SSAValue] = dict(zip(group.body.block.args, group.inputs, strict=True))
        for op in group.body.block.ops:
            if isinstance(op, YieldOp):
                for result, value in zip(group.outputs, op.values, strict=True):
                    result.replace_all_uses_with(values[value])
                break
            clone = op.clone(values)
            clone.location = op.location
            block.insert_op_before(clone, group)
        block.erase_op(group)


def hoist_products(func: FuncOp) -> bool:
    """Move products right after what makes their operands, which need not wait then for what is added: groups have
    them where all that they add is there. Returns whether one was moved before something that its sum needs.
    """
    block = func.body.block
    order = {op: number for number, op in enumerate(block.ops)}
    moved = False
    for op in [op for op in ops_of(block) if isinstance(op, edge.aten.add.Tensor)]:
        for value, addend in ((op.self_, op.other), (op.other, op.self_)):
            product, other = value.owner, addend.owner
            if not isinstance(product, EdgeOp) or product.op_name not in ADDING or not value.has_one_use():
                continue
            owners = [v.owner for v in product.operands if isinstance(v.owner, Operation)]
            last = max(owners, key=order.__getitem__, default=None)
            if last is None or not isinstance(other, Operation) or not order[last] < order[other] < order[product]:
                continue
            block.detach_op(product)
            block.insert_op_after(product, last)
            moved = True
            break
    return moved


def delay_products(func: FuncOp) -> None:
    """Move products to the sums that alone read them, where what is added there is made in between: the kernel that
    adds to what is there (``add-in-product``) wants it before the product, and groups have the product first.
    """
    block = func.body.block
    order = {op: number for number, op in enumerate(block.ops)}
    for op in [op for op in ops_of(block) if isinstance(op, edge.aten.add.Tensor)]:
        for value, addend in ((op.self_, op.other), (op.other, op.self_)):
            product, other = value.owner, addend.owner
            if not isinstance(product, EdgeOp) or product.op_name not in ADDING or not value.has_one_use():
                continue
            if not isinstance(other, Operation) or order[other] < order[product]:
                continue
            block.detach_op(product)
            block.insert_op_before(product, op)
            break
