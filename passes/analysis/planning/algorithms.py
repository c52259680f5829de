"""Memory planning: give every buffer an offset so that a pool is as small as possible.

Imagine a drawing with time (instructions) to the right and memory addresses upwards. Every buffer is a box: as high as
it is large, as wide as it lives, with a hole in the middle if nobody needs its contents for a while. Its place in time
is given; planning slides the boxes up and down until none overlap and the drawing is as low as possible. The height of
the drawing is the memory the program needs. No drawing can be lower than the most bytes that are live at one
instruction (``lower_bound``), and when a plan meets that bound there is nothing left to gain. Otherwise the problem is
NP-hard, and one relies on rules of thumb that do well on neural networks: place boxes one at a time, each where it fits
given those already placed, the big ones first because they are the hardest to fit later.

The algorithms, by name:

* ``naive``: every buffer gets its own bytes. Best possible when everything is live at once.
* ``greedy``: what ExecuTorch 1.5.1 does by default, as the baseline to compare with: largest first, into shared objects
  that are laid out back to back.
* ``best_fit``: the better of "greedy by size" and "greedy by breadth" for offset calculation (Yury Pisarchyk and Juhyun
  Lee, "Efficient Memory Management for Deep Neural Net Inference", MLSys 2020 workshop; the first is also what
  TensorFlow Lite Micro's ``GreedyMemoryPlanner`` does).
* ``search``: a bounded, deterministic hill climb over the order of placement (see ``search.py``).
* ``in_time``: what an allocator at run time would do, forward or backward in time; needs no list of which buffers are
  live at once, whose length can be the square of the program's.
* ``auto``: for each pool the best of all of these, the first of equals; stops at the first that meets the lower bound.
  So it is never worse than ``greedy``, but where that list would be too long: then it is the better of ``naive`` and
  ``in_time``.

Results that may be written over an operand (``Problem.shares``) are so where that makes a pool smaller: the problem is
planned with and without, see ``coalescing.py``.

Plans are not checked here: ``verify.verify_plan`` does that without sharing any code with the algorithms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from etir.diagnostics import Diagnostic, raise_if_errors
from etir.passes.analysis.planning.coalescing import variants
from etir.passes.analysis.planning.errors import E0704, E0705
from etir.passes.analysis.planning.instance import Instance, Placement, build_instance, is_pinned_apart
from etir.passes.analysis.planning.lower_bound import PoolBound, lower_bound
from etir.passes.analysis.planning.orders import by_breadth, by_size, by_size_reversed_ties
from etir.passes.analysis.planning.pinning import settled
from etir.passes.analysis.planning.placement import (
    place_best_fit,
    place_bump,
    place_in_time,
    place_shared_objects,
)
from etir.passes.analysis.planning.problem import Plan, Problem, align_up
from etir.passes.analysis.planning.search import DEFAULT_WORK, search


def naive(instance: Instance) -> Placement:
    """Every item after the one before it, in program order."""
    return place_bump(instance)


def greedy(instance: Instance) -> Placement:
    """ExecuTorch's default: first fit into shared objects, largest first, equal sizes in reverse program order."""
    return place_shared_objects(instance, by_size_reversed_ties(instance))


def best_fit(instance: Instance) -> Placement:
    """Best fit into the true gaps, by size; if that misses the lower bound, the better of it and by breadth."""
    placement = place_best_fit(instance, by_size(instance))
    height = instance.height(placement)
    if height > instance.target:
        alternative = place_best_fit(instance, by_breadth(instance))
        if instance.height(alternative) < height:
            return alternative
    return placement


def in_time(instance: Instance) -> Placement:
    """Blocks taken and given back in program order, or in reverse, whichever is lower."""
    forward = place_in_time(instance)
    if instance.height(forward) == instance.target:
        return forward
    return min(forward, place_in_time(instance, backward=True), key=instance.height)


ALGORITHMS: dict[str, Callable[[Instance], Placement]] = {
    "naive": naive,
    "greedy": greedy,
    "best_fit": best_fit,
    "search": search,
    "in_time": in_time,
}
"""The algorithms by name, the cheap ones first. Each plans one pool."""

ALGORITHM_NAMES = ("auto", *ALGORITHMS)
"""What :func:`plan` accepts."""

HARDER = 50
"""How many times more work ``auto`` spends on a pool that could fit its capacity but does not yet."""

PATIENCE = 4
"""How many times the usual work a search without patience goes on in vain: what gets lower at all does so early."""

APART = ("naive", "greedy")
"""The algorithms that give a result bytes of its own, also where it could be written over an operand: what other
compilers do, to compare with."""

NAMED_AT_PEAK = 20
"""How many buffers an over-capacity error names, largest first; it says how many it leaves out."""


def plan(problem: Problem, algorithm: str = "auto", *, is_patient: bool = True) -> Plan:
    """Plan every pool of ``problem`` with the named algorithm. Who can do without a plan that fits its capacity is not
    ``is_patient``: it is looked for as long as plans get lower.

    Offsets of aliases follow from their bases; buffers without bytes sit at offset 0 unless fixed. Sizes of pools are
    rounded up to the pool's granule and include its padding.

    Raises ``EtirError``: E0705 for an unknown name, E0703 when fixed buffers overlap, and E0704, naming what is alive
    at the peak, for every pool that does not fit its capacity.
    """
    if algorithm != "auto" and algorithm not in ALGORITHMS:
        raise E0705.error(
            f"there is no memory planning algorithm '{algorithm}'", help=f"use one of: {', '.join(ALGORITHM_NAMES)}"
        )
    problem = settled(problem)
    bounds = lower_bound(problem)
    patience = None if is_patient else PATIENCE * DEFAULT_WORK
    found = _plan_groups(replace(problem, shares=()), algorithm, patience)
    if problem.shares and algorithm not in APART:
        for variant in variants(problem):
            if all(size <= bounds[pool].bytes for pool, size in found.pool_sizes.items()):
                break
            if is_pinned_apart(variant) and any(
                bound.bytes < found.pool_sizes[pool] for pool, bound in lower_bound(variant).items()
            ):
                found = _better(problem, found, _plan_groups(variant, algorithm, patience))
    raise_if_errors(_over_capacity(problem, bounds, found.pool_sizes, found.algorithms))
    return found


def _plan_groups(problem: Problem, algorithm: str, patience: int | None) -> Plan:
    """The plan of a problem without shares."""
    bounds = lower_bound(problem)
    root_offsets: dict[int, int] = {}
    pool_sizes: dict[int, int] = {}
    algorithms: dict[int, str] = {}
    for pool in problem.pool_ids:
        instance = build_instance(problem, pool, bounds[pool])
        placement, algorithms[pool] = _plan_pool(problem, instance, pool, algorithm, patience)
        for group, offset in zip(instance.groups, placement, strict=True):
            root_offsets[group.root.key] = offset
        pool_sizes[pool] = 0
    for group in problem.groups:
        root, pool = group.root, group.root.pool
        offset = root_offsets.setdefault(root.key, root.fixed_offset or 0)
        pool_sizes[pool] = max(pool_sizes[pool], offset + align_up(root.size, problem.granules[pool]))
    for pool, size in pool_sizes.items():
        pool_sizes[pool] = size + (problem.pool(pool).padding if size else 0)
    offsets: dict[int, int] = {}
    for buffer in problem.buffers:
        root, displacement = problem.positions[buffer.key]
        offsets[buffer.key] = root_offsets[root.key] + displacement
    return Plan(offsets, pool_sizes, algorithms)


def _better(problem: Problem, first: Plan, second: Plan) -> Plan:
    """Of two plans, the smaller one for each pool; the first of equals."""
    taken = {p: second if size < first.pool_sizes[p] else first for p, size in second.pool_sizes.items()}
    return Plan(
        {buffer.key: taken[buffer.pool].offsets[buffer.key] for buffer in problem.buffers},
        {pool: chosen.pool_sizes[pool] for pool, chosen in taken.items()},
        {pool: chosen.algorithms[pool] for pool, chosen in taken.items()},
    )


def _plan_pool(
    problem: Problem, instance: Instance, pool: int, algorithm: str, patience: int | None
) -> tuple[Placement, str]:
    """A placement and the name of the algorithm that found it."""
    if algorithm != "auto":
        return ALGORITHMS[algorithm](instance), algorithm
    best_name, best = "naive", naive(instance)
    best_height = instance.height(best)

    def offer(name: str, placement: Placement) -> None:
        nonlocal best_name, best, best_height
        height = instance.height(placement)
        if height < best_height:
            best_name, best, best_height = name, placement, height

    if best_height > instance.target and instance.is_crowded:
        offer("in_time", in_time(instance))
        return best, best_name
    if best_height > instance.target:
        offer("greedy", greedy(instance))
    if best_height > instance.target:
        offer("best_fit", best_fit(instance))
    if best_height > instance.target:
        offer("search", search(instance))
    if best_height > instance.target:
        offer("in_time", in_time(instance))
    limits = problem.pool(pool)
    if limits.capacity is not None and instance.target <= limits.capacity - limits.padding < best_height:
        room = limits.capacity - limits.padding
        offer("search", search(replace(instance, target=room), HARDER * DEFAULT_WORK, patience))
    return best, best_name


def _over_capacity(
    problem: Problem, bounds: dict[int, PoolBound], pool_sizes: dict[int, int], algorithms: dict[int, str]
) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    for pool, size in pool_sizes.items():
        capacity = problem.pool(pool).capacity
        if capacity is None or size <= capacity:
            continue
        bound = bounds[pool]
        if bound.bytes > capacity:
            reason = f"no plan can fit: {bound.bytes} bytes is the least that any plan needs"
        else:
            reason = f"a plan of {bound.bytes} bytes is not ruled out, but '{algorithms[pool]}' found none that fits"
        notes = [reason]
        if bound.instruction is not None:
            notes.append(f"{bound.peak_bytes} bytes are live at instruction {bound.instruction}:")
        for key in bound.alive[:NAMED_AT_PEAK]:
            buffer = problem.by_key[key]
            notes.append(f"  {buffer}: {buffer.size} bytes, live at {_intervals(buffer.live)}")
        hidden = [problem.by_key[key].size for key in bound.alive[NAMED_AT_PEAK:]]
        if hidden:
            notes.append(f"  and {len(hidden)} smaller buffers with {sum(hidden)} bytes")
        found.append(
            E0704.diagnostic(
                f"memory pool {pool} needs {size} bytes, {size - capacity} more than its capacity of {capacity}",
                notes=notes,
            )
        )
    return found


def _intervals(live: tuple[tuple[int, int], ...]) -> str:
    return ", ".join(f"[{first}, {last}]" for first, last in live)
