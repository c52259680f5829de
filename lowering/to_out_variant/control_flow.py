"""Regions as blocks and jumps.

A branch writes its results where the operation's results live: the producer of a yielded value writes there directly
when it is in the branch, otherwise the value is copied. Loops keep carried values in buffers of their own; the next
values are computed completely before the old ones are overwritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import IsTerminator

from etir.dialects.backend.ops import CallDelegateOp
from etir.dialects.control.ops import CondOp, ScanOp, WhileOp, YieldOp, yielded
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.arguments import OPERAND
from etir.dialects.et.instructions import JumpFalseOp, JumpOp, NextOp
from etir.dialects.et.layout import is_static, tensor_type
from etir.dialects.et.values import BufferOp, ScalarOp
from etir.lowering.to_out_variant.calls import ArgumentList, primitive_call
from etir.lowering.to_out_variant.places import is_dynamic

if TYPE_CHECKING:
    from etir.lowering.to_out_variant.method import MethodLowering


def _results(lowering: MethodLowering, op: Operation, *, dynamic: bool = False) -> list[SSAValue]:
    """A value for each result of a control operation."""
    values: list[SSAValue] = []
    for result in op.results:
        if isinstance(result.type, TensorType):
            known = lowering.destinations.get(result)
            value = lowering.buffer(result) if known is None else known
            if dynamic and isinstance(value.owner, BufferOp) and value.owner.dynamic is None:
                value.owner.dynamic = BufferOp(value.type, dynamic="bound").dynamic
        else:
            value = lowering.scalar(result)
        lowering.values[result] = value
        values.append(value)
    return values


def _lower_region(lowering: MethodLowering, region: Region, targets: Sequence[SSAValue], op: Operation) -> None:
    """Lower a region into the current block; its yielded values end up in ``targets``."""
    values = yielded(region)
    for value, target in zip(values, targets, strict=True):
        inside = isinstance(value.owner, (EdgeOp, CallDelegateOp)) and value.owner.parent is region.block
        if inside and isinstance(target.type, TensorType) and value not in lowering.destinations:
            type = value.type
            assert isinstance(type, TensorType)
            # A result of fixed size may have a kernel that does not give its result a size: it is copied to a target
            # whose size the branches share.
            is_fine = isinstance(value.owner, EdgeOp) or _may_write(lowering, value, target)
            if is_static(type) != is_dynamic(target) and is_fine:
                lowering.destinations[value] = target
    _lower_body(lowering, region.block)
    lowering.copy_all([(t, lowering.lower(v)) for v, t in zip(values, targets, strict=True)], op)


def _may_write(lowering: MethodLowering, value: SSAValue, target: SSAValue) -> bool:
    """Whether a delegate may write a result to the result of a control operation: it is made for sizes with the bounds
    of its own, and all branches have it at one place of their workspaces, or at none.
    """
    if lowering.bounded(value.type, value)[0] != target.type:
        return False
    place = lowering.place_within(value)
    return place is None or lowering.places.setdefault(target, place) == place


def _lower_body(lowering: MethodLowering, block: Block) -> None:
    for op in block.ops:
        if not isinstance(op, YieldOp):
            lowering.lower_operation(op)


def _start_block(lowering: MethodLowering, op: Operation) -> Block:
    """Go on in a new block that follows the current one."""
    block = Block()
    current = lowering.blocks[-1]
    if current.last_op is None or not current.last_op.has_trait(IsTerminator):
        lowering.emit(NextOp(block), op)
    lowering.blocks.append(block)
    return block


def lower_cond(lowering: MethodLowering, op: CondOp) -> None:
    """``jump_false p, else; <then>; jump end; else: <else>; end:``"""
    results = _results(lowering, op)
    predicate = lowering.lower(op.predicate)
    then_block, else_block, end = Block(), Block(), Block()
    lowering.emit(JumpFalseOp(predicate, else_block, then_block), op)
    lowering.blocks.append(then_block)
    _lower_region(lowering, op.then_region, results, op)
    lowering.emit(JumpOp(end), op)
    lowering.blocks.append(else_block)
    _lower_region(lowering, op.else_region, results, op)
    lowering.emit(NextOp(end), op)
    lowering.blocks.append(end)


def lower_while(lowering: MethodLowering, op: WhileOp) -> None:
    """``copy inits; head: <condition>; jump_false c, end; <body>; copy next values; jump head; end:``"""
    carried = _results(lowering, op)
    lowering.copy_all([(c, lowering.lower(v)) for c, v in zip(carried, op.inits, strict=True)], op)
    head = _start_block(lowering, op)
    lowering.values.update(zip(op.condition.block.args, carried, strict=True))
    _lower_body(lowering, op.condition.block)
    body, end = Block(), Block()
    lowering.emit(JumpFalseOp(lowering.lower(yielded(op.condition)[0]), end, body), op)
    lowering.blocks.append(body)
    lowering.values.update(zip(op.body.block.args, carried, strict=True))
    _lower_body(lowering, op.body.block)
    lowering.copy_all([(c, lowering.lower(v)) for c, v in zip(carried, yielded(op.body), strict=True)], op)
    lowering.emit(JumpOp(head), op)
    lowering.blocks.append(end)


def lower_scan(lowering: MethodLowering, op: ScanOp) -> None:
    """A counted loop: slice every input, run the body, append every stacked value, until the count is reached.

    The counter goes back to 0 after the loop, so that the next call starts there.
    """
    results = _results(lowering, op)
    carried, stacked = results[: len(op.inits)], results[len(op.inits) :]
    for value in stacked:
        # et_copy_index grows the result row by row, which a static tensor refuses.
        owner = value.owner
        assert isinstance(owner, BufferOp)
        if owner.dynamic is None:
            owner.dynamic = BufferOp(value.type, dynamic="bound").dynamic
    lowering.copy_all([(c, lowering.lower(v)) for c, v in zip(carried, op.inits, strict=True)], op)
    inputs = [lowering.lower(v) for v in op.inputs]
    index = lowering.define(ScalarOp(0), op)
    count = lowering.define(ScalarOp(0), op)
    done = lowering.define(ScalarOp(False), op)
    lowering.emit(primitive_call("aten::sym_size.int", [inputs[0], 0], count), op)
    head = _start_block(lowering, op)
    arguments = op.body.block.args
    lowering.values.update(zip(arguments, carried, strict=False))
    for argument, value in zip(arguments[len(carried) :], inputs, strict=True):
        piece = lowering.buffer(argument)
        call = ArgumentList.empty()
        for item in (value, 0, index, piece):
            call.add(item)
        lowering.emit(call.call("aten::select_copy.int_out", (OPERAND,), [piece]), op)
        lowering.values[argument] = piece
    _lower_body(lowering, op.body.block)
    values = [lowering.lower(v) for v in yielded(op.body)]
    rows = list(zip(yielded(op.body), values, strict=True))[len(carried) :]
    for target, (value, lowered) in zip(stacked, rows, strict=True):
        row = _as_tensor(lowering, lowered, op)
        if isinstance(value.type, TensorType) and not is_static(value.type):
            _size_rows(lowering, op, target, row, index)
        call = ArgumentList.empty()
        for item in (target, row, index):
            call.add(item)
        lowering.emit(call.call("executorch_prim::et_copy_index.tensor", None, ()), op)
    lowering.copy_all(list(zip(carried, values[: len(carried)], strict=True)), op)
    lowering.emit(primitive_call("executorch_prim::add.Scalar", [index, 1], index), op)
    lowering.emit(primitive_call("executorch_prim::eq.Scalar", [index, count], done), op)
    end = Block()
    lowering.emit(JumpFalseOp(done, head, end), op)
    lowering.blocks.append(end)
    lowering.emit(primitive_call("executorch_prim::sub.Scalar", [index, count], index), op)


def _size_rows(lowering: MethodLowering, op: ScanOp, target: SSAValue, row: SSAValue, index: SSAValue) -> None:
    """``eq index, 0; jump_false, go on; target = unsqueeze(row)``: the first row says how large the others are.

    ``et_copy_index`` adds rows to what is there, and the result has the sizes of its bound, or of the call before.
    """
    is_first = lowering.define(ScalarOp(False), op)
    lowering.emit(primitive_call("executorch_prim::eq.Scalar", [index, 0], is_first), op)
    first, on = Block(), Block()
    lowering.emit(JumpFalseOp(is_first, on, first), op)
    lowering.blocks.append(first)
    call = ArgumentList.empty()
    for item in (row, 0, target):
        call.add(item)
    lowering.emit(call.call("aten::unsqueeze_copy.out", (OPERAND,), [target]), op)
    lowering.emit(NextOp(on), op)
    lowering.blocks.append(on)


def _as_tensor(lowering: MethodLowering, value: SSAValue, op: Operation) -> SSAValue:
    """A yielded number as a 0-d tensor, which stacking needs."""
    if isinstance(value.type, TensorType):
        return value
    buffer = lowering.define(BufferOp(tensor_type(value.type, ())), op)
    call = ArgumentList.empty()
    for item in (value, buffer):
        call.add(item)
    lowering.emit(call.call("aten::scalar_tensor.out", (OPERAND,), [buffer]), op)
    return buffer
