"""The C of ``tile.brgemm``: the loops around its register tiles.

Units are pairs of a block of rows and a panel of columns, or several panels. Products of a batch that share their
panels are lines of an image, say. Those that have few rows are one tile together. Where all taps of a panel are too
much for the second cache, lines use a panel together, tap by tap, and their rows are shared out as those of one matrix.
While a panel is used, its tiles fetch what is used next into the second cache, a part each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from etir.backends.native.cpu import Cpu
from etir.backends.native.kernels.brgemm_ends import HIGH, LOW, has_part
from etir.backends.native.kernels.brgemm_tile import WIDEST
from etir.backends.native.kernels.brgemm_walk import WalkText
from etir.backends.native.kernels.template import CFunction, body_function, float_text, is_light
from etir.backends.native.sizes import Size, is_known, most
from etir.backends.native.tile import BrgemmOp, WeightOp, row_major, shape_of, strides_of
from etir.backends.native.users import base_of

LONG = 2048
"""Cycles of what a loop does beside which it takes no time itself, even as compilers first make it."""
FETCHED = 128 * 1024
"""Bytes of a right operand of which panels are fetched ahead."""


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


@dataclass(frozen=True)
class Heights:
    """The rows of a block: a number, or one of two, the first where the C expression ``condition`` is true."""

    rows: Sequence[int]
    condition: str

    def tiles(self, most_rows: int) -> list[tuple[str, int]]:
        """How many tiles there are, an expression of C, of each number of rows, the highest ones first."""
        counts: list[dict[int, int]] = []
        for rows in self.rows:
            tiles, higher, low = shared_out(rows, most_rows)
            counts.append({height: count for height, count in ((low + 1, higher), (low, tiles - higher)) if count})
        found: list[tuple[str, int]] = []
        for height in sorted(dict.fromkeys(height for count in counts for height in count), reverse=True):
            numbers = [count.get(height, 0) for count in counts]
            is_one = len(set(numbers)) == 1
            text = str(numbers[0]) if is_one else f"({self.condition} ? {numbers[0]} : {numbers[1]})"
            found.append((text, height))
        return found


class ProductText(WalkText):
    """The C of one product."""

    def __init__(self, op: BrgemmOp, cpu: Cpu):
        super().__init__(op, cpu)
        self.passes = self._passes()

    def _passes(self) -> int:
        """The tiles that use a panel before the next one is used; 0 where that is not fetched ahead."""
        bytes_ = 4 * self.taps * self.k * self.panels * self.panel
        if not is_known((bytes_,)) or self.row != self.panel:
            return 0
        items = 1 if self.shares_panels() else self.items_in_order()
        if self.wide > 1 or bytes_ * items < FETCHED or self.cpu.l2 == 0 or not items:
            return 0
        if self.cut_taps:
            return 0 if self.panel & (self.panel - 1) else self.tiles_of_block()
        if not self.panels_outermost():
            return self.tiles_of_block()
        return self.tiles_of_block() * most(self.blocks() * math.prod(self.batch()))

    def tiles_of_block(self) -> int:
        """The tiles of a block of rows, or of lines."""
        return shared_out(self.block * self.lines, self.rows)[0]

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
        """Whether a panel is used for everything before the next one: where all are too many for the second cache, and
        what it is multiplied with is not larger still.
        """
        bytes_ = most(4 * self.taps * self.k * self.panels * self.panel)
        return bytes_ > self.cpu.l2 // 2 and self.shares_panels() and not self._blocks_first(bytes_)

    def _blocks_first(self, right: int) -> bool:
        """Whether fewer bytes come from outside of the second cache where a block of rows is used for all panels before
        the next one: the left operand once, and the ``right`` one for each block. With other than the widest vectors
        the left one is read in order instead.
        """
        sizes = (self.m, self.k, self.panels, *self.batch())
        if self.cpu.vector < WIDEST or self.taps > 1 or self.cut_taps or not is_known(sizes):
            return False
        count, blocks = math.prod(self.batch()), self.blocks()
        if count * blocks == 1:
            return False
        left = 4 * count * self.lines * self.m * self.k
        again = left * -(-self.panels // self.wide) if left > self.cpu.l2 * 5 // 8 else left
        return left + right * blocks * count < right + again

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
        if is_light(self.op.body.block):  # functions (log) tell what is below the normal numbers from 0
            lines = ["const unsigned int mode = vflush();", *lines, "vflush_as(mode);"]
        helpers = (*([] if self.ends else [body_function(self.op.body.block)]), *self.tiles.values())
        work = most(2 * self.m * self.n * self.k * count) / most(units)
        calls = self.cycles() * (self.tiles_of_unit() if self._can_walk() else 1) >= LONG
        return CFunction("\n".join(lines), units, max(1, int(200_000 / work)), helpers, calls)

    def tiles_of_unit(self) -> int:
        """The tiles of a block of rows and a panel."""
        return self.tiles_of_block() * -(-self.panel // (self.vectors * self.cpu.vector))

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

    def items_in_order(self) -> int:
        """The items of the batch, where each has a weight as its right operand, one after another in memory: the next
        panel is the one that lies after a panel. Else 0.
        """
        batch = shape_of(self.op.c)[:-2]
        if self.cut_taps or self.taps > 1 or not isinstance(base_of(self.op.b).owner, WeightOp):
            return 0
        dense = row_major((*batch, self.panels, self.k, self.panel))
        return math.prod(batch) if strides_of(self.op.b.type) == dense else 0

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
            taken = f"{name}_" if self.cut_taps and name in ("a", "b") else name
            lines.append(f"    {kind} const {taken} = p{i}{terms};")
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
        whole = self.panels - (1 if cut else 0)
        if self.lines > 1:
            rest = 0
        return [*lines, *self._panels(self.block_height(), width, cut, rest, whole)]

    def block_height(self) -> Heights | Size:
        """The rows of a block, or of the lines that are one tile together."""
        if self.lines > 1:
            last = len(shape_of(self.op.c)) - 3
            most_lines, others = divmod(shape_of(self.op.c)[last], self.lines)
            counts = [self.lines] * (most_lines > 0) + [others] * (others > 0)
            return Heights([count * self.m for count in counts], f"d{last} < {most_lines}")
        if isinstance(self.m, Size):
            return self.m
        blocks = self.blocks()
        heights = [self.block] if blocks == 1 else [self.block, self.m - self.block * (blocks - 1)]
        return Heights([*dict.fromkeys(heights)], f"block < {blocks - 1}")

    def _panels(self, height: Heights | Size, width: int, cut: int, rest: int, whole: int) -> list[str]:
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
            lines += [f"if (group < {whole}) {{", *self._taps_head(), *self._columns(height, width, parts)]
            lines += ["}", *["}"] * len(self.cut_taps)]
        if cut:
            lines += [f"if (group == {whole}) {{", *self._taps_head()]
            if isinstance(cut, Size):
                for part in range(parts):
                    there = f"{cut} - {part * width}"
                    lines += [f"if ({there} > 0)", *self._rows(height, str(part * width), 1, width, 0, there)]
            else:
                last = cut % width
                lines += self._columns(height, width, cut // width, has_more=last != 0)
                if last and self._can_walk() and isinstance(height, Heights):
                    lines += self._walked(height, width, 1, last, cut - last)
                elif last:
                    lines += self._rows(height, str(cut - last), 1, width, last)
            lines += ["}", *["}"] * len(self.cut_taps)]
        return lines

    def _columns(self, height: Heights | Size, width: int, parts: int, has_more: bool = False) -> list[str]:
        """Calls that do all rows of a block for ``parts`` times ``width`` columns; whether more columns come then."""
        if self.passes and self.cut_taps:  # what is fetched ahead differs
            afters = [(part + 1) * width if part + 1 < parts or has_more else 0 for part in range(parts)]
            return [
                line
                for part, after in enumerate(afters)
                for line in self._rows(height, str(part * width), 1, width, after=after)
            ]
        if self._can_walk() and isinstance(height, Heights):
            return self._walked(height, width, parts * width) if parts else []
        if parts < 2:
            return self._rows(height, "0", 1, width) if parts else []
        head = f"for (long column = 0; column < {parts * width}; column += {width})"
        return ["ETIR_NOUNROLL", head, *self._rows(height, "column", 1, width)]

    def _rows(
        self, height: Heights | Size, column: str, wide: int, width: int, last: int = 0, there: str = "", after: int = 0
    ) -> list[str]:
        """Calls that do all rows of a block for one range of columns; ``last`` columns of the last panel are there, or
        the number ``there``, an expression of C.
        """
        lines: list[str] = ["{", "  long r = r0;"]
        offset = f"group * {self.wide * self.between} + p * {self.row}"
        if self.passes and self.cut_taps:
            lines.append(f"  const float* const next = {self._next(offset, after)};")
        if isinstance(height, Size):
            loops = [(f"  for (; r + {rows} <= r0 + rows; r += {rows})", rows) for rows in heights(self.rows)]
        else:
            loops = [(f"  for (long t = 0; t < {n}; ++t, r += {rows})", rows) for n, rows in height.tiles(self.rows)]
        for loop, rows in loops:
            name = self._tile(rows, wide, width, last, bool(there))
            at = f"group * {self.wide * self.panel} + {column}"

            on_a = "p" if self.along_a == 1 else f"p * {self.along_a}"

            def along(step: int, at: str = at) -> str:
                return "" if not step else f" + {at}" if step == 1 else f" + ({at}) * {step}"

            extras = "".join(f", {one}" for one in self._extras(along))
            operands = f"a + r * {self.lda} + {on_a}, b + {offset} + {column}"
            operands += f", c + r * {self.ldc}{along(self.column)}{extras}"
            if self.crosses:
                extras = "".join(f", e{i}{along(one)}" for i, (_, one) in enumerate(self.extra))
                operands = f"a + {on_a}, b + {offset} + {column}, c + {at}{extras}"
            if self.passes and self.cut_taps:
                share = -(-self.depth * self.panel // self.passes)
                operands += f", next + ((r - r0 + {self.rows - 1}) / {self.rows} * {share} & -{self.panel})"
            elif self.passes:
                # Tiles have nearly the same height, which is often less than the most: rounded up it is their number.
                number = f"(r - r0 + {self.rows - 1}) / {self.rows}"
                if self.panels_outermost():
                    tiles, blocks = self.tiles_of_block(), self.blocks()
                    number = f"((number * {blocks} + block) * {tiles} + {number})"
                share = -(-self.depth * self.panel // self.passes)
                operands += f", b + {offset} + {self.between} + {number} * {share}"
            elif self.fetches:
                operands += f", b + {offset}"
            operands += f", depth, first, last{f', {there}' if there else ''}"
            operands += ", r" if self.crosses else ""
            operands += "".join(f", {number}" for number in (*self.given.values(), *self._bounds()))
            lines += [f"{loop} {name}({operands}{', sizes' if self.needs_sizes(name) else ''});"]
        return [*lines, "}"]

    def _walked(self, height: Heights, width: int, columns: int, last: int = 0, first: int = 0) -> list[str]:
        """A call that does all rows of a block for some columns, of which ``last`` are there if that is not 0, from
        column ``first`` on.
        """
        counts = height.tiles(self.rows)
        name = self._walk([(rows, self._tile(rows, 1, width, last)) for _, rows in counts], width)
        at = f"group * {self.panel} + {first}" if first else f"group * {self.panel}"

        def along(step: int) -> str:
            return "" if not step else f" + {at}" if step == 1 else f" + ({at}) * {step}"

        on_a = "p" if self.along_a == 1 else f"p * {self.along_a}"
        offset = f"group * {self.between} + p * {self.row}"
        given = [f"a + r0 * {self.lda} + {on_a}", f"b + {offset}{f' + {first}' if first else ''}"]
        given += [f"c + r0 * {self.ldc}{along(self.column)}", *self._extras(along, "r0")]
        if self.passes:
            share = -(-self.depth * self.panel // self.passes)
            tiles = f" + (number * {self.blocks()} + block) * {self.tiles_of_block() * share}"
            given += [f"b + {offset} + {self.between}{tiles if self.panels_outermost() else ''}", str(share)]
        elif self.fetches:
            given += [f"b + {offset}", "0"]
        given += [str(columns), *(count for count, _ in counts), "depth", "first", "last"]
        given += [*map(str, self.given.values()), *self._bounds()]
        return [f"{name}({', '.join(given)});"]

    def _extras(self, along: Callable[[int], str], r: str = "r") -> list[str]:
        """What a tile reads besides a and b, from row r on; where it reads nothing, an address that is one."""
        of_operands = [f"e{i} + {r} * {row}{along(one)}" for i, (row, one) in enumerate(self.extra)]
        if not self.ends:
            return of_operands
        ends = self.own_ends
        by_name = {"e0": ends.bias, "e1": ends.added}
        read = [by_name[name] for name in self.extra_names]
        return ["b" if number is None else of_operands[number] for number in read]

    def _bounds(self) -> list[str]:
        """The bounds that a tile is given."""
        if not self.ends:
            return []
        bounds = {LOW: self.own_ends.low, HIGH: self.own_ends.high}
        return [float_text(bound) for part, bound in bounds.items() if has_part(self.ends, part)]

    def _taps_head(self) -> list[str]:
        """The head of the loop over the taps between which sums rest in c, if there is one."""
        return [
            line
            for count, (a, b) in self.cut_taps
            for line in (
                f"for (long tap = 0; tap < {count}; ++tap) {{",
                f"  const int first = tap == 0, last = tap == {count - 1};",
                f"  const float* const a = a_ + tap * {a};",
                f"  const float* const b = b_ + tap * {b};",
            )
        ]

    def _next(self, offset: str, after: int) -> str:
        """What is read after a tap of some columns: it at the columns that begin with ``after``, or where there are
        none the next tap, and after the last one the next panel, or this one again for the next item of the batch.
        """
        if after:
            return f"b + {offset} + {after}"
        ((_, (_, tap)),) = self.cut_taps
        items = math.prod(self.batch())
        panel = str(self.between) if items == 1 else f"(number == {items - 1} ? {self.between} : 0)"
        return f"last ? b_ + {offset} + {panel} : b + {offset} + {tap}"
