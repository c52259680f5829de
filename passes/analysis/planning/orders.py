"""Orders in which to place items, from the literature and as starting points of the search.

Every function returns the items that are not pinned; ties go to the item that is earlier in the program, except in
:func:`by_size_reversed_ties`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate

from etir.passes.analysis.planning.instance import Instance


def by_size_reversed_ties(instance: Instance) -> list[int]:
    """Largest first; of equal sizes the last in the program first, as ExecuTorch's ``greedy`` takes them."""
    return sorted(instance.movable, key=lambda item: (-instance.sizes[item], -item))


def by_size(instance: Instance) -> list[int]:
    """Largest first: "greedy by size" of Pisarchyk and Lee (2020), also TensorFlow Lite Micro's planner."""
    return sorted(instance.movable, key=lambda item: -instance.sizes[item])


def by_breadth(instance: Instance) -> list[int]:
    """Items live where most bytes are live first: "greedy by breadth" of Pisarchyk and Lee (2020).

    Instructions are visited by descending live bytes, and the items live there that have not been seen by descending
    size. An item's rank is thus the best rank of an instruction in its lifetime, which a sparse table over the
    instructions where lifetimes begin answers in constant time.
    """
    points = sorted({first: None for intervals in instance.live for first, _ in intervals})
    position = {point: index for index, point in enumerate(points)}
    breadth = _live_bytes(instance, points)
    by_descending_breadth = sorted(range(len(points)), key=lambda index: -breadth[index])
    rank = [0] * len(points)
    for order, index in enumerate(by_descending_breadth):
        rank[index] = order
    tables = [rank]
    while 2 * (half := 1 << (len(tables) - 1)) <= len(points):
        previous = tables[-1]
        tables.append([min(a, b) for a, b in zip(previous, previous[half:], strict=False)])

    def best_rank(item: int) -> int:
        best = len(points)
        for first, last in instance.live[item]:
            begin, end = position[first], bisect_right(points, last)
            level = (end - begin).bit_length() - 1
            best = min(best, tables[level][begin], tables[level][end - (1 << level)])
        return best

    return sorted(instance.movable, key=lambda item: (best_rank(item), -instance.sizes[item]))


def by_area(instance: Instance) -> list[int]:
    """Largest product of size and length of life first."""
    return sorted(instance.movable, key=lambda item: -instance.sizes[item] * _duration(instance, item))


def by_duration(instance: Instance) -> list[int]:
    """Longest life first, then largest."""
    return sorted(instance.movable, key=lambda item: (-_duration(instance, item), -instance.sizes[item]))


def by_start(instance: Instance) -> list[int]:
    """In the order of birth, largest first among those born together: what an allocator at run time would do."""
    return sorted(
        instance.movable,
        key=lambda item: (instance.live[item][0][0] if instance.live[item] else 0, -instance.sizes[item]),
    )


def _duration(instance: Instance, item: int) -> int:
    return sum(last - first + 1 for first, last in instance.live[item])


def _live_bytes(instance: Instance, points: list[int]) -> list[int]:
    """Bytes live at each of ``points``, which are all instructions where a lifetime begins, ascending."""
    change = [0] * (len(points) + 1)
    for item, intervals in enumerate(instance.live):
        for first, last in intervals:
            change[bisect_left(points, first)] += instance.sizes[item]
            change[bisect_right(points, last)] -= instance.sizes[item]
    return list(accumulate(change[:-1]))
