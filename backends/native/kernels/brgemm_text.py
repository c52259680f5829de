"""The C of ``tile.brgemm``: register tiles, and the loops around them.

A register tile is ``m`` rows by ``n`` vectors of columns: for each step of depth ``n`` loads, ``m`` broadcasts and
``m n`` multiply-adds. Sums of a run of products are added to those before, which rest outside of the registers; between
slices of depth they rest in c. Products of a batch that share their panels and have
few rows are one tile together: panels are read once for all of its lines. While a panel is used, its tiles fetch the
next one into the second cache, a part each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from etir.backends.native.cpu import Cpu
from etir.backends.native.kernels.template import DECLARE, CFunction, body_function, integers, is_light
from etir.backends.native.sizes import Size, is_known, most
from etir.backends.native.tile import BrgemmOp, shape_of, strides_of

FETCHED = 128 * 1024
"""Bytes of a right operand of which panels are fetched ahead."""
RUN = 256
"""Products that are summed before their sum is added to the others: the error of a sum grows with it, not with the
depth.
"""


def shared_out(rows: int, most: int) -> tuple[int, int, int]:
    """Rows in tiles of nearly the same height: how many tiles, how many are higher by one, the height of the others."""
    tiles = -(-rows // most)
    return tiles, rows % tiles, rows // tiles


def heights(most_rows: int) -> list[int]:
    """Heights of tiles of which any number of rows can be made: each about two thirds of the one before, down to 1."""
    found = [most_rows]
    while found[-1] > 1:
        found.append(max(1, round(found[-1] * 0.7)) if found[-1] > 2 else 1)
    return found


Column = tuple[int, int, "int | str"]
"""A vector of columns of a tile: its offset in c and in b, and how many lanes are there, a number or a name of C."""


def _sum(row: int, column: int) -> str | int:
    """The offset of a column in a row."""
    return f"{row} + {column}" if isinstance(row, Size) else row + column


class ProductText:
    """The C of one product."""

    def __init__(self, op: BrgemmOp, cpu: Cpu):
        self.op, self.cpu = op, cpu
        self.m, self.k = shape_of(op.a)[-2:]
        self.n = shape_of(op.c)[-1]
        self.panels, _, self.panel = shape_of(op.b)[-3:]
        self.rows, self.vectors = integers(op, "tile", (1, 1))
        (self.depth,) = integers(op, "depth", (self.k,))
        (self.block,) = integers(op, "rows", (self.m,))
        (self.wide,) = integers(op, "panels", (1,))
        (self.lines,) = integers(op, "lines", (1,))
        self.tap_counts = op.tap_counts
        self.taps = math.prod(self.tap_counts)
        depth = len(self.tap_counts)
        self.tap_steps = list(
            zip(
                strides_of(op.a.type)[-2 - depth : -2],
                strides_of(op.b.type)[-3 - depth : -3],
                strict=True,
            )
        )
        self.between, self.row = strides_of(op.b.type)[-3:-1]
        self.lda, self.ldc = strides_of(op.a.type)[-2], strides_of(op.c.type)[-2]
        self.extra = [strides_of(e.type)[-2:] for e in op.extra]
        self.slices = -(-self.k // self.depth)
        self.light = is_light(op.body.block)
        self.is_cut_late = isinstance(self.panels, Size)
        self.passes = self._passes()
        self.tiles: dict[str, str] = {}

    def _passes(self) -> int:
        """The tiles that use a panel before the next one is used; 0 where that is not fetched ahead."""
        bytes_ = 4 * self.taps * self.k * self.panels * self.panel
        if not is_known((bytes_,)) or self.row != self.panel:
            return 0
        if self.wide > 1 or bytes_ < FETCHED or self.cpu.l2 == 0 or not self.shares_panels():
            return 0
        if not self.panels_outermost():
            return self.tiles_of_block()
        return self.tiles_of_block() * most(self.blocks() * math.prod(self.batch()))

    def tiles_of_block(self) -> int:
        """The tiles of a block of rows, or of lines."""
        return 1 if self.lines > 1 else shared_out(self.block, self.rows)[0]

    def blocks(self) -> int:
        """The blocks of rows."""
        return 1 if most(self.m) <= self.block else -(-self.m // self.block)

    def batch(self) -> list[int]:
        """The dims of the batch, lines that are one tile as one."""
        batch = [*shape_of(self.op.c)[:-2]]
        if self.lines > 1:
            batch[-1] = -(-batch[-1] // self.lines)
        return batch

    def panels_outermost(self) -> bool:
        """Whether a panel is used for everything before the next one: where all are too many for the second cache."""
        bytes_ = most(4 * self.taps * self.k * self.panels * self.panel)
        return bytes_ > self.cpu.l2 // 2 and self.shares_panels()

    def function(self) -> CFunction:
        batch = self.batch()
        count = math.prod(batch)
        blocks = self.blocks()
        groups = -(-self.panels // self.wide)
        units = count * blocks * groups
        slices = [
            f"for (long p = 0; p < {self.k}; p += {self.depth}) {{",
            f"  const long depth = {self.k} - p < {self.depth} ? {self.k} - p : {self.depth};",
            f"  const int first = p == 0, last = p + {self.depth} >= {self.k};",
        ]
        if isinstance(self.k, Size):  # maybe 0, and sums of nothing are written
            slices = ["{", f"  const long p = 0, depth = {self.k};", "  const int first = 1, last = 1;"]
        lines = [
            *slices,
            "  for (long unit = begin; unit < end; ++unit) {",
            *self._unit(count, blocks, groups),
            *self._addresses(batch),
            *(f"    {line}" for line in self._block(blocks)),
            "  }",
            "}",
        ]
        helpers = (body_function(self.op.body.block), *self.tiles.values())
        work = most(2 * self.m * self.n * self.k * count) / most(units)
        return CFunction("\n".join(lines), units, max(1, int(200_000 / work)), helpers)

    def _unit(self, count: int, blocks: int, groups: int) -> list[str]:
        """The parts of a unit: panels outermost where the weights are too many for the second cache."""
        if not self.panels_outermost():
            return [
                f"    const long group = unit % {groups}, block = unit / {groups} % {blocks};",
                f"    const long number = unit / {groups * blocks};",
            ]
        return [
            f"    const long group = unit / {count * blocks}, block = unit % {blocks};",
            f"    const long number = unit / {blocks} % {count};",
        ]

    def shares_panels(self) -> bool:
        """Whether all items of the batch have one right operand."""
        batch = len(shape_of(self.op.c)) - 2
        return not any(strides_of(self.op.b.type)[:batch])

    def _addresses(self, batch: Sequence[int]) -> list[str]:
        """The addresses of this unit's item of the batch."""
        operands = [self.op.a, self.op.b, self.op.c, *self.op.extra]
        names = ["a", "b", "c", *(f"e{i}" for i in range(len(self.extra)))]
        lines: list[str] = []
        if batch:
            lines.append("    long item = number;")
        positions: list[str] = []
        for d in reversed(range(len(batch))):
            lines.append(f"    const long d{d} = item % {batch[d]}; item /= {batch[d]};")
            positions.append(f"d{d}")
        lines.append("    (void)item;" if batch else "    (void)number;")
        for i, (name, operand) in enumerate(zip(names, operands, strict=True)):
            strides = strides_of(operand.type)
            steps = [*strides[: len(batch)]]
            if self.lines > 1:
                steps[-1] *= self.lines
            terms = "".join(f" + d{d} * {steps[d]}" for d in range(len(batch)) if steps[d])
            kind = "float*" if name == "c" else "const float*"
            lines.append(f"    {kind} const {name} = p{i}{terms};")
        return lines

    def _block(self, blocks: int) -> list[str]:
        """The tiles of a block of rows, for whole panels and for the last one if it is cut."""
        lines = [
            f"const long r0 = block * {self.block};",
            f"const long rows = {self.m} - r0 < {self.block} ? {self.m} - r0 : {self.block};"
            if blocks != 1
            else f"const long rows = {self.m};",
        ]
        if not isinstance(self.m, Size):
            del lines[1:]
        elif blocks == 1:
            lines[1] = f"const long rows = {self.m};"
        width = min(self.vectors * self.cpu.vector, self.panel)
        cut = self.n - (self.panels - 1) * self.panel if self.is_cut_late else self.n % self.panel
        rest = 0 if self.is_cut_late else self.panels % self.wide
        if self.lines > 1:
            return [*lines, *self._lines(width, cut)]
        if isinstance(self.m, Size):
            return [*lines, *self._panels(self.m, width, cut, rest, self.panels - (1 if cut else 0))]
        heights = [self.block] if blocks == 1 else [self.block, self.m - self.block * (blocks - 1)]
        for number, height in enumerate(dict.fromkeys(heights)):
            last_only = len(set(heights)) > 1
            if last_only:
                lines.append(f"if (block {'<' if number == 0 else '=='} {blocks - 1}) {{")
            whole = self.panels - (1 if cut else 0)
            lines += self._panels(height, width, cut, rest, whole)
            if last_only:
                lines.append("}")
        return lines

    def _lines(self, width: int, cut: int) -> list[str]:
        """The tiles of several items of the batch, for all but the last ones, and for those."""
        last = len(shape_of(self.op.c)) - 3
        extent = shape_of(self.op.c)[last]
        whole = self.panels - (1 if cut else 0)
        out: list[str] = []
        for condition, count in (("<", self.lines), ("==", extent % self.lines)):
            if count:
                out.append(f"if (d{last} {condition} {extent // self.lines}) {{")
                out += self._panels(count * self.m, width, cut, 0, whole)
                out.append("}")
        return out

    def _panels(self, height: int, width: int, cut: int, rest: int, whole: int) -> list[str]:
        if self.wide > 1:
            groups = -(-self.panels // self.wide)
            plain = groups - (1 if cut or rest else 0)
            lines: list[str] = []
            if plain:
                lines += [f"if (group < {plain}) {{", *self._rows(height, "0", self.wide, width), "}"]
            if plain < groups:
                count = self.panels - plain * self.wide
                last = cut or self.panel
                lines += [f"if (group == {plain}) {{", *self._rows(height, "0", count, width, last), "}"]
            return lines
        lines = []
        parts = self.panel // width
        if whole:
            lines.append(f"if (group < {whole}) {{")
            for part in range(parts):
                lines += self._rows(height, str(part * width), 1, width)
            lines.append("}")
        if cut:
            lines.append(f"if (group == {whole}) {{")
            if isinstance(cut, Size):
                for part in range(parts):
                    there = f"{cut} - {part * width}"
                    lines += [f"if ({there} > 0)", *self._rows(height, str(part * width), 1, width, 0, there)]
            else:
                for part in range(-(-cut // width)):
                    lines += self._rows(height, str(part * width), 1, width, min(width, cut - part * width))
            lines.append("}")
        return lines

    def _rows(self, height: int, column: str, wide: int, width: int, last: int = 0, there: str = "") -> list[str]:
        """Calls that do all rows of a block for one range of columns; ``last`` columns of the last panel are there, or
        the number ``there``, an expression of C.
        """
        lines: list[str] = ["{", "  long r = r0;"]
        offset = f"group * {self.wide * self.between} + p * {self.row}"
        if isinstance(height, Size):
            loops = [(f"  for (; r + {rows} <= r0 + rows; r += {rows})", rows) for rows in heights(self.rows)]
        else:
            tiles, higher, low = shared_out(height, self.rows)
            counts = ((higher, low + 1), (tiles - higher, low))
            loops = [(f"  for (long t = 0; t < {n}; ++t, r += {rows})", rows) for n, rows in counts if n]
        for loop, rows in loops:
            name = self._tile(rows, wide, width, last, bool(there))
            at = f"group * {self.wide * self.panel} + {column}"
            extras = "".join(
                f", e{i} + r * {row}" + (f" + {at}" if one else "") for i, (row, one) in enumerate(self.extra)
            )
            operands = f"a + r * {self.lda} + p, b + {offset} + {column}, c + r * {self.ldc} + {at}{extras}"
            if self.passes:
                number = f"(r - r0) / {self.rows}"
                if self.panels_outermost():
                    tiles, blocks = self.tiles_of_block(), self.blocks()
                    number = f"((number * {blocks} + block) * {tiles} + {number})"
                share = -(-self.depth * self.panel // self.passes)
                operands += f", b + {offset} + {self.between} + {number} * {share}"
            operands += f", depth, first, last{f', {there}' if there else ''}"
            lines += [f"{loop} {name}({operands}{', sizes' if self.needs_sizes(name) else ''});"]
        return [*lines, "}"]

    def needs_sizes(self, name: str) -> bool:
        """Whether a tile is given the sizes of the call."""
        return "<|" in self.tiles[name]

    def _tile(self, rows: int, wide: int, width: int, last: int, is_cut: bool = False) -> str:
        """The function of a register tile, made when it is first asked for."""
        name = f"@_{rows}x{wide}" + (f"_{last}" if last else "_some" if is_cut else "")
        if name not in self.tiles:
            lines = self._tile_lines(name, rows, wide, width, last, is_cut)
            if any("<|" in line for line in lines):
                lines[0] = lines[0].replace(") {", ", const int64_t* sizes) {")
                lines.insert(1, f"  {DECLARE}")
            self.tiles[name] = "\n".join(lines)
        return name

    def _tile_lines(self, name: str, rows: int, wide: int, width: int, last: int, is_cut: bool) -> list[str]:
        lanes = self.cpu.vector
        loops = [(n, steps) for n, steps in zip(self.tap_counts, self.tap_steps, strict=True) if n > 1]
        columns: list[Column] = []  # offset in c, offset in b, lanes
        for panel in range(wide):
            there = last if last and panel == wide - 1 else min(width, self.panel)
            if wide == 1 and not last:
                there = width
            for v in range(-(-there // lanes)):
                at = panel * self.panel + v * lanes
                count = f"l{v}" if is_cut else min(lanes, there - v * lanes)
                columns.append((at, panel * self.between + v * lanes, count))
        extras = "".join(f", const float* e{i}" for i in range(len(self.extra)))
        ahead = ", const float* next" if self.passes else ""
        parameters = f"const float* a, const float* b, float* c{extras}{ahead}, long depth, int first, int last"
        parameters += ", long some" if is_cut else ""
        out = [f"ETIR_NOINLINE void {name}({parameters}) {{"]
        if is_cut:
            for v in range(width // lanes):
                left = f"some - {v * lanes}"
                out.append(f"  const long l{v} = {left} < 0 ? 0 : {left} > {lanes} ? {lanes} : {left};")
        sums = [(i, j) for i in range(rows) for j in range(len(columns))]
        names = ", ".join(f"s{i}_{j}" for i, j in sums)
        out.append(f"  vf {names};")
        zeros = [f"    s{i}_{j} = vset(0.0f);" for i, j in sums]
        out += zeros
        level_of_run = self._run([count for count, _ in loops])
        runs = -(-most(self.depth) // RUN)
        end_of_run: list[str] = []
        if level_of_run >= 0:
            out.append("  vf " + ", ".join(f"t{i}_{j} = vset(0.0f)" for i, j in sums) + ";")
            end_of_run = [*(f"    t{i}_{j} += s{i}_{j};" for i, j in sums), *zeros]
        for level, (count, _) in enumerate(loops):
            out.append(f"  for (long tap{level} = 0; tap{level} < {count}; ++tap{level}) {{")
            out.append(f"  const float* const a{level} = a; const float* const b{level} = b;")
            if self.passes:
                out.append(f"  const float* const n{level} = next;")
        if runs > 1:
            run = -(-most(self.depth) // runs)
            out.append(f"  for (long k0 = 0; k0 < depth; k0 += {run}) {{")
            out.append(f"  const long k1 = k0 + {run} < depth ? k0 + {run} : depth;")
            out.append("  for (long k = k0; k < k1; ++k) {")
        else:
            out.append("  for (long k = 0; k < depth; ++k) {")
        load = f"vload_some(b + {{}}, {self.panel})" if self.panel < lanes else "vload(b + {})"
        out += [f"    const vf w{j} = {load.format(column[1])};" for j, column in enumerate(columns)]
        for i in range(rows):
            products = " ".join(f"s{i}_{j} = vfma(s{i}_{j}, x{i}, w{j});" for j in range(len(columns)))
            out.append(f"    const vf x{i} = vset(a[{self._at(self.op.a, i)}]); {products}")
        if self.passes:
            out.append(f"    __builtin_prefetch(next, 0, 2); next += {-(-self.panel // self.passes)};")
        out += [f"    a += 1; b += {self.row};", "  }"]
        if level_of_run == len(loops):
            out += end_of_run
        if runs > 1:
            out.append("  }")
        for level, (_, (a, b)) in reversed([*enumerate(loops)]):
            out.append(f"  a = a{level} + {a}; b = b{level} + {b};")
            if self.passes:
                out.append(f"  next = n{level} + {b};")
            out.append("  }")
            if level_of_run == level:
                out += end_of_run
        if end_of_run:
            out += [f"    s{i}_{j} = t{i}_{j};" for i, j in sums]
        if self.slices == 1:
            out.append("  (void)first; (void)last;")
        else:
            before = [self._load("c", self._at(self.op.c, i), 1, columns[j]) for i, j in sums]
            out.append("  if (!first) {")
            out += [f"    s{i}_{j} += {value};" for (i, j), value in zip(sums, before, strict=True)]
            out.append("  }")
        out += self._finish(rows, columns)
        out.append("}")
        return out

    def _run(self, counts: Sequence[int]) -> int:
        """How many loops of taps are around a run of products, after which its sums are added to the others: as few as
        make it no longer than ``RUN``; -1 where there is one run.
        """
        length, level = most(self.depth), len(counts)
        while level > 0 and length * counts[level - 1] <= RUN:
            level -= 1
            length *= counts[level]
        return -1 if level == 0 and length <= RUN else level

    def _finish(self, rows: int, columns: list[Column]) -> list[str]:
        """The body, on registers where it is short, else in a loop over the rows once the sums are stored."""
        sums = [(i, j) for i in range(rows) for j in range(len(columns))]
        stores = [f"    {self._store(self._at(self.op.c, i), columns[j], f's{i}_{j}')}" for i, j in sums]
        is_plain = len(list(self.op.body.block.ops)) == 1 and not self.extra
        if is_plain:
            return stores
        lines: list[str] = []
        if self.light:
            for i, j in sums:
                parts = [f"s{i}_{j}"] + [
                    self._load(f"e{x}", self._at(e, i), one, columns[j])
                    for x, (e, (_, one)) in enumerate(zip(self.op.extra, self.extra, strict=True))
                ]
                lines.append(f"    s{i}_{j} = @_body({', '.join(parts)});")
            lines = lines if self.slices == 1 else ["  if (last) {", *lines, "  }"]
            return [*lines, *stores]
        lines += stores
        if self.slices > 1:
            lines.append("  if (!last) return;")
        lines_of = rows // self.m if self.lines > 1 else 1
        if lines_of > 1:
            starts = ["float* const c_ = c;", *(f"const float* const e{x}_ = e{x};" for x in range(len(self.extra)))]
            lines.append(f"  {' '.join(starts)}")
            lines.append(f"  for (long line = 0; line < {lines_of}; ++line) {{")
            for name, operand in (("c", self.op.c), *((f"e{x}", e) for x, e in enumerate(self.op.extra))):
                lines.append(f"    {name} = {name}_ + line * {strides_of(operand.type)[-3]};")
        lines.append(f"  for (long i = 0; i < {rows // lines_of}; ++i) {{")
        for column in columns:
            parts = [self._load("c", 0, 1, column)] + [
                self._load(f"e{x}", 0, one, column) for x, (_, one) in enumerate(self.extra)
            ]
            result = f"@_body({', '.join(parts)})"
            lines.append(f"    {self._store(0, column, result)}")
        steps = "".join(f" e{x} += {row};" for x, (row, _) in enumerate(self.extra) if row)
        lines += [f"    c += {self.ldc};{steps}", "  }"]
        return [*lines, "  }"] if lines_of > 1 else lines

    def _at(self, operand: SSAValue, row: int) -> int:
        """The floats from the first row of a tile to another one, of an operand."""
        strides = strides_of(operand.type)
        if self.lines == 1:
            return row * strides[-2]
        return row // self.m * strides[self._line_dim(operand)] + row % self.m * strides[-2]

    def _line_dim(self, operand: SSAValue) -> int:
        """The dim of lines: that of the batch which lies innermost, before the taps."""
        return -3 - (len(self.tap_counts) if operand is self.op.a else 0)

    def _load(self, name: str, row: int, one: int, column: Column) -> str:
        if not one:
            return f"vset({name}[{row}])"
        at = _sum(row, column[0])
        whole = column[2] == self.cpu.vector
        return f"vload({name} + {at})" if whole else f"vload_some({name} + {at}, {column[2]})"

    def _store(self, row: int, column: Column, value: str) -> str:
        at = _sum(row, column[0])
        whole = column[2] == self.cpu.vector
        return f"vstore(c + {at}, {value});" if whole else f"vstore_some(c + {at}, {value}, {column[2]});"
