"""``tile.brgemm``: products, with what follows them while the sums are in registers.

A register tile is ``m`` rows by ``n`` vectors of columns: for each step of depth ``n`` loads, ``m`` broadcasts and
``m n`` multiply-adds. The columns of a panel of b lie together, so that b is read in order; a panel may also be some
columns of a matrix as it lies, and be narrower than a vector. Depth is cut into slices
that let the rows of a stay in the second cache; between slices the sums rest in c. Rows are shared out evenly: 197
rows in tiles of up to 14 are two of 14 and thirteen of 13, not fourteen of 14 and one of 1. Products of up to three
rows take several panels at once, so that there are enough sums to hide the latency of a multiply-add, and weights come
from memory in several streams: three are half as quick again as one. Those of a batch
that share their panels and have few rows, as lines of a small image do, are one tile together: panels are read once for
all of its lines. Where a panel's taps are more than half of the second cache, as those of 3x3 windows of 256 channels
of half a megabyte, lines use it together, a tap after the other, and tiles go on from one line in the next: a line of
seven would be tiles of four and three, each of which reads the panel again. While a panel is used, its tiles fetch the
next one into the second cache, a part each: the weights of a whole model come from memory, and the first tile of every
panel would wait for them. So it is where each item of a batch has weights of its own, one after another.

With the widest vectors (AVX-512) a tile takes whole panels. Where the left operand is larger than the second cache and
the right one not much larger still, tiles have the whole depth, and a block of rows is used for all panels before the
next one if that reads fewer bytes (``brgemm_text.py``): sums that rest in c cost more than what slices save. Where the
right operand is small and the result is not, blocks of rows are so low that those of the result stay in the second
cache until all panels are done: rows come from memory, and go there, in one piece.

After Georganas et al., "Harnessing Deep Learning via a Single Building Block", IPDPS 2020 (the batch-reduce product).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from etir.backends.native.asked import saves
from etir.backends.native.cpu import Cpu
from etir.backends.native.kernels.apart import has_apart, is_apart, is_in_registers
from etir.backends.native.kernels.brgemm_ends import can_choose
from etir.backends.native.kernels.brgemm_result import SHARED
from etir.backends.native.kernels.brgemm_share import shared_entries
from etir.backends.native.kernels.brgemm_text import ProductText
from etir.backends.native.kernels.brgemm_tile import LINE, MOST_ADDRESSES, WIDEST
from etir.backends.native.kernels.sums import added_operand, begins_with
from etir.backends.native.kernels.template import (
    CFunction,
    Template,
    integers,
    run_body,
    set_schedule,
    template,
)
from etir.backends.native.sizes import Size, at_least, is_known, most
from etir.backends.native.tile import BrgemmOp, shape_of, strides_of

DEPTH = 384
MOST_DEPTH_WHOLE = 1024
"""The depth up to which a product is not cut where its sums may not rest in the result."""
DEPTH_OF_PARTS = 256
"""Where a tile takes a line of the cache of every two that a panel has in a row: they are in half of the sets."""
NARROW = 16
"""Columns of the narrowest panel that is packed: a vector of any processor."""
FEW_ROWS = 3
UNROLL = 4
ROWS_UNROLLED, DEPTH_UNROLLED = 192, 256
"""Rows and depth of products that are unrolled with the widest vectors, at least."""
MOST_UNROLLED = 16
MOST_LOOPS, MOST_FETCHED = 8, 32
"""Loops over taps, and lines of the cache that a step of several fetches, which a tile may have for others' sake."""
LOW = 0.7
"""Rows that tiles have of those that they could have, where lines are taken together."""
ROWS_OF_WHOLE = 64
"""So many rows of the left operand with their whole depth, beside a panel in the second cache, spare the sums their way
to the result and back after each slice.
"""
LARGE = 6
"""A left operand of so many second caches comes from the third one or from memory: a few of its rows with their whole
depth are read in order, where slices of all of them are pieces of a kilobyte.
"""
TILES_OF_LARGE = 3, 5
"""Tiles that such rows are, at least and at most."""
WHOLE = 0.6
"""The part of the second cache that a panel and a tile's rows may take with their whole depth, with the widest vectors
and a left operand that this cache does not hold: slices, which read sums again and write them, are up to 1.4 times as
slow. Where the right operand is more than twice as large as the left one, it comes from memory and slices are quicker.
"""
SMALL = 4
"""A right operand of a fourth of the second cache at most stays there beside rows of the others."""
DEPTH_OF_LARGE = 768
"""The least depth of such rows: measured, shorter ones are as quick by slices."""
MOST_CANDIDATES = 8


def panel_of(cpu: Cpu) -> int:
    """The columns of a panel: the same for all processors of a family, which read one copy of the weights."""
    return 32 if cpu.family == "x86-64" else 16


def panel_for(cpu: Cpu, columns: int) -> int:
    """The columns of a panel of what is made at run time: half as many where there are no more, as those of a head."""
    half = panel_of(cpu) // 2
    return half if half >= NARROW and not isinstance(columns, Size) and columns <= half else panel_of(cpu)


def shared_lines(op: BrgemmOp) -> int:
    """How many items of the innermost dim of the batch have the same panels."""
    batch = len(shape_of(op.c)) - 2
    if batch == 0 or strides_of(op.b.type)[batch - 1] != 0:
        return 1
    found = shape_of(op.c)[batch - 1]
    return 1 if isinstance(found, Size) else found


def unrolled(cpu: Cpu) -> dict[str, int]:
    """Steps of depth that stand one after the other, where a step has few multiply-adds for want of registers: the
    loop's own instructions are a sixth of it then.
    """
    return {"unroll": UNROLL} if cpu.fma and cpu.registers <= 16 and not cpu.linked else {}


def unrolled_product(m: int, k: int, cpu: Cpu) -> dict[str, int]:
    """:func:`unrolled` for ``m`` rows of depth ``k``: so are many deep rows with the widest vectors, too, which takes a
    tenth to a fifth less; low or short ones take as much more.
    """
    if cpu.vector >= WIDEST and m >= ROWS_UNROLLED and k >= DEPTH_UNROLLED:
        return {"unroll": UNROLL}
    return unrolled(cpu)


def slice_of(k: int, panel: int, columns: int) -> int:
    """The depth of a slice, of equal ones: what a tile reads of a panel stays in the first cache meanwhile."""
    most = DEPTH_OF_PARTS if takes_parts(panel, columns) else DEPTH
    return -(-k // -(-k // most))


def evenly(m: int, most: int) -> int:
    """Rows of equal blocks of at most ``most`` rows."""
    return -(-m // -(-m // most))


def takes_parts(panel: int, columns: int) -> bool:
    """Whether a tile of so many columns leaves lines of the cache between those that it reads of a panel."""
    return columns < panel and panel > LINE


def lines_together(op: BrgemmOp, cpu: Cpu, rows: int) -> int:
    """How many lines use a panel before others do, as rows of one matrix; 0 where each is a product of its own.

    They do where a panel's taps do not fit into the second cache beside what is fetched, and where tiles of up to
    ``rows`` rows would be low: seven are four and three. As many as fit into half of that cache with what one tap reads
    of the left operand, in equal parts.
    """
    counts, whole = op.tap_counts, shared_lines(op)
    m, k = shape_of(op.a)[-2:]
    if whole == 1 or not cpu.l2:
        return 0
    is_large = bool(counts) and 4 * math.prod(counts) * k * shape_of(op.b)[-1] > cpu.l2 // 2
    tiles = -(-m // rows)
    if not is_large and (m <= rows or m >= tiles * rows * LOW):
        return 0
    strides = strides_of(op.a.type)
    line = (m - 1) * strides[-2] + k
    if not is_known((line,)):
        return 0
    return -(-whole // -(-whole * line * 4 // (cpu.l2 // 2)))


def _rests(op: BrgemmOp) -> bool:
    """Whether sums lie in c between slices of depth, or between taps."""
    k = shape_of(op.a)[-1]
    (depth,), (taps,) = integers(op, "depth", (k,)), integers(op, "taps", (0,))
    return bool(taps) or not at_least(depth, k)


def may_rest(op: BrgemmOp) -> bool:
    """Whether sums may lie in c: what is in the same memory is read after them otherwise, and columns lie apart in no
    slice.
    """
    return not is_apart(op.c) and (op.over is None or begins_with(op) is not None)


def _panels_at_once(rows: int, vectors: int, cpu: Cpu) -> int:
    """The panels, of so many vectors each, that a tile's registers are enough for: sums and one row of b, which a
    single row takes from memory as it multiplies.
    """
    if rows == 1:
        return (cpu.registers - 2) // vectors
    return (cpu.registers - 1) // ((rows + 1) * vectors)


@template(BrgemmOp)
class Brgemm(Template):
    """Products of a matrix and panels."""

    name = "brgemm"
    entries = {
        "tile": 2,
        "depth": 1,
        "rows": 1,
        "panels": 1,
        "lines": 1,
        "taps": 1,
        "unroll": 1,
        **dict.fromkeys(SHARED, 1),
    }

    def schedule(self, op: BrgemmOp, cpu: Cpu) -> dict[str, Any]:
        """Vectors of a tile divide a panel; all registers but those for b and one for a are sums."""
        m, k = shape_of(op.a)[-2:]
        panel = shape_of(op.b)[-1]
        whole = max(panel // cpu.vector, 1)
        if not is_known((m, k, shape_of(op.b)[-3])):
            return self._schedule_of_sizes(op, cpu)
        if m <= FEW_ROWS and op.taps is None and (m + 1) * whole < cpu.registers:
            wide = min(shape_of(op.b)[-3], _panels_at_once(m, whole, cpu), 4)
            wide = wide if whole * cpu.vector == panel else 1
            return {"tile": [m, whole], "depth": k, "panels": wide}
        vectors = min(2 if cpu.vector > 4 or cpu.registers < 32 else 4, whole)
        rows = min((cpu.registers - vectors - 1) // vectors, 14)
        if rows <= MOST_ADDRESSES and not has_apart(op) and (lines := lines_together(op, cpu, rows)) * m > rows:
            taps = {"taps": 1} if op.taps is not None and op.tap_counts[0] > 1 and may_rest(op) else {}
            return {"tile": [rows, vectors], "depth": k, "rows": m, "lines": lines, **taps, **unrolled(cpu)}
        lines = min(rows // m, shared_lines(op)) if m <= rows else 1
        if lines > 1:
            return {"tile": [lines * m, vectors], "depth": k, "rows": m, "lines": lines, **unrolled(cpu)}
        rows = min(rows, m)
        # A window of one row (an image with lines of its own) is a product; measured on x86-64 with AVX2 and AVX-512.
        has_slices = bool(unrolled(cpu)) or cpu.vector >= WIDEST
        is_plain = may_rest(op) and (op.taps is None or (math.prod(op.tap_counts) == 1 and has_slices))
        depth = slice_of(k, panel, vectors * cpu.vector) if is_plain else k
        block = max(rows, int(cpu.l2 * 5 / 8) // (4 * depth) // rows * rows)
        deep = int(cpu.l2 * 2 / 5) // (4 * k) // rows * rows
        if depth < k and cpu.vector >= WIDEST:
            is_left_large = 4 * m * k > cpu.l2 and 2 * m >= panel * shape_of(op.b)[-3]
            if is_left_large and 4 * k * (panel + rows) <= cpu.l2 * WHOLE:
                depth, block = k, evenly(m, max(deep, rows))
        elif depth < k and takes_parts(panel, vectors * cpu.vector):
            few, most_tiles = TILES_OF_LARGE
            tiles = min(most_tiles, int(cpu.l2 * 7 / 16) // (4 * k) // rows)
            if 4 * m * k > LARGE * cpu.l2 and k >= DEPTH_OF_LARGE and tiles >= few:
                depth, block = k, tiles * rows
            elif min(deep, m) >= ROWS_OF_WHOLE:
                depth, block = k, deep
        block = self._in_order(op, cpu, depth, rows, block)
        return {"tile": [rows, vectors], "depth": depth, "rows": min(block, m), **unrolled_product(m, k, cpu)}

    def _in_order(self, op: BrgemmOp, cpu: Cpu, depth: int, rows: int, block: int) -> int:
        """Rows of a block: so few that those of the result, and of what is added to it, are in the second cache until
        all panels are done, where the right operand is small and the others are not: they are read and written in
        order then, and not a panel's columns of each row at a time. Blocks are equal, so that threads have as much
        each.
        """
        m, k = shape_of(op.a)[-2:]
        panels, _, panel = shape_of(op.b)[-3:]
        if cpu.vector < WIDEST or depth < k or not cpu.l2:
            return block
        row = 4 * (k + panels * panel * (1 + sum(strides_of(e.type)[-2] != 0 for e in op.extra)))
        if 4 * k * panels * panel > cpu.l2 // SMALL or m * row <= cpu.l2:
            return block
        block = min(block, max(rows, cpu.l2 // 2 // row))
        return -(-evenly(m, block) // rows) * rows

    def _schedule_of_sizes(self, op: BrgemmOp, cpu: Cpu) -> dict[str, Any]:
        """Where rows, depth or columns are known at run time only: tiles of the greatest height that there may be."""
        m, k = shape_of(op.a)[-2:]
        panel = shape_of(op.b)[-1]
        vectors = min(2 if cpu.vector > 4 or cpu.registers < 32 else 4, max(panel // cpu.vector, 1))
        rows = min((cpu.registers - vectors - 1) // vectors, 14, most(m))
        is_whole = op.taps is not None or isinstance(k, Size) or not may_rest(op)
        depth = most(k) if is_whole else slice_of(k, panel, vectors * cpu.vector)
        block = max(rows, int(cpu.l2 * 5 / 8) // (4 * depth) // rows * rows)
        whole = {} if isinstance(k, Size) else {"depth": depth}
        return {"tile": [rows, vectors], **whole, "rows": min(block, most(m)), **unrolled(cpu)}

    def shared(self, ops: Sequence[BrgemmOp], cpu: Cpu) -> dict[BrgemmOp, dict[str, int]]:
        return shared_entries(ops, cpu)

    def candidates(self, op: BrgemmOp, cpu: Cpu) -> list[dict[str, Any]]:
        """Lower and narrower tiles, shorter slices of depth, lines apart."""
        if not is_known((*shape_of(op.a), *shape_of(op.b), *shape_of(op.c))):
            return []
        own = self.schedule(op, cpu)
        m, k = shape_of(op.a)[-2:]
        found = [own]
        if "panels" in own:
            found += [{**own, "panels": wide} for wide in (1, 2, 3, 4) if wide < own["panels"]]
        else:
            most = (cpu.registers - 1) // 2 - 1
            tiles = [(min(most, m), 2), (min(12, m), 2), (min(8, m), 2), (min(cpu.registers - 4, m), 1)]
            for (rows, vectors), slices in product(tiles, (1, 2)):
                depth = -(-k // slices) if op.taps is None else k
                block = max(rows, int(cpu.l2 * 5 / 8) // (4 * depth) // rows * rows)
                found.append({"tile": [rows, vectors], "depth": depth, "rows": min(block, m), **unrolled(cpu)})
        distinct = [entry for number, entry in enumerate(found) if entry not in found[:number]]
        return [entry for entry in distinct if not self._why_not(op, cpu, entry)][:MOST_CANDIDATES]

    def _why_not(self, op: BrgemmOp, cpu: Cpu, entries: Mapping[str, Any]) -> str | None:
        trial = op.clone()
        set_schedule(trial, entries)
        return self.illegal(trial, cpu)

    def illegal(self, op: BrgemmOp, cpu: Cpu) -> str | None:
        rows, vectors = integers(op, "tile", (0, 0))
        m, k = shape_of(op.a)[-2:]
        (depth,), (wide,) = integers(op, "depth", (int(isinstance(k, Size)),)), integers(op, "panels", (1,))
        (block,), (lines,) = integers(op, "rows", (1,)), integers(op, "lines", (1,))
        (taps,), (unroll,) = integers(op, "taps", (0,)), integers(op, "unroll", (1,))
        panel = shape_of(op.b)[-1]
        if isinstance(panel, Size):
            return "a panel has a number of columns that is known"
        if not is_known((m, k, shape_of(op.b)[-3])) and (wide > 1 or lines > 1):
            return "several panels or lines at once are of numbers that are known"
        if isinstance(k, Size) and depth > 1:
            return "a depth that is known at run time only is not cut"
        if rows < 1 or vectors < 1 or depth < 1 or wide < 1:
            return "tile, depth and panels are positive"
        if block < 1 or (not isinstance(m, Size) and block > m):
            return f"a block of {block} rows, of {shape_of(op.a)[-2]}"
        is_part = vectors == 1 and panel < cpu.vector
        if panel % (vectors * cpu.vector) and not is_part:
            return f"{vectors} vectors of {cpu.vector} floats do not divide a panel of {panel}"
        if wide > _panels_at_once(rows, vectors, cpu):
            return f"a tile of {rows} x {vectors * wide} vectors needs more than {cpu.registers} registers"
        if lines > shared_lines(op):
            return f"{lines} lines of {shared_lines(op)} that share their panels"
        if lines > 1 and (
            rows > lines * block or block != shape_of(op.a)[-2] or depth < shape_of(op.a)[-1] or wide > 1
        ):
            return "several lines together: all of their rows, the whole depth, one panel"
        if lines > 1 and MOST_ADDRESSES < rows < lines * block:
            return f"a tile that goes over lines has up to {MOST_ADDRESSES} rows"
        if taps not in (0, 1) or (taps and (op.taps is None or isinstance(k, Size) or depth < k or wide > 1)):
            return "taps one after the other need taps, the whole depth, one panel"
        if not 1 <= unroll <= MOST_UNROLLED:
            return f"1 to {MOST_UNROLLED} steps of depth stand one after the other"
        (loops,), (fetched,) = integers(op, "loops", (0,)), integers(op, "fetched", (0,))
        if loops > MOST_LOOPS or fetched > MOST_FETCHED:
            return f"a tile has up to {MOST_LOOPS} loops over taps, and fetches up to {MOST_FETCHED} lines at once"
        (ends,) = integers(op, "ends", (0,))
        if ends and not can_choose(op, ends, begins_with(op) if _rests(op) else None):
            return f"the body is none of the ends {ends:#x}"
        if not may_rest(op) and _rests(op):
            return "sums rest in c, whose columns lie apart or which may be the memory of an extra operand"
        if lines > 1 and rows < lines * block and has_apart(op):
            return "tiles that go over lines have columns side by side"
        if wide > 1 and (vectors * cpu.vector != panel or depth < shape_of(op.a)[-1]):
            return "several panels at once need whole panels and the whole depth"
        row, column = strides_of(op.b.type)[-2:]
        if column != 1 or isinstance(row, Size):
            return "columns of a panel lie side by side, its rows at a distance that is known"
        return None

    def in_place(self, op: BrgemmOp) -> Sequence[SSAValue]:
        """Extra operands, unless sums lie in c before they are read: between slices, and before a long body, which has
        them elsewhere where the plan says so (``over``). Sums may begin with one, where it says so.
        """
        if _rests(op):
            begins = begins_with(op)
            return () if begins is None else (op.extra[begins],)
        return op.extra if is_in_registers(op) or op.over is not None else ()

    def in_place_always(self, op: BrgemmOp) -> Sequence[SSAValue]:
        """Those of a product that is short enough for no schedule to cut its depth, or short enough not to be cut
        where that saves memory (``deep``); the plan says so (``over``), so that none does. Of others the one that sums
        may begin with.
        """
        k = shape_of(op.a)[-1]
        is_cut = op.taps is not None and op.tap_counts[0] > 1
        if not op.extra or is_apart(op.c) or (at_least(DEPTH_OF_PARTS, k) and not is_cut):
            return op.extra
        func = op.parent_op()
        is_deep = at_least(MOST_DEPTH_WHOLE, k) and isinstance(func, FuncOp) and saves(func, "deep")
        if is_deep or (added := added_operand(op)) is None:
            return op.extra if is_deep else ()
        return (op.extra[added],)

    def c(self, op: BrgemmOp, cpu: Cpu) -> CFunction:
        """Units are pairs of a block of rows and a panel (or several), of each product of the batch."""
        return ProductText(op, cpu).function()

    def numpy(self, op: BrgemmOp, operands: Sequence[Any]) -> None:
        import numpy as np

        a, b, c, *extra = operands
        n = c.shape[-1]
        columns = np.moveaxis(b, -3, -2).reshape(*b.shape[:-3], b.shape[-2], b.shape[-3] * b.shape[-1])[..., :n]
        product = np.matmul(a.astype(np.float64), columns.astype(np.float64))
        taps = len(op.tap_counts)
        product = product.sum(tuple(range(-2 - taps, -2))).astype(c.dtype)
        c[...] = run_body(op.body.block, [product, *extra])
