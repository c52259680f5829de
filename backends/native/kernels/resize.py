"""``tile.resize``: linear filters on an image whose channels lie side by side, or of which planes are made.

A unit is a row of the result. Where channels lie side by side, vectors go along them. Columns of the result between the
same two columns of the image follow each other: rows are weighted once for them, and columns for each.

Where the result is planes, whose columns lie side by side, as a program gives images back, rows of the image are
resized to lines on the stack, by elements, and lines are weighted by vectors: rows of the result that follow each other
share lines. The image may lie in any way then, so that what is resized for an output needs no copy in either layout.

Which elements are neighbors, and what share they have, are tables of constants in the code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from etir.backends.native.cpu import Cpu
from etir.backends.native.kernels.template import CFunction, Template, body_function, float_text, run_body, template
from etir.backends.native.kernels.windows import WORTH
from etir.backends.native.resize import ResizeOp
from etir.backends.native.tile import shape_of, strides_of

LINE = 256
"""Columns of a line on the stack; longer rows are done in parts of as many."""


@template(ResizeOp)
class Resize(Template):
    """Four neighbors of each element."""

    name = "resize"

    def illegal(self, op: ResizeOp, cpu: Cpu) -> str | None:
        if not are_planes(op) or _can_be_planes(op):
            return None
        return "channels of every operand lie side by side, or columns of the result and of the extra operands"

    def in_place(self, op: ResizeOp) -> Sequence[SSAValue]:
        """Extra operands are read when their float is written."""
        return op.extra

    def c(self, op: ResizeOp, cpu: Cpu) -> CFunction:
        return _of_planes(op, cpu) if are_planes(op) else _of_channels(op, cpu)

    def numpy(self, op: ResizeOp, operands: Sequence[Any]) -> None:
        import numpy as np

        a, c, *extra = operands
        wide = a.astype(np.float64)
        for dim, one in zip((-3, -2), op.axes, strict=True):
            share = np.asarray(one.share)[(slice(None), *[None] * (-dim - 1))]
            first, second = wide.take(one.first, dim), wide.take(one.second, dim)
            wide = first * (1.0 - share) + second * share
        c[...] = run_body(op.body.block, [wide.astype(c.dtype), *extra])


def are_planes(op: ResizeOp) -> bool:
    """Whether vectors go along columns: channels do not lie side by side, or are one and columns do."""
    if shape_of(op.c)[-1] == 1:
        return _can_be_planes(op)
    images = [strides_of(v.type)[-1] == 1 for v in (op.a, op.c)]
    return not all([*images, *(strides_of(e.type)[-1] in (0, 1) for e in op.extra)])


def _can_be_planes(op: ResizeOp) -> bool:
    """Whether columns of the result lie side by side, and those of the extra operands do or are one."""
    beside = [strides_of(op.c.type)[-2] == 1, *(strides_of(e.type)[-2] in (0, 1) for e in op.extra)]
    return shape_of(op.c)[-2] == 1 or all(beside)


def _table(name: str, kind: str, numbers: Sequence[int] | Sequence[float]) -> str:
    texts = [float_text(n) if isinstance(n, float) else str(n) for n in numbers]
    return f"static const {kind} @_{name}[{len(texts)}] = {{{', '.join(texts)}}};"


def _rows(op: ResizeOp, dims: Sequence[int], lines: Sequence[str], shared: Sequence[str] = ()) -> list[str]:
    """A loop over rows of the result, with the indices of ``dims`` before them, the addresses of operands in a row but
    a's, those of the row of a plane in ``a``, and what share its second neighbor has.
    """
    rows = shape_of(op.c)[-3]
    found = ["for (long unit = begin; unit < end; ++unit) {", "  long left = unit;"]
    found.append(f"  const long y = left % {rows}; left /= {rows};")
    found += [f"  const long d{d} = left % {dims[d]}; left /= {dims[d]};" for d in reversed(range(len(dims)))]
    found.append("  (void)left;")
    for name, number, value in _named(op):
        steps = strides_of(value.type)
        terms = "".join(f" + d{d} * {step}" for d, step in enumerate(_outer(op, steps, len(dims))) if step)
        terms += f" + y * {steps[-3]}" if value is not op.a and steps[-3] else ""
        found.append(f"  {'float*' if value is op.c else 'const float*'} const {name} = p{number}{terms};")
    found.append(f"  const long row = @_rows[y], next = row + (row < {op.axes[0].last});")
    found.append("  const float low = @_share_of_row[y], high = 1.0f - low;")
    return [*shared, *found, *(f"  {line}" for line in lines), "}"]


def _outer(op: ResizeOp, steps: Sequence[int], count: int) -> Sequence[int]:
    """The strides of the dims before rows: those before the image, and that of channels where they are planes."""
    before = steps[:-3]
    return before if count == len(before) else (*before, steps[-1])


def _named(op: ResizeOp) -> list[tuple[str, int, SSAValue]]:
    """Operands with their names and their numbers."""
    extra = [(f"e{i}", 2 + i, e) for i, e in enumerate(op.extra)]
    return [("a", 0, op.a), ("c", 1, op.c), *extra]


def _of_channels(op: ResizeOp, cpu: Cpu) -> CFunction:
    *lead, rows, width, channels = shape_of(op.c)
    of_rows, of_columns = op.axes
    row, column = strides_of(op.a.type)[-3:-1]
    runs = of_columns.runs()
    to = strides_of(op.c.type)[-2]

    def block(some: str) -> list[str]:
        def load(at: str) -> str:
            return f"vload_some({at}, {some})" if some else f"vload({at})"

        parts = ["near * (1.0f - share) + far * share"]
        for number, e in enumerate(op.extra):
            steps = strides_of(e.type)
            at = f"e{number} + x * {steps[-2]}"
            parts.append(load(f"{at} + j") if steps[-1] else f"vset(({at})[0])")
        made, at = f"@_body({', '.join(parts)})", f"c + x * {to} + j"
        return [
            f"const vf near = {load('top + one + j')} * high + {load('bottom + one + j')} * low;",
            f"const vf far = {load('top + other + j')} * high + {load('bottom + other + j')} * low;",
            "for (long x = from; x < to; ++x) {",
            "  const float share = @_share_of_column[x];",
            f"  vstore_some({at}, {made}, {some});" if some else f"  vstore({at}, {made});",
            "}",
        ]

    rest = channels % cpu.vector
    lines = [
        f"const float* const top = a + row * {row}, *const bottom = a + next * {row};",
        f"for (long run = 0; run < {len(runs) - 1}; ++run) {{",
        "  const long from = @_runs[run], to = @_runs[run + 1], at = @_columns[run];",
        f"  const long one = at * {column}, other = (at + (at < {of_columns.last})) * {column};",
        "  long j = 0;",
        f"  for (; j + {cpu.vector} <= {channels}; j += {cpu.vector}) {{",
        *(f"    {line}" for line in block("")),
        "  }",
        *(["  {", *(f"    {line}" for line in block(str(rest))), "  }"] if rest else []),
        "}",
    ]
    tables = [
        _table("rows", "int", of_rows.first),
        _table("share_of_row", "float", of_rows.share),
        _table("runs", "int", runs),
        _table("columns", "int", [of_columns.first[start] for start in runs[:-1]]),
        _table("share_of_column", "float", of_columns.share),
    ]
    helpers = (*tables, body_function(op.body.block))
    grain = max(1, WORTH // (width * channels))
    return CFunction("\n".join(_rows(op, lead, lines)), math.prod(lead) * rows, grain, helpers)


def _of_planes(op: ResizeOp, cpu: Cpu) -> CFunction:
    *lead, rows, width, channels = shape_of(op.c)
    of_rows, of_columns = op.axes
    row, column = strides_of(op.a.type)[-3:-1]
    size, given = min(width, LINE), shape_of(op.a)[-3]
    lanes = cpu.vector

    def block(some: str) -> list[str]:
        def load(at: str) -> str:
            return f"vload_some({at}, {some})" if some else f"vload({at})"

        parts = [f"{load('top + j')} * high + {load('bottom + j')} * low"]
        for number, e in enumerate(op.extra):
            step = strides_of(e.type)[-2] and width != 1
            parts.append(load(f"e{number} + from + j") if step else f"vset(e{number}[0])")
        made, at = f"@_body({', '.join(parts)})", "c + from + j"
        return [f"vstore_some({at}, {made}, {some});" if some else f"vstore({at}, {made});"]

    rest = width % lanes  # of the last part: others are whole vectors
    lines = [
        f"const long first = unit / {rows} * {given} + row, second = unit / {rows} * {given} + next;",
        "if (there[0] != first && there[1] == first) {",
        "  float* const other = line[0]; line[0] = line[1]; line[1] = other;",
        "  there[1] = there[0]; there[0] = first;",
        "}",
        f"if (there[0] != first) {{ @_line(a + row * {row}, from, count, line[0]); there[0] = first; }}",
        "if (second != first && there[1] != second) {",
        f"  @_line(a + next * {row}, from, count, line[1]); there[1] = second;",
        "}",
        "const float* const top = line[0], *const bottom = line[second != first];",
        "long j = 0;",
        f"for (; j + {lanes} <= count; j += {lanes}) {{ {' '.join(block(''))} }}",
        *([f"if (j < count) {{ {' '.join(block(str(rest)))} }}"] if rest else []),
    ]
    state = [
        f"float lines[2][{size}], *line[2] = {{lines[0], lines[1]}};",
        "long there[2] = {-1, -1};",
    ]
    loop = _rows(op, [*lead, channels], lines, state)
    body = [
        f"for (long from = 0; from < {width}; from += {size}) {{",
        f"  const long count = {width} - from < {size} ? {width} - from : {size};",
        *(f"  {line}" for line in loop),
        "}",
    ]
    resized = [
        "ETIR_INLINE void @_line(const float* from, long start, long count, float* restrict to) {",
        "  for (long x = 0; x < count; ++x) {",
        f"    const long at = @_columns[start + x], next = at + (at < {of_columns.last});",
        "    const float share = @_share_of_column[start + x];",
        f"    to[x] = from[at * {column}] * (1.0f - share) + from[next * {column}] * share;",
        "  }",
        "}",
    ]
    tables = [
        _table("rows", "int", of_rows.first),
        _table("share_of_row", "float", of_rows.share),
        _table("columns", "int", of_columns.first),
        _table("share_of_column", "float", of_columns.share),
    ]
    helpers = (*tables, "\n".join(resized), body_function(op.body.block))
    grain = max(1, WORTH // width)
    return CFunction("\n".join(body), math.prod(lead) * channels * rows, grain, helpers)
