"""The bytes of buffers that lie in one another, and when somebody needs them.

A *segment* is a range of bytes with the lifetimes of all buffers that are exactly there. A set of buffers has one for
most elementwise chains, and one for each operand of a concatenation that is made in place. Segments are kept by size,
sorted by where they begin, so that those that meet a range are found without looking at all.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from etir.passes.analysis.planning.problem import Interval, merge_intervals, stretches


@dataclass
class Segment:
    """Bytes [start, start + size) of a set; ``turns`` has the buffers that begin or cease to live, or lie inside of one
    that leaves them alone.
    """

    start: int
    size: int
    live: tuple[Interval, ...]
    turns: dict[int, tuple[int, ...]]

    def at(self, instruction: int) -> tuple[int, ...]:
        """The buffers of ``turns`` at an instruction."""
        return self.turns.get(instruction, ())

    def add(self, other: Segment) -> None:
        """Count in the buffers of another segment of the same bytes."""
        if len(other.turns) > len(self.turns):
            self.turns, other.turns = other.turns, self.turns
        self.live = merge_intervals([*self.live, *other.live])
        for instruction, keys in other.turns.items():
            self.turns[instruction] = (*self.turns.get(instruction, ()), *keys)


@dataclass
class Segments:
    """The segments of a set: for each size where they begin, in order, and each by its start."""

    starts: dict[int, list[int]] = field(default_factory=dict)
    by_start: dict[int, dict[int, Segment]] = field(default_factory=dict)

    @classmethod
    def of(cls, key: int, size: int, live: Sequence[Interval], kept: Sequence[int] = ()) -> Self:
        """The set of one buffer, which others leave alone at the instructions ``kept``."""
        turns = [*(instruction for interval in stretches(live) for instruction in interval), *kept]
        segment = Segment(0, size, merge_intervals(live), {instruction: (key,) for instruction in turns})
        return cls({size: [0]}, {size: {0: segment}})

    def __iter__(self) -> Iterator[Segment]:
        for segments in self.by_start.values():
            yield from segments.values()

    def meeting(self, other: Segments, offset: int) -> Iterator[tuple[Segment, Segment]]:
        """Pairs of segments, of this set and of another that begins ``offset`` bytes into it, with bytes in common."""
        for theirs in other:
            begin = theirs.start + offset
            for size, starts in self.starts.items():
                low, high = bisect_right(starts, begin - size), bisect_left(starts, begin + theirs.size)
                for start in starts[low:high]:
                    yield self.by_start[size][start], theirs

    def add(self, other: Segments, offset: int) -> None:
        """Take over the segments of another set, which begins ``offset`` bytes into this one."""
        for segment in other:
            segment.start += offset
            known = self.by_start.setdefault(segment.size, {})
            if segment.start in known:
                known[segment.start].add(segment)
            else:
                known[segment.start] = segment
                insort(self.starts.setdefault(segment.size, []), segment.start)


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
