"""``tile.map``: elementwise operators, and copies between strides.

Neighboring dims become one where every operand allows it; the innermost loop goes over vectors of the last dim. Where
that is a few channels of an image that come from planes, the loop goes over columns, and compilers weave the vectors of
the planes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from etir.backends.native.cpu import Cpu
from etir.backends.native.kernels.loops import addresses, collapsed, load, outer_indices
from etir.backends.native.kernels.template import CFunction, Template, body_function, run_body, template
from etir.backends.native.sizes import is_known, most
from etir.backends.native.tile import MapOp, shape_of, strides_of

CHUNK = 4096
"""Elements of a unit of work where everything is one loop."""
FEW = 4
"""Planes that are woven."""


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
        if _are_planes(op, dims, steps):
            return _woven(dims, steps)
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


def _are_planes(op: MapOp, dims: Sequence[int], steps: Sequence[Sequence[int]]) -> bool:
    """Whether a map copies a few planes, whose columns lie side by side, to channels that do."""
    is_copy = len(op.inputs) == 1 and len([*op.body.block.ops]) == 1
    if not is_known(dims[-2:]):
        return False
    few = len(dims) > 1 and 1 < dims[-1] <= FEW and dims[-2] >= 16
    return is_copy and few and steps[0][-1] == 1 and steps[1][-1] != 1 and steps[1][-2] == 1


def _woven(dims: Sequence[int], steps: Sequence[Sequence[int]]) -> CFunction:
    *outer, columns, channels = dims
    to, plane = steps[0][-2], steps[1][-1]
    copies = " ".join(f"o[j * {to} + {c}] = x0[j + {c * plane}];" for c in range(channels))
    places = [line.replace("* const", "* restrict const") for line in addresses(len(outer), steps, ["o", "x0"], 0)]
    lines = [
        "for (long row = begin; row < end; ++row) {",
        *(f"  {line}" for line in (*outer_indices(outer), *places)),
        f"  for (long j = 0; j < {columns}; ++j) {{ {copies} }}",
        "}",
    ]
    return CFunction("\n".join(lines), math.prod(outer), max(1, CHUNK // (columns * channels)))


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
