"""Turning an order of items into offsets: the rules for choosing a place among what has been placed already."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heappop, heappush

from etir.passes.analysis.planning.instance import Instance, Placement
from etir.passes.analysis.planning.problem import align_up

UNPLACED = -1


def place_bump(instance: Instance) -> Placement:
    """One item after the other in program order, without any reuse; O(n)."""
    placement = [UNPLACED if offset is None else offset for offset in instance.fixed]
    end = instance.floor
    for item in instance.movable:
        placement[item] = align_up(end, instance.alignments[item])
        end = placement[item] + instance.sizes[item]
    return placement


def place_lowest(instance: Instance, order: Sequence[int]) -> Placement:
    """Each item, in ``order``, at the lowest offset where it overlaps no placed item that it conflicts with.

    Some order always gives an optimal plan: that of the offsets in an optimal plan. O(k log k) for k conflicts.
    """
    return _place(instance, order, best=False)


def place_best_fit(instance: Instance, order: Sequence[int]) -> Placement:
    """Each item, in ``order``, in the smallest gap between placed items that it conflicts with, else after them all.

    This is the offset calculation of Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference"
    (2020); of equal gaps the lowest is taken. O(k log k) for k conflicts.
    """
    return _place(instance, order, best=True)


def _place(instance: Instance, order: Sequence[int], *, best: bool) -> Placement:
    placement = [UNPLACED if offset is None else offset for offset in instance.fixed]
    ends = [offset + size for offset, size in zip(placement, instance.sizes, strict=True)]
    sizes, alignments, conflicts = (instance.sizes, instance.alignments, instance.conflicts)
    offset_of = placement.__getitem__
    for item in order:
        size, alignment = sizes[item], alignments[item]
        start = 0
        smallest_gap: int | None = None
        chosen = 0
        for other in sorted([other for other in conflicts[item] if placement[other] >= 0], key=offset_of):
            gap = placement[other] - start
            if gap >= size and (smallest_gap is None or gap < smallest_gap):
                smallest_gap, chosen = gap, start
                if not best:
                    break
            if ends[other] > start:
                start = -(-ends[other] // alignment) * alignment
        placement[item] = chosen if smallest_gap is not None else start
        ends[item] = placement[item] + size
    return placement


def place_shared_objects(instance: Instance, order: Sequence[int]) -> Placement:
    """ExecuTorch's ``greedy``: items share *objects*, which are laid out back to back.

    An item joins the first object that holds nothing it conflicts with, at the object's start; else the first object
    with enough room after everything there that it conflicts with; else it gets an object of its own size. Objects are
    never resized, so ``order`` must be by descending size. Items pinned to an offset, which ExecuTorch does not have,
    stay where they are and the objects begin after them, as they do after ExecuTorch's reserve for subgraphs.
    """
    sizes, alignments = instance.sizes, instance.alignments
    object_of = [UNPLACED] * len(sizes)
    within = [0] * len(sizes)
    object_sizes: list[int] = []
    object_alignments: list[int] = []
    for item in order:
        size, alignment = sizes[item], alignments[item]
        conflict_ends: dict[int, int] = {}
        for other in instance.conflicts[item]:
            there = object_of[other]
            if there >= 0:
                conflict_ends[there] = max(conflict_ends.get(there, 0), within[other] + sizes[other])
        chosen, at = _shared_place(conflict_ends, object_sizes, size, alignment)
        if chosen == len(object_sizes):
            object_sizes.append(size)
            object_alignments.append(alignment)
        object_alignments[chosen] = max(object_alignments[chosen], alignment)
        object_of[item], within[item] = chosen, at

    starts: list[int] = []
    end = instance.floor
    for size, alignment in zip(object_sizes, object_alignments, strict=True):
        starts.append(align_up(end, alignment))
        end = starts[-1] + size
    return [
        starts[object_of[item]] + within[item] if offset is None else offset
        for item, offset in enumerate(instance.fixed)
    ]


def _shared_place(conflict_ends: dict[int, int], object_sizes: list[int], size: int, alignment: int) -> tuple[int, int]:
    """The object to use (one past the last for a new one) and the offset in it."""
    for candidate in range(len(object_sizes)):
        if candidate not in conflict_ends:
            return candidate, 0
    for candidate in sorted(conflict_ends):
        at = align_up(conflict_ends[candidate], alignment)
        if at + size <= object_sizes[candidate]:
            return candidate, at
    return len(object_sizes), 0


def place_in_time(instance: Instance, *, backward: bool = False) -> Placement:
    """What an allocator at run time would do: walking through the program, each item in the smallest free block.

    Of items born together the largest comes first, of equal blocks the lowest is taken, and blocks that were freed grow
    together with their neighbors. ``backward`` walks from the end of the program to its start. A lifetime with holes
    counts as one from its first to its last instruction, and pinned items keep everything beneath the highest of them.
    It needs no list of conflicts: O(n log n) for n items, with few free blocks.
    """
    placement = [UNPLACED if offset is None else offset for offset in instance.fixed]
    spans = [(live[0][0], live[-1][1]) if live else (0, -1) for live in instance.live]
    if backward:
        spans = [(-last, -first) for first, last in spans]
    order = sorted(instance.movable, key=lambda item: (spans[item][0], -instance.sizes[item]))
    memory = _Blocks(instance.floor)
    dying: list[tuple[int, int]] = []
    for item in order:
        first, last = spans[item]
        while dying and dying[0][0] < first:
            _, dead = heappop(dying)
            memory.release(placement[dead], placement[dead] + instance.sizes[dead])
        placement[item] = memory.take(instance.sizes[item], instance.alignments[item])
        heappush(dying, (last, item))
    return placement


class _Blocks:
    """The free blocks beneath ``end``, by size and by address; above it everything is free."""

    def __init__(self, floor: int) -> None:
        self.end = floor
        self.by_size: list[tuple[int, int]] = []
        self.size_at: dict[int, int] = {}
        self.start_before: dict[int, int] = {}

    def take(self, size: int, alignment: int) -> int:
        """The start of ``size`` free bytes, which are taken from now on."""
        for index in range(bisect_left(self.by_size, (size, 0)), len(self.by_size)):
            free, start = self.by_size[index]
            aligned = align_up(start, alignment)
            if aligned + size <= start + free:
                self._forget(start)
                self._add(start, aligned)
                self._add(aligned + size, start + free)
                return aligned
        # The last block is too small: it grows.
        start = self.start_before.get(self.end, self.end)
        if start != self.end:
            self._forget(start)
        aligned = align_up(start, alignment)
        self._add(start, aligned)
        self.end = aligned + size
        return aligned

    def release(self, start: int, end: int) -> None:
        """Give bytes back."""
        if start in self.start_before:
            before = self.start_before[start]
            self._forget(before)
            start = before
        if end in self.size_at:
            size = self.size_at[end]
            self._forget(end)
            end += size
        self._add(start, end)

    def _add(self, start: int, end: int) -> None:
        if start < end:
            insort(self.by_size, (end - start, start))
            self.size_at[start] = end - start
            self.start_before[end] = start

    def _forget(self, start: int) -> None:
        size = self.size_at.pop(start)
        del self.start_before[start + size]
        del self.by_size[bisect_left(self.by_size, (size, start))]
