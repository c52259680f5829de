"""Sets of joined buffers at the start of a pool, where what their parts do not need is free for others.

A set that coalescing makes is one buffer for the planner, which lives as long as any of its parts: the bytes of a
delegate's workspace would be taken from the first instruction that makes one of the delegate's inputs until the last
that reads one of its outputs. Pinned to the start of the pool, every part has a place and a lifetime of its own, and
what is between them is free. The largest sets are pinned; those that would be in their way stay as they are.

Where one part is written over another, both are live at one instruction and in the same bytes: there the one that lies
inside of the other does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from etir.passes.analysis.planning.problem import Interval, Problem, align_up, merge_intervals

Row = tuple[int, int, tuple[Interval, ...]]
"""The first byte, the byte after the last one, and the lifetime of what is pinned."""


def pinned(problem: Problem, made: Problem) -> Problem | None:
    """``made``, in which buffers of ``problem`` are joined to sets, with sets pinned; None where none can be."""
    sets: dict[int, dict[int, int]] = {}
    for buffer in made.buffers:
        if buffer.alias_of is not None and problem.by_key[buffer.key].alias_of is None:
            root, offset = buffer.alias_of
            sets.setdefault(root, {root: 0})[buffer.key] = offset
    taken: dict[int, list[Row]] = {}
    for group in made.groups:
        if group.root.fixed_offset is not None:
            row = (group.root.fixed_offset, group.root.fixed_offset + group.root.size, group.live)
            taken.setdefault(group.root.pool, []).append(row)
    chosen: dict[int, tuple[int, tuple[Interval, ...]]] = {}
    by_size = sorted(sets, key=lambda root: (-problem.by_key[root].size, root))
    for root in by_size:
        places, pool = sets[root], problem.by_key[root].pool
        if problem.by_key[root].fixed_offset is not None:
            continue
        if len({(problem.by_key[key].size, place): None for key, place in places.items()}) == 1:
            continue
        lives = _lives(problem, places)
        rows = [_row(problem, key, place, lives[key]) for key, place in places.items()]
        others = taken.setdefault(pool, [])
        if any(_meet(row, other) for number, row in enumerate(rows) for other in (*others, *rows[:number])):
            continue
        others += rows
        chosen |= {key: (place, lives[key]) for key, place in places.items()}
    if not chosen:
        return None
    buffers = [
        replace(b, alias_of=None, fixed_offset=chosen[b.key][0], live=chosen[b.key][1]) if b.key in chosen else b
        for b in made.buffers
    ]
    return replace(made, buffers=buffers)


def settled(problem: Problem) -> Problem:
    """The problem in which fixed buffers that are written over one another, at places where they may be, do not count
    as live there.
    """
    places = {b.key: b.fixed_offset for b in problem.buffers if b.fixed_offset is not None}
    lives = _lives(problem, places)
    if all(lives[key] == merge_intervals(problem.by_key[key].live) for key in places):
        return problem
    return replace(problem, buffers=[replace(b, live=lives.get(b.key, b.live)) for b in problem.buffers])


def _lives(problem: Problem, places: Mapping[int, int]) -> dict[int, tuple[Interval, ...]]:
    """The lifetimes of the parts of a set, without the instructions at which they lie inside of another part."""
    without: dict[int, dict[int, None]] = {key: {} for key in places}
    for share in problem.shares:
        one, other = share.operand, share.result
        if one not in places or other not in places or places[one] + share.displacement != places[other]:
            continue
        first, end = places[one], places[one] + problem.by_key[one].size
        start, last = places[other], places[other] + problem.by_key[other].size
        if first <= start and last <= end:
            without[other][share.instruction] = None
        elif start <= first and end <= last:
            without[one][share.instruction] = None
    return {key: tuple(_cut(problem.by_key[key].live, without[key])) for key in places}


def _cut(live: Iterable[Interval], without: Mapping[int, None]) -> list[Interval]:
    """A lifetime without some instructions."""
    found = [*merge_intervals(live)]
    for at in without:
        pieces = [piece for a, b in found for piece in ([(a, at - 1), (at + 1, b)] if a <= at <= b else [(a, b)])]
        found = [(a, b) for a, b in pieces if a <= b]
    return found


def _row(problem: Problem, key: int, place: int, live: tuple[Interval, ...]) -> Row:
    buffer = problem.by_key[key]
    return place, place + align_up(buffer.size, problem.granules[buffer.pool]), live


def _meet(one: Row, other: Row) -> bool:
    """Whether two rows have a byte in common at an instruction."""
    if one[1] <= other[0] or other[1] <= one[0]:
        return False
    return any(a <= d and c <= b for a, b in one[2] for c, d in other[2])
