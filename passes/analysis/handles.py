"""Whose bytes the targets of `et.move` stand for.

``et.move`` makes a tensor a handle of another one: no byte moves, and what is read through the target from then on are
the source's bytes. Files of ExecuTorch's pipeline end the branches of a cond like that. The target's own bytes are not
used; those of the sources are needed as long as the target is. Where paths meet, the target stands for one of several
sources, of which only the one on the path that was taken is needed: those that are at one place, which branches often
are, are one there. etir's own programs copy instead, and have no moves of tensors.

Handles are followed forward through the instructions, a set of sources for each; a move replaces the set of its target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from etir.passes.analysis.planning.problem import Interval, merge_intervals

Places = Mapping[int, tuple[object, int]]
"""Of buffers, by key: something that is equal for those at one place, and their bytes."""


def with_handles(
    live: Mapping[int, tuple[Interval, ...]],
    moves: Mapping[int, tuple[int | None, int]],
    successors: Sequence[Sequence[int]],
    places: Places,
) -> dict[int, tuple[Interval, ...]]:
    """Lifetimes with those of handles given to what they stand for.

    ``moves`` has the source and the target of the instructions that are moves, None for a source without a buffer, and
    ``successors`` the instructions that can come after each. Lifetimes of the targets are those of the handles, for
    which a move writes all of its target.
    """
    targets = dict.fromkeys(target for _, target in moves.values())
    found = {key: list(intervals) for key, intervals in live.items() if key not in targets}
    before = _reaching(targets, moves, successors)
    for target in targets:
        for first, last in live.get(target, ()):
            for index in range(first, last + 1):
                sources = before[index].get(target, {})
                if index in moves and moves[index][1] == target:
                    sources = _stands_for(moves[index][0], before[index])
                for key in _one_of_each_place(sources, places):
                    found.setdefault(key, []).append((index, index))
    return {key: merge_intervals(intervals) for key, intervals in sorted(found.items())}


_Sources = dict[int, None]


def _stands_for(key: int | None, handles: Mapping[int, _Sources]) -> _Sources:
    return {} if key is None else handles.get(key, {key: None})


def _reaching(
    targets: Mapping[int, None],
    moves: Mapping[int, tuple[int | None, int]],
    successors: Sequence[Sequence[int]],
) -> list[dict[int, _Sources]]:
    """What each handle may stand for before each instruction; at first, for its own bytes."""
    before: list[dict[int, _Sources]] = [{} for _ in successors]
    before[0] = {target: {target: None} for target in targets}
    waiting = [0]
    while waiting:
        index = waiting.pop()
        after = before[index]
        if index in moves:
            source, target = moves[index]
            after = {**after, target: _stands_for(source, after)}
        for successor in successors[index]:
            if successor >= len(before):
                continue
            old = before[successor]
            new = {target: {**old.get(target, {}), **sources} for target, sources in after.items()}
            if any(new[target].keys() != old.get(target, {}).keys() for target in new) or not old:
                before[successor] = new
                waiting.append(successor)
    return before


def _one_of_each_place(sources: Mapping[int, None], places: Places) -> list[int]:
    """Of sources at one place, that with most bytes."""
    largest: dict[object, int] = {}
    for key in sources:
        place, size = places[key]
        if place not in largest or size > places[largest[place]][1]:
            largest[place] = key
    return list(largest.values())
