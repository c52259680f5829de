"""Sets of joined buffers at the start of a pool, where what their parts do not need is free for others.

A set that coalescing makes is one buffer for the planner, which lives as long as any of its parts: the bytes of a
delegate's workspace would be taken from the first instruction that makes one of the delegate's inputs until the last
that reads one of its outputs. Pinned to the start of the pool, every part has a place and a lifetime of its own, and
what is between them is free. The largest sets are pinned; those that would be in their way stay as they are, and small
parts that are in the way of a whole set are taken out.

Where one part is written over another, both are live at one instruction and in the same bytes: there the one that lies
inside of the other does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from etir.passes.analysis.planning.problem import Interval, Problem, align_up, merge_intervals

MOST_SETS = 100
"""How many sets are looked at, each beside those that are pinned."""

Row = tuple[int, int, tuple[Interval, ...]]
"""The first byte, the byte after the last one, and the lifetime of what is pinned."""


def pinned(problem: Problem, made: Problem) -> Problem | None:
    """``made``, in which buffers of ``problem`` are joined to sets, with sets pinned; None where none can be."""
    sets: dict[int, dict[int, int]] = {}
    for buffer in made.buffers:
        if buffer.alias_of is not None and problem.by_key[buffer.key].alias_of is None:
            root, offset = buffer.alias_of
            sets.setdefault(root, {root: 0})[buffer.key] = offset
    fixed: dict[int, list[Row]] = {}
    for group in made.groups:
        if group.root.fixed_offset is not None:
            row = (group.root.fixed_offset, group.root.fixed_offset + group.root.size, group.live)
            fixed.setdefault(group.root.pool, []).append(row)
    places: dict[int, dict[int, int]] = {}
    left: dict[int, None] = {}
    by_size = sorted(sets, key=lambda root: (-problem.by_key[root].size, root))
    for root in by_size[:MOST_SETS]:
        pool = problem.by_key[root].pool
        if problem.by_key[root].fixed_offset is not None:
            continue
        if len({(problem.by_key[key].size, place): None for key, place in sets[root].items()}) == 1:
            continue
        before = places.get(pool, {})
        both, out = _fitting(problem, before, sets[root], sets, fixed.get(pool, ()))
        if both:
            places[pool] = both
            left |= dict.fromkeys(out)
    chosen = {key: (at, live) for found in places.values() for key, (at, live) in _placed(problem, found).items()}
    if not chosen:
        return None
    buffers = [
        replace(b, alias_of=None, fixed_offset=chosen[b.key][0], live=chosen[b.key][1])
        if b.key in chosen
        else problem.by_key[b.key]
        if b.key in left
        else b
        for b in made.buffers
    ]
    return replace(made, buffers=buffers)


def _fitting(
    problem: Problem,
    before: Mapping[int, int],
    added: Mapping[int, int],
    roots: Mapping[int, object],
    fixed: Sequence[Row],
) -> tuple[dict[int, int], list[int]]:
    """The places of sets that are pinned and of one more, without parts that are in the way, and these; no places where
    the one cannot be pinned. What one set has may lie in another one, as both are one over the other there.
    """
    places = {**before, **added}
    out: list[int] = []
    for _ in range(2):
        rows = {key: _row(problem, key, at, live) for key, (at, live) in _placed(problem, places).items()}
        fresh = [key for key in places if key in added]
        if any(_meet(rows[key], other) for key in fresh for other in fixed):
            return {}, []
        pairs = [
            (one, other)
            for number, one in enumerate(rows)
            for other in [*rows][:number]
            if (one in added or other in added) and _meet(rows[one], rows[other])
        ]
        if not pairs:
            return places, out
        smaller = dict.fromkeys(min(pair, key=lambda key: (key in roots, problem.by_key[key].size)) for pair in pairs)
        if any(key in roots for key in smaller) or out:
            return {}, []
        out = [*smaller]
        if sum(problem.by_key[key].size for key in out) >= max(problem.by_key[key].size for key in added):
            return {}, []
        places = {key: place for key, place in places.items() if key not in smaller}
    return {}, []


def _placed(problem: Problem, places: Mapping[int, int]) -> dict[int, tuple[int, tuple[Interval, ...]]]:
    """Places with lifetimes, without the instructions at which something lies inside of another part."""
    lives = _lives(problem, places)
    return {key: (place, lives[key]) for key, place in places.items()}


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
