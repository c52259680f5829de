"""Local search: improve a plan by trading places in the order of placement.

Placing items one after the other at the lowest possible offset gives a plan that depends only on the order, and some
order gives an optimal plan. So the search keeps an order and repeats: take an item that touches the top of the pool,
follow the *tower* of items it rests on down to the bottom, swap the turns of one of them and of another from the tower
or in conflict with it, and place again what the swap can change. The swap is kept when the plan gets no higher and what
sticks out above the lower bound does not grow noticeably. The idea is that of hill-climbing allocators for embedded
compilers (TVM's unified static memory planner and Arm's Vela have one each); recomputing only what changes makes a step
cost about as much as the tower is wide, rather than the whole program.

It is deterministic: choices come from a fixed linear congruential sequence, and the effort is bounded by counted work,
never by time. It ends at once when the lower bound is reached.
"""

from __future__ import annotations

from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from etir.passes.analysis.planning.instance import Instance, Placement
from etir.passes.analysis.planning.orders import by_area, by_breadth, by_duration, by_size, by_start
from etir.passes.analysis.planning.placement import place_lowest
from etir.passes.analysis.planning.problem import Interval

STARTS = (by_breadth, by_size, by_area, by_duration, by_start)
"""Orders to try. The climb sets out from the first, by breadth: on random graphs and random lifetimes it gets lower
from there than from the others, even where another one is lower to begin with."""

DEFAULT_WORK = 400_000
"""Conflicts looked at before giving up: a tenth of a second or so, however large the program."""

WORK_PER_ITEM = 10_000
"""Less than :data:`DEFAULT_WORK` for a handful of items, whose orders are soon exhausted."""

WORK_PER_STEP = 80
"""What a step costs besides the conflicts, in their unit."""

SLACK_DIVISOR = 100
"""A step may increase the excess above the target by this fraction of the target, to get out of local minima."""


REMEMBERED = 512
"""Placements that are kept: layers that are alike ask for the same one, and so do plans that a compilation tries."""


def search(instance: Instance, work: int = DEFAULT_WORK, patience: int | None = None) -> Placement:
    """The best placement found within ``work``, counted in conflicts looked at; with ``patience``, the climb also ends
    after so much work in which no plan was lower than all before.

    All :data:`STARTS` are tried as long as there is work left for them (the first in any case), then the climb begins
    at the first. What was found is remembered, as it depends on the items alone.
    """
    return list(_remembered(_Items.of(instance), work, work if patience is None else patience))


class _Items(NamedTuple):
    """The items of an instance, by which a placement is known; groups, which no order looks at, are not among them."""

    sizes: tuple[int, ...]
    alignments: tuple[int, ...]
    fixed: tuple[int | None, ...]
    live: tuple[tuple[Interval, ...], ...]
    floor: int
    target: int

    @staticmethod
    def of(instance: Instance) -> _Items:
        return _Items(
            tuple(instance.sizes),
            tuple(instance.alignments),
            tuple(instance.fixed),
            tuple(instance.live),
            instance.floor,
            instance.target,
        )

    def instance(self) -> Instance:
        lists = (list(self.sizes), list(self.alignments), list(self.fixed), list(self.live))
        return Instance([], *lists, self.floor, self.target)


@lru_cache(maxsize=REMEMBERED)
def _remembered(items: _Items, work: int, patience: int) -> Placement:
    return _searched(items.instance(), work, patience)


def _searched(instance: Instance, work: int, patience: int) -> Placement:
    work = min(work, WORK_PER_ITEM * len(instance.sizes) * max(1, work // DEFAULT_WORK))
    cost = sum(map(len, instance.conflicts))
    order = STARTS[0](instance)
    begin = best = place_lowest(instance, order)
    work -= cost
    for start in STARTS[1:]:
        if instance.height(best) <= instance.target or work < cost:
            break
        best = min(best, place_lowest(instance, start(instance)), key=instance.height)
        work -= cost
    if instance.height(best) <= instance.target:
        return best
    return min(best, _Climb(instance, order, begin).run(work, patience), key=instance.height)


class _Sequence:
    """Pseudo-random numbers that are the same everywhere (Knuth's MMIX linear congruential generator)."""

    def __init__(self) -> None:
        self.state = 1

    def choose(self, items: list[int]) -> int:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & 0xFFFF_FFFF_FFFF_FFFF
        # The high bits are the good ones.
        return items[(self.state >> 33) * len(items) >> 31]


class _Climb:
    """A plan and the order (``rank`` by item, -1 for pinned items) that it follows from.

    Every item is at the lowest offset that avoids the items of lower rank that it conflicts with. ``excess`` is the sum
    over all items of the bytes they reach above the target; ``work`` counts conflicts looked at.
    """

    def __init__(self, instance: Instance, order: list[int], placement: Placement) -> None:
        self.instance = instance
        self.offsets = list(placement)
        self.ends = [offset + size for offset, size in zip(placement, instance.sizes, strict=True)]
        self.rank = [-1] * len(placement)
        for rank, item in enumerate(order):
            self.rank[item] = rank
        self.excess = sum(end - instance.target for end in self.ends if end > instance.target)
        self.work = 0

    def run(self, limit: int, patience: int) -> Placement:
        """The best placement met until the target is reached, or more than ``limit`` conflicts were looked at, or more
        than ``patience`` of them since it was met.
        """
        conflicts, target = self.instance.conflicts, self.instance.target
        sequence = _Sequence()
        height = max(self.ends, default=0)
        best, best_height, until = list(self.offsets), height, min(limit, patience)
        while best_height > target and self.work < until:
            # Finding the top looks at every item, if quickly.
            self.work += WORK_PER_STEP + len(self.ends) // 4
            tower = self._tower(sequence.choose([item for item, end in enumerate(self.ends) if end == height]))
            first = sequence.choose(tower)
            second = sequence.choose([other for other in conflicts[first] if self.rank[other] >= 0] + tower)
            if first != second and self._try_swap(first, second, height):
                height = max(self.ends)
                if height < best_height:
                    best, best_height, until = list(self.offsets), height, min(limit, self.work + patience)
        return best

    def _tower(self, top: int) -> list[int]:
        """``top`` and the items it rests on, directly or not, as far as they can be moved."""
        offsets, ends, rank = self.offsets, self.ends, self.rank
        tower = {top: None}
        waiting = [top]
        while waiting:
            item = waiting.pop()
            beneath, reach = (offsets[item], offsets[item] - self.instance.alignments[item])
            self.work += len(self.instance.conflicts[item])
            for other in self.instance.conflicts[item]:
                if reach < ends[other] <= beneath and rank[other] >= 0 and other not in tower:
                    tower[other] = None
                    waiting.append(other)
        return list(tower)

    def _try_swap(self, first: int, second: int, height: int) -> bool:
        """Swap the turns of two items and place again; take it back and return False when the plan gets worse."""
        rank, conflicts = self.rank, self.instance.conflicts
        low, high = sorted((rank[first], rank[second]))
        rank[first], rank[second] = rank[second], rank[first]
        # Items whose turn lies between the two now see one more or one fewer item in place.
        affected = {first: None, second: None}
        for item in (first, second):
            affected.update((other, None) for other in conflicts[item] if low < rank[other] < high)
        undo: list[tuple[int, int]] = []
        excess = self._place_again(affected, height, undo)
        tolerated = self.excess + self.instance.target // SLACK_DIVISOR
        if excess is None or (excess > tolerated and max(self.ends) == height):
            for item, offset in undo:
                self.offsets[item], self.ends[item] = (offset, offset + self.instance.sizes[item])
            rank[first], rank[second] = rank[second], rank[first]
            return False
        self.excess = excess
        return True

    def _place_again(self, affected: dict[int, None], height: int, undo: list[tuple[int, int]]) -> int | None:
        """Place ``affected`` again, by rank, and whatever depends on what moved.

        Returns the new excess, or ``None`` as soon as an item ends above ``height``; old offsets are logged in
        ``undo``.
        """
        instance, rank, offsets, ends = (self.instance, self.rank, self.offsets, self.ends)
        sizes, alignments, target = instance.sizes, instance.alignments, instance.target
        excess = self.excess
        queue = [(rank[item], item) for item in affected]
        heapify(queue)
        while queue:
            turn, item = heappop(queue)
            conflicts, size, alignment = (instance.conflicts[item], sizes[item], alignments[item])
            self.work += len(conflicts)
            start = 0
            for other in sorted([other for other in conflicts if rank[other] < turn], key=offsets.__getitem__):
                if offsets[other] - start >= size:
                    break
                if ends[other] > start:
                    start = -(-ends[other] // alignment) * alignment
            if start + size > height:
                return None
            if start != offsets[item]:
                undo.append((item, offsets[item]))
                excess += max(0, start + size - target) - max(0, ends[item] - target)
                offsets[item], ends[item] = start, start + size
                for other in conflicts:
                    if rank[other] > turn and other not in affected:
                        affected[other] = None
                        heappush(queue, (rank[other], other))
        return excess
