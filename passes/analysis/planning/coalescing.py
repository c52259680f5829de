"""Turning what may be done in place into aliases, before a planner places anything.

A result that is written over an operand makes one buffer of two, which lives as long as both: where there were two
boxes side by side at one instruction, there is a longer one. A chain of elementwise operators becomes one buffer. When
both have the same size that saves bytes at the instruction and costs none elsewhere, though a longer box can be harder
to place; a small result in a large operand keeps all of the operand alive. So this gives variants of a problem, and the
planner takes what turns out best (Chaitin 1982, "Register allocation and spilling via graph coloring", calls the same
step coalescing: two names become one where that interferes with nothing).

The variants have no shares: aliases say it all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from etir.passes.analysis.planning.problem import Interval, Problem, Share, align_up, merge_intervals


def variants(problem: Problem) -> list[Problem]:
    """The problem with results inside of operands: of the same size only, and wherever possible, where that differs."""
    found: list[Problem] = []
    for parts in (False, True):
        merged = _Sets(problem)
        for shares in _by_pair(problem.shares):
            merged.join(shares, parts=parts)
        made = merged.problem()
        if made.buffers != problem.buffers and all(made.buffers != other.buffers for other in found):
            found.append(made)
    return found


def _by_pair(shares: Sequence[Share]) -> list[list[Share]]:
    """Shares of the same two buffers in the same way, by their first instruction."""
    pairs: dict[tuple[int, int, int], list[Share]] = {}
    for share in sorted(shares, key=lambda s: s.instruction):
        pairs.setdefault((share.operand, share.result, share.displacement), []).append(share)
    return list(pairs.values())


class _Sets:
    """Buffers that lie in one another: for each key its set's root and the offset in it."""

    def __init__(self, problem: Problem) -> None:
        self.original = problem
        self.place = {buffer.key: (buffer.key, 0) for buffer in problem.buffers}
        self.members: dict[int, list[int]] = {buffer.key: [buffer.key] for buffer in problem.buffers}
        self.live: dict[int, tuple[Interval, ...]] = {b.key: merge_intervals(b.live) for b in problem.buffers}
        self.busy: dict[int, dict[int, None]] = {buffer.key: {} for buffer in problem.buffers}
        aliased = {b.alias_of[0]: None for b in problem.buffers if b.alias_of is not None}
        self.settled = {
            b.key: None
            for b in problem.buffers
            if b.alias_of is not None or b.fixed_offset is not None or b.key in aliased
        }

    def join(self, shares: Sequence[Share], *, parts: bool) -> None:
        """Put the result into the operand, unless their sets are in each other's way."""
        share = shares[0]
        if share.operand in self.settled or share.result in self.settled:
            return
        (first, at_first), (second, at_second) = self.place[share.operand], self.place[share.result]
        if first == second:
            return
        buffers, granules = self.original.by_key, self.original.granules
        granule = granules[buffers[first].pool]
        sizes = [align_up(buffers[root].size, granule) for root in (first, second)]
        offset = at_first + share.displacement - at_second
        if not parts and (sizes[0] != sizes[1] or offset):
            return
        if offset < 0 or offset + buffers[second].size > buffers[first].size:
            first, second, offset = second, first, -offset
        if offset < 0 or offset + buffers[second].size > buffers[first].size:
            return
        if offset % max(buffers[key].alignment for key in self.members[second]):
            return
        instructions = {share.instruction: None for share in shares}
        if any(i in self.busy[root] for root in (first, second) for i in instructions):
            return
        for begin, end in common(self.live[first], self.live[second]):
            if begin != end or begin not in instructions:
                return
        self._unite(first, second, offset, instructions)

    def _unite(self, root: int, other: int, offset: int, instructions: dict[int, None]) -> None:
        if len(self.members[other]) > len(self.members[root]) and offset == 0 and self._alike(root, other):
            root, other = other, root
        for key in self.members.pop(other):
            self.place[key] = (root, self.place[key][1] + offset)
            self.members[root].append(key)
        self.live[root] = merge_intervals([*self.live[root], *self.live.pop(other)])
        self.busy[root] |= self.busy.pop(other)
        self.busy[root] |= instructions

    def _alike(self, first: int, second: int) -> bool:
        a, b = self.original.by_key[first], self.original.by_key[second]
        return a.size == b.size and a.alignment == b.alignment

    def problem(self) -> Problem:
        """The problem with every member an alias of its set's root."""
        buffers = [
            buffer if self.place[buffer.key][0] == buffer.key else replace(buffer, alias_of=self.place[buffer.key])
            for buffer in self.original.buffers
        ]
        return replace(self.original, buffers=buffers, shares=())


def common(first: Sequence[Interval], second: Sequence[Interval]) -> list[Interval]:
    """The instructions in both of two lifetimes (sorted, disjoint inclusive intervals), in the same form."""
    found: list[Interval] = []
    i = j = 0
    while i < len(first) and j < len(second):
        begin, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if begin <= end:
            found.append((begin, end))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return found
