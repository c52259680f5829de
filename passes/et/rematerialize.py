"""`rematerialize`: compute a mask again instead of keeping it, where that lowers the memory that the plan needs.

Before, the mask of every layer, computed once::

    et.call "aten::where.self_out"(%allowed, %zero, %minus, %mask) -> %mask
    et.call "aten::add.out"(%scores, %mask, 1, %a) -> %a
    ...                                                             // %mask waits beside all that the layer computes
    et.call "aten::add.out"(%more, %mask, 1, %b) -> %b

After::

    et.call "aten::where.self_out"(%allowed, %zero, %minus, %mask) -> %mask
    et.call "aten::add.out"(%scores, %mask, 1, %a) -> %a
    ...
    et.call "aten::where.self_out"(%allowed, %zero, %minus, %mask) -> %mask
    et.call "aten::add.out"(%more, %mask, 1, %b) -> %b

What waits is the condition, a byte for each element, and the buffer of the mask is free between its readers, before the
first of which the call is moved. A choice between constants takes less time than any layer that has room for it between
two of its readers, which is why nothing else is computed again. Only masks that are live where most bytes are, without
being read there, are looked at, and a method stays as it is unless its plan gets smaller. (Rematerialization: Briggs,
Cooper and Torczon 1992, for registers.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from etir.dialects.context import EtContext
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import CallOp
from etir.dialects.et.program import GetWeightOp
from etir.dialects.et.values import BufferOp
from etir.passes.analysis.in_place import InPlaceKernels, in_place_kernels
from etir.passes.analysis.memory_effects import DEFAULT_ALIGNMENT, MethodMemory, effects_of, memory_of
from etir.passes.analysis.plan_size import is_smaller
from etir.passes.analysis.planning.lower_bound import lower_bound
from etir.passes.analysis.planning.problem import align_up
from etir.passes.analysis.workspaces import callers_of
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass

KERNEL = "aten::where.self_out"


@register_pass
@dataclass(frozen=True)
class RematerializePass(Pass):
    """Compute masks again where that lowers the memory that the plan needs.

    ``target`` is the runtime whose kernels may write results over operands; without one, none does. With ``callers``,
    what is in the caller's memory counts, too: it will be planned together with the method's.
    """

    name = "rematerialize"
    target: str = ""
    callers: bool = False

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Look at every method for itself."""
        for method in [op for op in module.body.block.ops if isinstance(op, MethodOp)]:
            masks = list(_masks(ctx, method))
            if masks:
                in_place = in_place_kernels(self.target) if self.target else {}
                _recompute(ctx, method, masks, in_place, callers_of(method) if self.callers else {})


@dataclass(frozen=True)
class _Mask:
    """A choice between constants that is read more than once."""

    call: CallOp
    condition: BufferOp
    result: BufferOp
    readers: tuple[CallOp, ...]
    """In the order of the program; all in the block of the call, and after it."""


def _masks(ctx: EtContext, method: MethodOp) -> Iterator[_Mask]:
    for block in method.body.blocks:
        order = {op: index for index, op in enumerate(block.ops)}
        for op in order:
            if isinstance(op, CallOp) and op.kernel.data == KERNEL:
                mask = _mask(ctx, op, order)
                if mask is not None:
                    yield mask


def _mask(ctx: EtContext, call: CallOp, order: Mapping[Operation, int]) -> _Mask | None:
    condition, *chosen, out = (value.owner for value in call.arguments[:4])
    if not (isinstance(condition, BufferOp) and isinstance(out, BufferOp)) or condition is out:
        return None
    if out.state is not None or condition.state is not None or not all(isinstance(op, GetWeightOp) for op in chosen):
        return None
    users = [op for op in dict.fromkeys(use.operation for use in out.result.uses) if op is not call]
    readers: list[CallOp] = []
    for user in users:
        if not isinstance(user, CallOp) or order.get(user, -1) < order[call]:
            return None
        if out.result in effects_of(ctx, user).writes:
            return None
        readers.append(user)
    for user in dict.fromkeys(use.operation for use in condition.result.uses):
        writes = condition.result in effects_of(ctx, user).writes
        if writes and order.get(user, len(order)) >= order[call]:
            return None  # another condition for later readers
    readers.sort(key=order.__getitem__)
    return _Mask(call, condition, out, tuple(readers)) if len(readers) > 1 else None


def _recompute(
    ctx: EtContext,
    method: MethodOp,
    masks: list[_Mask],
    in_place: InPlaceKernels,
    callers: Collection[Operation],
) -> None:
    before = memory_of(ctx, method, in_place=in_place, callers=callers)
    changed = [(mask, mask.call.next_op) for mask in masks if _waits_at_the_peak(mask, method, before)]
    copies = [copy for mask, _ in changed for copy in _before_each_reader(mask)]
    if not changed or is_smaller(memory_of(ctx, method, in_place=in_place, callers=callers), before):
        return
    for copy in copies:
        copy.detach()
        copy.erase()
    for mask, after in reversed(changed):
        _put_before(mask.call, after)


def _waits_at_the_peak(mask: _Mask, method: MethodOp, memory: MethodMemory) -> bool:
    """Whether fewer bytes are live where most are if the condition waits there instead."""
    problem = memory.problem
    key, condition = memory.keys[mask.result], memory.keys[mask.condition]
    planned = {buffer.key: buffer for buffer in problem.buffers}
    if key not in planned or condition not in planned:
        return False
    peak = lower_bound(problem)[planned[key].pool].instruction
    if peak is None or not any(first < peak < last for first, last in planned[key].live):
        return False
    at_peak: Operation = method.instructions[peak]
    if mask.result.result in at_peak.operands:
        return False
    waits = any(first <= peak <= last for first, last in planned[condition].live)
    extra = 0 if waits else align_up(planned[condition].size, DEFAULT_ALIGNMENT)
    return extra < align_up(planned[key].size, DEFAULT_ALIGNMENT)


def _before_each_reader(mask: _Mask) -> Iterator[Operation]:
    """Puts the call right before its first reader, and a copy of it, which is given, before each other one."""
    _put_before(mask.call, mask.readers[0])
    for reader in mask.readers[1:]:
        copy = mask.call.clone()
        _put_before(copy, reader)
        yield copy


def _put_before(call: Operation, place: Operation | None) -> None:
    assert place is not None and place.parent is not None
    block = place.parent
    if call.parent is not None:
        call.detach()
    block.insert_op_before(call, place)
