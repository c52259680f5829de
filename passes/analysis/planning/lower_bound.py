"""How good a memory plan can be: no plan needs less than the bytes that are live at once.

At every instruction the buffers that are live need disjoint bytes, so a pool must be at least as large as the largest
sum of live sizes. Sweeping once over the starts and ends of the lifetimes finds that maximum and the instruction where
it is reached, the *peak*. A plan that meets the bound is optimal; some problems have no such plan, because lifetimes
that overlap pairwise can force gaps (finding the true optimum is NP-hard: Garey and Johnson 1979, "dynamic storage
allocation", SR2). Buffers at fixed offsets and padding raise the bound accordingly. A result that may be written over
an operand needs no bytes of its own at that instruction.
"""

from __future__ import annotations

from dataclasses import dataclass

from etir.passes.analysis.planning.problem import Group, Problem, align_up


@dataclass(frozen=True, slots=True)
class PoolBound:
    """The least a pool can take.

    ``bytes`` is the bound on the pool's size, padding included; ``peak_bytes`` are the bytes live at ``instruction``,
    the first one where most bytes are live, or ``None`` when nothing is ever live; ``alive`` are the keys of the
    buffers (for aliases: of their roots) that are live there, largest first.
    """

    bytes: int
    peak_bytes: int
    instruction: int | None
    alive: tuple[int, ...]


def lower_bound(problem: Problem) -> dict[int, PoolBound]:
    """The bound of every pool in use, by pool id in ascending order. O(n log n) for n lifetime intervals."""
    groups: dict[int, list[Group]] = {pool: [] for pool in problem.pool_ids}
    for group in problem.groups:
        groups[group.root.pool].append(group)
    return {pool: _pool_bound(problem, pool, members) for pool, members in groups.items()}


def live_bytes(problem: Problem, pool: int) -> list[int]:
    """The bytes that are live at each instruction up to the last that needs any, padding left out."""
    groups = [group for group in problem.groups if group.root.pool == pool]
    change = _changes(problem, pool, groups, _sizes(problem, pool, groups))
    found: list[int] = []
    live = 0
    for at in sorted(change):
        found += [live] * (at - len(found))
        live += change[at]
    return found


def _sizes(problem: Problem, pool: int, groups: list[Group]) -> list[int]:
    return [align_up(group.root.size, problem.granules[pool]) for group in groups]


def _changes(problem: Problem, pool: int, groups: list[Group], sizes: list[int]) -> dict[int, int]:
    """By instruction, how many bytes more are live there than at the one before."""
    change: dict[int, int] = {}
    for group, size in zip(groups, sizes, strict=True):
        for first, last in group.live:
            change[first] = change.get(first, 0) + size
            change[last + 1] = change.get(last + 1, 0) - size
    for here, saved in _saved_in_place(problem, pool).items():
        change[here] = change.get(here, 0) - saved
        change[here + 1] = change.get(here + 1, 0) + saved
    return change


def _pool_bound(problem: Problem, pool: int, groups: list[Group]) -> PoolBound:
    sizes = _sizes(problem, pool, groups)
    change = _changes(problem, pool, groups, sizes)
    live = peak = 0
    instruction: int | None = None
    for at in sorted(change):
        live += change[at]
        if live > peak:
            peak, instruction = live, at
    alive = [
        (-size, index)
        for index, (group, size) in enumerate(zip(groups, sizes, strict=True))
        if size and instruction is not None and any(first <= instruction <= last for first, last in group.live)
    ]
    # A buffer that is never live still has to lie inside the pool, and a fixed one where it is.
    needed = max((size + (group.root.fixed_offset or 0) for group, size in zip(groups, sizes, strict=True)), default=0)
    occupied = max(peak, needed)
    padding = problem.pool(pool).padding if occupied else 0
    return PoolBound(occupied + padding, peak, instruction, tuple(groups[index].root.key for _, index in sorted(alive)))


def _saved_in_place(problem: Problem, pool: int) -> dict[int, int]:
    """The bytes that need not be there twice at an instruction whose result may be written over an operand."""
    parts: dict[tuple[int, int], dict[int, int]] = {}
    for share in problem.shares:
        operand, result = problem.by_key[share.operand], problem.by_key[share.result]
        if result.pool == pool:
            inside = parts.setdefault((share.instruction, share.result), {})
            start, size = max(-share.displacement, 0), min(operand.size, result.size)
            inside[start] = max(inside.get(start, 0), align_up(size, problem.granules[pool]))
    total: dict[int, int] = {}
    for (instruction, key), inside in parts.items():
        most = align_up(problem.by_key[key].size, problem.granules[pool])
        total[instruction] = total.get(instruction, 0) + min(sum(inside.values()), most)
    return total
