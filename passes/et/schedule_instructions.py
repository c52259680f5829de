"""`schedule-instructions`: reorder instructions where that lowers the memory that the plan needs.

Before::

    et.call "aten::linear.out"(%x, %wv, none, %v) -> %v      // %v waits while the scores are computed
    et.call "aten::bmm.out"(%q, %k, %scores) -> %scores
    et.call "aten::_softmax.out"(%scores, -1, false, %p) -> %p
    et.call "aten::bmm.out"(%p, %v, %y) -> %y

After::

    et.call "aten::bmm.out"(%q, %k, %scores) -> %scores
    et.call "aten::_softmax.out"(%scores, -1, false, %p) -> %p
    et.call "aten::linear.out"(%x, %wv, none, %v) -> %v
    et.call "aten::bmm.out"(%p, %v, %y) -> %y

Only calls whose effects are known move, within a block, and never past one that depends on them: what reads or writes a
tensor, its sizes, or a number that the other writes. Delegates keep their order, since what they hold is not known;
calls move past those that they do not depend on. Random kernels, checks and kernels that nobody declared stay where
they are, and nothing moves past them. A method keeps its order unless the plan gets smaller, so that the memory of no
program grows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from etir.dialects.aten.table import load_table
from etir.dialects.context import EtContext
from etir.dialects.et.arguments import count_operands
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import CallOp, DelegateCallOp
from etir.dialects.et.values import ScalarOp, ViewOp
from etir.passes.analysis.in_place import InPlaceKernels, in_place_kernels
from etir.passes.analysis.memory_effects import (
    DEFAULT_ALIGNMENT,
    MethodMemory,
    effects_of,
    memory_of,
    possible_shares,
    schema_of_kernel,
    storage_of,
)
from etir.passes.analysis.plan_size import is_smaller
from etir.passes.analysis.planning.problem import align_up
from etir.passes.analysis.scheduling import Run, lower_peak
from etir.passes.analysis.workspaces import callers_of, workspace_shares
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass

SIZES = ("aten::sym_size.int", "aten::sym_numel")
"""Kernels of numbers that no schema declares: they read the sizes of a tensor, and write a number, their last argument,
as primitive operators do.
"""


@register_pass
@dataclass(frozen=True)
class ScheduleInstructionsPass(Pass):
    """Reorder instructions where that lowers the memory that the plan needs.

    ``target`` is the runtime whose kernels may write results over operands; without one, none does. ``callers`` counts
    the caller's memory among the method's, as ``plan-memory`` does.
    """

    name = "schedule-instructions"
    target: str = ""
    callers: bool = False

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Reorder every method for itself."""
        in_place = in_place_kernels(self.target) if self.target else {}
        for method in [op for op in module.body.block.ops if isinstance(op, MethodOp)]:
            _Method(ctx, method, in_place, self.callers).schedule()


class _Method:
    """One method, and the bytes that its plan needs at least, in the order of its instructions."""

    def __init__(self, ctx: EtContext, method: MethodOp, in_place: InPlaceKernels, callers: bool) -> None:
        self.ctx = ctx
        self.method = method
        self.in_place = in_place
        self.callers = callers_of(method) if callers else {}
        self.places = {op: index for index, op in enumerate(method.instructions)}

    def schedule(self) -> None:
        before = self._memory()
        moved: list[tuple[Sequence[Operation], Sequence[Operation]]] = []
        for run in list(self._runs()):
            order = lower_peak(self._run(run, before))
            if order != list(range(len(run))):
                moved.append((run, [run[index] for index in order]))
        for old, new in moved:
            _put(old, new)
        if not moved or is_smaller(self._memory(), before):
            return
        for old, new in moved:
            _put(new, old)

    def _memory(self) -> MethodMemory:
        return memory_of(self.ctx, self.method, in_place=self.in_place, callers=self.callers)

    def _runs(self) -> Iterator[list[Operation]]:
        """Stretches of instructions that may change places with one another."""
        for block in self.method.body.blocks:
            run: list[Operation] = []
            for op in block.ops:
                if self._is_movable(op):
                    run.append(op)
                    continue
                if len(run) > 2:
                    yield run
                run = []
            if len(run) > 2:
                yield run

    def _is_movable(self, op: Operation) -> bool:
        if isinstance(op, DelegateCallOp):
            return True
        if not isinstance(op, CallOp):
            return False
        kernel = op.kernel.data
        if _is_primitive(kernel):
            return True
        schema = schema_of_kernel(self.ctx, kernel)
        if schema is None or len(schema.arguments) != len(op.template.data):
            return False
        if schema.namespace == "etir":
            # Of etir's own kernels those with results are functions of their arguments; checks have none.
            return bool(schema.out_arguments)
        return schema.op_name in load_table() and "r" not in load_table().flags(schema.op_name)

    def _run(self, ops: Sequence[Operation], memory: MethodMemory) -> Run:
        keys = memory.keys
        planned = {buffer.key: buffer for buffer in memory.problem.buffers}
        numbers: dict[int, int] = {}
        written_first: list[bool] = []
        touches: list[list[int]] = []
        for op in ops:
            writes = dict.fromkeys(_keys(effects_of(self.ctx, op).writes, keys))
            touched: dict[int, None] = {}
            for key in dict.fromkeys(_keys(op.operands, keys)):
                if key in planned:
                    if key not in numbers:
                        numbers[key] = len(numbers)
                        written_first.append(key in writes)
                    touched[numbers[key]] = None
            touches.append(list(touched))
        first = self.places[ops[0]]
        last = first + len(ops) - 1
        sizes: list[int] = []
        born: list[bool] = []
        dies: list[bool] = []
        for key, number in numbers.items():
            buffer = planned[key]
            sizes.append(0 if memory.buffers[key].state is not None else align_up(buffer.size, DEFAULT_ALIGNMENT))
            # What crosses an end of the run is live at both sides of it.
            born.append(written_first[number] and not any(begin < first <= end for begin, end in buffer.live))
            dies.append(not any(begin <= last < end for begin, end in buffer.live))
        over: dict[int, list[tuple[int, int]]] = {}
        shares = possible_shares(self.ctx, ops, keys, self.in_place)
        for share in (*shares, *workspace_shares(self.method, ops, keys, planned)):
            if share.operand in numbers and share.result in numbers:
                over.setdefault(share.instruction, []).append((numbers[share.operand], numbers[share.result]))
        return Run(touches, self._dependences(ops), sizes, born, dies, over)

    def _dependences(self, ops: Sequence[Operation]) -> list[list[int]]:
        """For each instruction the earlier ones that it has to come after."""
        writer: dict[object, int] = {}
        readers: dict[object, list[int]] = {}
        after: list[list[int]] = []
        for index, op in enumerate(ops):
            read, written = self._accesses(op)
            found: dict[int, None] = {}
            for thing in (*read, *written):
                if thing in writer:
                    found[writer[thing]] = None
            for thing in written:
                found |= dict.fromkeys(readers.pop(thing, ()))
                writer[thing] = index
            for thing in read:
                if thing not in written:
                    readers.setdefault(thing, []).append(index)
            found.pop(index, None)
            after.append(list(found))
        return after

    def _accesses(self, op: Operation) -> tuple[dict[object, None], dict[object, None]]:
        """What an instruction reads and writes: buffers, views that are placed at run time, and numbers."""
        if isinstance(op, DelegateCallOp):
            tensors = [thing for value in op.arguments for thing in _views(value)]
            return {}, dict.fromkeys((DelegateCallOp, *tensors))
        assert isinstance(op, CallOp)
        read: dict[object, None] = {}
        written: dict[object, None] = {}
        writes = effects_of(self.ctx, op).writes
        prim = _is_primitive(op.kernel.data)
        slot = len(op.arguments) - (0 if op.returns is None else count_operands(op.returns.data))
        for position, value in enumerate(op.arguments):
            things = list(_views(value)) if isinstance(value.type, TensorType) else [value]
            if isinstance(value.type, TensorType):
                changes = value in writes or (prim and position == len(op.arguments) - 1)
            else:
                # Which number a primitive operator writes is the last one, but not said anywhere.
                changes = isinstance(value.owner, ScalarOp) and (prim or position >= slot)
            for thing in things:
                (written if changes else read)[thing] = None
        return read, written


def _is_primitive(kernel: str) -> bool:
    """Whether a kernel computes numbers, sizes or views, and nothing else."""
    return kernel.startswith("executorch_prim::") or kernel in SIZES


def _views(value: SSAValue) -> Iterator[SSAValue]:
    """A tensor, and what it is a view of."""
    yield value
    while isinstance(value.owner, ViewOp):
        value = value.owner.base
        yield value


def _keys(values: Sequence[SSAValue], keys: dict[Operation, int]) -> Iterator[int]:
    """The keys of the buffers that hold the bytes of tensors."""
    for value in values:
        root = storage_of(value) if isinstance(value.type, TensorType) else None
        if root is not None and root in keys:
            yield keys[root]


def _put(old: Sequence[Operation], new: Sequence[Operation]) -> None:
    """Put instructions that follow one another into another order."""
    block = old[0].parent
    assert block is not None
    after = old[-1].next_op
    for op in old:
        op.detach()
    for op in new:
        if after is None:
            block.add_op(op)
        else:
            block.insert_op_before(op, after)
