"""One register tile for several products of a function.

Products differ in whether sums rest in c between slices of depth, in whether those of runs are added to others, in how
many loops over taps there are, in whether steps are left that do not fill an unrolled one, in what those fetch, and in
what is done with the sums (``brgemm_ends.py``).
Each difference makes a function of its own, of some three hundred lines, although a tile that has all of it does as
well for those that need less, at the price of a few tests: a compiler takes half of its time for register tiles. So
products whose tiles are otherwise the same get what any of them needs, where that makes fewer tiles: tiles of different
heights are different functions anyway. The sums are the same bits: what a product does not need is not done.

Short products, and those of few rows, keep tiles of their own: tests are more of their time. So does code that is
linked with a program, of which every byte counts. Of ends only those have a choice which all are in runs, or none is:
in AVX-512's registers there is no room for both (ResNet-50: 2 % of its time).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations

from etir.backends.native.cpu import Cpu
from etir.backends.native.kernels.brgemm_ends import Ends, ends_of
from etir.backends.native.kernels.brgemm_result import SHARED
from etir.backends.native.kernels.brgemm_text import Heights, ProductText
from etir.backends.native.kernels.template import body_function
from etir.backends.native.sizes import is_known
from etir.backends.native.tile import BrgemmOp

SHORT = 384
"""Cycles of a tile below which a product keeps one of its own."""
FEW = 2
"""Lines of the cache that a tile may fetch although its product needs fewer."""
LINES = dict(zip(SHARED, (30, 60, 4, 35, 1, 30), strict=True))
"""How many lines of a tile of about a hundred each need adds, in hundredths of them; of ends each."""


@dataclass(frozen=True)
class _Alike:
    """Products whose tiles are the same functions, of some heights, when they have ``needs``."""

    ops: tuple[BrgemmOp, ...]
    needs: tuple[int, ...]
    heights: frozenset[int]
    bodies: frozenset[tuple[str, int]]
    """The text of each end, and the parts that it is."""

    def with_(self, other: _Alike) -> _Alike:
        """These and others with what any of them needs."""
        needs = map(max, self.needs[:-1], other.needs[:-1])
        ends = self.needs[-1] | other.needs[-1]
        return _Alike((*self.ops, *other.ops), (*needs, ends), self.heights | other.heights, self.bodies | other.bodies)

    @property
    def has_choice(self) -> bool:
        """Whether tiles are told what to do at their end."""
        return len(self.bodies) > 1

    @property
    def lines(self) -> int:
        """About how many lines its tiles are."""
        *needs, ends = self.needs
        counts = (*needs, ends.bit_count())
        return len(self.heights) * (100 + sum(map(int.__mul__, LINES.values(), counts)))


def shared_entries(ops: Sequence[BrgemmOp], cpu: Cpu) -> dict[BrgemmOp, dict[str, int]]:
    """The entries that schedules of some products get besides their own, so that their tiles are one function."""
    if cpu.linked:
        return {}
    groups: dict[Hashable, dict[Hashable, _Alike]] = {}
    own: dict[BrgemmOp, tuple[int, ...]] = {}
    for op in ops:
        text = ProductText(op, cpu)
        if (key := _key(text)) is not None:
            own[op] = needs = _needs(text)
            alike = _Alike((op,), needs, _heights(text), frozenset([(body_function(op.body.block), needs[-1])]))
            group = groups.setdefault(key, {})
            group[same] = group[same].with_(alike) if (same := (needs, alike.bodies)) in group else alike
    found: dict[BrgemmOp, dict[str, int]] = {}
    for group in groups.values():
        for alike in _merged([*group.values()]):
            needed = [own[op] for op in alike.ops]
            mixed = {
                name: most
                for number, (name, most) in enumerate(zip(SHARED[:-1], alike.needs, strict=False))
                if any(needs[number] != most for needs in needed)
            }
            mixed |= {"ends": alike.needs[-1]} if alike.has_choice else {}
            found |= {op: mixed for op in alike.ops if mixed}
    return found


def _merged(parts: list[_Alike]) -> list[_Alike]:
    """Parts, of which those two become one that spare most lines, as long as that spares any."""
    while True:
        spared = [(a.lines + b.lines - a.with_(b).lines, a, b) for a, b in combinations(parts, 2)]
        most, a, b = max(spared, key=lambda one: one[0], default=(0, None, None))
        if a is None or b is None or most <= 0:
            return parts
        parts = [*(part for part in parts if part not in (a, b)), a.with_(b)]


def _heights(text: ProductText) -> frozenset[int]:
    """The heights of the tiles of a product."""
    height = text.block_height()
    assert isinstance(height, Heights), "sizes are known"
    return frozenset(rows for _, rows in height.tiles(text.rows))


def _needs(text: ProductText) -> tuple[int, ...]:
    """What a product needs, in the order of :data:`SHARED`."""
    odd, lines = text.unroll > 1 and text.has_odd, text.lines_fetched() if text.fetches and text.unroll > 1 else 0
    ends = _ends(text)
    own = (int(text.is_sliced), int(text.has_runs), len(text.own_loops), int(odd), lines)
    return (*own, 0 if ends is None else ends.asked(text.begins))


def _ends(text: ProductText) -> Ends | None:
    """The end of a product, where it is one of those of which a tile can have a choice. One that only stores its sums
    is quicker alone, by a hundredth of the time of a short tile.
    """
    ends = ends_of(text.op) if not text.crosses and text.column == 1 else None
    return None if ends is None or not ends.mask or text.begins not in (None, ends.added) else ends


def _key(text: ProductText) -> Hashable | None:
    """All that a tile depends on besides its height and what may be shared; None for a product that keeps a tile of its
    own.
    """
    if not is_known((text.m, text.k, text.panels, text.n)) or text.cycles() < SHORT:
        return None
    if not text.given or text.wide > 1 or text.crosses or text.cut_taps:
        return None
    if text.level_of_own_run() not in (-1, len(text.own_loops)):
        return None
    has_choice = _ends(text) is not None
    names = tuple(name for name in text.given if name.startswith(("ld", "line_", "along_", "column_", "share", "far")))
    own = (
        *(names, text.op.over is None, text.begins),
        *((row != 0, one != 0, one == 1) for row, one in text.extra),
        body_function(text.op.body.block),
    )
    return (
        *(text.rows, text.vectors, text.panel, text.row, text.unroll),
        text.m if text.lines > 1 else 0,
        max(FEW, text.lines_fetched()) if text.fetches else 0,
        text.has_runs if has_choice else None,
        *([name for name in names if not re.match(r"(ld|line_)e|far", name)] if has_choice else own),
    )
