"""``tile.winograd_input`` and ``tile.winograd_output``: the transforms of F(2x2, 3x3), with what follows the sums.

A unit is a row of tiles: of the sums, or half of the points of an image's. Products go through one point after the
other, and threads have runs of units: one that has transformed a half multiplies it, and finds it in its cache. Both
halves read three of the four rows of a tile, as many as all of it would where two rows are in registers.

Vectors go along channels. Tiles that end outside of the image are C of their own, in which
rows and columns that are not there are 0, or not written. A row of the transformed tile at a time is in registers: the
four vectors of two rows of the image, or what two rows of the result are so far.

A tile is a function that is given the strides of its operands: images of all sizes have the same few, where the
transforms of a network would be a fifth of what a compiler reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from xdsl.ir import Block, SSAValue

from etir.backends.native.cpu import Cpu
from etir.backends.native.kernels.template import CFunction, Template, body_function, run_body, template
from etir.backends.native.sizes import is_known
from etir.backends.native.tile import shape_of, strides_of
from etir.backends.native.winograd import (
    AT,
    BT,
    IN,
    OUT,
    POINTS,
    WINDOW,
    WinogradInputOp,
    WinogradOutputOp,
    tiles_of,
)

GRAIN = 8192
"""Floats of a result that are worth a thread."""
MOST_ZEROS = 8192
"""Floats of zeros that a thread has on its stack in the place of rows that are not there."""


def _sum(terms: Sequence[tuple[int, str]]) -> str:
    """A sum of terms with the signs 1 and -1, from left to right, the first positive one first."""
    there = sorted(terms, key=lambda term: term[0] < 0)
    first, *rest = there
    assert first[0] > 0
    return first[1] + "".join(f" {'+' if sign > 0 else '-'} {name}" for sign, name in rest)


def why_not(image: SSAValue, tiles: SSAValue) -> str | None:
    """Why an image and its transformed tiles have no C."""
    if not is_known((*shape_of(image), *strides_of(image.type), *strides_of(tiles.type))):
        return "tiles are of an image whose sizes are known"
    if strides_of(image.type)[-1] != 1 or strides_of(tiles.type)[-1] != 1:
        return "channels lie side by side"
    return None


Tile = Callable[[Sequence[bool], Sequence[bool]], str]
"""What makes the call of a tile's function for its rows and columns that are there."""
Run = tuple[int, int, tuple[bool, ...]]
"""Tiles along a dim: the first one, how many, and which of the rows (or columns) of each are there."""


def _runs(extent: int, first: int, size: int, count: int) -> list[Run]:
    """``count`` tiles, every second row from ``first`` on, of ``size`` rows each, where rows 0 to ``extent`` are there:
    neighbors that have the same rows are one run.
    """
    found: list[Run] = []
    for number in range(count):
        there = tuple(0 <= first + OUT * number + i < extent for i in range(size))
        if found and found[-1][2] == there:
            start, run, _ = found.pop()
            found.append((start, run + 1, there))
        else:
            found.append((number, 1, there))
    return found


@dataclass(frozen=True)
class Transform:
    """What is done at each tile of a result [..., h, w, channels]: the calls that ``parts`` make, all of them or one.

    ``rows`` and ``columns`` of tiles have the same rows (columns) that are there. ``operands`` lie as the image does,
    but for ``tiles``; their names have the address of a tile in what a part makes for the rows and columns of it that
    are there. ``first`` are statements before everything, ``at_tile`` those at the start of each tile, ``helpers`` the
    functions that are called.
    """

    result: tuple[int, ...]
    rows: Sequence[Run]
    columns: Sequence[Run]
    operands: Sequence[tuple[str, SSAValue]]
    tiles: SSAValue
    parts: Sequence[Tile]
    helpers: dict[str, str]
    first: Sequence[str] = ()
    at_tile: Sequence[str] = ()

    @property
    def lead(self) -> tuple[int, ...]:
        """The dims of images."""
        return self.result[:-3]

    @property
    def extents(self) -> tuple[int, int]:
        """Rows of tiles, and tiles of a row."""
        return tiles_of(self.result[-3]), tiles_of(self.result[-2])

    def row(self) -> list[str]:
        """Declarations of where row ``row`` of tiles is."""
        high, _ = self.extents
        lines = [f"const long y = row % {high};", f"long left = row / {high};"]
        for d in reversed(range(len(self.lead))):
            lines.append(f"const long d{d} = left % {self.lead[d]}; left /= {self.lead[d]};")
        return [*lines, "(void)left;"]

    def addresses(self, index: str) -> list[str]:
        """Declarations of the addresses of tile ``x`` of a row, which is ``index`` among the transformed ones."""
        found: list[str] = []
        for number, (name, value) in enumerate(self.operands):
            steps = strides_of(value.type)
            if value is self.tiles:
                at = f" + ({index}) * {steps[-2]}"
            else:
                at = "".join(f" + d{d} * {steps[d]}" for d in range(len(self.lead)) if steps[d])
                at += f" + y * {OUT * steps[-3]} + x * {OUT * steps[-2]}"
            found.append(f"float* const {name} = p{number}{at};")
        return [*found, *self.at_tile]

    def calls(self, tile: Tile, rows: Sequence[bool]) -> list[str]:
        """What is called at a tile that has these rows."""
        lines: list[str] = []
        for number, (begin, run, columns) in enumerate(self.columns):
            before = "else " if number else ""
            where = f"if (x < {begin + run}) " if number + 1 < len(self.columns) else ""
            lines.append(f"{before}{where}{tile(rows, columns)}")
        return lines

    def function(self) -> CFunction:
        """A loop over rows of tiles, all of them once for each of the parts."""
        high, wide = self.extents
        count_of_rows = math.prod(self.lead) * high
        lines = [*self.first, "for (long unit = begin; unit < end; ++unit) {"]
        lines += [
            f"  const long row = unit % {count_of_rows}, part = unit / {count_of_rows};",
            *(f"  {line}" for line in self.row()),
            "  (void)part;",
        ]
        # One loop that chooses what a tile calls: with a loop for each, compilers optimize the addresses in all of
        # them.
        for start, count, some_rows in self.rows:
            if count < high:
                lines.append(f"  if (y >= {start} && y < {start + count})")
            lines.append(f"  for (long x = 0; x < {wide}; ++x) {{")
            lines += [f"    {line}" for line in self.addresses(f"row * {wide} + x")]
            for part, tile in enumerate(self.parts):
                chosen = f"if (part == {part}) " if len(self.parts) > 1 else ""
                lines.append(f"    {chosen}{{")
                lines += [f"      {line}" for line in self.calls(tile, some_rows)]
                lines.append("    }")
            lines.append("  }")
        lines.append("}")
        grain = max(1, GRAIN * len(self.parts) // (POINTS * wide * self.result[-1]))
        return CFunction(
            "\n".join(lines), count_of_rows * len(self.parts), grain, (*self.helpers.values(),), calls=True
        )

    def of_tiles(self, name: str) -> str:
        """``void NAME(float* p0, ..., long from, long to)``: tiles ``from`` to ``to`` of all of them; the transformed
        ones begin with the first of these.
        """
        high, wide = self.extents
        given = ", ".join(f"float* const p{number}" for number in range(len(self.operands)))
        lines = [f"ETIR_NOINLINE void {name}({given}, long from, long to) {{", *(f"  {line}" for line in self.first)]
        lines += [
            "  for (long tile = from; tile < to; ++tile) {",
            f"    const long row = tile / {wide}, x = tile % {wide};",
        ]
        lines += [f"    {line}" for line in (*self.row(), *self.addresses("tile - from"))]
        for start, count, some_rows in self.rows:
            where = f"if (y >= {start} && y < {start + count}) " if count < high else ""
            lines.append(f"    {where}{{")
            lines += [f"      {line}" for tile in self.parts for line in self.calls(tile, some_rows)]
            lines.append("    }")
        return "\n".join([*lines, "  }", "}"])


def _helper(name: str, parameters: str, lanes: Callable[[str], list[str]], channels: int, cpu: Cpu) -> str:
    """The function of a tile: vectors of channels, and those that are less than one. ``lanes`` makes either."""
    lines = [f"ETIR_NOINLINE void {name}({parameters}, long channels) {{", "  long j = 0;"]
    if channels >= cpu.vector:
        lines.append(f"  for (; j + {cpu.vector} <= channels; j += {cpu.vector}) {{")
        lines += [*(f"    {line}" for line in lanes("")), "  }"]
    if some := channels % cpu.vector:
        lines += [f"  {line}" for line in lanes(str(some))]
    return "\n".join([*lines, "}"])


def _marks(there: Sequence[bool]) -> str:
    """Which rows or columns are there, in the name of a function."""
    return "".join("1" if one else "0" for one in there)


def _load(at: str, some: str) -> str:
    return f"vload_some({at}, {some})" if some else f"vload({at})"


def _store(at: str, value: str, some: str) -> str:
    return f"vstore_some({at}, {value}, {some});" if some else f"vstore({at}, {value});"


def input_transform(x: SSAValue, v: SSAValue, borders: Sequence[int], result: tuple[int, ...], cpu: Cpu) -> Transform:
    """``v = B' d B`` of the tiles of an image ``x`` with its borders; ``result`` is [..., h, w, channels of ``x``]."""
    *_, h, w, channels = shape_of(x)
    row, column, _ = strides_of(x.type)[-3:]
    point = strides_of(v.type)[-3]
    top, _, left, _ = borders
    high, wide = (tiles_of(extent) for extent in result[-3:-1])
    rows, columns = _runs(h, -top, IN, high), _runs(w, -left, IN, wide)
    # Tiles that lack rows read zeros in their place, also where all tiles of an operation do, as in a block at the
    # top of an image: code for each of the borders, and corners, is three times as long. Columns that lack are not
    # read, since tiles of small images have few others.
    zeros = (IN - 1) * column + -(-channels // cpu.vector) * cpu.vector
    is_one = any(not all(there) for *_, there in rows) and zeros <= MOST_ZEROS
    first: list[str] = []
    at_tile: list[str] = []
    if is_one:
        first += [
            f"float zeros[{zeros}];",
            f"for (long i = 0; i + {cpu.vector} <= {zeros}; i += {cpu.vector}) vstore(zeros + i, vset(0.0f));",
        ]
        if zeros % cpu.vector:
            first.append(f"vstore(zeros + {zeros - cpu.vector}, vset(0.0f));")
        for y in range(IN):
            there = f"(unsigned long)(y * {OUT} + {y - top}) < {h}"
            at = f"x_ + {(y - top) * row}"
            at_tile.append(f"const float* const x{y} = {there} ? {at} : zeros + {left * column};")
        rows = [(0, high, (True,) * IN)]
    helpers: dict[str, str] = {}

    def half(points: Sequence[int], rows: Sequence[bool], columns: Sequence[bool]) -> str:
        """The call that makes some rows of the transformed tile."""
        name = f"@_{points[0]}_{_marks(rows)}_{_marks(columns)}"
        used = [y for y in range(IN) if any(BT[i][y] for i in points)]
        given = ", ".join(f"const float* x{y}" for y in used) + ", float* v, long column, long point"
        lanes = partial(_half, points, rows, columns, left)
        helpers[name] = _helper(name, given, lanes, channels, cpu)
        at = [f"x{y}" if is_one else f"x_ + {(y - top) * row}" if rows[y] else "x_" for y in used]
        return f"{name}({', '.join(at)}, v + {points[0] * IN * point}, {column}, {point}, {channels});"

    halves = [partial(half, points) for points in (range(IN // 2), range(IN // 2, IN))]
    operands = [("x_", x), ("v", v)]
    return Transform(result, rows, columns, operands, v, halves, helpers, first, at_tile)


def output_transform(m: SSAValue, c: SSAValue, extra: Sequence[SSAValue], body: Block, cpu: Cpu) -> Transform:
    """``c = body(A' m A, extra)`` of the tiles of an image ``c``."""
    point = strides_of(m.type)[-3]
    channels = shape_of(c)[-1]
    written = [("c", c), *((f"e{i}", e) for i, e in enumerate(extra))]
    steps = [(name, *strides_of(value.type)[-3:-1]) for name, value in written]
    helpers = {"": body_function(body)}

    def at(name: str, value: SSAValue, y: int, x: int) -> str:
        row, column, channel = strides_of(value.type)[-3:]
        there = [name] + [f"{name}_row"] * (y and row != 0) + [f"{name}_column"] * (x and column != 0)
        return " + ".join(there) + (" + j" if channel else "")

    def lanes(rows: Sequence[bool], columns: Sequence[bool], some: str) -> list[str]:
        lines = [f"vf y{i}{x};" for i in range(sum(rows)) for x in range(IN)]
        for x in range(IN):
            lines.append("{")
            lines += [f"  const vf m{i} = {_load(f'm + {i * IN + x} * point + j', some)};" for i in range(IN)]
            for i in range(sum(rows)):
                lines.append(f"  y{i}{x} = {_sum([(AT[i][k], f'm{k}') for k in range(IN) if AT[i][k]])};")
            lines.append("}")
        for i in range(sum(rows)):
            for n in range(sum(columns)):
                values = [_sum([(AT[n][x], f"y{i}{x}") for x in range(IN) if AT[n][x]])]
                for number, e in enumerate(extra):
                    from_ = at(f"e{number}", e, i, n)
                    values.append(_load(from_, some) if strides_of(e.type)[-1] else f"vset(({from_})[0])")
                lines.append(_store(at("c", c, i, n), f"@_body({', '.join(values)})", some))
        return lines

    def tile(rows: Sequence[bool], columns: Sequence[bool]) -> str:
        """The call that makes a tile of the result."""
        name = f"@_{_marks(rows)}_{_marks(columns)}"
        pointers = ", ".join(f"{'' if name == 'c' else 'const '}float* {name}" for name, _ in written)
        given = ", ".join(f"long {name}_row, long {name}_column" for name, _ in written)
        parameters = f"const float* m, {pointers}, long point, {given}"
        helpers[name] = _helper(name, parameters, partial(lanes, rows, columns), channels, cpu)
        names, numbers = ", ".join(n for n, _ in written), ", ".join(f"{r}, {c}" for _, r, c in steps)
        return f"{name}(m, {names}, {point}, {numbers}, {channels});"

    operands = [("m", m), *written]
    *_, h, w, _ = shape_of(c)
    runs = _runs(h, 0, OUT, tiles_of(h)), _runs(w, 0, OUT, tiles_of(w))
    return Transform(shape_of(c), *runs, operands, m, [tile], helpers)


@template(WinogradInputOp)
class WinogradInput(Template):
    """Tiles of an image, transformed."""

    name = "winograd_input"

    def illegal(self, op: WinogradInputOp, cpu: Cpu) -> str | None:
        return why_not(op.x, op.v)

    def c(self, op: WinogradInputOp, cpu: Cpu) -> CFunction:
        return input_transform(op.x, op.v, op.borders, op.result, cpu).function()

    def numpy(self, op: WinogradInputOp, operands: Sequence[Any]) -> None:
        import numpy as np

        x, v = operands
        *lead, h, w, c = x.shape
        top, _, left, _ = op.borders
        high, wide = (tiles_of(extent) for extent in op.result[-3:-1])
        whole = np.zeros((math.prod(lead), high * OUT + WINDOW - 1, wide * OUT + WINDOW - 1, c), v.dtype)
        whole[:, top : top + h, left : left + w] = x.reshape(-1, h, w, c)
        d = [[whole[:, y : y + high * OUT : OUT, z : z + wide * OUT : OUT] for z in range(IN)] for y in range(IN)]
        e = [[_added(BT[i], [d[y][z] for y in range(IN)]) for z in range(IN)] for i in range(IN)]
        for i in range(IN):
            for n in range(IN):
                v[i * IN + n] = _added(BT[n], e[i]).reshape(-1, c)


def _half(points: Sequence[int], rows: Sequence[bool], columns: Sequence[bool], left: int, some: str) -> list[str]:
    """Some rows of a transformed tile, of which ``v`` is the first one, for a vector of channels: ``left`` is the
    column of the tile at which the rows ``x0``, ``x1``, ... are given.
    """

    def load(y: int, x: int) -> str:
        at = f"x{y} + {x - left} * column + j" if x != left else f"x{y} + j"
        return _load(at, some) if rows[y] and columns[x] else "vset(0.0f)"

    lines: list[str] = []
    there: set[int] = set()
    for number, i in enumerate(points):
        used = [y for y in range(IN) if BT[i][y]]
        lines += [f"const vf d{y}{x} = {load(y, x)};" for y in used if y not in there for x in range(IN)]
        there.update(used)
        for x in range(IN):
            value = _sum([(BT[i][y], f"d{y}{x}") for y in range(IN) if BT[i][y]])
            lines.append(f"const vf e{i}{x} = {value};")
        for n in range(IN):
            value = _sum([(BT[n][x], f"e{i}{x}") for x in range(IN) if BT[n][x]])
            lines.append(_store(f"v + {number * IN + n} * point + j", value, some))
    return lines


@template(WinogradOutputOp)
class WinogradOutput(Template):
    """Tiles of a result from their sums, and what follows them."""

    name = "winograd_output"

    def illegal(self, op: WinogradOutputOp, cpu: Cpu) -> str | None:
        if any(strides_of(e.type)[-1] not in (0, 1) for e in op.extra if shape_of(e)[-1] != 1):
            return "channels of the extra operands lie side by side, or are one"
        return why_not(op.c, op.m)

    def in_place(self, op: WinogradOutputOp) -> Sequence[SSAValue]:
        """Extra operands are read when their float is written."""
        return op.extra

    def c(self, op: WinogradOutputOp, cpu: Cpu) -> CFunction:
        return output_transform(op.m, op.c, op.extra, op.body.block, cpu).function()

    def numpy(self, op: WinogradOutputOp, operands: Sequence[Any]) -> None:
        import numpy as np

        m, c, *extra = operands
        *lead, h, w, n = c.shape
        high, wide = tiles_of(h), tiles_of(w)
        rows = [[m[i * IN + x].reshape(-1, high, wide, n) for i in range(IN)] for x in range(IN)]
        sums = np.zeros((math.prod(lead), high * OUT, wide * OUT, n), c.dtype)
        for i in range(OUT):
            y = [_added(AT[i], rows[x]) for x in range(IN)]
            for k in range(OUT):
                sums[:, i::OUT, k::OUT] = _added(AT[k], y)
        c[...] = run_body(op.body.block, [sums[:, :h, :w].reshape(c.shape), *extra])


def _added(signs: Sequence[int], values: Sequence[Any]) -> Any:
    """:func:`_sum` of arrays."""
    terms = sorted(((sign, value) for sign, value in zip(signs, values, strict=True) if sign), key=lambda t: t[0] < 0)
    found = terms[0][1]
    for sign, value in terms[1:]:
        found = found + value if sign > 0 else found - value
    return found
