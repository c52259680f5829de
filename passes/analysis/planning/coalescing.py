"""Turning what may be done in place into aliases, before a planner places anything.

A result that is written over an operand makes one buffer of two, which lives as long as both: where there were two
boxes side by side at one instruction, there is a longer one. A chain of elementwise operators becomes one buffer. When
both have the same size that saves bytes at the instruction and costs none elsewhere, though a longer box can be harder
to place; a small result in a large operand keeps all of the operand alive, and operands that are made where a
concatenation will have them need all of its bytes from the first one on. So this gives variants of a problem, and the
planner takes what turns out best (Chaitin 1982, "Register allocation and spilling via graph coloring", calls the same
step coalescing: two names become one where that interferes with nothing):

* results of the same size only,
* wherever possible, those of the same size first or last,
* the same, with sets of parts pinned to the start of the pool (``pinning.py``),
* parts only where they lower the peak: of the instructions at which most bytes are live, the joins at each are tried,
  and kept when the peak gets lower.

The variants have no shares: aliases say it all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from etir.passes.analysis.planning.lower_bound import lower_bound
from etir.passes.analysis.planning.pinning import pinned
from etir.passes.analysis.planning.problem import Interval, Problem, Share, align_up, merge_intervals
from etir.passes.analysis.planning.segments import Segments, common

DEFAULT_WORK = 30_000
"""Buffers looked at to find the parts that lower the peak: a tenth of a second or so."""


def variants(problem: Problem) -> Iterator[Problem]:
    """The problem with results inside of operands and operands inside of results, each variant once."""
    shares = _by_pair(problem.shares)
    alike = [share for share in shares if _is_alike(problem, share[0])]
    parts = [share for share in shares if not _is_alike(problem, share[0])]
    found: list[Problem] = []
    choices = (alike, [*alike, *parts], [*parts, *alike]) if parts else (alike,)
    for chosen, in_a_row in product(choices, (False, True)):
        made = joined(problem, chosen, in_a_row=in_a_row)
        if made.buffers != problem.buffers and all(made.buffers != other.buffers for other in found):
            found.append(made)
            yield made
            if chosen is not alike and (at_the_start := pinned(problem, made)) is not None:
                yield at_the_start
    if parts and found:
        made = _where_it_helps(problem, alike, parts)
        if all(made.buffers != other.buffers for other in (problem, *found)):
            yield made


def joined(problem: Problem, shares: Sequence[Sequence[Share]], *, in_a_row: bool = False) -> Problem:
    """The problem with the operands and results of ``shares`` joined, in this order, where nothing is in the way.

    ``in_a_row`` lets sets have instructions in common that follow each other: what ends at the first one is written
    over, and what begins at the last one is written over that. Larger sets need less, and may be harder to place.
    """
    merged = _Sets(problem, in_a_row=in_a_row)
    merged.shares = {(s.operand, s.result, s.instruction): s.displacement for group in shares for s in group}
    for share in shares:
        merged.join(share)
    return merged.problem()


def _where_it_helps(problem: Problem, alike: list[list[Share]], parts: list[list[Share]]) -> Problem:
    at: dict[int, list[list[Share]]] = {}
    for shares in parts:
        for share in shares:
            at.setdefault(share.instruction, []).append(shares)
    chosen: list[list[Share]] = []
    best = joined(problem, alike)
    peaks = _peaks(best)
    tried: dict[int, None] = {}
    for _ in range(max(DEFAULT_WORK // max(len(problem.buffers), 1), 1)):
        peak = next((i for _, i in peaks.values() if i is not None and i in at and i not in tried), None)
        if peak is None:
            break
        tried[peak] = None
        made = joined(problem, [*alike, *chosen, *at[peak]])
        now = _peaks(made)
        if all(now[pool][0] <= size for pool, (size, _) in peaks.items()) and now != peaks:
            best, peaks = made, now
            chosen += at[peak]
    return best


def _peaks(problem: Problem) -> dict[int, tuple[int, int | None]]:
    return {pool: (bound.bytes, bound.instruction) for pool, bound in lower_bound(problem).items()}


def _is_alike(problem: Problem, share: Share) -> bool:
    """Whether operand and result are the same bytes, so that joining them costs nothing."""
    operand, result = problem.by_key[share.operand], problem.by_key[share.result]
    granule = problem.granules[operand.pool]
    return not share.displacement and align_up(operand.size, granule) == align_up(result.size, granule)


def _by_pair(shares: Sequence[Share]) -> list[list[Share]]:
    """Shares of the same two buffers in the same way, by their first instruction."""
    pairs: dict[tuple[int, int, int], list[Share]] = {}
    for share in sorted(shares, key=lambda s: s.instruction):
        pairs.setdefault((share.operand, share.result, share.displacement), []).append(share)
    return list(pairs.values())


class _Sets:
    """Buffers that lie in one another: for each key its set's root and the offset in it."""

    def __init__(self, problem: Problem, *, in_a_row: bool = False) -> None:
        self.original = problem
        self.in_a_row = in_a_row
        self.place = {buffer.key: (buffer.key, 0) for buffer in problem.buffers}
        self.members: dict[int, list[int]] = {buffer.key: [buffer.key] for buffer in problem.buffers}
        self.alignment = {buffer.key: buffer.alignment for buffer in problem.buffers}
        kept: dict[int, list[int]] = {}
        for share in problem.shares:
            if share.kept:
                kept.setdefault(share.operand, []).append(share.instruction)
        self.segments: dict[int, Segments] = {
            b.key: Segments.of(b.key, align_up(b.size, problem.granules[b.pool]), b.live, kept.get(b.key, ()))
            for b in problem.buffers
        }
        self.shares: dict[tuple[int, int, int], int] = {}
        aliased = {b.alias_of[0]: None for b in problem.buffers if b.alias_of is not None}
        self.settled = {b.key: None for b in problem.buffers if b.alias_of is not None or b.key in aliased}
        self.fixed = {b.key: b.fixed_offset for b in problem.buffers if b.fixed_offset is not None}
        self.lives: dict[int, list[Interval]] = {b.key: list(b.live) for b in problem.buffers}

    def join(self, shares: Sequence[Share]) -> None:
        """Put the result into the operand or the operand into the result, unless their sets are in the way."""
        share = shares[0]
        if share.operand in self.settled or share.result in self.settled:
            return
        (first, at_first), (second, at_second) = self.place[share.operand], self.place[share.result]
        if first == second:
            return
        buffers = self.original.by_key
        offset = at_first + share.displacement - at_second
        is_inside = offset >= 0 and offset + buffers[second].size <= buffers[first].size
        if not is_inside or (second in self.fixed and first not in self.fixed):
            first, second, offset = second, first, -offset
        if offset < 0 or offset + buffers[second].size > buffers[first].size:
            return
        if (self.fixed.get(first, 0) + offset) % self.alignment[second] or offset % self.alignment[second]:
            return
        if second in self.fixed and (first not in self.fixed or self.fixed[first] + offset != self.fixed[second]):
            return
        if first in self.fixed and self._is_taken(first, second, offset):
            return
        for here, there in self.segments[first].meeting(self.segments[second], offset):
            for begin, end in common(here.live, there.live):
                if begin != end and not self.in_a_row:
                    return
                for at in range(begin, end + 1):
                    pairs = list(product(here.at(at), there.at(at)))
                    if not pairs or not all(self._allowed(*pair, at, offset) for pair in pairs):
                        return
        self._unite(first, second, offset)

    def _allowed(self, one: int, other: int, instruction: int, offset: int) -> bool:
        """Whether two buffers may have bytes in common at an instruction where the set of the ``other`` begins
        ``offset`` bytes into that of the ``one``: the one is written over the other, at its place in it.
        """
        apart = self.place[other][1] + offset - self.place[one][1]
        over, under = self.shares.get((one, other, instruction)), self.shares.get((other, one, instruction))
        return over == apart or under == -apart

    def _is_taken(self, first: int, second: int, offset: int) -> bool:
        """Whether another fixed buffer, or what is joined to it, has the bytes that a set would have in a fixed one. An
        instruction at which one may be written over the other does not count: all of them become one set, or none.
        """
        buffers = self.original.by_key
        start = self.fixed[first] + offset
        end = start + buffers[second].size
        for other, at in self.fixed.items():
            if other in (first, second) or other not in self.lives or buffers[other].pool != buffers[first].pool:
                continue
            if start < at + buffers[other].size and at < end:
                shared = common(merge_intervals(self.lives[second]), merge_intervals(self.lives[other]))
                if any(begin != last for begin, last in shared):
                    return True
        return False

    def _unite(self, root: int, other: int, offset: int) -> None:
        is_longer = len(self.members[other]) > len(self.members[root])
        if is_longer and root not in self.fixed and offset == 0 and self._alike(root, other):
            root, other = other, root
        self.alignment[root] = max(self.alignment[root], self.alignment[other])
        self.lives[root].extend(self.lives.pop(other))
        for key in self.members.pop(other):
            self.place[key] = (root, self.place[key][1] + offset)
            self.members[root].append(key)
        self.segments[root].add(self.segments.pop(other), offset)

    def _alike(self, first: int, second: int) -> bool:
        a, b = self.original.by_key[first], self.original.by_key[second]
        return a.size == b.size and a.alignment == b.alignment

    def problem(self) -> Problem:
        """The problem with every member an alias of its set's root."""
        buffers = [
            buffer
            if self.place[buffer.key][0] == buffer.key
            else replace(buffer, alias_of=self.place[buffer.key], fixed_offset=None)
            for buffer in self.original.buffers
        ]
        return replace(self.original, buffers=buffers, shares=())
