"""``tile.reduce``: one number for every row, with vectors along the row.

A row is summed in lanes, in parts of some elements each, so that the error of a sum grows with its logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from etir.backends.native.cpu import Cpu
from etir.backends.native.kernels.loops import addresses, collapsed, load, outer_indices
from etir.backends.native.kernels.template import (
    CFunction,
    Template,
    body_function,
    count_text,
    run_body,
    template,
)
from etir.backends.native.kernels.windows import COMBINE, START, combined
from etir.backends.native.sizes import most
from etir.backends.native.tile import ReduceOp, shape_of, strides_of

VECTORS = 256
"""Vectors that are summed before they are added to the others."""


@template(ReduceOp)
class Reduce(Template):
    """Units are rows."""

    name = "reduce"

    def illegal(self, op: ReduceOp, cpu: Cpu) -> str | None:
        if shape_of(op.a)[-1] != 1 and any(strides_of(v.type)[-1] not in (0, 1) for v in (op.a, *op.extra)):
            return "elements of a row lie side by side"
        return None

    def c(self, op: ReduceOp, cpu: Cpu) -> CFunction:
        *outer, n = shape_of(op.a)
        lanes, kind = cpu.vector, op.kind.data
        operands = [op.a, *op.extra]
        rows = [strides_of(op.c.type), *(strides_of(v.type)[:-1] for v in operands)]
        dims, steps = collapsed(outer, rows) if outer else ([1], [[1] for _ in rows])
        names = ["o", "x", *(f"e{i}" for i in range(len(op.extra)))]
        along = [strides_of(v.type)[-1] for v in operands]

        def value(some: str) -> str:
            parts = [load(name, step, lanes, some) for name, step in zip(names[1:], along, strict=True)]
            return f"@_body({', '.join(parts)})"

        whole, rest, part = n // lanes * lanes, n % lanes, VECTORS * lanes
        step = COMBINE[kind]
        body = [f"vf s = vset({START[kind]});"]
        if kind in ("sum", "mean") and most(whole) > part:
            body += [
                "vf total = s;",
                f"for (long j0 = 0; j0 < {whole}; j0 += {part}) {{",
                f"  const long j1 = j0 + {part} < {whole} ? j0 + {part} : {whole};",
                "  s = vset(0.0f);",
                f"  for (long j = j0; j < j1; j += {lanes}) {{ {step.format(value(''))} }}",
                "  total += s;",
                "}",
                "s = total;",
            ]
        elif whole:
            body.append(f"for (long j = 0; j < {whole}; j += {lanes}) {{ {step.format(value(''))} }}")
        if rest:
            last = f"vselect(vfirst({rest}), {value(str(rest))}, vset({START[kind]}))"
            body.append(f"{{ const long j = {whole}; {step.format(last)} }}")
        found = {"max": "vlargest(s)", "min": "-vlargest(-s)", "sum": "vsum(s)", "prod": "vproduct(s)"}
        found["mean"] = f"vsum(s) / {count_text(n)}"
        lines = [
            "for (long row = begin; row < end; ++row) {",
            *(f"  {line}" for line in outer_indices(dims)),
            *(f"  {line}" for line in _addresses(len(dims), steps, names)),
            *(f"  {line}" for line in body),
            f"  o[0] = {found[kind]};",
            "}",
        ]
        grain = max(1, 4096 // max(1, most(n)))
        return CFunction("\n".join(lines), math.prod(dims), grain, (body_function(op.body.block),))

    def numpy(self, op: ReduceOp, operands: Sequence[Any]) -> None:
        import numpy as np

        a, c, *extra = operands
        c[...] = combined(op.kind.data, run_body(op.body.block, [a, *extra]).astype(np.float64), -1)


def _addresses(count: int, steps: Sequence[Sequence[int]], names: Sequence[str]) -> list[str]:
    """Addresses by name; operands are a, c and then the extra ones."""
    order = [1, 0, *range(2, len(names))]
    return addresses(count, [steps[i] for i in order], [names[i] for i in order], 1)
