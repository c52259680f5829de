"""An outlined function as a program of its own, with activations that are planned alone or within a workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from etir.backends.api.interface import Artifact, Outlined
from etir.backends.reference.blob import write_blob
from etir.dialects.context import EtContext
from etir.dialects.copying import copy_of
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import CallOp, InputsOp, ReturnOp
from etir.dialects.et.program import SchemaDeclOp, StateOp, WeightOp
from etir.dialects.et.values import BufferOp
from etir.dialects.et.workspace import APART, WITHIN, Workspace
from etir.dialects.literals import int_attr, ints_attr
from etir.dialects.sym.ops import DimOp
from etir.emit.runtime_memory import kernel_temp_rules, runtime_memory
from etir.emit.to_pte import emit_program
from etir.lowering.to_out_variant.calls import copy_call
from etir.passes.analysis.in_place import in_place_kernels
from etir.passes.analysis.memory_effects import effects_of, memory_of, storage_of
from etir.passes.analysis.planning.lower_bound import lower_bound
from etir.passes.analysis.planning.problem import Problem
from etir.passes.analysis.workspaces import callers_of
from etir.passes.delegation.owned import SHARED
from etir.passes.delegation.sizes_inside import read_sizes_of_inputs
from etir.passes.infra.manager import run_pipeline

TARGET = "etir"
COPIES = ("aten::copy_", "aten::clone.out")
"""Kernels that give a tensor the contents of another one, as :func:`copy_call` does."""
OBJECT_BYTES = {8: 1024, 4: 640}
"""What the runtime half takes for itself, by the size of a pointer (``runtime/backends/reference/reference.cc``)."""
ALIGNMENT = 16
SHARED_STATE = "shared-state"
"""Key of the compile spec that names the states which the delegate holds for several methods."""
PLANNED_BYTES = 24
"""Size of one entry of the list of planned buffers, on every machine."""

PASSES = (
    f"drop-unused-indices{{target={TARGET}}},fuse-gelu{{target={TARGET}}},legalize-dim-order{{target={TARGET}}},"
    f"reinplace-scatter,commute-transpose-into-matmul,canonicalize,add-in-product{{target={TARGET}}},elide-views,"
    "cse-symbolic-sizes,dce,"
    f"verify-link{{target={TARGET}}},"
    "to-out-variant{plan-inputs=false plan-outputs=false}"
)
"""What a function goes through: the pipeline after the edge level, with inputs and outputs in the caller's memory."""
ORDER = f"schedule-instructions{{target={TARGET}}},rematerialize{{target={TARGET}}}"
ORDER_WITHIN = f"schedule-instructions{{target={TARGET} callers}},rematerialize{{target={TARGET} callers}}"
"""The same where inputs and outputs will be in a workspace."""
VERIFY = f"verify-plan{{target={TARGET}}}"
PLAN = f"plan-memory{{separate-state target={TARGET}}},{VERIFY}"
PLAN_WITHIN = f"plan-memory{{separate-state target={TARGET} callers}},{VERIFY}"
"""The same with inputs and outputs in a workspace, where they may be."""


class LoweredFunction:
    """A function at the executable level; :meth:`plan` or :meth:`plan_within`, and then :meth:`artifact`. ``within``
    says that it will be the latter: what inputs and outputs take then counts when instructions are ordered, but for
    those that ``around`` has ``APART``, whose memory is there all the time, if that is better for them.
    """

    def __init__(
        self,
        outlined: Outlined,
        within: bool = False,
        over: Sequence[tuple[int, int]] = (),
        around: Sequence[int | None] | None = None,
    ):
        self.outlined = outlined
        self.module = program_of(outlined)
        self._is_within = False
        self._ctx = EtContext()
        """Of all pipelines, so that what was verified in one is not looked at again in the next."""
        run_pipeline(self._ctx, self.module, PASSES)
        if over:
            self._write_all_over(over)
        if around is None or APART not in around:
            run_pipeline(self._ctx, self.module, ORDER_WITHIN if within else ORDER)
        else:
            self._order_around(around)
        if over:
            self._write_all_over(over)

    def _order_around(self, around: Sequence[int | None]) -> None:
        """Order instructions as if all inputs and outputs were in the workspace, or as it is: what needs least of it.
        The order is found step by step, so that the truth need not give the better one.
        """
        tried: list[tuple[int, ModuleOp]] = []
        source = self.module
        for known in (None, around):
            self.module = copy_of(source)
            self._set_places([buffer for found in self._arguments() for buffer in found], known)
            run_pipeline(self._ctx, self.module, ORDER_WITHIN)
            bounds = lower_bound(self.problem_within(around)[0])
            tried.append((sum(bound.bytes for bound in bounds.values()), self.module))
        _, self.module = min(tried, key=lambda row: row[0])

    def is_over(self, pair: tuple[int, int]) -> bool:
        """Whether an output may be at the place of an input: it is written after the last read of the input."""
        found = self._span(pair)
        return found is not None and found[0] < found[1]

    def _write_all_over(self, over: Sequence[tuple[int, int]]) -> None:
        """Each of the pairs, whose memory is the method's around this one."""
        into, out = self._arguments()
        apart = {number for given, made in over for number in (given, len(into) + made)}
        self._set_places([*into, *out], [APART if number in apart else None for number in range(len(into) + len(out))])
        for pair in over:
            self._write_over(pair)

    def _write_over(self, pair: tuple[int, int]) -> None:
        """Let an output be at the place of an input: from a buffer that is copied once the input has been read, where
        it would be written before.
        """
        span = self._span(pair)
        if span is None:
            return
        if span[0] < span[1]:
            self._copy_early(pair, span)
            return
        into, out = self._arguments()
        old, new = into[pair[0]], out[pair[1]]
        assert old is not None and new is not None
        last = self.method.instructions[-1]
        buffer = BufferOp(new.result.type)
        buffer.location = new.location
        new.result.replace_uses_with_if(buffer.result, lambda use: use.operation is not last)
        block = self.method.body.blocks[0]
        block.insert_op_after(buffer, new)
        at = max(span[0], span[2])
        copy = copy_call(new.result, buffer.result, dynamic=False)
        copy.location = new.location
        block.insert_op_after(copy, self.method.instructions[at])

    def _copy_early(self, pair: tuple[int, int], span: tuple[int, int, int]) -> None:
        """Copy what becomes an output as a whole as soon as it is there and the input has been read."""
        instructions = self.method.instructions
        copy = instructions[span[1]]
        if span[1] != span[2] or not isinstance(copy, CallOp) or copy.kernel.data not in COPIES:
            return
        ctx = EtContext()
        new = self._arguments()[1][pair[1]]
        source = next((v for v in effects_of(ctx, copy).reads if storage_of(v) is not new), None)
        held = None if source is None else storage_of(source)
        if held is None:
            return
        writes = [
            number
            for number, op in enumerate(instructions[: span[1]])
            if not isinstance(op, InputsOp) and any(storage_of(v) is held for v in effects_of(ctx, op).writes)
        ]
        at = max(span[0], max(writes, default=-1))
        if 0 <= at < span[1] - 1:
            copy.detach()
            self.method.body.blocks[0].insert_op_after(copy, instructions[at])

    def _span(self, pair: tuple[int, int]) -> tuple[int, int, int] | None:
        """The last instruction that reads an input, the first and the last one that write an output; None where that
        cannot be said.
        """
        into, out = self._arguments()
        old, new = into[pair[0]], out[pair[1]]
        if old is None or new is None or len(self.method.body.blocks) > 1:
            return None
        reads, writes = [-1], list[int]()
        ctx = EtContext()
        for number, op in enumerate(self.method.instructions):
            if isinstance(op, (InputsOp, ReturnOp)):
                continue
            effects = effects_of(ctx, op)
            if any(storage_of(value) is old for value in effects.reads):
                reads.append(number)
            if any(storage_of(value) is new for value in effects.writes):
                writes.append(number)
        return (max(reads), min(writes), max(writes)) if writes else None

    @property
    def method(self) -> MethodOp:
        """The function."""
        return next(op for op in self.module.body.block.ops if isinstance(op, MethodOp))

    def plan(self) -> None:
        """Plan the activations, apart from inputs and outputs, also where these had places among them before."""
        for buffer in self._buffers():
            buffer.attributes.pop(WITHIN, None)
        self._is_within = False
        run_pipeline(self._ctx, self.module, PLAN)

    def plan_within(self, around: Sequence[int | None] | None = None) -> Workspace:
        """Plan the activations together with inputs and outputs, for each of which ``around`` has a place, None for any
        one, or ``APART``.
        """
        into, out = self._arguments()
        arguments = [*into, *out]
        self._set_places(arguments, around)
        run_pipeline(self._ctx, self.module, PLAN_WITHIN)
        return self._workspace()

    def place_within(self, offsets: Mapping[int, int], size: int) -> Workspace:
        """As :meth:`plan_within`, with the places of a plan of :meth:`problem_within`, which needs ``size`` bytes."""
        self.plan_within([None if key in offsets else APART for key in self._argument_keys()])
        for key, buffer in enumerate(self._buffers()):
            if key in offsets and buffer.caller is not None:
                buffer.attributes[WITHIN] = int_attr(offsets[key])
            elif key in offsets:
                buffer.place = (1, offsets[key])
        _, _, *others = (*(self.method.pool_sizes or ()), 0, 0)
        self.method.pools = ints_attr((0, size, *others[: max(0, len(self.method.pool_sizes or ()) - 2)]))
        run_pipeline(self._ctx, self.module, VERIFY)
        return self._workspace()

    def _workspace(self) -> Workspace:
        """What has been planned."""
        into, out = self._arguments()
        arguments = [*into, *out]
        self._is_within = True
        places = callers_of(self.method)
        found = [places.get(buffer) if buffer is not None else None for buffer in arguments]
        sizes = (*(self.method.pool_sizes or ()), 0, 0)
        return Workspace(sizes[1], tuple(found[: len(into)]), tuple(found[len(into) :]))

    def problem_within(self, around: Sequence[int | None] | None = None) -> tuple[Problem, list[int | None]]:
        """What :meth:`plan_within` plans, without states, and the keys of inputs and outputs; None for those apart."""
        arguments = [buffer for found in self._arguments() for buffer in found]
        self._set_places(arguments, around)
        callers = callers_of(self.method)
        fixed: dict[Operation, tuple[int, int]] = {op: (1, at) for op, at in callers.items() if at is not None}
        memory = memory_of(
            EtContext(), self.method, fixed=fixed, in_place=in_place_kernels(TARGET), callers=callers
        )  # fmt: skip
        kept = {memory.keys[op] for op in self._buffers() if op.state is not None}
        problem = memory.problem
        buffers = [buffer for buffer in problem.buffers if buffer.key not in kept]
        shares = [share for share in problem.shares if not kept & {share.operand, share.result}]
        known = {buffer.key for buffer in buffers}
        return Problem(buffers, shares=shares), [key if key in known else None for key in self._argument_keys()]

    def _argument_keys(self) -> list[int | None]:
        """The keys of the buffers of inputs and outputs, which are numbered in their order."""
        numbers: dict[Operation, int] = {op: number for number, op in enumerate(self._buffers())}
        return [None if buffer is None else numbers[buffer] for found in self._arguments() for buffer in found]

    def _set_places(self, arguments: Sequence[BufferOp | None], around: Sequence[int | None] | None) -> None:
        """Say of the buffers of inputs and outputs where they may be."""
        for buffer in self._buffers():
            if buffer.caller is not None:
                buffer.attributes[WITHIN] = int_attr(APART)
        for buffer, place in zip(arguments, around or [None] * len(arguments), strict=True):
            if buffer is not None:
                buffer.attributes.pop(WITHIN, None)
                if place is not None:
                    buffer.attributes[WITHIN] = int_attr(place)

    @property
    def has_activations(self) -> bool:
        """Whether it keeps anything besides inputs, outputs and what outlives a run."""
        return any(buffer.caller is None and buffer.state is None for buffer in self._buffers())

    def _buffers(self) -> list[BufferOp]:
        return [op for op in self.method.body.blocks[0].ops if isinstance(op, BufferOp)]

    def _arguments(self) -> tuple[list[BufferOp | None], list[BufferOp | None]]:
        """The buffers of inputs and outputs in the caller's memory; None for those that have none of their own."""
        found: dict[type, list[BufferOp | None]] = {}
        for op in self.method.instructions:
            if isinstance(op, InputsOp | ReturnOp):
                owners = [value.owner for value in op.arguments]
                found[type(op)] = [o if isinstance(o, BufferOp) and o.caller is not None else None for o in owners]
        into, out = found[InputsOp], found[ReturnOp]
        both = [*into, *out]
        return [b if both.count(b) == 1 else None for b in into], [b if both.count(b) == 1 else None for b in out]

    def artifact(self) -> Artifact:
        """The blob."""
        emission = emit_program(self.module)
        memory = runtime_memory(emission.program.execution_plan[0], kernel_temp_rules())
        activations, *kept = (*memory.planned, 0)
        listed = _aligned(PLANNED_BYTES * len(memory.planned))
        # What is allocated starts at a multiple of 16, wherever the memory of the method around it ends.
        extra = listed + sum(map(_aligned, kept)) + ALIGNMENT
        temp = (0 if self._is_within else _aligned(activations)) + _aligned(memory.temp)
        states = [op for op in self.module.body.block.ops if isinstance(op, StateOp) and SHARED in op.attributes]
        names = ",".join(op.sym_name.data for op in states)
        return Artifact(
            write_blob(emission.pte(), memory.temp),
            external=_outside(self.outlined, self.module),
            # Methods share delegates that are equal: this one is not equal to one with other states of the same kind.
            specs=((SHARED_STATE, names.encode()),) if states else (),
            method_memory=OBJECT_BYTES[8] + _aligned(memory.method) + extra,
            method_memory_32=OBJECT_BYTES[4] + _aligned(memory.method_32) + extra,
            temp_memory=temp + ALIGNMENT if temp else 0,
        )


def program_of(outlined: Outlined) -> ModuleOp:
    """A module of the function as its method ``forward``, with what it refers to. Sizes are read from inputs, whose
    dims are there all the time: what reads one from a tensor in between would keep that one's memory until then.
    """
    func = outlined.func
    method = FuncOp("forward", func.function_type, func.body.clone())
    method.location = func.location
    read_sizes_of_inputs(method)
    used: dict[str, None] = {}
    for op in method.walk():
        symbol = op.properties.get("symbol")
        if isinstance(symbol, SymbolRefAttr):
            used[symbol.root_reference.data] = None
    kept = [op for op in outlined.module.body.block.ops if isinstance(op, (SchemaDeclOp, DimOp))]
    kept += [outlined.symbols[name] for name in used]
    clones = []
    for op in kept:
        clones.append(copy_of(op))
    return ModuleOp([*clones, method])


def _outside(outlined: Outlined, module: ModuleOp) -> tuple[str, ...]:
    """The weights and states of the function that are in files beside the program."""
    names: list[str] = []
    for op in module.body.block.ops:
        if isinstance(op, (WeightOp, StateOp)) and op.value is not None and "external" in op.attributes:
            names.append(op.sym_name.data)
    return tuple(name for name in names if name in outlined.symbols)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
