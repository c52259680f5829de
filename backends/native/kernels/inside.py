"""``tile.depthwise_inside``: windows for each channel, or for each group of few, of an image without a border.

As ``tile.depthwise``, with the rows of a window that are in the image in a loop. Where all of its columns are, some
neighboring columns are computed at once; at both ends a column at a time, with some vectors of channels at once and a
loop over the columns of the window that are there. Those are few, and no code is made for each number of them.

Where a window goes over a group of channels, vectors go along those of the result, and what they are multiplied by is
one channel of each group, in all lanes of that group: a vector of the image with its lanes picked, which several taps
share, or one float where a group is as long as a vector. Products with panels (``tile.brgemm``) would have rows of one
group, of which most of a panel is empty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from etir.backends.native.cpu import Cpu
from etir.backends.native.inside import DepthwiseInsideOp
from etir.backends.native.kernels.template import (
    CFunction,
    Template,
    body_function,
    integers,
    run_body,
    template,
)
from etir.backends.native.kernels.windows import WORTH, channels_at_once, columns_at_once, runs_of
from etir.backends.native.sizes import is_known, most
from etir.backends.native.tile import shape_of, strides_of

ACROSS = 4
"""Vectors of channels at once in a column at the end of a row: as many sums as hide the latency of multiply-adds."""


@template(DepthwiseInsideOp)
class DepthwiseInside(Template):
    """A window for each channel or group of channels, of an image without a border."""

    name = "depthwise_inside"
    entries = {"columns": 1, "channels": 1}

    def schedule(self, op: DepthwiseInsideOp, cpu: Cpu) -> dict[str, Any]:
        """As for an image in a border."""
        width = shape_of(op.c)[-2]
        columns = {"columns": columns_at_once(width, cpu)}
        taps, pixels = shape_of(op.b)[0], shape_of(op.a)[-2]
        channels = shape_of(op.c)[-1]
        if not is_known((*shape_of(op.a), *shape_of(op.c))) or shape_of(op.c)[-3] == 1 or taps <= op.steps.strides[0]:
            return columns
        some = channels_at_once(taps * pixels, cpu)
        return columns if some >= channels else {**columns, "channels": some}

    def illegal(self, op: DepthwiseInsideOp, cpu: Cpu) -> str | None:
        (columns,) = integers(op, "columns", (4,))
        if not 1 <= columns < cpu.registers:
            return f"{columns} columns at once, with {cpu.registers} registers"
        channels = shape_of(op.c)[-1]
        (some,) = integers(op, "channels", (channels,))
        if some < 1 or (some < channels and some % cpu.vector):
            return f"blocks of {some} channels are no vectors of {cpu.vector}"
        if channels != 1 and any(strides_of(v.type)[-1] != 1 for v in (op.a, op.b, op.c)):
            return "channels of a, b and c lie side by side"
        if channels != 1 and any(strides_of(e.type)[-1] not in (0, 1) for e in op.extra):
            return "channels of the extra operands lie side by side, or are one"
        if op.group % cpu.vector and cpu.vector % op.group:
            return f"groups of {op.group} channels are neither parts of vectors of {cpu.vector} nor whole ones"
        return None

    def in_place(self, op: DepthwiseInsideOp) -> Sequence[SSAValue]:
        """Extra operands are read when their float is written."""
        return op.extra

    def c(self, op: DepthwiseInsideOp, cpu: Cpu) -> CFunction:
        *lead, rows, width, channels = shape_of(op.c)
        (at_once,) = integers(op, "columns", (4,))
        (some,) = integers(op, "channels", (channels,))
        blocks = -(-channels // some)
        lines = ["for (long unit = begin; unit < end; ++unit) {", "  long left = unit;"]
        lines.append(f"  const long y = left % {rows}; left /= {rows};")
        if blocks > 1:
            lines.append(f"  const long part = left % {blocks}; left /= {blocks};")
        for d in reversed(range(len(lead))):
            lines.append(f"  const long d{d} = left % {lead[d]}; left /= {lead[d]};")
        lines.append("  (void)left;")
        for number, (name, operand) in enumerate(_named(op)):
            steps = () if operand is op.b else strides_of(operand.type)[: len(lead)]
            terms = "".join(f" + d{d} * {step}" for d, step in enumerate(steps) if step)
            if operand is op.c or operand in op.extra:
                terms += f" + y * {strides_of(operand.type)[-3]}"
            lines.append(f"  {'float*' if operand is op.c else 'const float*'} const {name} = p{number}{terms};")
        if blocks > 1:
            last = f"from + {some} < {channels} ? from + {some} : {channels}"
            lines.append(f"  const long from = part * {some}, to = {last};")
        else:
            lines.append(f"  const long from = 0, to = {channels};")
        lines += [f"  {line}" for line in [*_taps_of_row(op), *self._row(op, at_once, cpu)]]
        grain = max(1, WORTH // max(1, most(width * min(some, channels) * op.group)))
        units = math.prod(lead) * rows * blocks
        return CFunction("\n".join([*lines, "}"]), units, grain, (body_function(op.body.block),))

    def _row(self, op: DepthwiseInsideOp, at_once: int, cpu: Cpu) -> list[str]:
        """The columns of a row: those whose windows are in the image some at once, then those at both ends."""
        width, channels = shape_of(op.c)[-2:]
        rest = channels % cpu.vector
        lines = [*_columns_inside(op), "long x = x0;"]
        for loop, count in _runs_inside(op, at_once):
            lines.append(f"{loop} {{")
            lines.append("  long j = from;")
            lines.append(f"  for (; j + {cpu.vector} <= to; j += {cpu.vector}) {{")
            lines += [f"    {line}" for line in self._columns(op, count, cpu, "")]
            lines.append("  }")
            if rest:
                lines += [
                    "  if (j < to) {",
                    *(f"    {line}" for line in self._columns(op, count, cpu, str(rest))),
                    "  }",
                ]
            lines.append("}")
        lines.append(f"for (x = x0 > 0 ? 0 : x1; x < {width}; x = x + 1 == x0 ? x1 : x + 1) {{")
        lines += [f"  {line}" for line in _taps_of_column(op)]
        lines.append("  long j = from;")
        if channels >= ACROSS * cpu.vector:
            lines.append(f"  for (; j + {ACROSS * cpu.vector} <= to; j += {ACROSS * cpu.vector}) {{")
            lines += [f"    {line}" for line in self._column(op, ACROSS, cpu, "")]
            lines.append("  }")
        lines.append(f"  for (; j + {cpu.vector} <= to; j += {cpu.vector}) {{")
        lines += [f"    {line}" for line in self._column(op, 1, cpu, "")]
        lines.append("  }")
        if rest:
            lines += ["  if (j < to) {", *(f"    {line}" for line in self._column(op, 1, cpu, str(rest))), "  }"]
        return [*lines, "}"]

    def _columns(self, op: DepthwiseInsideOp, count: int, cpu: Cpu, some: str) -> list[str]:
        """``count`` columns from ``x`` on, whose windows have all of their columns in the image."""
        row, column = strides_of(op.a.type)[-3:-1]
        b = strides_of(op.b.type)
        (_, across), (dy, dx) = op.steps.strides, op.steps.dilation
        lines = [f"vf {', '.join(f's{i} = vset(0.0f)' for i in range(count))};"]
        lines.append("for (long ty = t0; ty < t1; ++ty) {")
        first = f"(top + ty * {dy}) * {row} + (x * {across} - {op.steps.before[1]}) * {column}"
        lines.append(f"  const float* const at = a + ({first});")
        lines.append(f"  const float* const taps = b + ty * {b[0]} + j;")
        loop, members = _members(op, cpu)
        for member in members:
            lines.append(f"  {loop}{{")
            there: dict[int, None] = {}
            for tx in range(shape_of(op.b)[1]):
                lines.append(f"    const vf w{tx} = {_load(f'taps + {tx * b[1]}{_times(op, member)}', some)};")
                for i in range(count):
                    pixel = i * across + tx * dx
                    if pixel not in there:
                        there[pixel] = None
                        lines.append(
                            f"    const vf v{pixel} = {_picked(op, f'{pixel} * {column}', 0, member, cpu, some)};"
                        )
                    lines.append(f"    s{i} = vfma(s{i}, w{tx}, v{pixel});")
            lines.append("  }")
        lines.append("}")
        for i in range(count):
            lines.append(_store(op, f"s{i}", f"(x + {i})", "j", some))
        return lines

    def _column(self, op: DepthwiseInsideOp, count: int, cpu: Cpu, some: str) -> list[str]:
        """Column ``x`` in ``count`` vectors of channels, with the taps that it has."""
        row, column = strides_of(op.a.type)[-3:-1]
        b = strides_of(op.b.type)
        dy, dx = op.steps.dilation
        lines = [f"vf {', '.join(f's{i} = vset(0.0f)' for i in range(count))};"]
        lines.append("for (long ty = t0; ty < t1; ++ty) for (long tx = u0; tx < u1; ++tx) {")
        first = f"(top + ty * {dy}) * {row} + (left_most + tx * {dx}) * {column}"
        lines.append(f"  const float* const at = a + ({first});")
        lines.append(f"  const float* const taps = b + ty * {b[0]} + tx * {b[1]} + j;")
        loop, members = _members(op, cpu)
        for member in members:
            lines.append(f"  {loop}{{")
            for i in range(count):
                there = i * cpu.vector
                weights = _load(f"taps + {there}{_times(op, member)}", some)
                lines.append(f"    s{i} = vfma(s{i}, {weights}, {_picked(op, '0', there, member, cpu, some)});")
            lines.append("  }")
        lines.append("}")
        for i in range(count):
            lines.append(_store(op, f"s{i}", "x", f"j + {i * cpu.vector}", some))
        return lines

    def numpy(self, op: DepthwiseInsideOp, operands: Sequence[Any]) -> None:
        import numpy as np

        a, b, c, *extra = operands
        rows, columns = c.shape[-3:-1]
        h, w = a.shape[-3:-1]
        steps = op.steps
        sums = np.zeros(c.shape)
        members = np.arange(c.shape[-1]) // op.group * op.group + np.arange(op.group)[:, None]
        taps = b.reshape(*b.shape[:2], op.group, -1)
        for ty in range(b.shape[0]):
            for tx in range(b.shape[1]):
                y = np.arange(rows) * steps.strides[0] - steps.before[0] + ty * steps.dilation[0]
                x = np.arange(columns) * steps.strides[1] - steps.before[1] + tx * steps.dilation[1]
                is_there = ((y >= 0) & (y < h))[:, None] & ((x >= 0) & (x < w))
                found = a[..., np.clip(y, 0, max(0, h - 1))[:, None], np.clip(x, 0, max(0, w - 1)), :]
                for member in range(op.group):
                    products = found[..., members[member]].astype(np.float64) * taps[ty, tx, member]
                    sums += np.where(is_there[..., None], products, 0.0)
        c[...] = run_body(op.body.block, [sums.astype(c.dtype), *extra])


def _named(op: DepthwiseInsideOp) -> list[tuple[str, SSAValue]]:
    return [("a", op.a), ("b", op.b), ("c", op.c), *((f"e{i}", e) for i, e in enumerate(op.extra))]


def _load(at: str, some: str) -> str:
    return f"vload_some({at}, {some})" if some else f"vload({at})"


def _members(op: DepthwiseInsideOp, cpu: Cpu) -> tuple[str, Sequence[str]]:
    """The channels of a group, one after another: a loop over them if lanes need not be picked, else their numbers."""
    if op.group < max(2, cpu.vector):
        return "", [str(member) for member in range(op.group)]
    return f"ETIR_NOUNROLL for (long i = 0; i < {op.group}; ++i) ", ["i"]


def _times(op: DepthwiseInsideOp, member: str) -> str:
    """Where the weights of a channel of the groups lie."""
    return "" if op.group == 1 else f" + {member} * {strides_of(op.b.type)[2]}"


def _picked(op: DepthwiseInsideOp, offset: str, there: int, member: str, cpu: Cpu, some: str) -> str:
    """One channel of the groups of the result's channels from ``j + there`` on, at the pixel ``at + offset``."""
    if op.group >= max(2, cpu.vector):
        return f"vset((at + {offset} + (j + {there}) / {op.group} * {op.group})[{member}])"
    channels = _load(f"at + {offset} + {there} + j", some)
    if op.group == 1:
        return channels
    lanes = [lane // op.group * op.group + int(member) for lane in range(cpu.vector)]
    return f"ETIR_PICK({channels}, {', '.join(map(str, lanes))})"


def _store(op: DepthwiseInsideOp, sums: str, x: str, j: str, some: str) -> str:
    """What follows the sums of channels ``j`` of column ``x``, and where it is written."""
    parts = [sums]
    for number, e in enumerate(op.extra):
        steps = strides_of(e.type)
        at = f"e{number} + {x} * {steps[-2]}"
        parts.append(_load(f"{at} + {j}", some) if steps[-1] else f"vset(({at})[0])")
    to, made = f"c + {x} * {strides_of(op.c.type)[-2]} + {j}", f"@_body({', '.join(parts)})"
    return f"vstore_some({to}, {made}, {some});" if some else f"vstore({to}, {made});"


def _inside(first: str, extent: object, taps: object, step: int, names: tuple[str, str]) -> list[str]:
    """The taps from the first to the last one of a window beginning at ``first`` that are in a dim of an image; none
    where the second name is not above the first one.
    """
    begin, end = names
    lowest = f"(-{first} + {step - 1}) / {step}" if step > 1 else f"-{first}"
    last = f"({extent} - {first} + {step - 1}) / {step}" if step > 1 else f"{extent} - {first}"
    return [
        f"const long {begin} = {first} < 0 ? {lowest} : 0;",
        f"const long {end} = {first} >= {extent} ? 0 : {last} < {taps} ? {last} : {taps};",
    ]


def _taps_of_row(op: DepthwiseInsideOp) -> list[str]:
    """The rows ``t0`` to ``t1`` of a window in row ``y`` that are in the image."""
    (stride, _), (before, _), (step, _) = op.steps.strides, op.steps.before, op.steps.dilation
    extent, taps = shape_of(op.a)[-3], shape_of(op.b)[0]
    return [f"const long top = y * {stride} - {before};", *_inside("top", extent, taps, step, ("t0", "t1"))]


def _taps_of_column(op: DepthwiseInsideOp) -> list[str]:
    """The columns ``u0`` to ``u1`` of a window in column ``x`` that are in the image."""
    (_, stride), (_, before), (_, step) = op.steps.strides, op.steps.before, op.steps.dilation
    extent, taps = shape_of(op.a)[-2], shape_of(op.b)[1]
    first = f"const long left_most = x * {stride} - {before};"
    return [first, *_inside("left_most", extent, taps, step, ("u0", "u1"))]


def _columns_inside(op: DepthwiseInsideOp) -> list[str]:
    """The columns ``x0`` to ``x1`` of the result whose windows have all of their columns in the image: none, at the
    beginning of a row, where no window has.
    """
    (_, stride), (_, before), (_, step) = op.steps.strides, op.steps.before, op.steps.dilation
    width, extent = shape_of(op.c)[-2], shape_of(op.a)[-2]
    first = -(-max(0, before) // stride)
    room = f"{extent} - {(shape_of(op.b)[1] - 1) * step + 1} + {before}"  # of the last window's first column
    return [
        f"const long room = {room}, last = room < 0 ? 0 : room / {stride} + 1;",
        f"const long x1_ = last < {width} ? last : {width};",
        f"const long x0 = x1_ > {first} ? {first} : 0, x1 = x1_ > {first} ? x1_ : 0;",
    ]


def _runs_inside(op: DepthwiseInsideOp, at_once: int) -> list[tuple[str, int]]:
    """Loops over the columns ``x0`` to ``x1``, and how many columns each does at once: of a known number as even ones
    as can be, else the last ones one by one.
    """
    width, extent, taps = shape_of(op.c)[-2], shape_of(op.a)[-2], shape_of(op.b)[1]
    if not is_known((width, extent)):
        return [(f"for (; x + {count} <= x1; x += {count})", count) for count in dict.fromkeys((at_once, 1))]
    (_, stride), (_, before), (_, step) = op.steps.strides, op.steps.before, op.steps.dilation
    room = extent - (taps - 1) * step - 1 + before
    last, first = min(width, 0 if room < 0 else room // stride + 1), -(-max(0, before) // stride)
    runs = runs_of(last - first, at_once) if last > first else []
    return [(f"for (long n = 0; n < {many}; ++n, x += {count})", count) for many, count in runs]
