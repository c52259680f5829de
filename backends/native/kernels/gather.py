"""``tile.gather``: elements of rows by their numbers, one by one, and what follows on vectors of them."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from etir.backends.native.cpu import Cpu
from etir.backends.native.gather import LONGEST, GatherOp
from etir.backends.native.kernels.loops import addresses, collapsed, load, outer_indices
from etir.backends.native.kernels.template import CFunction, Template, body_function, float_text, run_body, template
from etir.backends.native.tile import shape_of, strides_of


@template(GatherOp)
class Gather(Template):
    """Units are rows."""

    name = "gather"

    def illegal(self, op: GatherOp, cpu: Cpu) -> str | None:
        beside = strides_of(op.c.type)[-1] == 1 or shape_of(op.c)[-1] == 1
        return None if beside else "elements of a row of the result lie side by side"

    def in_place(self, op: GatherOp) -> Sequence[SSAValue]:
        """Extra operands are read when their float is written."""
        return op.extra

    def c(self, op: GatherOp, cpu: Cpu) -> CFunction:
        *outer, count = shape_of(op.c)
        last, lanes = shape_of(op.a)[-1] - 1, cpu.vector
        operands = [op.a, op.numbers, op.c, *op.extra]
        rows = [strides_of(v.type)[:-1] for v in operands]
        dims, steps = collapsed(outer, rows) if outer else ([1], [[1] for _ in rows])
        names = ["a", "n", "c", *(f"e{i}" for i in range(len(op.extra)))]
        element, number = (strides_of(v.type)[-1] for v in (op.a, op.numbers))

        def vector(some: str) -> list[str]:
            extra = [
                load(name, strides_of(e.type)[-1], lanes, some) for name, e in zip(names[3:], op.extra, strict=True)
            ]
            made = f"@_body({', '.join(['vload(found)', *extra])})"
            return [
                f"float found[{lanes}] = {{0.0f}};",
                f"for (long k = 0; k < {some or lanes}; ++k) {{",
                f"  const long at = @_number(n[(j + k) * {number}]);",
                f"  found[k] = a[(at < 0 ? 0 : at > {last} ? {last} : at) * {element}];",
                "}",
                f"vstore_some(c + j, {made}, {some});" if some else f"vstore(c + j, {made});",
            ]

        whole, rest = count // lanes * lanes, count % lanes
        lines = [
            "for (long row = begin; row < end; ++row) {",
            *(f"  {line}" for line in outer_indices(dims)),
            *(f"  {line}" for line in addresses(len(dims), steps, names, 2)),
        ]
        if whole:
            lines += [f"  for (long j = 0; j < {whole}; j += {lanes}) {{", *(f"    {x}" for x in vector("")), "  }"]
        if rest:
            lines += ["  {", f"    const long j = {whole};", *(f"    {x}" for x in vector(str(rest))), "  }"]
        lines.append("}")
        grain = max(1, 4096 // count)
        return CFunction("\n".join(lines), math.prod(dims), grain, (_number(), body_function(op.body.block)))

    def numpy(self, op: GatherOp, operands: Sequence[Any]) -> None:
        import numpy as np

        a, numbers, c, *extra = operands
        at = np.clip(np.rint(numbers), 0, a.shape[-1] - 1).astype(np.int64)
        c[...] = run_body(op.body.block, [np.take_along_axis(a, at, -1), *extra])


def _number() -> str:
    """A function from a float to the integer that it is. Added to 2^23, which has a step of 1, it is in the last bits;
    a sum is vectorized everywhere, and defined for what is no integer.
    """
    first = int.from_bytes(struct.pack(">f", float(LONGEST)), "big")
    return "\n".join(
        [
            "ETIR_INLINE long @_number(float x) {",
            "  union { float number; int bits; } sum;",
            f"  sum.number = x + {float_text(float(LONGEST))};",
            f"  return (long)sum.bits - {first};",
            "}",
        ]
    )
