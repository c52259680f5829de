"""Places of inputs and outputs that suit code and the kernels in its place, from one plan of both.

The two programs never run in one call. For the planner they are one that runs after the other: buffers of the first are
free when the second begins, and inputs and outputs have a lifetime in each, but one place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.dialects.func import FuncOp

from etir.backends.native.frame import Around
from etir.backends.native.passes.tile_plan import place_function, problem_of
from etir.backends.native.tile import BrgemmOp, BufferOp
from etir.backends.reference.lowered import LoweredFunction
from etir.diagnostics import EtirError
from etir.dialects.et.workspace import APART, Workspace
from etir.dialects.walking import ops_of
from etir.passes.analysis.planning.algorithms import plan
from etir.passes.analysis.planning.errors import E0704
from etir.passes.analysis.planning.lower_bound import lower_bound
from etir.passes.analysis.planning.problem import Buffer, Plan, Pool, Problem, align_up


@dataclass(frozen=True)
class Joint:
    """One plan of both: bytes that each needs, and places of its buffers and arguments by the keys of its problem."""

    code: int
    kernels: int
    code_places: dict[int, int]
    kernels_places: dict[int, int]
    around: Around

    def write(self, func: FuncOp, kernels: LoweredFunction) -> Workspace:
        """Write the places down in both."""
        place_function(func, self.code_places, len(self.around))
        workspace = kernels.place_within(self.kernels_places, self.kernels)
        return replace(workspace, size=max(workspace.size, self.code))


def joint_plan(func: FuncOp, kernels: LoweredFunction, free: Around, room: int) -> Joint:
    """Plan a function of ``tile`` and its program for the kernels; ``free`` has the places of arguments that are given,
    None for any one, and ``APART``. ``room`` are the bytes that are looked for longer.
    """
    code = problem_of(func, free)
    other, keys = kernels.problem_within(free)
    buffers = sum(isinstance(op, BufferOp) for op in func.body.block.ops)
    shared = {key: buffers + number for number, key in enumerate(keys) if key is not None}
    later = 2 + max((end for buffer in code.buffers for _, end in buffer.live), default=0)
    first = buffers + len(free)

    def key_of(key: int) -> int:
        return shared.get(key, first + key)

    found = {buffer.key: buffer for buffer in code.buffers}
    for buffer in other.buffers:
        live = tuple((start + later, end + later) for start, end in buffer.live)
        key = key_of(buffer.key)
        found[key] = _joined(found[key], live) if key in found else replace(buffer, key=key, live=live)
    moved = [
        replace(s, instruction=s.instruction + later, operand=key_of(s.operand), result=key_of(s.result))
        for s in other.shares
    ]
    # A product over its residual ties buffers together, which helps where the code is what needs most.
    ops = ops_of(func.body.block)
    plain = [s for s in code.shares if not isinstance(ops[s.instruction], BrgemmOp)]
    problems = [Problem([*found.values()], shares=[*shares, *moved]) for shares in (code.shares, plain)]
    made = [plan(problem) for problem in problems[: 1 if len(plain) == len(code.shares) else 2]]
    best = min(made, key=_size)
    if _size(best) > room:
        best = next((tried for problem in problems if (tried := within(problem, room)) is not None), best)
    placed = best.offsets
    in_code = {buffer.key: placed[buffer.key] for buffer in code.buffers}
    in_kernels = {buffer.key: placed[key_of(buffer.key)] for buffer in other.buffers}
    around: Around = [in_code.get(buffers + number, APART) for number in range(len(free))]
    return Joint(_end(code, in_code), _end(other, in_kernels), in_code, in_kernels, around)


def _size(plan: Plan) -> int:
    return sum(plan.pool_sizes.values())


def within(problem: Problem, room: int) -> Plan | None:
    """A plan of so many bytes, which is looked for longer, while plans get lower; None where none is found."""
    if sum(bound.bytes for bound in lower_bound(problem).values()) > room:
        return None
    try:
        return plan(replace(problem, pools={1: Pool(capacity=room)}), is_patient=False)
    except EtirError as error:
        if E0704.id not in error.ids:
            raise
        return None


def _end(problem: Problem, places: dict[int, int]) -> int:
    """The bytes up to the last one that a program needs."""
    return max((align_up(places[buffer.key] + buffer.size, 16) for buffer in problem.buffers), default=0)


def _joined(buffer: Buffer, live: tuple[tuple[int, int], ...]) -> Buffer:
    """An argument with its lifetime in the second program as well."""
    return replace(buffer, live=(*buffer.live, *live))
