"""What a memory planning problem is, and what a plan is.

A *buffer* is a number of bytes that must stay untouched during certain instructions; a *pool* is a memory (an arena, an
SRAM bank) that gets one contiguous block at run time; a *plan* gives each buffer an offset in its pool. Two buffers may
get the same bytes when no instruction has both live.

Lifetimes are sets of instruction indices, written as inclusive intervals: a buffer read by instruction 7 and one
written by instruction 7 are both live at 7, so an operator's inputs and outputs never share memory unless the problem
says that the one may be written over the other (:class:`Share`), or declares it an alias. A lifetime may have holes
(several intervals), which control flow and rewritten buffers produce.

Aliases (views, results that are to be written in place) do not take part in planning: a buffer and all its aliases form
a *group* that is placed as a whole, is live whenever a member is live, and is aligned so that every member is aligned.

Bytes are counted in *granules*: the smallest alignment in a pool. Every offset is a multiple of it, so rounding each
size up to it loses nothing, and makes lower bounds and pool sizes comparable byte for byte. With the one alignment of
16 that ExecuTorch uses, this is ExecuTorch's own rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from etir.diagnostics import Diagnostic, raise_if_errors
from etir.passes.analysis.planning.errors import E0701, E0702, E0703

Interval = tuple[int, int]
"""First and last instruction index (both inside) of a stretch of a lifetime."""


def align_up(value: int, alignment: int) -> int:
    """The smallest multiple of ``alignment`` (a positive integer) that is at least ``value``."""
    return -(-value // alignment) * alignment


def merge_intervals(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """The same set of instructions as sorted, disjoint and non-adjacent intervals."""
    merged: list[Interval] = []
    for first, last in sorted(intervals):
        if merged and first <= merged[-1][1] + 1:
            if last > merged[-1][1]:
                merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return tuple(merged)


def stretches(intervals: Iterable[Interval]) -> list[Interval]:
    """The same instructions in order, as one where they overlap, but not where one interval begins right after another:
    a buffer gets new contents there.
    """
    found: list[Interval] = []
    for first, last in sorted(intervals):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


@dataclass(frozen=True, slots=True)
class Buffer:
    """One thing that needs memory.

    ``key`` identifies it; ``size`` is in bytes; ``alignment`` is a power of two in bytes; ``pool`` is the memory id,
    counted from 1; ``live`` holds its lifetime as inclusive instruction intervals in any order. ``fixed_offset`` pins
    it to an offset; ``alias_of`` is ``(key of the base, displacement in bytes)`` for a view into another buffer.
    ``name`` is what diagnostics call it.
    """

    key: int
    size: int
    live: tuple[Interval, ...]
    alignment: int = 16
    pool: int = 1
    fixed_offset: int | None = None
    alias_of: tuple[int, int] | None = None
    name: str = ""

    def __str__(self) -> str:
        return f"'{self.name}'" if self.name else f"buffer {self.key}"


@dataclass(frozen=True, slots=True)
class Pool:
    """Properties of a memory: ``capacity`` in bytes, if limited, and ``padding`` bytes to leave free after the last
    buffer (a delegate whose kernels read past the end of their inputs needs some)."""

    capacity: int | None = None
    padding: int = 0


@dataclass(frozen=True, slots=True)
class Share:
    """A result that may be written over an operand.

    ``instruction`` is the last that needs the buffer with key ``operand``, and the one that fills the buffer
    ``result``: there, and only there, both may have the same bytes, if the result begins ``displacement`` bytes into
    the operand; a negative displacement says how many bytes into the result the operand begins. They have bytes in
    common then; where neither is inside of the other, they come to lie so only inside of a third. Neither is an alias
    of another buffer.

    ``kept``: the operand is needed afterwards, and lies inside of the result, which leaves its bytes alone.
    """

    instruction: int
    operand: int
    result: int
    displacement: int = 0
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """A buffer that is not an alias together with everything that aliases it: the unit of placement.

    ``members`` starts with ``root``; ``alignment`` satisfies all members; ``live`` is the union of their lifetimes,
    sorted, disjoint and non-adjacent.
    """

    root: Buffer
    members: tuple[Buffer, ...]
    alignment: int
    live: tuple[Interval, ...]


@dataclass(frozen=True)
class Problem:
    """Buffers to place, in program order, the pools that need saying something about, and what may be done in place.

    Raises ``EtirError`` with everything that is wrong (E0701, E0702, E0703) when the problem makes no sense.
    """

    buffers: Sequence[Buffer]
    pools: Mapping[int, Pool] = field(default_factory=lambda: dict[int, Pool]())
    shares: Sequence[Share] = ()

    def __post_init__(self) -> None:
        raise_if_errors([*self._malformed_pools(), *self._malformed_buffers()])
        # Aliases can only be followed once keys are known to be unique.
        raise_if_errors([*self._malformed_aliases(), *self._malformed_shares()])

    @cached_property
    def by_key(self) -> dict[int, Buffer]:
        """The buffers by key."""
        return {buffer.key: buffer for buffer in self.buffers}

    @cached_property
    def pool_ids(self) -> tuple[int, ...]:
        """The pools that have buffers, in ascending order."""
        return tuple(sorted({buffer.pool: None for buffer in self.buffers}))

    @cached_property
    def positions(self) -> dict[int, tuple[Buffer, int]]:
        """For each key, the root of the buffer's alias group and the buffer's displacement from it in bytes."""
        positions: dict[int, tuple[Buffer, int]] = {b.key: (b, 0) for b in self.buffers if b.alias_of is None}
        for buffer in self.buffers:
            chain: dict[int, int] = {}
            key = buffer.key
            while key not in positions and key not in chain and key in self.by_key:
                base_key, chain[key] = self.by_key[key].alias_of or (key, 0)
                key = base_key
            if key in positions:
                root, displacement = positions[key]
                for key, step in reversed(chain.items()):
                    displacement += step
                    positions[key] = (root, displacement)
        return positions

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The alias groups, in the order of their roots among the buffers."""
        members: dict[int, list[Buffer]] = {b.key: [b] for b in self.buffers if b.alias_of is None}
        for buffer in self.buffers:
            if buffer.alias_of is not None:
                members[self.positions[buffer.key][0].key].append(buffer)
        return tuple(
            Group(
                group[0],
                tuple(group),
                max(b.alignment for b in group),
                merge_intervals(interval for b in group for interval in b.live),
            )
            for group in members.values()
        )

    @cached_property
    def granules(self) -> dict[int, int]:
        """For each pool in use, the smallest alignment of a group, in bytes: every offset of a group is a multiple."""
        granules: dict[int, int] = {}
        for group in self.groups:
            pool = group.root.pool
            granules[pool] = min(granules.get(pool, group.alignment), group.alignment)
        return dict(sorted(granules.items()))

    def pool(self, pool_id: int) -> Pool:
        """The properties of a pool; unlimited and unpadded unless said otherwise."""
        return self.pools.get(pool_id, Pool())

    def _malformed_pools(self) -> list[Diagnostic]:
        return [
            E0701.diagnostic(
                f"pool {pool_id} has capacity {pool.capacity} and padding {pool.padding} bytes",
                help="pool ids count from 1; capacities and paddings are not negative",
            )
            for pool_id, pool in self.pools.items()
            if pool_id < 1 or pool.padding < 0 or (pool.capacity is not None and pool.capacity < 0)
        ]

    def _malformed_buffers(self) -> list[Diagnostic]:
        found: list[Diagnostic] = []
        seen: dict[int, Buffer] = {}
        for b in self.buffers:
            if b.key in seen:
                found.append(E0701.diagnostic(f"{b} and {seen[b.key]} have the same key {b.key}"))
            seen[b.key] = b
            if b.size < 0:
                found.append(E0701.diagnostic(f"{b} has size {b.size} bytes"))
            if b.alignment < 1 or b.alignment & (b.alignment - 1):
                found.append(E0701.diagnostic(f"{b} has alignment {b.alignment}"))
            elif b.fixed_offset is not None and (b.fixed_offset < 0 or b.fixed_offset % b.alignment):
                found.append(E0703.diagnostic(f"{b} has fixed offset {b.fixed_offset} and alignment {b.alignment}"))
            if b.pool < 1:
                found.append(E0701.diagnostic(f"{b} is in pool {b.pool}"))
            found.extend(
                E0701.diagnostic(f"{b} is said to be live from instruction {first} to {last}")
                for first, last in b.live
                if first > last
            )
        return found

    def _malformed_aliases(self) -> list[Diagnostic]:
        found: list[Diagnostic] = []
        for b in self.buffers:
            if b.alias_of is None:
                continue
            base = self.by_key.get(b.alias_of[0])
            if base is None:
                found.append(E0702.diagnostic(f"{b} aliases buffer {b.alias_of[0]}, which does not exist"))
                continue
            if b.key not in self.positions:
                found.append(E0702.diagnostic(f"{b} aliases {base}, and following the aliases ends at no buffer"))
                continue
            root, from_root = self.positions[b.key]
            from_base = b.alias_of[1]
            if base.pool != b.pool:
                found.append(E0702.diagnostic(f"{b} in pool {b.pool} aliases {base} in pool {base.pool}"))
            if from_base < 0 or from_base + b.size > base.size:
                found.append(
                    E0702.diagnostic(
                        f"{b} covers bytes [{from_base}, {from_base + b.size}) of {base}, which has {base.size} bytes"
                    )
                )
            if from_root % b.alignment:
                found.append(E0702.diagnostic(f"{b} with alignment {b.alignment} starts at byte {from_root} of {root}"))
            if b.fixed_offset is not None:
                found.append(E0702.diagnostic(f"{b} aliases {base} and has the fixed offset {b.fixed_offset} as well"))
            if root.fixed_offset is not None and root.fixed_offset % b.alignment:
                found.append(
                    E0703.diagnostic(
                        f"{root} has fixed offset {root.fixed_offset}, but its alias {b} has alignment {b.alignment}"
                    )
                )
        return found

    def _malformed_shares(self) -> list[Diagnostic]:
        found: list[Diagnostic] = []
        for share in self.shares:
            operand, result = self.by_key.get(share.operand), self.by_key.get(share.result)
            if operand is None or result is None:
                missing = share.operand if operand is None else share.result
                found.append(E0702.diagnostic(f"buffer {missing} is to be shared, and does not exist"))
            elif operand.alias_of is not None or result.alias_of is not None or operand.pool != result.pool:
                found.append(E0702.diagnostic(f"{result} cannot be written over {operand}: an alias, or another pool"))
            elif not -max(result.size, 1) < share.displacement < max(operand.size, 1):
                found.append(
                    E0702.diagnostic(
                        f"{result} at byte {share.displacement} of {operand} has no byte in common with it"
                    )
                )
        return found


@dataclass(frozen=True)
class Plan:
    """Where everything goes: byte offsets by buffer key, and the bytes each pool needs by pool id.

    ``algorithms`` says which algorithm's result was taken for each pool.
    """

    offsets: dict[int, int]
    pool_sizes: dict[int, int]
    algorithms: dict[int, str] = field(default_factory=lambda: dict[int, str]())
