"""Stores and outputs: who writes where, in what order, and what is handed out as a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.ir import Block, SSAValue

from etir.dialects.backend.ops import CallDelegateOp
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.instructions import ReturnOp
from etir.dialects.et.layout import is_static
from etir.dialects.et.program import GetWeightOp, UpdateInputOp, WriteStateOp
from etir.dialects.et.values import BufferOp
from etir.dialects.et.values import ViewOp as ValueViewOp
from etir.lowering.to_out_variant.calls import copy_call
from etir.lowering.to_out_variant.in_place import (
    aliases_of,
    last_read,
    positions_in,
    stores_of,
    written_in_place,
)
from etir.lowering.to_out_variant.places import is_unplanned

if TYPE_CHECKING:
    from etir.lowering.to_out_variant.method import MethodLowering


def find_destinations(lowering: MethodLowering, block: Block) -> None:
    """Let the producer of a stored value write where it is stored, wherever nothing still reads what was there."""
    places = positions_in(block)
    for store, value, old in stores_of(block):
        producer = value.owner
        if isinstance(producer, CallDelegateOp) and producer.parent is block and value not in lowering.destinations:
            if (
                _is_over(lowering, producer, value, old)
                and last_read(old, places, ignoring=producer) < places[producer]
            ):
                lowering.destinations[value] = _target(lowering, store)
            continue
        if not isinstance(producer, EdgeOp) or producer.parent is not block or value in lowering.destinations:
            continue
        if any(isinstance(v.type, TensorType) and not is_static(v.type) for v in (value, *old)):
            continue
        written = written_in_place(value, old, places)
        if not written and last_read(old, places) < places[producer]:
            written = [value]
        if written and not any(v in lowering.destinations for v in written):
            lowering.destinations |= dict.fromkeys(written, _target(lowering, store))


def _is_over(lowering: MethodLowering, call: CallDelegateOp, value: SSAValue, old: Sequence[SSAValue]) -> bool:
    """Whether a delegate may write a result where the old content is that one of its inputs has."""
    given = [number for number, v in enumerate(call.arguments) if v in aliases_of(old)]
    return (
        len(given) == 1
        and call.arguments[given[0]] in old
        and (given[0], call.outputs.index(value)) in (lowering.written_over(call))
    )


def _target(lowering: MethodLowering, store: WriteStateOp | UpdateInputOp) -> SSAValue:
    if isinstance(store, UpdateInputOp):
        return lowering.inputs[store.input]
    return lowering.state(store.symbol.root_reference.data, store.value)


def save_old_outputs(lowering: MethodLowering, block: Block, op: FuncReturnOp) -> None:
    """Copy what the method returns of old contents (``old = cache.clone(); cache += 1; return old``)."""
    old = dict.fromkeys(v for _, _, values in stores_of(block) for v in aliases_of(values))
    for value in dict.fromkeys(op.arguments):
        if value in old:
            saved = lowering.buffer(value)
            lowering.copy(saved, lowering.lower(value), op)
            lowering.values[value] = saved


def store(lowering: MethodLowering, stores: Sequence[WriteStateOp | UpdateInputOp]) -> None:
    """Write all new contents, as if at once."""
    if stores:
        lowering.copy_all([(_target(lowering, s), lowering.lower(s.value)) for s in stores], stores[0])


def lower_return(lowering: MethodLowering, op: FuncReturnOp) -> None:
    """Give the method's outputs places of their own where they would share one."""
    outputs: list[SSAValue] = []
    for value in op.arguments:
        lowered = lowering.lower(value)
        owner = lowered.owner
        shared = isinstance(owner, GetWeightOp) or (
            isinstance(owner, ValueViewOp) and (is_unplanned(owner) or not lowering.plan_outputs)
        )
        if lowering.plan_outputs and isinstance(owner, BufferOp) and owner.caller is not None:
            # Some hosts give every output that the program has no memory for a fresh tensor before the method runs:
            # a changed input that is returned, too, would be computed from that.
            shared = True
        if not lowering.plan_outputs and isinstance(owner, BufferOp) and owner.caller is None:
            # Views of a buffer have a place in the program's memory: the buffer keeps one.
            shared = any(isinstance(use.operation, ValueViewOp) for use in lowered.uses)
        if shared and isinstance(value.type, TensorType):
            # A constant, or a view whose offset is dynamic, is handed out as a copy.
            clone = lowering.buffer(value, caller=not lowering.plan_outputs)
            lowering.emit(copy_call(clone, lowered, dynamic=True), op)
            lowered = clone
        elif isinstance(owner, BufferOp) and not lowering.plan_outputs and owner.state is None:
            owner.caller = BufferOp(owner.result.type, caller=True).caller
        outputs.append(lowered)
    lowering.checks.finish(op)
    lowering.emit(ReturnOp(outputs), op)
