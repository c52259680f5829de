"""The C of a register tile of ``tile.brgemm``.

A register tile is ``m`` rows by ``n`` vectors of columns: for each step of depth ``n`` loads, ``m`` broadcasts and
``m n`` multiply-adds. Where there are few registers several steps stand one after the other, since the loop's own
instructions would be a sixth of all. Sums of a run of products are added to those before, which rest outside of the
registers; between slices of depth, and of taps, they rest in c.

What only some products of a function need (slices, runs, loops over taps, a rest of steps) a tile may have for the sake
of others, with which it is one function then (``brgemm_share.py``): its schedule says so.

Rows of a tile lie at one distance, or go on in the next lines of an image: their places are then computed when a tile
starts, and are in general registers while it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from etir.backends.native.kernels.apart import column_step
from etir.backends.native.kernels.brgemm_ends import ADDED, BEGINS, BOUNDS, has_part
from etir.backends.native.kernels.brgemm_result import Column, ResultText, sum_text
from etir.backends.native.kernels.template import DECLARE
from etir.backends.native.sizes import is_known, most
from etir.backends.native.tile import extent_of, strides_of

LINE = 16
"""Floats of a line of a cache."""
WIDEST = 16
"""Floats of the vectors of AVX-512, with which a tile takes whole panels: it has rules of its own, which were measured.
"""
MOST_ADDRESSES = 8
"""Rows of a tile whose places are in general registers, as where it goes over lines: x86-64 has sixteen."""
ADDRESSES, OF_ADDRESS = 4, 4
"""Addresses of a higher tile, and rows that are found from one, at it and one, two and three strides beyond: they are
enough for fourteen rows, and x86-64 adds a stride, or twice one, where it reads.
"""
RUN = 256
"""Products that are summed before their sum is added to the others: the error of a sum grows with it, not with the
depth.
"""


class TileText(ResultText):
    """The register tiles of one product, as functions of C, which are made when they are first asked for."""

    @cached_property
    def given(self) -> dict[str, int]:
        """The numbers that a tile is given as arguments, by name: floats between rows of its operands, and between
        lines; taps, and the floats to the next one; steps of a run; what a step fetches ahead; whether c is fetched.

        Products of other sizes have the same tiles then, each of which a compiler takes its time for, and whose code is
        there once; it puts the numbers in where all calls have the same ones. A high tile that is many short lines has
        more addresses than registers: they stay constants.
        """
        operands = {"a": self.op.a, "c": self.op.c}
        operands |= {} if self._ends_asked else {f"e{x}": e for x, e in enumerate(self.op.extra)}
        found = {f"ld{name}": strides_of(operand.type)[-2] for name, operand in operands.items()}
        if self.lines > 1:
            found |= {f"line_{name}": strides_of(v.type)[self._line_dim(v)] for name, v in operands.items()}
        found |= {"along_a": self.along_a} if self.along_a != 1 else {}
        columns = {f"column_{name}": column_step(operand) for name, operand in operands.items() if name != "a"}
        found |= {name: step for name, step in columns.items() if step != 1}
        for level, (count, (a, b)) in enumerate(self._loops()):
            found |= {f"taps{level}": count, f"ta{level}": a, f"tb{level}": b}
        if is_known((self.k,)):
            found["run"] = self._steps_of_run()
        if not is_known((self.m, self.k, *found.values())) or len(self._starts(self.rows)) > ADDRESSES:
            return {}
        added = [f"{name}{level}" for level in range(self._loops_added) for name in ("ta", "tb")]
        given = {name: stride for name, stride in found.items() if stride or name in added}
        if self.shared["runs"]:
            given["several"] = int(self.has_runs)
        if self.fetches and not self.cut_taps:
            given["share"] = self._share()
        if self.wide == 1 and self._may_be_far():
            given["far"] = int(self._is_far())
        return given | self._given_to_ends() if self._ends_asked else given

    def _given_to_ends(self) -> dict[str, int]:
        """What ends are told that a tile has a choice of."""
        ends = self.own_ends
        found = {"ends": ends.last(self.begins)}
        if self._ends_asked & BEGINS:
            found["begins"] = int(self.begins is not None)
        if has_part(self._ends_asked, ADDED):
            strides = [0, 0] if ends.added is None else strides_of(self.op.extra[ends.added].type)[-3:-1]
            found |= {"lde1": strides[-1], **({"line_e1": strides[0]} if self.lines > 1 else {})}
        return found

    @cached_property
    def fetches(self) -> bool:
        """Whether a tile fetches what is used after it. One that need not is given nothing to go on by, and is the same
        as those that do.
        """
        is_one = self.wide == 1 and self.cpu.l2 != 0 and not self.cut_taps
        return self.passes != 0 or (is_one and is_known((self.m, self.n, self.k)) and self.row == self.panel)

    @cached_property
    def own_loops(self) -> list[tuple[int, tuple[int, int]]]:
        """The loops over taps: how many there are, and the floats to the next one in a and in b."""
        return [(count, steps) for count, steps in self.tap_loops if count > 1]

    @property
    def _loops_added(self) -> int:
        """How many loops of one tap are around the others, as other products have more."""
        return max(0, self.shared["loops"] - len(self.own_loops))

    def _loops(self) -> list[tuple[int, tuple[int, int]]]:
        """The loops of the tile."""
        return [(1, (0, 0))] * self._loops_added + self.own_loops

    @property
    def has_runs(self) -> bool:
        """Whether sums of the product are added to others before all are there."""
        return self.level_of_own_run() >= 0

    def level_of_own_run(self) -> int:
        """How many of the product's loops over taps are around a run; -1 where there is one run."""
        return self._run([count for count, _ in self.own_loops])

    @property
    def has_odd(self) -> bool:
        """Whether steps may be left when as many as stand one after another are done."""
        return not is_known((self.k,)) or self.k % self.unroll != 0 or self.depth % self.unroll != 0

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
        loops = self._loops()
        columns: list[Column] = []  # offset in c, offset in b, lanes
        for panel in range(wide):
            there = last if last and panel == wide - 1 else min(width, self.panel)
            if wide == 1 and not last:
                there = width
            for v in range(-(-there // lanes)):
                at = panel * self.panel + v * lanes
                count = f"l{v}" if is_cut else min(lanes, there - v * lanes)
                columns.append((at, panel * self.between + v * lanes, count))
        extras = "".join(f", const float* {name}" for name in self.extra_names)
        ahead = ", const float* next" if self.fetches else ""
        parameters = f"const float* a, const float* b, float* c{extras}{ahead}, long depth, int first, int last"
        parameters += ", long some" if is_cut else ""
        parameters += ", long r" if self.crosses else ""
        parameters += "".join(f", long {name}" for name in self.given)
        parameters += "".join(f", float {name}" for part, name in BOUNDS.items() if has_part(self.ends, part))
        out = [f"ETIR_NOINLINE void {name}({parameters}) {{"]
        if self.crosses:
            out.append(f"  const long row0 = {self._place(self.op.a, 'r')};")
            out += [f"  const long row{i} = {self._place(self.op.a, f'(r + {i})')} - row0;" for i in range(1, rows)]
            out.append("  a += row0;")
        if is_cut:
            for v in range(width // lanes):
                left = f"some - {v * lanes}"
                out.append(f"  const long l{v} = {left} < 0 ? 0 : {left} > {lanes} ? {lanes} : {left};")
        sums = [(i, j) for i in range(rows) for j in range(len(columns))]
        names = ", ".join(f"s{i}_{j}" for i, j in sums)
        out.append(f"  vf {names};")
        zeros = [f"    s{i}_{j} = vset(0.0f);" for i, j in sums]
        out += zeros
        if self.passes and self.cut_taps:
            out.append("  long ahead = 0;")
        out += self._fetch_late(rows, columns)
        level_of_run = self._level_of_run()
        is_in_runs = self._steps_of_run() > 0
        end_of_run: list[str] = []
        several = f"if ({self._step_of('several', int(self.has_runs))}) " if self.shared["runs"] else ""
        if level_of_run >= 0:
            out += self._before_runs(sums, several)
            end_of_run = [*(f"    t{i}_{j} += s{i}_{j};" for i, j in sums), *zeros]
            end_of_run = [f"    {several}{{", *end_of_run, "    }"] if several else end_of_run
        for level, (count, _) in enumerate(loops):
            count = self._step_of(f"taps{level}", count)
            out.append(f"  for (long tap{level} = 0; tap{level} < {count}; ++tap{level}) {{")
            out.append(f"  const float* const a{level} = a; const float* const b{level} = b;")
            if self.fetches and not self.cut_taps:
                out.append(f"  const float* const n{level} = next;")
        end = "depth"
        if is_in_runs:
            run = self._step_of("run", self._steps_of_run())
            out.append(f"  for (long k0 = 0; k0 < depth; k0 += {run}) {{")
            out.append(f"  const long k1 = k0 + {run} < depth ? k0 + {run} : depth;")
            end = "k1"
        out.append(f"  long k = {'k0' if is_in_runs else '0'};")
        far = [f"a{row}_" for row in self._starts(rows)[1:]] if self.given else []
        out += self._far_addresses(rows)
        step = [self._step(rows, width, columns, number) for number in range(self.unroll)]

        def on(steps: int) -> str:
            on_a = self.depth_of_a(steps)
            return " ".join(f"{name} += {on_a};" for name in ["a", *far]) + f" b += {steps * self.row};"

        if self.unroll > 1:
            out.append(f"  for (; k + {self.unroll} <= {end}; k += {self.unroll}) {{")
            out += [line for lines in step for line in ("    {", *lines, "    }")]
            out += [*self._fetch(width, self.unroll), f"    {on(self.unroll)}", "  }"]
        if self.unroll == 1 or self.has_odd or self.shared["odd"]:
            out += [f"  for (; k < {end}; ++k) {{", *step[0]]
            out += [*self._fetch(width, 1), f"    {on(1)}", "  }"]
        if level_of_run == len(loops):
            out += end_of_run
        if is_in_runs:
            out.append("  }")
        for level, (_, (a, b)) in reversed([*enumerate(loops)]):
            a, b = self._step_of(f"ta{level}", a), self._step_of(f"tb{level}", b)
            out.append(f"  a = a{level} + {a}; b = b{level} + {b};")
            if self.fetches and not self.cut_taps:
                out.append(f"  next = n{level} + {b};")
            out.append("  }")
            if level_of_run == level:
                out += end_of_run
        if end_of_run:
            ends = [f"    s{i}_{j} = t{i}_{j};" for i, j in sums]
            out += [f"    {several}{{", *ends, "    }"] if several else ends
        if not self.has_slices:
            out.append("  (void)first; (void)last;")
        else:
            out += self._begin(sums, columns)
        out += self._finish(rows, columns)
        out.append("}")
        return out

    def _step(self, rows: int, width: int, columns: list[Column], number: int) -> list[str]:
        """The multiply-adds of a step of depth, of which several stand one after the other."""
        load = f"vload_some(b + {{}}, {self.panel})" if self.panel < self.cpu.vector else "vload(b + {})"
        at = number * self.row
        out = [f"    const vf w{j} = {load.format(sum_text(column[1], at))};" for j, column in enumerate(columns)]
        for i in range(rows):
            products = " ".join(f"s{i}_{j} = vfma(s{i}_{j}, x{i}, w{j});" for j in range(len(columns)))
            out.append(f"    const vf x{i} = vset({self._element_of_a(i, rows, number)}); {products}")
        return out

    def _starts(self, rows: int) -> list[int]:
        """The rows of a high tile, of one line or of each, that have an address, from which others are found."""
        if rows <= MOST_ADDRESSES or self.crosses:
            return [0]
        line = rows if self.lines == 1 else self.m
        return [row for start in range(0, rows, line) for row in range(start, start + line, OF_ADDRESS)]

    def _far_addresses(self, rows: int) -> list[str]:
        """The addresses of a high tile, and three strides. A compiler would compute one for each row, and keep most of
        them in memory, if it saw how they are made.
        """
        starts = self._starts(rows) if self.given else [0]
        lines = ["  long lda3 = 3 * lda;", "  ETIR_OPAQUE(lda3);"] if len(starts) > 1 and "lda" in self.given else []
        for row in starts[1:]:
            lines += [f"  const float* a{row}_ = a + {self._row_of_a(row)};", f"  ETIR_OPAQUE(a{row}_);"]
        return lines

    def _element_of_a(self, row: int, rows: int, number: int) -> str:
        """The C of an element of the left operand: that of a row of a tile in a step of several."""
        starts = self._starts(rows) if self.given else [0]
        element = self.depth_of_a(number)
        if len(starts) == 1:
            return f"a[{sum_text(self._row_of_a(row), element)}]"
        start = max(one for one in starts if one <= row)
        at = ("", "lda + ", "2 * lda + ", "lda3 + ")[row - start] if "lda" in self.given else ""
        return f"{f'a{start}_' if start else 'a'}[{at}{element}]"

    def _fetch(self, width: int, steps: int) -> list[str]:
        """What so many steps of depth fetch of the panel that is used next: lines of 16 floats."""
        floats = steps * self._share() if self.fetches else 0
        if not floats and "share" not in self.given:
            return []
        if not self.cut_taps:
            on = f"{steps} * share" if "share" in self.given else floats
            count = max(self.lines_fetched(), self.shared["fetched"]) if steps > 1 else 1
            lines = " ".join(f"__builtin_prefetch(next + {LINE * line}, 0, 2);" for line in range(count))
            return [f"    {lines} next += {on};"]
        rows = range(0, floats, self.panel)
        lines = [
            f"    __builtin_prefetch(next + (ahead & -{self.panel}) + {row + column}, 0, 2);"
            for row in rows
            for column in range(0, width, LINE)
        ]
        return [*lines, f"    ahead += {floats};"]

    def lines_fetched(self) -> int:
        """The lines of the next panel that steps which stand one after another fetch; at least one."""
        return max(1, -(-self.unroll * self._share() // LINE))

    def _share(self) -> int:
        """The floats of the next panel that a step of depth fetches."""
        return -(-self.panel // self.passes) if self.passes else 0

    def _fetch_late(self, rows: int, columns: list[Column]) -> list[str]:
        """Fetch what a tile reads at its end: elements of the extra operands, and sums of the slices before. So are
        lines of c that are only written, where they are not in the second cache.
        """
        if self.cpu.l2 == 0 or self.crosses:
            return []
        late = [(f"e{x}", e, "", 0) for x, e in enumerate(self.op.extra) if self.extra[x][0] and self.extra[x][1] == 1]
        late = [] if self.ends else late
        may_be_far = "far" in self.given
        if may_be_far or self._is_far():
            late.append(("c", self.op.c, "if (far) " if may_be_far else "", 1))
        is_read = self.begins is None or bool(self.ends)
        if self.has_slices and is_read and (may_be_far or not self._is_far()):
            late.append(("c", self.op.c, "if (!first && !far) " if may_be_far else "if (!first) ", 0))
        out = self._fetch_added(rows, columns) if has_part(self.ends, ADDED) else []
        for name, operand, condition, writes in late:
            step = f"ld{name}"
            if self.lines == 1 and step in self.given:
                lines = [
                    f"for (long i = 0; i < {rows}; ++i) {{",
                    *self._fetched([f"i * {step} + {at}" for at, _, _ in columns if at % LINE == 0], name, writes),
                    "}",
                ]
            else:
                at = [self._at(operand, i) for i in range(rows)]
                places = [sum_text(row, column) for row in at for column, _, _ in columns if column % LINE == 0]
                lines = self._fetched(places, name, writes)
            out += [f"  {condition}{{", *(f"    {line}" for line in lines), "  }"]
        return out

    def _fetch_added(self, rows: int, columns: list[Column]) -> list[str]:
        """Fetch the rows of what an end adds, or a beginning, of a tile that has a choice."""
        lines = [at for at, _, _ in columns if at % LINE == 0]
        if self.lines == 1:
            fetched = self._fetched([f"i * lde1 + {at}" for at in lines], "e1", 0)
            fetched = [f"for (long i = 0; i < {rows}; ++i) {{", *fetched, "}"]
        else:
            fetched = self._fetched([f"{self._row_of_added(i)} + {at}" for i in range(rows) for at in lines], "e1", 0)
        begins = " || begins" if self.ends & BEGINS else ""
        return [f"  if ((ends & {ADDED}) != 0{begins}) {{", *(f"    {line}" for line in fetched), "  }"]

    def _fetched(self, places: Sequence[int | str], name: str, writes: int) -> list[str]:
        return [f"__builtin_prefetch({name} + {place}, {writes}, 3);" for place in places]

    def _may_be_far(self) -> bool:
        """Whether products of another size may have this tile and fetch c."""
        is_plain = (self.op.over is None or self._ends_asked != 0) and not self.crosses and self.column == 1
        return self.cpu.vector >= WIDEST and self.cpu.l2 != 0 and is_plain

    def _is_far(self) -> bool:
        """Whether c is too large for the second cache, and its memory no operand's: stores would wait for its lines.
        With other than the widest vectors a tile writes few of them.
        """
        bytes_ = 4 * most(extent_of(self.op.c.type))
        is_plain = self.op.over is None and self.column == 1
        return self.cpu.vector >= WIDEST and is_plain and bytes_ > self.cpu.l2 // 2

    def _steps_of_run(self) -> int:
        """Steps of depth in a run of products, if one tap has several, or is one as other taps are: where it is as long
        as the depth, a tile is the same as of products that are deeper. Else 0.
        """
        runs = -(-most(self.depth) // RUN)
        is_each = bool(self.own_loops) and is_known((self.k,)) and self.level_of_own_run() == len(self.own_loops)
        if runs > 1 or is_each:
            return -(-most(self.depth) // (runs * self.unroll)) * self.unroll
        return most(self.depth) if self.shared["runs"] and not self.has_runs else 0

    def _level_of_run(self) -> int:
        """The loops of the tile that are around a run of products; -1 where there is one run."""
        own = self.level_of_own_run()
        if own < 0:
            return len(self._loops()) if self.shared["runs"] else -1
        return own + self._loops_added

    def _before_runs(self, sums: Sequence[tuple[int, int]], several: str) -> list[str]:
        """The sums of the runs before, which are 0 at first; ``several`` is the condition that there are some."""
        if not several:
            return ["  vf " + ", ".join(f"t{i}_{j} = vset(0.0f)" for i, j in sums) + ";"]
        names = ", ".join(f"t{i}_{j}" for i, j in sums)
        return [f"  vf {names};", f"  {several}{{", *(f"    t{i}_{j} = vset(0.0f);" for i, j in sums), "  }"]

    def _run(self, counts: Sequence[int]) -> int:
        """How many loops of taps are around a run of products, after which its sums are added to the others: as few as
        make it no longer than ``RUN``; -1 where there is one run.
        """
        length, level = most(self.depth), len(counts)
        while level > 0 and length * counts[level - 1] <= RUN:
            level -= 1
            length *= counts[level]
        return -1 if level == 0 and length <= RUN else level
