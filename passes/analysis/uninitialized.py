"""Buffers and late views that an instruction reads although nothing can have written them before.

A forward analysis over the blocks of a method: a value may be written where some path to it has an instruction that
writes it or a part of it. What no path writes holds whatever was in the memory, so that a result that went into the
wrong buffer is found where the right one is read. Whether *every* path writes is not asked: the body of a loop that
runs at least once is on no path that the blocks show.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue

from etir.dialects.context import EtContext
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import CallOp, DelegateCallOp, InputsOp, MoveOp
from etir.dialects.et.values import VALUE_OPS, BufferOp, ViewOp
from etir.passes.analysis.memory_effects import effects_of, storage_of, tensor_bytes

_OVERWRITES = ("aten::copy_", "aten::fill_", "aten::zero_")
"""Operators in place that write every element without reading one."""


def uninitialized_reads(ctx: EtContext, method: MethodOp) -> Iterator[tuple[Operation, SSAValue]]:
    """Each instruction that reads a tensor which nothing can have written, with that tensor."""
    tracked: dict[Operation, int] = {}
    for op in method.body.blocks[0].ops:
        if isinstance(op, BufferOp):
            wanted = op.state is None and op.caller is None and tensor_bytes(op.result.type) > 0
        else:
            wanted = isinstance(op, ViewOp) and op.late is not None
        if wanted:
            tracked[op] = 1 << len(tracked)

    def late(value: SSAValue) -> int:
        """The late views on the way to the buffer: an instruction has to point each at its base first."""
        found = 0
        while isinstance(owner := value.owner, ViewOp):
            found |= tracked.get(owner, 0)
            value = owner.base
        return found

    def held(value: SSAValue) -> int:
        """The buffer that holds the bytes."""
        base = storage_of(value)
        return 0 if base is None else tracked.get(base, 0)

    blocks = list(method.body.blocks)
    found: dict[Block, dict[SSAValue, Operation]] = {}
    arrives = dict.fromkeys(blocks, 0)
    todo = dict.fromkeys(blocks)
    while todo:
        block = next(iter(todo))
        del todo[block]
        written = arrives[block]
        missing: dict[SSAValue, Operation] = {}
        for op in block.ops:
            reads, writes, points = _accesses(ctx, op)
            for value in reads:
                if (late(value) | held(value)) & ~written:
                    missing.setdefault(value, op)
            for value in writes:
                if late(value) & ~written:
                    missing.setdefault(value, op)
                written |= held(value)
            for value in points:
                written |= late(value) | held(value)
        found[block] = missing
        for successor in [] if block.last_op is None else block.last_op.successors:
            if written & ~arrives[successor]:
                arrives[successor] |= written
                todo[successor] = None
    for block in blocks:
        for value, op in found[block].items():
            yield op, value


Values: TypeAlias = tuple[SSAValue, ...]


def _accesses(ctx: EtContext, op: Operation) -> tuple[Values, Values, Values]:
    """Tensors whose bytes an instruction reads, tensors whose bytes it writes, and those that it points at memory."""
    tensors = tuple(v for v in op.operands if isinstance(v.type, TensorType))
    if isinstance(op, VALUE_OPS):
        return (), (), ()
    if isinstance(op, InputsOp):
        return (), (), tensors
    if isinstance(op, DelegateCallOp):
        return (), tensors, ()  # The file does not say which arguments a delegate reads.
    if isinstance(op, MoveOp):
        return tensors[:1], (), tensors[1:]
    effects = effects_of(ctx, op)
    if not isinstance(op, CallOp):
        return effects.reads, effects.writes, ()
    kernel = op.kernel.data
    if kernel == "executorch_prim::et_view.default":
        return (), (), tensors[1:]
    if kernel == "executorch_prim::et_copy_index.tensor":
        return tensors[1:], tensors[:1], ()
    if kernel.startswith(_OVERWRITES):
        return tuple(v for v in effects.reads if v not in effects.writes), effects.writes, ()
    return effects.reads, effects.writes, ()


def overlap(a: SSAValue, b: SSAValue) -> bool:
    """Whether two tensors have bytes of one buffer in common."""
    base = storage_of(a)
    if base is None or base is not storage_of(b):
        return False
    starts = [_start(v) for v in (a, b)]
    if None in starts:
        return True
    ends = [start + tensor_bytes(v.type) for start, v in zip(starts, (a, b), strict=True) if start is not None]
    first, second = (start or 0 for start in starts)
    return first < ends[1] and second < ends[0]


def _start(value: SSAValue) -> int | None:
    """Bytes from the start of the buffer; None for a view whose place is known at run time only."""
    start = 0
    owner = value.owner
    while isinstance(owner, ViewOp):
        if owner.late is not None:
            return None
        start += owner.offset.value.data
        owner = owner.base.owner
    return start
