"""Turning an order of items into offsets: the rules for choosing a place among what has been placed already."""

from __future__ import annotations

from collections.abc import Sequence

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
