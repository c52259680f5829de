"""``tile.depthwise`` and ``tile.pool``: windows of an image whose channels lie side by side.

A unit is a row of the result. Vectors go along channels; some neighboring columns are computed at once, so that a tap's
weights are loaded once for them and sums hide the latency of multiply-adds. Windows for each channel go over an image
by blocks of channels, as many as let the rows of a window stay in the first cache until the next row needs them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from xdsl.ir import SSAValue

from etir.backends.native.cpu import Cpu
from etir.backends.native.kernels.brgemm_text import shared_out
from etir.backends.native.kernels.template import (
    CFunction,
    Template,
    body_function,
    count_text,
    integers,
    run_body,
    template,
)
from etir.backends.native.sizes import Size, is_known, most
from etir.backends.native.tile import DepthwiseOp, PoolOp, shape_of, strides_of

PART = 256
"""Elements that are summed before they are added to the others."""
WORTH = 8192
"""Floats of a result that are worth a thread."""
LONG = 25
"""Elements of a window whose loops are as quick where its size is not in the text."""
WORTH_CALL = 1024
"""Floats of a window that are worth a call."""


def _illegal(op: DepthwiseOp | PoolOp) -> str | None:
    together = all(strides_of(v.type)[-1] == 1 or shape_of(v)[-1] == 1 for v in (op.a, op.c))
    return None if together else "channels lie side by side"


def _row(
    op: DepthwiseOp | PoolOp, operands: Sequence[Any], columns: Sequence[str], blocks: int = 1
) -> tuple[list[str], int]:
    """A loop over rows of the result with the addresses of operands in them, and how many there are; with ``blocks``,
    over all rows of an image for one ``part`` of the channels after another.
    """
    *outer, _, _ = shape_of(op.c)
    lines = ["for (long unit = begin; unit < end; ++unit) {", "  long left = unit;"]
    if blocks > 1:
        lines.append(f"  const long d{len(outer) - 1} = left % {outer[-1]}; left /= {outer[-1]};")
        lines.append(f"  const long part = left % {blocks}; left /= {blocks};")
    for d in reversed(range(len(outer) - (blocks > 1))):
        lines.append(f"  const long d{d} = left % {outer[d]}; left /= {outer[d]};")
    lines.append("  (void)left;")
    for number, (name, operand) in enumerate(operands):
        steps = strides_of(operand.type)
        is_shared = isinstance(op, DepthwiseOp) and operand is op.b
        terms = "" if is_shared else "".join(f" + d{d} * {steps[d]}" for d in range(len(outer)) if steps[d])
        kind = "float*" if operand is op.c else "const float*"
        lines.append(f"  {kind} const {name} = p{number}{terms};")
    lines += [f"  {line}" for line in columns]
    return [*lines, "}"], math.prod(outer) * blocks


def runs_of(width: int, at_once: int) -> list[tuple[int, int]]:
    """Columns in blocks: runs of equal blocks, as (how many, columns of one). Those of a static width are shared out
    evenly.
    """
    if isinstance(width, Size):
        return [(width // at_once, at_once), (width % at_once, 1)]
    tiles, higher, low = shared_out(width, at_once)
    return [(runs, count) for runs, count in ((higher, low + 1), (tiles - higher, low)) if runs]


def columns_at_once(width: int, cpu: Cpu) -> int:
    """Columns of a row at once: as many as there are registers for sums and for what windows share."""
    return min(most(width), 8 if cpu.registers == 32 else 4)


def channels_at_once(pixels: int, cpu: Cpu) -> int:
    """Channels of which so many pixels, those of the rows of a window, fill half of the first cache."""
    return max(cpu.l1 // 2 // (4 * pixels) // cpu.vector * cpu.vector, 2 * cpu.vector)


@template(DepthwiseOp)
class Depthwise(Template):
    """A window for each channel."""

    name = "depthwise"
    entries = {"columns": 1, "channels": 1}

    def schedule(self, op: DepthwiseOp, cpu: Cpu) -> dict[str, Any]:
        """Columns at once: as many as there are registers for sums and for what windows share, shared out evenly.

        Channels at once: all where the rows of a window fill half of the first cache at most, or rows share nothing,
        or where what they share is known at run time only.
        """
        *outer, width, channels = shape_of(op.c)
        columns = {"columns": columns_at_once(width, cpu)}
        rows, steps = shape_of(op.a)[-3], strides_of(op.a.type)
        if any(isinstance(n, Size) for n in (*outer, width, *steps)):
            return columns
        if not outer or outer[-1] == 1 or rows == 1 or steps[-5] >= rows * steps[-3]:
            return columns
        across = (width - 1) * steps[-4] + (shape_of(op.a)[-2] - 1) * steps[-2]
        pixels = across // max(1, math.gcd(steps[-4], steps[-2])) + 1
        some = channels_at_once(rows * pixels, cpu)
        return columns if some >= channels else {**columns, "channels": some}

    def illegal(self, op: DepthwiseOp, cpu: Cpu) -> str | None:
        (columns,) = integers(op, "columns", (4,))
        if not 1 <= columns < cpu.registers:
            return f"{columns} columns at once, with {cpu.registers} registers"
        channels = shape_of(op.c)[-1]
        (some,) = integers(op, "channels", (channels,))
        if some < channels and some % cpu.vector:
            return f"blocks of {some} channels are no vectors of {cpu.vector}"
        if channels != 1 and strides_of(op.b.type)[-1] != 1:
            return "channels of b lie side by side"
        if channels != 1 and any(strides_of(e.type)[-1] not in (0, 1) for e in op.extra):
            return "channels of the extra operands lie side by side, or are one"
        return _illegal(op)

    def in_place(self, op: DepthwiseOp) -> Sequence[SSAValue]:
        """Extra operands are read when their float is written."""
        return op.extra

    def c(self, op: DepthwiseOp, cpu: Cpu) -> CFunction:
        *_, width, channels = shape_of(op.c)
        (at_once,) = integers(op, "columns", (4,))
        (some,) = integers(op, "channels", (channels,))
        blocks = -(-channels // some)
        names = [("a", op.a), ("b", op.b), ("c", op.c), *((f"e{i}", e) for i, e in enumerate(op.extra))]
        lines: list[str] = ["long x = 0;"]
        rest = channels % cpu.vector
        for runs, count in runs_of(width, at_once):
            lines.append(f"for (long n = 0; n < {runs}; ++n, x += {count}) {{")
            lines.append("  long j = from;")
            lines.append(f"  for (; j + {cpu.vector} <= to; j += {cpu.vector}) {{")
            lines += [f"    {line}" for line in self._block(op, count, cpu, "")]
            lines.append("  }")
            if rest:
                lines.append("  if (j < to) {")
                lines += [f"    {line}" for line in self._block(op, count, cpu, str(rest))]
                lines.append("  }")
            lines.append("}")
        if blocks == 1:
            lines = [f"const long from = 0, to = {channels};", *lines]
        else:
            lines = [
                f"const long from = part * {some}, to = from + {some} < {channels} ? from + {some} : {channels};",
                *lines,
            ]
        rows, units = _row(op, names, lines, blocks)
        grain = max(1, WORTH // most(width * min(some, channels)))
        return CFunction("\n".join(rows), units, grain, (body_function(op.body.block),))

    def _block(self, op: DepthwiseOp, count: int, cpu: Cpu, some: str) -> list[str]:
        a, b, c = (strides_of(v.type) for v in (op.a, op.b, op.c))
        taps = shape_of(op.b)[:2]

        def load(at: str) -> str:
            return f"vload_some({at}, {some})" if some else f"vload({at})"

        lines = [f"vf {', '.join(f's{i} = vset(0.0f)' for i in range(count))};"]
        # Places are numbers from one address on, and each float has one name: compilers need not find what is equal.
        lines += [f"const float* const at = a + x * {a[-4]} + j;", "const float* const taps = b + j;"]
        places = {
            (ty, tx, i): ty * a[-3] + tx * a[-2] + i * a[-4]
            for ty in range(taps[0])
            for tx in range(taps[1])
            for i in range(count)
        }
        readers = Counter(places.values())
        names: dict[int, str] = {}
        for ty in range(taps[0]):
            for tx in range(taps[1]):
                weight = f"w{ty}_{tx}"
                lines.append(f"const vf {weight} = {load(f'taps + {ty * b[0] + tx * b[1]}')};")
                for i in range(count):
                    place = places[ty, tx, i]
                    pixel = names.get(place) or load(f"at + {place}")
                    if place not in names and readers[place] > 1:
                        names[place] = f"v{len(names)}"
                        lines.append(f"const vf {names[place]} = {pixel};")
                        pixel = names[place]
                    lines.append(f"s{i} = vfma(s{i}, {weight}, {pixel});")

        written = [("c", c), *((f"e{number}", strides_of(e.type)) for number, e in enumerate(op.extra))]
        for name, steps in written:
            terms = f" + x * {steps[-2]}" * bool(steps[-2]) + " + j" * bool(steps[-1])
            lines.append(f"{'' if name == 'c' else 'const '}float* const at_{name} = {name}{terms};")

        for i in range(count):
            places = [f"at_{name} + {i * steps[-2]}" for name, steps in written]
            values = [
                load(place) if steps[-1] else f"vset(({place})[0])"
                for place, (_, steps) in zip(places[1:], written[1:], strict=True)
            ]
            result = f"@_body({', '.join([f's{i}', *values])})"
            lines.append(f"vstore_some({places[0]}, {result}, {some});" if some else f"vstore({places[0]}, {result});")
        return lines

    def numpy(self, op: DepthwiseOp, operands: Sequence[Any]) -> None:
        import numpy as np

        a, b, c, *extra = operands
        sums = (a.astype(np.float64) * b).sum((-3, -2)).astype(c.dtype)
        c[...] = run_body(op.body.block, [sums, *extra])


COMBINE = {
    "max": "s = vmax(s, {0});",
    "min": "s = vmin(s, {0});",
    "sum": "s += {0};",
    "mean": "s += {0};",
    "prod": "s *= {0};",
}
"""How a vector is combined with what there is, by kind."""
START = {"max": "-__builtin_inff()", "min": "__builtin_inff()", "sum": "0.0f", "mean": "0.0f", "prod": "1.0f"}
"""What there is before the first element."""


def combined(kind: str, wide: Any, axes: Any) -> Any:
    """What a kind means on an array of float64."""
    return {"max": wide.max, "min": wide.min, "sum": wide.sum, "mean": wide.mean, "prod": wide.prod}[kind](axes)


class _Numbers(NamedTuple):
    """What a window of a pool is: its size, how far apart its elements are, its channels, the rows that are summed
    before they are added to the others, and the number of its elements as a float.
    """

    high: int | str
    wide: int | str
    row: int | str
    column: int | str
    channels: int | str
    rows: int | str
    elements: str


@template(PoolOp)
class Pool(Template):
    """Windows without weights. Long ones are summed in several parts, which keeps the error of a sum small."""

    name = "pool"

    def illegal(self, op: PoolOp, cpu: Cpu) -> str | None:
        if shape_of(op.c)[-1] != 1 and any(strides_of(e.type)[-1] not in (0, 1) for e in op.extra):
            return "channels of the extra operands lie side by side, or are one"
        return _illegal(op)

    def c(self, op: PoolOp, cpu: Cpu) -> CFunction:
        *_, width, channels = shape_of(op.c)
        high, wide = shape_of(op.a)[-3:-1]
        taps = high * wide
        row, column = strides_of(op.a.type)[-3:-1]
        names = [("a", op.a), ("c", op.c), *((f"e{i}", e) for i, e in enumerate(op.extra))]
        at_x = [
            f"{name} + x * {step}" if (step := strides_of(value.type)[-4 if name == "a" else -2]) else name
            for name, value in names
        ]
        numbers = _Numbers(high, wide, row, column, channels, max(1, PART // max(1, most(wide))), count_text(taps))
        body = body_function(op.body.block)
        grain = max(1, WORTH // max(1, most(width * channels * taps)))
        is_long = most(taps) >= LONG and most(taps * channels) >= WORTH_CALL and is_known((taps, row, column, channels))
        if not is_long:
            lines = [f"for (long x = 0; x < {width}; ++x) {{"]
            lines += [*(f"  {line}" for line in self._window(op, at_x, numbers, cpu)), "}"]
            rows, units = _row(op, names, lines)
            return CFunction("\n".join(rows), units, grain, (body,))
        given = [f"{'' if name == 'c' else 'const '}float* {name}" for name, _ in names]
        given += [f"{'float' if name == 'elements' else 'long'} {name}" for name in _Numbers._fields]
        window = self._window(op, [name for name, _ in names], _Numbers(*_Numbers._fields), cpu)
        helper = [f"ETIR_NOINLINE void @_window({', '.join(given)}) {{", *(f"  {line}" for line in window), "}"]
        call = f"@_window({', '.join([*at_x, *map(str, numbers)])});"
        rows, units = _row(op, names, [f"for (long x = 0; x < {width}; ++x) {call}"])
        return CFunction("\n".join(rows), units, grain, (body, "\n".join(helper)), calls=True)

    def _window(self, op: PoolOp, at: Sequence[str], numbers: _Numbers, cpu: Cpu) -> list[str]:
        """All channels of a window, whose operands are ``at``; ``numbers`` are those of ``op`` or their names."""
        channels = shape_of(op.c)[-1]
        rest = channels % cpu.vector
        lines = ["long j = 0;", f"for (; j + {cpu.vector} <= {numbers.channels}; j += {cpu.vector}) {{"]
        lines += [*(f"  {line}" for line in self._vector(op, at, numbers, "")), "}"]
        if rest:
            lines += ["{", *(f"  {line}" for line in self._vector(op, at, numbers, str(rest))), "}"]
        return lines

    def _vector(self, op: PoolOp, at: Sequence[str], numbers: _Numbers, some: str) -> list[str]:
        """A vector of channels of a window."""
        high, wide, rows = numbers.high, numbers.wide, numbers.rows
        kind, taps = op.kind.data, shape_of(op.a)[-3:-1]

        def load(at: str) -> str:
            return f"vload_some({at}, {some})" if some else f"vload({at})"

        values = [load(f"{at[0]} + ty * {numbers.row} + tx * {numbers.column} + j")]
        for e, from_ in zip(op.extra, at[2:], strict=True):
            values.append(load(f"{from_} + j") if strides_of(e.type)[-1] else f"vset(({from_})[0])")
        step = COMBINE[kind].format(f"@_body({', '.join(values)})")
        result = f"s / {numbers.elements}" if kind == "mean" else "s"
        to = f"{at[1]} + j"
        many = kind in ("sum", "mean") and most(math.prod(taps)) > PART
        lines = [f"vf s = vset({START[kind]});"]
        if many and most(taps[0]) > max(1, PART // max(1, most(taps[1]))):
            lines += [
                "vf whole = s;",
                f"for (long t0 = 0; t0 < {high}; t0 += {rows}) {{",
                f"  const long t1 = t0 + {rows} < {high} ? t0 + {rows} : {high};",
                "  s = vset(0.0f);",
                "  for (long ty = t0; ty < t1; ++ty) {",
                f"    for (long tx = 0; tx < {wide}; ++tx) {step}",
                "  }",
                "  whole += s;",
                "}",
                "s = whole;",
            ]
        elif many:
            lines += [
                "vf whole = s;",
                f"for (long ty = 0; ty < {high}; ++ty) {{",
                f"  for (long t0 = 0; t0 < {wide}; t0 += {PART}) {{",
                f"    const long t1 = t0 + {PART} < {wide} ? t0 + {PART} : {wide};",
                "    s = vset(0.0f);",
                f"    for (long tx = t0; tx < t1; ++tx) {step}",
                "    whole += s;",
                "  }",
                "}",
                "s = whole;",
            ]
        else:
            lines += [f"for (long ty = 0; ty < {high}; ++ty) {{", f"  for (long tx = 0; tx < {wide}; ++tx) {step}", "}"]
        return [*lines, f"vstore_some({to}, {result}, {some});" if some else f"vstore({to}, {result});"]

    def numpy(self, op: PoolOp, operands: Sequence[Any]) -> None:
        import numpy as np

        a, c, *extra = operands
        spread = [e[..., None, None, :] for e in extra]
        c[...] = combined(op.kind.data, run_body(op.body.block, [a, *spread]).astype(np.float64), (-3, -2))
