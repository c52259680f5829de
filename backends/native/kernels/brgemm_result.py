"""What a register tile of ``tile.brgemm`` does with its sums, and where the rows and columns of its operands are.

The body is done on registers where it is short. Else, and where columns lie apart, it is a loop over the rows, once the
sums are in c, or on the stack where c is the memory of what the body reads. Columns of c that lie apart are written
from the stack, one after another: rows of a tile are often neighbors in a plane.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property

from xdsl.ir import SSAValue

from etir.backends.native.cpu import Cpu
from etir.backends.native.kernels.apart import column_step, is_in_registers
from etir.backends.native.kernels.brgemm_ends import ADDED, BEGINS, BIAS, HIGH, LOW, Ends, ends_of, has_part, masks_in
from etir.backends.native.kernels.sums import begins_with
from etir.backends.native.kernels.template import integers
from etir.backends.native.sizes import Size
from etir.backends.native.tile import BrgemmOp, shape_of, strides_of
from etir.dialects.walking import ops_of

SHARED = ("slices", "runs", "loops", "odd", "fetched", "ends")
"""What a tile may have besides what its own product needs, as entries of a schedule: sums that rest in c between slices
of depth, or outside of the registers between runs; so many loops over taps; steps that unrolled ones leave; lines of
the cache that those fetch; ends to choose from (``brgemm_ends.py``).
"""

Column = tuple[int, int, "int | str"]
"""A vector of columns of a tile: its offset in c and in b, and how many lanes are there, a number or a name of C."""


def sum_text(row: int | str, column: int | str) -> str | int:
    """The offset of a column in a row."""
    if isinstance(row, (Size, str)) or isinstance(column, (Size, str)):
        return f"{row} + {column}"
    return row + column


class ResultText:
    """The end of the register tiles of one product.

    ``passes`` is how many tiles use a panel before the next one is used, each of which fetches a part of that; 0 where
    nothing is to be fetched ahead.
    """

    def __init__(self, op: BrgemmOp, cpu: Cpu):
        self.op, self.cpu = op, cpu
        self.m, self.k = shape_of(op.a)[-2:]
        self.n = shape_of(op.c)[-1]
        self.panels, _, self.panel = shape_of(op.b)[-3:]
        self.rows, self.vectors = integers(op, "tile", (1, 1))
        (self.depth,) = integers(op, "depth", (self.k,))
        (self.block,) = integers(op, "rows", (self.m,))
        (self.wide,) = integers(op, "panels", (1,))
        (self.lines,), (self.unroll,) = integers(op, "lines", (1,)), integers(op, "unroll", (1,))
        counts = op.tap_counts
        self.taps = math.prod(counts)
        depth = len(counts)
        steps = zip(strides_of(op.a.type)[-2 - depth : -2], strides_of(op.b.type)[-3 - depth : -3], strict=True)
        taps = list(zip(counts, steps, strict=True))
        cut = int(bool(integers(op, "taps", (0,))[0]))
        self.cut_taps, self.tap_loops = taps[:cut], taps[cut:]
        self.crosses = self.lines > 1 and self.rows < self.lines * self.m
        self.between, self.row = strides_of(op.b.type)[-3:-1]
        self.lda, self.ldc = strides_of(op.a.type)[-2], strides_of(op.c.type)[-2]
        self.along_a = 1 if self.k == 1 else strides_of(op.a.type)[-1]
        """The floats between elements of a row of a."""
        self.column = column_step(op.c) or 1
        """The floats between columns of c."""
        self.extra = [(strides_of(e.type)[-2], column_step(e)) for e in op.extra]
        self.slices = -(-self.k // self.depth)
        self.is_sliced = self.slices != 1 or bool(self.cut_taps)
        self.shared = {name: integers(op, name, (0,))[0] for name in SHARED}
        self.begins = begins_with(op) if self.is_sliced else None
        """The extra operand that sums begin with."""
        self.light = is_in_registers(op)
        self.is_cut_late = isinstance(self.panels, Size)
        self.passes = 0
        self.tiles: dict[str, str] = {}

    @cached_property
    def given(self) -> dict[str, int]:
        """The numbers that a tile is given as arguments, by name."""
        raise NotImplementedError

    @cached_property
    def ends(self) -> int:
        """The ends that the tile has a choice of; 0 where it has the end of its product."""
        return self._ends_asked if self.given else 0

    @property
    def _ends_asked(self) -> int:
        """The ends that the schedule asks for, of a tile that can be given strides."""
        return self.shared["ends"] if not self.crosses and self.column == 1 else 0

    @cached_property
    def own_ends(self) -> Ends:
        """The end of the product, as one of those."""
        found = ends_of(self.op)
        assert found is not None, "schedules that ask for others are not legal"
        return found

    @property
    def extra_names(self) -> list[str]:
        """The names of what a tile reads besides a and b."""
        if self.ends:
            return ["e0"] * has_part(self.ends, BIAS) + ["e1"] * has_part(self.ends, ADDED)
        return [f"e{x}" for x in range(len(self.extra))]

    @property
    def has_slices(self) -> bool:
        """Whether the tile is told if sums rest in c before it, or after."""
        return self.is_sliced or bool(self.shared["slices"])

    def _finish(self, rows: int, columns: list[Column]) -> list[str]:
        """The body, on registers where it is short, else in a loop over the rows once the sums are stored."""
        sums = [(i, j) for i in range(rows) for j in range(len(columns))]
        stores = [f"    {self._store(self._at(self.op.c, i), columns[j], f's{i}_{j}')}" for i, j in sums]
        if self.ends:
            return self._choice(sums, columns, stores)
        is_plain = len(ops_of(self.op.body.block)) == 1 and not self.extra
        if is_plain and self.column == 1:
            return stores
        lines: list[str] = []
        if self.light:
            for i, j in sums:
                parts = [f"s{i}_{j}"] + [
                    self._extra(x, f"e{x}", self._at(e, i), columns[j]) for x, e in enumerate(self.op.extra)
                ]
                lines.append(f"    s{i}_{j} = @_body({', '.join(parts)});")
            lines = ["  if (last) {", *lines, "  }"] if self.has_slices else lines
            return [*lines, *stores]
        lines += self._keep(rows, columns) if self._is_kept else stores
        if self.has_slices:
            lines.append("  if (!last) return;")
        if self.crosses:
            return [*lines, *self._body_of_rows(rows, columns)]
        lines += [] if is_plain else self._body_in_loop(rows, columns)
        return lines if self.column == 1 else [*lines, *self._write_apart(rows, columns)]

    def _choice(self, sums: Sequence[tuple[int, int]], columns: list[Column], stores: list[str]) -> list[str]:
        """The ends that the tile has a choice of. Each is as it would be alone, stores and all: of parts that are done
        or not a compiler makes longer code, in longer time.
        """

        def added(operand: str, row: Callable[[int], str]) -> list[str]:
            return [f"    s{i}_{j} += {self._load(operand, row(i), 1, columns[j])};" for i, j in sums]

        def bound(function: str, number: str) -> list[str]:
            return [f"    s{i}_{j} = {function}(vset({number}), s{i}_{j});" for i, j in sums]

        parts = {
            BIAS: added("e0", lambda _: "0"),
            ADDED: added("e1", self._row_of_added),
            LOW: bound("vmax_bound", "low"),
            HIGH: bound("vmin_bound", "high"),
        }
        plain, *others = masks_in(self.ends | 1 if self.has_slices else self.ends)
        lines = [f"  const long end = {'last ? ends : 0' if self.has_slices else 'ends'};"]
        for mask in others:
            does = [line for part, text in parts.items() if mask & part for line in text]
            lines += [f"  if (end == {mask}) {{", *does, *stores, "    return;", "  }"]
        return [*lines, *(line for part, text in parts.items() if plain & part for line in text), *stores]

    def _row_of_added(self, row: int) -> str:
        """The floats to a row of what an end adds."""
        if self.lines == 1:
            return f"{row} * lde1"
        return f"{row // self.m} * line_e1 + {row % self.m} * lde1"

    def _body_in_loop(self, rows: int, columns: list[Column]) -> list[str]:
        """The body in a loop over the rows of a tile of whole lines, from c or the stack to where it has the sums."""
        lines: list[str] = []
        lines_of = rows // self.m if self.lines > 1 else 1
        operands = [("c", self.op.c)] if self.column == 1 else []
        operands += [(f"e{x}", e) for x, e in enumerate(self.op.extra)]
        if lines_of > 1:
            kinds = [(name, "" if name == "c" else "const ") for name, _ in operands]
            lines.append(f"  {' '.join(f'{kind}float* const {name}_ = {name};' for name, kind in kinds)}")
            lines.append(f"  for (long line = 0; line < {lines_of}; ++line) {{")
            for name, operand in operands:
                step = self._step_of(f"line_{name}", strides_of(operand.type)[-3])
                lines.append(f"    {name} = {name}_ + line * {step};")
        lines.append(f"  for (long i = 0; i < {rows // lines_of}; ++i) {{")
        row = "i" if lines_of == 1 else f"(line * {rows // lines_of} + i)"
        for j, column in enumerate(columns):
            parts = [self._sums("c", row, j, columns)]
            parts += [self._extra(x, f"e{x}", 0, column) for x in range(len(self.extra))]
            result = f"@_body({', '.join(parts)})"
            kept = f"vstore({self._kept(row, j, columns)}, {result});"
            lines.append(f"    {self._store(0, column, result) if self.column == 1 else kept}")
        steps = "".join(f" e{x} += {self._step_of(f'lde{x}', row)};" for x, (row, _) in enumerate(self.extra) if row)
        on = f"c += {self._step_of('ldc', self.ldc)};" if self.column == 1 else ""
        lines += [f"    {on}{steps}", "  }"]
        return [*lines, "  }"] if lines_of > 1 else lines

    def _write_apart(self, rows: int, columns: list[Column]) -> list[str]:
        """Stores what is on the stack, column by column."""
        lanes, column = self.cpu.vector, self._step_of("column_c", self.column)
        lines: list[str] = []
        for j, (at, _, count) in enumerate(columns):
            lines += ["  ETIR_NOUNROLL", f"  for (long l = 0; l < {count}; ++l) {{"]
            lines.append(f"    float* const to = c + ({at} + l) * {column};")
            for i in range(rows):
                lines.append(f"    to[{self._at(self.op.c, i)}] = kept[{lanes * (i * len(columns) + j)} + l];")
            lines.append("  }")
        return lines

    def _begin(self, sums: Sequence[tuple[int, int]], columns: list[Column]) -> list[str]:
        """Add to the sums what those of the slices before are, or what they begin with."""

        def added(name: str, operand: SSAValue, one: int) -> list[str]:
            values = (self._load(name, self._at(operand, i), one, columns[j]) for i, j in sums)
            return [f"    s{i}_{j} += {value};" for (i, j), value in zip(sums, values, strict=True)]

        before = added("c", self.op.c, 1)
        if self.ends & BEGINS:
            start = [f"    s{i}_{j} += {self._load('e1', self._row_of_added(i), 1, columns[j])};" for i, j in sums]
            return ["  if (!first) {", *before, "  } else if (begins) {", *start, "  }"]
        if self.ends or self.begins is None:
            return ["  if (!first) {", *before, "  }"]
        start = added(f"e{self.begins}", self.op.extra[self.begins], self.extra[self.begins][1])
        return ["  if (first) {", *start, "  } else {", *before, "  }"]

    def _extra(self, number: int, name: str, at: int | str, column: Column) -> str:
        """A vector of an extra operand; of one that the sums have begun with what changes nothing when it is added."""
        return "vset(-0.0f)" if number == self.begins else self._load(name, at, self.extra[number][1], column)

    @property
    def _is_kept(self) -> bool:
        """Whether sums are on the stack until a long body reads them, since c is the memory of what it reads, too, or
        its columns lie apart.
        """
        return self.column != 1 or (self.op.over is not None and self.begins is None)

    def _step_of(self, name: str, number: int) -> int | str:
        """A number, by its name where a tile is given it."""
        return name if name in self.given else number

    def _keep(self, rows: int, columns: list[Column]) -> list[str]:
        """Stores the sums on the stack, where they are in nobody's way until the body reads them."""
        lanes, count = self.cpu.vector, len(columns)
        kept = [(i, j, lanes * (i * count + j)) for i in range(rows) for j in range(count)]
        stores = [f"    vstore(kept + {at}, s{i}_{j});" for i, j, at in kept]
        return [f"    float kept[{rows * count * lanes}];", *stores]

    def _sums(self, name: str, row: str, number: int, columns: list[Column]) -> str:
        """The sums of a row in column ``number``, which are stored in c, or on the stack."""
        if not self._is_kept:
            return self._load(name, 0, 1, columns[number])
        return f"vload({self._kept(row, number, columns)})"

    def _kept(self, row: str, number: int, columns: list[Column]) -> str:
        """Where the stack has a row of column ``number``."""
        lanes = self.cpu.vector
        return f"kept + {row} * {lanes * len(columns)} + {lanes * number}"

    def _body_of_rows(self, rows: int, columns: list[Column]) -> list[str]:
        """The body in a loop over the rows of a tile that crosses lines."""
        operands = [("c", self.op.c), *((f"e{x}", e) for x, e in enumerate(self.op.extra))]
        lines = [f"  for (long i = 0; i < {rows}; ++i) {{"]
        for name, operand in operands:
            const = "" if name == "c" else "const "
            lines.append(f"    {const}float* const {name}_ = {name} + {self._place(operand, '(r + i)')};")
        for j, column in enumerate(columns):
            parts = [self._sums("c_", "i", j, columns)]
            parts += [self._extra(x, f"e{x}_", 0, column) for x in range(len(self.extra))]
            result = f"@_body({', '.join(parts)})"
            lines.append(f"    {self._store(0, column, result, 'c_')}")
        return [*lines, "  }"]

    def _place(self, operand: SSAValue, row: str) -> str:
        """The floats from the first row of the lines to row ``row`` of all of them, an expression of C."""
        strides = strides_of(operand.type)
        name = self._name(operand)
        line = self._step_of(f"line_{name}", strides[self._line_dim(operand)])
        step = self._step_of(f"ld{name}", strides[-2])
        return f"({row} / {self.m} * {line} + {row} % {self.m} * {step})" if line or step else "0"

    def _at(self, operand: SSAValue, row: int) -> int | str:
        """The floats to a row of a tile, of an operand: from the tile's first one, or from that of the lines."""
        if self.crosses:
            return self._place(operand, f"(r + {row})")
        return self._fixed(operand, row)

    def depth_of_a(self, steps: int | str) -> int | str:
        """The floats that so many steps of depth are in a."""
        return steps if self.along_a == 1 else f"{steps} * {self._step_of('along_a', self.along_a)}"

    def _row_of_a(self, row: int) -> int | str:
        """The floats from the first row of a tile to another one, of the left operand."""
        if self.crosses:
            return f"row{row}" if row else 0
        return self._fixed(self.op.a, row)

    def _fixed(self, operand: SSAValue, row: int) -> int | str:
        """The floats from the first row of a tile to another one, of an operand."""
        strides = strides_of(operand.type)
        name = self._name(operand)
        terms = [(row, f"ld{name}", strides[-2])]
        if self.lines > 1:
            line = strides[self._line_dim(operand)]
            terms = [(row // self.m, f"line_{name}", line), (row % self.m, f"ld{name}", strides[-2])]
        named = [f"{count} * {name}" for count, name, _ in terms if count and name in self.given]
        number = sum(count * step for count, name, step in terms if name not in self.given)
        return " + ".join([*named, *([str(number)] if number else [])]) if named else number

    def _name(self, operand: SSAValue) -> str:
        """What an operand is called."""
        operands = [self.op.a, self.op.c, *self.op.extra]
        return ("a", "c", *(f"e{x}" for x in range(len(self.op.extra))))[operands.index(operand)]

    def _line_dim(self, operand: SSAValue) -> int:
        """The dim of lines: that of the batch which lies innermost, before the taps."""
        return -3 - (len(self.op.tap_counts) if operand is self.op.a else 0)

    def _load(self, name: str, row: int | str, one: int, column: Column) -> str:
        if not one:
            return f"vset({name}[{row}])"
        whole = column[2] == self.cpu.vector
        if one != 1:
            step = self._step_of(f"column_{name.rstrip('_')}", one)
            at = f"{name} + {row} + {column[0]} * {step}"
            return f"vgather({at}, {step})" if whole else f"vgather_some({at}, {step}, {column[2]})"
        at = sum_text(row, column[0])
        return f"vload({name} + {at})" if whole else f"vload_some({name} + {at}, {column[2]})"

    def _store(self, row: int | str, column: Column, value: str, name: str = "c") -> str:
        at = sum_text(row, column[0])
        whole = column[2] == self.cpu.vector
        return f"vstore({name} + {at}, {value});" if whole else f"vstore_some({name} + {at}, {value}, {column[2]});"
