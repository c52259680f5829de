"""``tile.take``: runs of floats that lie side by side in both memories are copied by vectors, others one by one.

Loops go over dims by how far apart elements of the result lie. A unit of work is one index of all dims but the last
two. Where elements of the innermost dim lie side by side, as channels of an image and columns of a plane do, that dim
is pieces: runs in order, backwards, or of one element. Of an image whose pixels lie side by side a row of pixels is
such a dim, too, if that makes fewer pieces. Where runs are short, elements are picked by a table in the code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from etir.backends.native.cpu import Cpu
from etir.backends.native.kernels.loops import outer_indices
from etir.backends.native.kernels.template import CFunction, Template, template
from etir.backends.native.take import Numbers, TakeOp, runs_of
from etir.backends.native.tile import shape_of, strides_of

WORTH = 4096
"""Floats that are worth a thread."""
SHORT = 4
"""Floats of a run on average with which elements are picked one by one."""
FEW = 6
"""Pieces that are spelled out; more are a table."""
COPY = """ETIR_INLINE void @_copy(float* restrict to, const float* restrict from, long count) {
  long j = 0;
  for (; j + ETIR_VW <= count; j += ETIR_VW) vstore(to + j, vload(from + j));
  if (j < count) vstore_some(to + j, vload_some(from + j, count - j), count - j);
}"""


@template(TakeOp)
class Take(Template):
    """Floats from other places."""

    name = "take"

    def c(self, op: TakeOp, cpu: Cpu) -> CFunction:
        dims, start = _dims(op)
        *outer, middle, inner = [_Dim(1, 0, 0), _Dim(1, 0, 0), *dims][-max(2, len(dims)) :]
        code = _Code(cpu.vector)
        given, made = f"p0 + {start}" if start else "p0", "p1"
        for number, dim in enumerate(outer):
            given += code.offset(f"i{number}", dim)
            made += f" + i{number} * {dim.made}"
        lines = [
            "for (long row = begin; row < end; ++row) {",
            *(f"  {line}" for line in outer_indices([dim.count for dim in outer])),
            f"  const float* restrict const from = {given};",
            f"  float* restrict const to = {made};",
            *(f"  {line}" for line in code.rows(middle, inner)),
            "}",
        ]
        units, grain = math.prod(dim.count for dim in outer), max(1, WORTH // (middle.count * inner.count))
        return CFunction("\n".join(lines), units, grain, (COPY, *code.tables) if code.copies else (*code.tables,))

    def numpy(self, op: TakeOp, operands: Sequence[Any]) -> None:
        a, c = operands
        for dim, numbers in enumerate(op.numbers()):
            a = a if numbers is None else a.take(numbers, dim)
        c[...] = a


@dataclass(frozen=True)
class _Dim:
    """``count`` elements of a dim, ``made`` apart in the result; in what is given at ``given`` times their numbers."""

    count: int
    given: int
    made: int
    numbers: Numbers = None


def _dims(op: TakeOp) -> tuple[list[_Dim], int]:
    """The dims by how far apart elements of the result lie, as few as possible, and the first float that is given."""
    rows = zip(shape_of(op.c), strides_of(op.a.type), strides_of(op.c.type), op.numbers(), strict=True)
    all_dims = [_Dim(count, given, made, numbers) for count, given, made, numbers in rows]
    start = sum(dim.numbers[0] * dim.given for dim in all_dims if dim.count == 1 and dim.numbers is not None)
    found: list[_Dim] = []
    for dim in sorted((dim for dim in all_dims if dim.count > 1), key=lambda dim: -dim.made):
        if dim.numbers is not None and [*dim.numbers] == [*range(dim.numbers[0], dim.numbers[0] + dim.count)]:
            start += dim.numbers[0] * dim.given
            dim = _Dim(dim.count, dim.given, dim.made)
        last = found[-1] if found else None
        in_order = last is not None and last.numbers is None and dim.numbers is None
        if last is not None and in_order and (last.given, last.made) == (dim.given * dim.count, dim.made * dim.count):
            found[-1] = _Dim(last.count * dim.count, dim.given, dim.made)
        else:
            found.append(dim)
    return found, start


@dataclass(frozen=True)
class _Piece:
    """``count`` floats at ``made`` of the result, from those at ``given`` on, each ``step`` after the one before."""

    made: int
    given: int
    count: int
    step: int


def _pieces(numbers: Sequence[int]) -> list[_Piece]:
    found: list[_Piece] = []
    made = 0
    for first, count, step in runs_of(numbers):
        found.append(_Piece(made, first, count, step))
        made += count
    return found


def _in_one(middle: _Dim, inner: _Dim) -> list[_Piece]:
    """The pieces of two dims that are one loop in the result, if what is given has whole runs of the first one side by
    side.
    """
    n = inner.count
    if middle.numbers is None or inner.numbers is not None or (middle.made, middle.given) != (n, n):
        return []
    found: list[_Piece] = []
    for piece in _pieces(middle.numbers):
        parts = 1 if piece.step == 1 else piece.count
        for k in range(parts):
            count = piece.count // parts
            found.append(_Piece((piece.made + k) * n, (piece.given + k * piece.step) * n, count * n, 1))
    return found if 2 * len(found) <= middle.count else []


class _Code:
    """Lines of C, and the tables that they read."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.tables: list[str] = []
        self.copies = False

    def table(self, name: str, numbers: Sequence[int]) -> str:
        """A table of constants."""
        kind = "int" if max(map(abs, numbers)) < 1 << 31 else "long long"
        self.tables.append(f"static const {kind} @_{name}[{len(numbers)}] = {{{', '.join(map(str, numbers))}}};")
        return f"@_{name}"

    def offset(self, index: str, dim: _Dim) -> str:
        """What the index of a dim adds to where elements are given."""
        if dim.numbers is not None:
            return f" + {self.table(f'of_{index}', [n * dim.given for n in dim.numbers])}[{index}]"
        return f" + {index} * {dim.given}"

    def rows(self, middle: _Dim, inner: _Dim) -> list[str]:
        """The last two dims, from ``from`` to ``to``."""
        if inner.made != 1 or inner.given != 1:
            return self._each(middle, self._picked(inner))
        if whole := _in_one(middle, inner):
            return self._placed(whole, "from", "to")
        pieces = _pieces(range(inner.count) if inner.numbers is None else inner.numbers)
        if len(pieces) > 1 and len(pieces) * SHORT > inner.count:
            return self._each(middle, self._picked(inner))
        return self._each(middle, self._placed(pieces, "x", "y"))

    def _each(self, middle: _Dim, lines: Sequence[str]) -> list[str]:
        return [
            f"for (long i = 0; i < {middle.count}; ++i) {{",
            f"  const float* restrict const x = from{self.offset('i', middle)};",
            f"  float* restrict const y = to + i * {middle.made};",
            *(f"  {line}" for line in lines),
            "}",
        ]

    def _picked(self, inner: _Dim) -> list[str]:
        """One element after the other."""
        return [f"for (long j = 0; j < {inner.count}; ++j) y[j * {inner.made}] = x[0{self.offset('j', inner)}];"]

    def _placed(self, pieces: Sequence[_Piece], x: str, y: str) -> list[str]:
        """Piece after piece."""
        if len(pieces) <= FEW:
            return [self._piece(x, y, p.made, p.given, p.count, p.step) for p in pieces]
        steps = {p.step for p in pieces}
        columns = [[p.made for p in pieces], [p.given for p in pieces], [p.count for p in pieces]]
        tables = zip(("to", "from", "count"), columns, strict=True)
        made, given, count = (f"{self.table(name, numbers)}[k]" for name, numbers in tables)
        copy = self._piece(x, y, made, given, count, 1)
        if steps != {1}:
            step = self.table("step", [p.step for p in pieces])
            copy = f"if ({step}[k] == 1) {copy} else {self._piece(x, y, made, given, count, f'{step}[k]')}"
        return [f"for (long k = 0; k < {len(pieces)}; ++k) {{ {copy} }}"]

    def _piece(self, x: str, y: str, made: int | str, given: int | str, count: int | str, step: int | str) -> str:
        if step == 1:
            self.copies = True
            return f"@_copy({y} + {made}, {x} + {given}, {count});"
        return f"for (long j = 0; j < {count}; ++j) ({y} + {made})[j] = ({x} + {given})[j * {step}];"
