"""``tile.map``: elementwise operators, and copies between strides.

Neighboring dims become one where every operand allows it; the innermost loop goes over vectors of the last dim.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from etir.backends.native.cpu import Cpu
from etir.backends.native.kernels.loops import addresses, collapsed, load, outer_indices
from etir.backends.native.kernels.template import CFunction, Template, body_function, run_body, template
from etir.backends.native.sizes import most
from etir.backends.native.tile import MapOp, shape_of, strides_of

CHUNK = 4096
"""Elements of a unit of work where everything is one loop."""


@template(MapOp)
class Map(Template):
    """A body for every element."""

    name = "map"

    def illegal(self, op: MapOp, cpu: Cpu) -> str | None:
        if any(n != 1 and s == 0 for n, s in zip(shape_of(op.out), strides_of(op.out.type), strict=True)):
            return "the output has elements of its own"
        return None

    def in_place(self, op: MapOp) -> Sequence[SSAValue]:
        """A vector is read before the same one is written."""
        return op.inputs

    def c(self, op: MapOp, cpu: Cpu) -> CFunction:
        operands = [op.out, *op.inputs]
        # What is written lies in order: its smallest stride is the innermost loop.
        shape, rows = shape_of(op.out), [strides_of(v.type) for v in operands]
        order = sorted(range(len(shape)), key=lambda d: -most(rows[0][d]))
        dims, steps = collapsed([shape[d] for d in order], [[row[d] for d in order] for row in rows])
        names = ["o", *(f"x{i}" for i in range(len(op.inputs)))]
        lanes = cpu.vector
        *outer, inner = dims
        lines: list[str] = []
        if not outer and most(inner) > CHUNK:
            units, grain = -(-inner // CHUNK), 1
            lines += [
                f"const long from = begin * {CHUNK}, end_of = end * {CHUNK};",
                f"const long to = end_of < {inner} ? end_of : {inner};",
                *addresses(0, steps, names, 0),
                "long j = from;",
                *_columns(steps, names, lanes, "to", inner % lanes),
            ]
        else:
            units, grain = math.prod(outer), max(1, CHUNK // max(1, most(inner)))
            lines += [
                "for (long row = begin; row < end; ++row) {",
                *(f"  {line}" for line in outer_indices(outer)),
                *(f"  {line}" for line in addresses(len(outer), steps, names, 0)),
                "  long j = 0;",
                *(f"  {line}" for line in _columns(steps, names, lanes, str(inner), inner % lanes)),
                "}",
            ]
        return CFunction("\n".join(lines), units, grain, (body_function(op.body.block),))

    def numpy(self, op: MapOp, operands: Sequence[Any]) -> None:
        out, *inputs = operands
        out[...] = run_body(op.body.block, inputs)


def _columns(steps: Sequence[Sequence[int]], names: Sequence[str], lanes: int, end: str, rest: int) -> list[str]:
    """The loop over the innermost dim from ``j``."""

    def values(some: str) -> str:
        return ", ".join(load(name, row[-1], lanes, some) for name, row in list(zip(names, steps, strict=True))[1:])

    step = steps[0][-1]
    if step == 1:
        lines = [f"for (; j + {lanes} <= {end}; j += {lanes}) vstore(o + j, @_body({values('')}));"]
        if rest:
            lines.append(f"if (j < {end}) vstore_some(o + j, @_body({values(str(rest))}), {rest});")
        return lines
    lines = [
        f"for (; j + {lanes} <= {end}; j += {lanes}) vscatter(o + j * {step}, {step}, @_body({values('')}), {lanes});"
    ]
    if rest:
        lines.append(f"if (j < {end}) vscatter(o + j * {step}, {step}, @_body({values(str(rest))}), {rest});")
    return lines
