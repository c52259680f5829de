"""`verify-plan`: prove that no two buffers that are live at the same time share bytes, and that every buffer fits.

It runs after `plan-memory` in every pipeline and on text at the executable level, and shares no code with the planners:
lifetimes are computed again from the method as it is, places are taken from the buffers. What a delegate may write over
is what its payload was made for. Where a kernel writes over an operand only if two sizes are equal, and nothing says
them, they are found out from the instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation

from etir.backends.api.delegate_arguments import argument_problems
from etir.diagnostics import Diagnostic, raise_if_errors
from etir.dialects.context import EtContext
from etir.dialects.dtypes import dtype_of
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.values import BufferOp, ViewOp, sizes_of
from etir.dialects.text import source_location
from etir.passes.analysis.in_place import RunTimeSizes, in_place_kernels, known_in_place_kernels
from etir.passes.analysis.memory_effects import memory_of, storage_of, tensor_bytes
from etir.passes.analysis.planning.errors import E0711, E0712, E0714
from etir.passes.analysis.planning.problem import Plan
from etir.passes.analysis.planning.verify import verify_plan
from etir.passes.analysis.workspaces import callers_of
from etir.passes.et.run_time_sizes import run_time_sizes
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


@register_pass
@dataclass(frozen=True)
class VerifyPlanPass(Pass):
    """Check the memory plan of every method: placed, aligned, inside its memory, no overlap of live buffers.

    ``target`` says whose kernels may write results over operands that die there; without one, those of any target may.
    """

    name = "verify-plan"
    checks_only = True
    alignment: int = 1
    target: str = ""

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises one error with everything that is wrong (E0711 and following)."""
        found = [op for op in module.body.block.ops if isinstance(op, MethodOp)]
        raise_if_errors([p for method in found for p in self._method(ctx, method)] + _shared_memories(found))

    def _method(self, ctx: EtContext, method: MethodOp) -> list[Diagnostic]:
        found: list[Diagnostic] = []
        places: dict[Operation, tuple[int, int]] = {}
        for op in method.body.blocks[0].ops:
            if isinstance(op, BufferOp) and op.caller is None and not op.is_allocated:
                if op.place is None:
                    found.append(
                        E0711.diagnostic(
                            f"%{op.result.name_hint or 'buffer'} of method '{method.sym_name.data}' has no place",
                            source_location(op.location),
                        )
                    )
                else:
                    places[op] = op.place
                    found += _misaligned(op, op.result.type, op.place[1])
            elif isinstance(op, ViewOp) and op.late is None:
                found += _misaligned(op, op.result.type, op.offset.value.data)
                base = storage_of(op.result)
                if base is not None and _end(op) > tensor_bytes(base.result.type):
                    found.append(
                        E0711.diagnostic(
                            f"view %{op.result.name_hint or ''} ends {_end(op)} bytes into a buffer of "
                            f"{tensor_bytes(base.result.type)}",
                            source_location(op.location),
                        )
                    )
        if found:
            return found
        found += argument_problems(method)
        if found:
            return found
        in_place = in_place_kernels(self.target) if self.target else known_in_place_kernels()
        within = {op: (1, place) for op, place in callers_of(method).items() if place is not None}
        places |= within
        pools = method.pool_sizes or (0,)

        def check(sizes: RunTimeSizes | None = None) -> list[Diagnostic]:
            memory = memory_of(
                ctx, method, alignment=self.alignment, fixed=places, in_place=in_place, callers=within, sizes=sizes
            )
            plan = Plan(
                {memory.keys[op]: offset for op, (_, offset) in places.items()},
                {pool: pools[pool] if pool < len(pools) else 0 for pool in memory.problem.pool_ids},
                {},
            )
            return verify_plan(memory.problem, plan)

        found = check()
        if any(problem.id is E0714 for problem in found) and _leaves_sizes_open(method):
            return check(run_time_sizes(ctx, method))
        return found


def _leaves_sizes_open(method: MethodOp) -> bool:
    """Whether there are dynamic tensors that do not say their sizes, as in what was read from a file."""
    values = (op for op in method.body.blocks[0].ops if isinstance(op, (BufferOp, ViewOp)))
    return any(op.dynamic is not None and sizes_of(op) is None for op in values)


def _misaligned(op: BufferOp | ViewOp, type: TensorType[Attribute], offset: int) -> list[Diagnostic]:
    """An offset at which no element of the type may stand, whatever the plan's alignment is."""
    size = dtype_of(type.element_type).itemsize
    if offset % size == 0:
        return []
    name = f"%{op.result.name_hint or op.name}"
    return [
        E0712.diagnostic(
            f"{name} is at offset {offset}, which is no multiple of the {size} bytes of its elements",
            source_location(op.location),
        )
    ]


def _shared_memories(methods: list[MethodOp]) -> list[Diagnostic]:
    """Buffers that a method puts on the state of another: memory ids from 2 belong to all methods together.

    A state is at one place in all of them, or the methods would not share it; nothing else is where it is, since it
    keeps its bytes between runs.
    """
    memories: dict[int, list[tuple[int, int, MethodOp, BufferOp]]] = {}
    for method in methods:
        for op in method.body.blocks[0].ops:
            if isinstance(op, BufferOp) and op.place is not None and op.place[0] > 1:
                start = op.place[1]
                rows = memories.setdefault(op.place[0], [])
                rows.append((start, start + tensor_bytes(op.result.type), method, op))
    found: list[Diagnostic] = []
    first: dict[Attribute, tuple[int, int]] = {}
    for memory, rows in memories.items():
        live: list[tuple[int, int, MethodOp, BufferOp]] = []
        for row in sorted(rows, key=lambda row: row[:2]):
            start, end, method, op = row
            if op.state is not None and first.setdefault(op.state, (memory, start)) != (memory, start):
                found.append(_misshared(row, memory, f"which another method has at {list(first[op.state])}"))
            live = [other for other in live if other[1] > start]
            for other_start, other_end, other_method, other in live:
                apart = other_method is method or (op.state is None and other.state is None)
                if not apart and other.state != op.state and end > start:
                    place = f"[{other_start}, {other_end})"
                    found.append(
                        _misshared(
                            row, memory, f"where method '{other_method.sym_name.data}' has {_called(other)} at {place}"
                        )
                    )
            live.append(row)
    return found


def _misshared(row: tuple[int, int, MethodOp, BufferOp], memory: int, why: str) -> Diagnostic:
    start, end, method, op = row
    return E0714.diagnostic(
        f"{_called(op)} of method '{method.sym_name.data}' is at bytes [{start}, {end}) of memory {memory}, {why}",
        source_location(op.location),
    )


def _called(op: BufferOp) -> str:
    name = f"%{op.result.name_hint or 'buffer'}"
    return name if op.state is None else f"{name}, state @{op.state.root_reference.data},"


def _end(op: ViewOp) -> int:
    end = tensor_bytes(op.result.type)
    owner: object = op
    while isinstance(owner, ViewOp):
        end += owner.offset.value.data
        owner = owner.base.owner
    return end
