"""Where a function of ``tile`` needs most memory, and whether it would need less with other lives of its buffers.

Rewrites that save memory at the cost of time ask before they change anything. Of two functions the one with the lower
need is better, and of two with the same the one that comes to it later: what is done for the first of several equal
peaks helps once the others are seen to, and every step is one forward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from etir.backends.native.passes.tile_plan import problem_of
from etir.backends.native.tile import BufferOp
from etir.dialects.walking import ops_of
from etir.passes.analysis.planning.lower_bound import lower_bound
from etir.passes.analysis.planning.problem import Buffer, Interval, Problem


@dataclass(frozen=True)
class Need:
    """The plan of a function with its inputs and outputs, the operation ``at`` which it needs most bytes (-1 where it
    needs none), and the keys of the buffers that are there then, the largest first.
    """

    problem: Problem
    buffers: Sequence[SSAValue]
    at: int
    bytes: int
    there: Sequence[int]

    def is_lower(self, lives: Mapping[int, Interval | None], more: Sequence[Buffer] = ()) -> bool:
        """Whether it would be better with other lives of some buffers, None for those that are gone, and with more
        buffers; all begin where they did. Instants here are twice the numbers of operations, so that something may be
        between two of them.
        """
        known = {buffer.key: tuple((2 * a, 2 * b) for a, b in buffer.live) for buffer in self.problem.buffers}
        given = {key: () if live is None else (live,) for key, live in lives.items()}
        buffers = [replace(b, live=given.get(b.key, known[b.key]), fixed_offset=None) for b in self.problem.buffers]
        kept = [b for b in buffers if lives.get(b.key, (0, 0)) is not None]
        shares = [
            replace(share, instruction=2 * share.instruction)
            for share in self.problem.shares
            if share.operand not in lives and (share.result not in lives or lives[share.result] is not None)
        ]
        bound = lower_bound(Problem([*kept, *more], shares=shares))[1]
        then = -1 if bound.instruction is None else bound.instruction
        return bound.bytes < self.bytes or (bound.bytes == self.bytes and then > 2 * self.at)


def bound_of(problem: Problem) -> int:
    """The bytes of a problem that are there at once: no plan needs less."""
    return sum(pool.bytes for pool in lower_bound(problem).values())


def need_of(func: FuncOp) -> Need:
    """What a function needs as it is."""
    problem = problem_of(func, [None] * len(func.body.block.args))
    buffers = [op.result for op in ops_of(func.body.block) if isinstance(op, BufferOp)]
    bound = lower_bound(problem).get(1)
    if bound is None or bound.instruction is None:
        return Need(problem, buffers, -1, 0, ())
    there = [key for key in bound.alive if key < len(buffers)]
    return Need(problem, buffers, bound.instruction, bound.bytes, there)
