"""What each instruction of a method reads and writes, and the planning problem that follows from it.

`plan-memory` places what this module describes, `verify-plan` checks a finished plan against the same description: it
is derived from the method alone, never from the plan. Which arguments a kernel writes is in its schema; for a kernel
without a known schema the result slot says it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from etir.dialects.context import EtContext
from etir.dialects.dtypes import dtype_of
from etir.dialects.et.arguments import OPERAND, ListArg, flatten
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import (
    CallOp,
    DelegateCallOp,
    InputsOp,
    JumpFalseOp,
    JumpOp,
    MoveOp,
    NextOp,
    ReturnOp,
)
from etir.dialects.et.values import BufferOp, ViewOp
from etir.dialects.et.workspace import Workspace, alignment_of
from etir.dialects.schema import OpSchema
from etir.dialects.text import source_location
from etir.passes.analysis.handles import with_handles
from etir.passes.analysis.in_place import InPlaceKernels, RunTimeSizes, overwritable
from etir.passes.analysis.planning.liveness import Instruction, live_stretches
from etir.passes.analysis.planning.problem import Buffer, Interval, Pool, Problem, Share
from etir.passes.analysis.workspaces import workspace_shares, workspaces_of
from etir.targets.manifest import available, load

DEFAULT_ALIGNMENT = 16
"""Bytes; what ExecuTorch's planner aligns every tensor to."""


def storage_of(value: SSAValue) -> BufferOp | None:
    """The buffer that holds a tensor's bytes, under the views; None for weights and numbers."""
    owner = value.owner
    while isinstance(owner, ViewOp):
        owner = owner.base.owner
    return owner if isinstance(owner, BufferOp) else None


def tensor_bytes(type: Attribute) -> int:
    """Bytes of a static tensor type."""
    assert isinstance(type, TensorType)
    size = dtype_of(type.element_type).itemsize
    for dim in type.get_shape():
        size *= dim
    return size


def schema_of_kernel(ctx: EtContext, kernel: str) -> OpSchema | None:
    """The schema of ``aten::add.out``, or None for a kernel that nobody declared.

    Of etir's own kernels the text of a program says it; what was read from a file does not, and manifests do.
    """
    namespace, _, rest = kernel.partition("::")
    name, _, overload = rest.partition(".")
    return ctx.schema(f"{namespace}.{name}.{overload or 'default'}") or _known_schema(kernel)


@cache
def _known_schema(kernel: str) -> OpSchema | None:
    entries = (load(target).lookup(kernel) for target in available())
    return next((entry.schema for entry in entries if entry is not None), None)


@dataclass(frozen=True)
class Effects:
    """Tensors that an instruction reads and writes; ``full`` are those of ``writes`` that it overwrites completely."""

    reads: tuple[SSAValue, ...] = ()
    writes: tuple[SSAValue, ...] = ()
    full: tuple[SSAValue, ...] = ()


def effects_of(ctx: EtContext, op: Operation) -> Effects:
    """The effects of an instruction on tensors."""
    if isinstance(op, CallOp):
        return _call_effects(ctx, op)
    tensors = tuple(v for v in op.operands if isinstance(v.type, TensorType))
    if isinstance(op, DelegateCallOp):
        # The file does not say which arguments are outputs; inputs come first and were written before. A first write
        # is a full one: nothing can have put anything there.
        return Effects(tensors, tensors, ())
    if isinstance(op, MoveOp):
        return Effects(tensors[:1], tensors[1:], tensors[1:])
    return Effects(tensors)


def _told_effects(op: DelegateCallOp, workspace: Workspace) -> Effects:
    """The effects of a call whose delegate has told which arguments are its outputs: of these, and of the workspace,
    nothing is needed from one run of a loop's body to the next.
    """
    count = len(workspace.inputs)
    reads = tuple(v for v in op.arguments[:count] if isinstance(v.type, TensorType))
    writes = tuple(v for v in op.arguments[count:] if isinstance(v.type, TensorType))
    return Effects(reads, writes, writes)


def _call_effects(ctx: EtContext, op: CallOp) -> Effects:
    tensors = tuple(v for v in op.arguments if isinstance(v.type, TensorType))
    kernel = op.kernel.data
    if kernel == "executorch_prim::et_copy_index.tensor":
        return Effects(tensors, tensors[:1], ())
    if kernel == "executorch_prim::et_view.default":
        return Effects(tensors[:1], (), ())
    schema = schema_of_kernel(ctx, kernel)
    if schema is None or len(schema.arguments) != len(op.template.data):
        slot = _slot_values(op)
        return Effects(tuple(v for v in tensors if v not in slot), slot, slot)
    operands = iter(op.arguments)
    reads: list[SSAValue] = []
    writes: list[SSAValue] = []
    full: list[SSAValue] = []
    for argument, item in zip(schema.arguments, op.template.data, strict=True):
        count = sum(1 for element in flatten((item,)) if element is OPERAND)
        values = [v for v in (next(operands) for _ in range(count)) if isinstance(v.type, TensorType)]
        if not argument.is_write:
            reads += values
            continue
        writes += values
        if argument.kwarg_only:
            full += values
        else:
            reads += values
    return Effects(tuple(reads), tuple(writes), tuple(full))


def _slot_values(op: CallOp) -> tuple[SSAValue, ...]:
    if op.returns is None:
        return ()
    slot = op.returns.data[0]
    count = len(slot.items) if isinstance(slot, ListArg) else int(slot is OPERAND)
    return tuple(op.arguments[len(op.arguments) - count :]) if count else ()


@dataclass(frozen=True)
class MethodMemory:
    """The planning problem of a method: ``buffers`` by key (the order of definition), and the views on them."""

    problem: Problem
    keys: dict[Operation, int]
    buffers: tuple[BufferOp, ...]


def memory_of(
    ctx: EtContext,
    method: MethodOp,
    *,
    alignment: int = DEFAULT_ALIGNMENT,
    fixed: dict[Operation, tuple[int, int]] | None = None,
    pools: dict[int, Pool] | None = None,
    in_place: InPlaceKernels | None = None,
    sizes: RunTimeSizes | None = None,
    callers: Collection[Operation] = (),
) -> MethodMemory:
    """Buffers and lifetimes of a method. ``fixed`` pins buffers to ``(memory id, offset)``; ``in_place`` are the
    kernels that may write a result over an operand (none, unless given). ``sizes`` are those of dynamic
    tensors whose definitions do not say them, as in what was read from a file.

    Buffers in the caller's memory take no part unless they are among ``callers``, those that are allocated at run time
    never; buffers of state live from the start to the end.
    """
    fixed = fixed or {}
    instructions = method.instructions
    found = (op for op in method.body.blocks[0].ops if isinstance(op, BufferOp))
    keys: dict[Operation, int] = {op: index for index, op in enumerate(found)}
    program = _instructions(ctx, method, instructions, keys)
    inputs = [b for op in instructions if isinstance(op, InputsOp) for b in _keys(op.arguments, keys)]
    outputs = [b for op in instructions if isinstance(op, ReturnOp) for b in _keys(op.arguments, keys)]
    persistent = [key for op, key in keys.items() if op.state is not None]  # type: ignore[attr-defined]
    live = live_stretches(program, inputs=inputs, outputs=outputs, persistent=persistent)
    if any(isinstance(op, MoveOp) and isinstance(op.target.type, TensorType) for op in instructions):
        live = _with_handles(live, instructions, program, keys, fixed)
    buffers: list[Buffer] = []
    # The verifier, which takes any places, has an alignment of 1.
    wide = {given: None for _, given in workspaces_of(method).values()} | dict.fromkeys(callers)
    wide = wide if alignment > 1 else {}
    for op, key in keys.items():
        assert isinstance(op, BufferOp)
        if op.is_allocated or (op.caller is not None and op not in callers):
            continue
        place = fixed.get(op)
        buffers.append(
            Buffer(
                key,
                tensor_bytes(op.result.type),
                live.get(key, ()),
                alignment=max(alignment, alignment_of(tensor_bytes(op.result.type)))
                if op in wide and place is None
                else alignment,
                pool=1 if place is None else place[0],
                fixed_offset=None if place is None else place[1],
                name=_name(op),
            )
        )
    by_key = {buffer.key: buffer for buffer in buffers}
    found_shares = [
        *possible_shares(ctx, instructions, keys, in_place or {}, sizes=sizes),
        *workspace_shares(method, instructions, keys, by_key),
    ]
    planned = [share for share in found_shares if share.operand in by_key and share.result in by_key]
    shares = [share for share in planned if _dies_there(share, by_key)]
    return MethodMemory(Problem(buffers, pools or {}, shares), dict(keys), tuple(keys))  # type: ignore[arg-type]


def _with_handles(
    live: dict[int, tuple[Interval, ...]],
    instructions: Sequence[Operation],
    program: Sequence[Instruction],
    keys: dict[Operation, int],
    fixed: dict[Operation, tuple[int, int]],
) -> dict[int, tuple[Interval, ...]]:
    moves: dict[int, tuple[int | None, int]] = {}
    for index, op in enumerate(instructions):
        target = storage_of(op.target) if isinstance(op, MoveOp) else None
        if isinstance(op, MoveOp) and target is not None:
            source = storage_of(op.source)
            moves[index] = (None if source is None else keys[source], keys[target])
    places = {key: (fixed.get(op, key), tensor_bytes(op.results[0].type)) for op, key in keys.items()}
    ways = [[i + 1] if row.successors is None else row.successors for i, row in enumerate(program)]
    return with_handles(live, moves, ways, places)


def possible_shares(
    ctx: EtContext,
    instructions: Sequence[Operation],
    keys: dict[Operation, int],
    in_place: InPlaceKernels,
    *,
    sizes: RunTimeSizes | None = None,
) -> Iterator[Share]:
    """What the kernels of calls could write over what they read, if it was not needed any more."""
    for index, op in enumerate(instructions):
        if not isinstance(op, CallOp) or op.kernel.data not in in_place:
            continue
        schema = schema_of_kernel(ctx, op.kernel.data)
        if schema is None:
            continue
        for found in overwritable(op, schema, in_place, sizes=sizes):
            yield Share(index, keys[found.operand], keys[found.result], found.displacement)


def _dies_there(share: Share, buffers: dict[int, Buffer]) -> bool:
    """Whether the operand is needed for the last time, or left alone, where the result is written for the first, in one
    memory.

    A call is followed by the next instruction, so that what is needed after it is live there.
    """
    operand, result = buffers[share.operand], buffers[share.result]
    at = share.instruction
    return (
        operand.pool == result.pool
        and share.displacement % min(operand.alignment, result.alignment) == 0
        and (share.kept or any(last == at for _, last in operand.live))
        and any(first == at for first, _ in result.live)
    )


def _name(op: BufferOp) -> str:
    name = f"%{op.result.name_hint or 'buffer'}"
    location = source_location(op.location)
    return name if location is None else f"{name} ({location})"


def _keys(values: Sequence[SSAValue], keys: dict[Operation, int]) -> list[int]:
    found = [storage_of(v) for v in values if isinstance(v.type, TensorType)]
    return [keys[op] for op in found if op is not None]


def _instructions(
    ctx: EtContext, method: MethodOp, instructions: Sequence[Operation], keys: dict[Operation, int]
) -> list[Instruction]:
    first: dict[Block, int] = {}
    for index, op in enumerate(instructions):
        block = op.parent
        assert block is not None
        first.setdefault(block, index)
    program: list[Instruction] = []
    workspaces = workspaces_of(method)
    for op in instructions:
        effects = effects_of(ctx, op)
        if isinstance(op, DelegateCallOp) and op in workspaces:
            effects = _told_effects(op, workspaces[op][0])
        successors: list[int] | None = None
        if isinstance(op, (JumpFalseOp, JumpOp, NextOp)):
            successors = [first[block] for block in op.successors]
        elif isinstance(op, ReturnOp):
            successors = []
        full = [v for v in effects.full if isinstance(v.owner, BufferOp)]
        program.append(
            Instruction(
                tuple(_keys(effects.reads, keys)),
                tuple(_keys(effects.writes, keys)),
                tuple(_keys(full, keys)),
                successors,
            )
        )
    return program
