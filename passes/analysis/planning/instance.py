"""One pool of a planning problem in the form the algorithms work on: small integers in lists.

*Items* are the alias groups of the pool that need bytes, numbered in program order. Which items may not share bytes is
worked out once, when an algorithm asks, by sweeping over the starts of their lifetimes: O(n log n + k) for n intervals
and k conflicts, where k is small multiples of n for chain-like programs. Everything after that looks only at an item's
own conflicts. Where thousands of tensors live at once, k is their square: such an instance is *crowded*, and algorithms
that need no conflicts plan it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property

from etir.diagnostics import Diagnostic, raise_if_errors
from etir.passes.analysis.planning.errors import E0703
from etir.passes.analysis.planning.lower_bound import PoolBound
from etir.passes.analysis.planning.problem import Group, Interval, Problem, align_up

Placement = list[int]
"""Offset in bytes of each item."""

CROWDED = 250_000
"""Conflicts that are listed whatever the number of items: less than a second of planning."""

CROWDED_PER_ITEM = 64
"""Conflicts for each item that are listed besides: that is linear in the size of a program."""


@dataclass(frozen=True)
class Instance:
    """The items of one pool, as parallel lists.

    ``sizes`` are rounded up to the pool's granule; ``fixed`` holds pinned offsets; ``live`` the merged lifetimes;
    ``floor`` the end of the highest pinned item; ``target`` the pool's lower bound without padding.
    """

    groups: list[Group]
    sizes: list[int]
    alignments: list[int]
    fixed: list[int | None]
    live: list[tuple[Interval, ...]]
    floor: int
    target: int

    @cached_property
    def conflicts(self) -> list[list[int]]:
        """For each item the items, in no particular but a deterministic order, that share an instruction with it."""
        return find_conflicts(self.live)

    @cached_property
    def is_crowded(self) -> bool:
        """Whether there are too many conflicts to list them."""
        return count_conflicts(self.live) > CROWDED + CROWDED_PER_ITEM * len(self.live)

    @property
    def movable(self) -> list[int]:
        """The items an algorithm has to place, in program order."""
        return [item for item, offset in enumerate(self.fixed) if offset is None]

    def height(self, placement: Placement) -> int:
        """The bytes of the pool that a placement uses."""
        return max((offset + size for offset, size in zip(placement, self.sizes, strict=True)), default=0)


def build_instance(problem: Problem, pool: int, bound: PoolBound) -> Instance:
    """The instance of ``pool``. Raises ``EtirError`` (E0703) when items pinned to the same bytes are live together."""
    groups = [group for group in problem.groups if group.root.pool == pool and group.root.size]
    sizes = [align_up(group.root.size, problem.granules[pool]) for group in groups]
    live = [group.live for group in groups]
    fixed = [group.root.fixed_offset for group in groups]
    raise_if_errors(_pinned_overlaps(groups, sizes, fixed, live))
    return Instance(
        groups,
        sizes,
        [group.alignment for group in groups],
        fixed,
        live,
        max((offset + size for offset, size in zip(fixed, sizes, strict=True) if offset is not None), default=0),
        bound.bytes - (problem.pool(pool).padding if bound.bytes else 0),
    )


def is_pinned_apart(problem: Problem) -> bool:
    """Whether no groups of a problem that are pinned to the same bytes are live together."""
    pools: dict[int, list[Group]] = {}
    for group in problem.groups:
        if group.root.fixed_offset is not None and group.root.size:
            pools.setdefault(group.root.pool, []).append(group)
    return not any(
        _pinned_overlaps(
            found,
            [align_up(group.root.size, problem.granules[pool]) for group in found],
            [group.root.fixed_offset for group in found],
            [group.live for group in found],
        )
        for pool, found in pools.items()
    )


def find_conflicts(live: list[tuple[Interval, ...]]) -> list[list[int]]:
    """For each lifetime (disjoint inclusive intervals), the indices of the others that share an instruction."""
    spans = sorted((first, last, item) for item, intervals in enumerate(live) for first, last in intervals)
    owners = [item for _, _, item in spans]
    starts = [first for first, _, _ in spans]
    conflicts: list[list[int]] = [[] for _ in live]
    active: list[int] = []
    earliest_end = 0
    for index, (first, last, item) in enumerate(spans):
        if active and earliest_end < first:
            active = [span for span in active if spans[span][1] >= first]
            earliest_end = min((spans[span][1] for span in active), default=last)
        # What is active began before this span; what begins while this span is live is a run of the sorted spans.
        stop = bisect_right(starts, last, lo=index)
        conflicts[item] += [owners[span] for span in active]
        conflicts[item] += owners[index + 1 : stop]
        earliest_end = min(earliest_end, last) if active else last
        active.append(index)
    if any(len(intervals) > 1 for intervals in live):
        # Lifetimes with holes can meet more than once.
        return [list(dict.fromkeys(items)) for items in conflicts]
    return conflicts


def count_conflicts(live: list[tuple[Interval, ...]]) -> int:
    """How many pairs of intervals of different lifetimes share an instruction, without listing them."""
    spans = sorted(span for intervals in live for span in intervals)
    ends = sorted(last for _, last in spans)
    return sum(index - bisect_left(ends, first) for index, (first, _) in enumerate(spans))


def _pinned_overlaps(
    groups: list[Group], sizes: list[int], fixed: list[int | None], live: list[tuple[Interval, ...]]
) -> list[Diagnostic]:
    found: list[tuple[int, int, Diagnostic]] = []
    pinned = sorted((offset, item) for item, offset in enumerate(fixed) if offset is not None)
    beneath: list[tuple[int, int]] = []
    for start, item in pinned:
        beneath = [(offset, other) for offset, other in beneath if offset + sizes[other] > start]
        for offset, other in beneath:
            if not any(a[0] <= b[1] and b[0] <= a[1] for a in live[item] for b in live[other]):
                continue
            (first, at), (second, there) = sorted([(item, start), (other, offset)])
            problem = E0703.diagnostic(
                f"{groups[first].root} is fixed to bytes [{at}, {at + groups[first].root.size}) and "
                f"{groups[second].root} to [{there}, {there + groups[second].root.size}) of pool "
                f"{groups[first].root.pool}, and both are live at the same time"
            )
            found.append((first, second, problem))
        beneath.append((start, item))
    return [problem for _, _, problem in sorted(found, key=lambda entry: entry[:2])]
