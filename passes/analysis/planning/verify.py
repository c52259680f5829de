"""Proves a memory plan, or says exactly why it is wrong.

The verifier knows nothing of how plans are made: apart from the definitions in ``problem.py`` it shares no code with
the algorithms, so that a mistake in them cannot hide here. It checks that

* the plan gives an offset to exactly the buffers of the problem, and a size to every pool in use (E0711),
* every offset is a multiple of the buffer's alignment (E0712) and the buffer lies inside its pool (E0713),
* aliases sit inside their bases as declared and fixed buffers where they were fixed (E0715),
* no pool is larger than its capacity (E0704), and
* no two buffers of one pool that are live at the same instruction have a byte in common (E0714), unless they belong to
  one alias group, or the one is a result at its place in an operand that dies there, or lives on in a part of the
  result that is left alone (``Problem.shares``).

For the last one it sweeps over time, keeping the address ranges of the buffers that are live. A new range [a, b) meets
those that contain a, which a segment tree over the addresses finds, and those that begin inside (a, b), which lie next
to each other in a sorted list (Edelsbrunner and Maurer 1981, "On the intersection of orthogonal objects"). That takes
O(n log n + k) steps for n lifetime intervals and k pairs found, where pairs of one alias group count as found.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import islice

from etir.diagnostics import Diagnostic
from etir.passes.analysis.planning.errors import E0704, E0711, E0712, E0713, E0714, E0715
from etir.passes.analysis.planning.problem import Buffer, Plan, Problem, merge_intervals, stretches

DEFAULT_LIMIT = 100


def verify_plan(problem: Problem, plan: Plan, limit: int = DEFAULT_LIMIT) -> list[Diagnostic]:
    """Everything that is wrong with ``plan`` as a plan for ``problem``; an empty list proves it.

    At most ``limit`` overlapping pairs (a positive number) are described; the last one says when there are more.
    """
    found = [*_mismatches(problem, plan), *_oversized_pools(problem, plan)]
    for buffer in problem.buffers:
        offset = plan.offsets.get(buffer.key)
        if offset is not None:
            found += _misplaced(problem, plan, buffer, offset)
    found += _shared_memory(problem, plan, limit)
    return found


def _mismatches(problem: Problem, plan: Plan) -> list[Diagnostic]:
    found = [
        E0711.diagnostic(f"the plan has no offset for {buffer}")
        for buffer in problem.buffers
        if buffer.key not in plan.offsets
    ]
    found += [
        E0711.diagnostic(f"the plan has an offset for buffer {key}, which the problem does not have")
        for key in plan.offsets
        if key not in problem.by_key
    ]
    found += [
        E0711.diagnostic(f"the plan has no size for pool {pool}")
        for pool in problem.pool_ids
        if pool not in plan.pool_sizes
    ]
    return found


def _oversized_pools(problem: Problem, plan: Plan) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    for pool, size in plan.pool_sizes.items():
        capacity = problem.pool(pool).capacity
        if capacity is not None and size > capacity:
            found.append(E0704.diagnostic(f"pool {pool} is planned with {size} bytes, its capacity is {capacity}"))
    return found


def _misplaced(problem: Problem, plan: Plan, buffer: Buffer, offset: int) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    if offset % buffer.alignment:
        found.append(E0712.diagnostic(f"{buffer} is at offset {offset}, which is no multiple of {buffer.alignment}"))
    pool_size = plan.pool_sizes.get(buffer.pool)
    padding = problem.pool(buffer.pool).padding if buffer.size else 0
    if offset < 0 or (pool_size is not None and offset + buffer.size + padding > pool_size):
        padded = f" and {padding} bytes of padding follow" if padding else ""
        found.append(
            E0713.diagnostic(
                f"{buffer} is at bytes [{offset}, {offset + buffer.size}){padded}, "
                f"but pool {buffer.pool} has {pool_size} bytes"
            )
        )
    if buffer.fixed_offset is not None and offset != buffer.fixed_offset:
        found.append(E0715.diagnostic(f"{buffer} is at offset {offset} but was fixed to {buffer.fixed_offset}"))
    if buffer.alias_of is not None:
        base, displacement = problem.by_key[buffer.alias_of[0]], buffer.alias_of[1]
        base_offset = plan.offsets.get(base.key)
        if base_offset is not None and offset != base_offset + displacement:
            found.append(
                E0715.diagnostic(
                    f"{buffer} is at offset {offset}, but it aliases byte {displacement} of {base}, "
                    f"which is at offset {base_offset}"
                )
            )
    return found


def _shared_memory(problem: Problem, plan: Plan, limit: int) -> list[Diagnostic]:
    pairs = [pair for pool in problem.pool_ids for pair in islice(_overlapping_pairs(problem, plan, pool), limit + 1)]
    found: list[Diagnostic] = []
    for number, (first, second, instruction) in enumerate(pairs[:limit], start=1):
        notes = [_where(first, plan), _where(second, plan)]
        if number == limit and len(pairs) > limit:
            notes.append(f"only the first {limit} overlaps are listed")
        low = max(plan.offsets[first.key], plan.offsets[second.key])
        high = min(plan.offsets[first.key] + first.size, plan.offsets[second.key] + second.size)
        found.append(
            E0714.diagnostic(
                f"{first} and {second} share bytes [{low}, {high}) of pool {first.pool}, and both are live at "
                f"instruction {instruction}",
                notes=notes,
            )
        )
    return found


def _where(buffer: Buffer, plan: Plan) -> str:
    live = ", ".join(f"[{first}, {last}]" for first, last in merge_intervals(buffer.live))
    return f"{buffer}: offset {plan.offsets[buffer.key]}, {buffer.size} bytes, live at instructions {live}"


def _overlapping_pairs(problem: Problem, plan: Plan, pool: int) -> Iterator[tuple[Buffer, Buffer, int]]:
    """Pairs of buffers, each once, with the first instruction where they get in each other's way."""
    buffers = [b for b in problem.buffers if b.pool == pool and b.size and b.key in plan.offsets]
    owner = [_alias_root(problem, buffer) for buffer in buffers]
    ranges = [(plan.offsets[b.key], plan.offsets[b.key] + b.size) for b in buffers]
    live_ranges = _LiveRanges(ranges)
    in_place = _in_place(problem, plan)
    # A lifetime includes its last instruction, so at one instruction all births come before the deaths.
    born, dies = 0, 1
    events = sorted(
        event
        for index, buffer in enumerate(buffers)
        for first, last in merge_intervals(buffer.live)
        for event in ((first, born, index), (last, dies, index))
    )
    reported: set[tuple[int, int]] = set()
    for instruction, what, index in events:
        if what == dies:
            live_ranges.remove(index)
            continue
        for other in live_ranges.meeting(index):
            pair = (min(index, other), max(index, other))
            if owner[index] == owner[other] or pair in reported:
                continue
            reported.add(pair)
            instructions = in_place.get((buffers[pair[0]].key, buffers[pair[1]].key))
            at = instruction if instructions is None else _clash(buffers[pair[0]], buffers[pair[1]], instructions)
            if at is not None:
                yield buffers[pair[0]], buffers[pair[1]], at
        live_ranges.insert(index)


def _in_place(problem: Problem, plan: Plan) -> dict[tuple[int, int], dict[int, None]]:
    """For pairs of buffers, either one first: the instructions at which the plan writes the one over the other."""
    found: dict[tuple[int, int], dict[int, None]] = {}
    for share in problem.shares:
        operand, result = plan.offsets.get(share.operand), plan.offsets.get(share.result)
        under, over = problem.by_key[share.operand], problem.by_key[share.result]
        dies = any(last == share.instruction for _, last in stretches(under.live))
        begins = any(first == share.instruction for first, _ in stretches(over.live))
        if share.kept:
            is_inside = share.displacement <= 0 and under.size - share.displacement <= over.size
            dies = is_inside and merge_intervals(over.live) == ((share.instruction, share.instruction),)
        if dies and begins and operand is not None and result == operand + share.displacement:
            for pair in ((share.operand, share.result), (share.result, share.operand)):
                found.setdefault(pair, {})[share.instruction] = None
    return found


def _clash(first: Buffer, second: Buffer, in_place: dict[int, None]) -> int | None:
    """The first instruction at which both are live but for those where one is written over the other."""
    ours, theirs = merge_intervals(first.live), merge_intervals(second.live)
    i = j = 0
    while i < len(ours) and j < len(theirs):
        begin, end = max(ours[i][0], theirs[j][0]), min(ours[i][1], theirs[j][1])
        # In a row, what was written over the one is what the other one is then written over.
        clash = next((at for at in range(begin, end + 1) if at not in in_place), None)
        if clash is not None:
            return clash
        if ours[i][1] < theirs[j][1]:
            i += 1
        else:
            j += 1
    return None


def _alias_root(problem: Problem, buffer: Buffer) -> int:
    while buffer.alias_of is not None:
        buffer = problem.by_key[buffer.alias_of[0]]
    return buffer.key


class _LiveRanges:
    """A changing subset of given non-empty address ranges that can be asked which of them meet another one.

    ``nodes`` is a segment tree over the addresses where ranges begin or end: a range is kept in the O(log n) nodes that
    together cover it, so that the ranges containing an address are those in the nodes above its leaf.
    """

    def __init__(self, ranges: list[tuple[int, int]]) -> None:
        self.ranges = ranges
        addresses = sorted({address: None for range_ in ranges for address in range_})
        self.leaf = {address: number for number, address in enumerate(addresses)}
        self.leaves = len(addresses)
        self.nodes: list[dict[int, None]] = [{} for _ in range(2 * self.leaves)]
        self.begins: list[tuple[int, int]] = []

    def insert(self, index: int) -> None:
        for node in self._cover(index):
            self.nodes[node][index] = None
        insort(self.begins, (self.ranges[index][0], index))

    def remove(self, index: int) -> None:
        for node in self._cover(index):
            del self.nodes[node][index]
        del self.begins[bisect_left(self.begins, (self.ranges[index][0], index))]

    def meeting(self, index: int) -> list[int]:
        """The ranges in the subset that have an address in common with range ``index``, each once."""
        begin, end = self.ranges[index]
        found: list[int] = []
        node = self.leaf[begin] + self.leaves
        while node:
            found += self.nodes[node]
            node >>= 1
        last_index = len(self.ranges)
        inside = self.begins[bisect_right(self.begins, (begin, last_index)) : bisect_left(self.begins, (end, -1))]
        found += [other for _, other in inside]
        return found

    def _cover(self, index: int) -> Iterator[int]:
        begin, end = self.ranges[index]
        low, high = self.leaf[begin] + self.leaves, self.leaf[end] + self.leaves
        while low < high:
            if low & 1:
                yield low
                low += 1
            if high & 1:
                high -= 1
                yield high
            low >>= 1
            high >>= 1
