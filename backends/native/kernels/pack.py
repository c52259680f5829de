"""``tile.pack``: a matrix that is known at run time only, in the panels that a product reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from etir.backends.native.cpu import Cpu
from etir.backends.native.kernels.template import CFunction, Template, template
from etir.backends.native.sizes import Size, most
from etir.backends.native.tile import PackOp, row_major, shape_of, strides_of


@template(PackOp)
class Pack(Template):
    """Units are panels of each item of the batch."""

    name = "pack"

    def illegal(self, op: PackOp, cpu: Cpu) -> str | None:
        if strides_of(op.to.type)[-3:] != row_major(shape_of(op.to)[-3:]):
            return "panels lie one after another"
        return None if shape_of(op.to)[-1] % cpu.vector == 0 else "a panel is whole vectors"

    def c(self, op: PackOp, cpu: Cpu) -> CFunction:
        *batch, k, n = shape_of(op.source)
        panels, _, panel = shape_of(op.to)[-3:]
        row, column = strides_of(op.source.type)[-2:]
        lanes = cpu.vector
        lines = [
            "for (long unit = begin; unit < end; ++unit) {",
            f"  const long panel = unit % {panels};",
            f"  long item = unit / {panels};",
        ]
        terms = ["", ""]
        for d in reversed(range(len(batch))):
            lines.append(f"  const long d{d} = item % {batch[d]}; item /= {batch[d]};")
            for i, v in enumerate((op.source, op.to)):
                terms[i] += f" + d{d} * {strides_of(v.type)[d]}"
        step = f" + panel * {panel * column}" if column else ""
        lines += [
            "  (void)item;",
            f"  const float* const from = p0{terms[0]}{step};",
            f"  float* const to = p1{terms[1]} + panel * {k * panel};",
        ]
        for last in (False, True):
            cut = n - (panels - 1) * panel if isinstance(n, Size) else n % panel
            width = cut if last and cut else panel
            if last and not cut:
                continue
            lines.append(f"  if (panel {'==' if last else '<'} {panels - 1 if cut else panels}) {{")
            lines += [f"    {line}" for line in _panel(k, width, panel, row, column, lanes)]
            lines.append("  }")
        lines.append("}")
        return CFunction("\n".join(lines), math.prod(batch) * panels, max(1, 16384 // max(1, most(k * panel))))

    def numpy(self, op: PackOp, operands: Sequence[Any]) -> None:
        import numpy as np

        source, to = operands
        panels, k, panel = to.shape[-3:]
        whole = np.zeros((*source.shape[:-1], panels * panel), to.dtype)
        whole[..., : source.shape[-1]] = source
        to[...] = np.moveaxis(whole.reshape(*source.shape[:-2], k, panels, panel), -2, -3)


def _panel(k: int, width: int, panel: int, row: int, column: int, lanes: int) -> list[str]:
    """A panel of which ``width`` columns are there. Where columns lie apart, rows are the inner loop: they are read in
    order, and what is written stays in the first cache.
    """
    if column == 1:
        lines = [f"for (long r = 0; r < {k}; ++r) {{"]
        for v in range(0, panel, lanes):
            if isinstance(width, Size):
                left = f"{width} - {v}"
                there = f"({left} < 0 ? 0 : {left} > {lanes} ? {lanes} : {left})"
                lines.append(f"  vstore(to + r * {panel} + {v}, vload_some(from + r * {row} + {v}, {there}));")
                continue
            there = min(lanes, width - v)
            value = "vset(0.0f)" if there <= 0 else f"vload(from + r * {row} + {v})"
            if 0 < there < lanes:
                value = f"vload_some(from + r * {row} + {v}, {there})"
            lines.append(f"  vstore(to + r * {panel} + {v}, {value});")
        return [*lines, "}"]
    lines = [
        f"for (long r0 = 0; r0 < {k}; r0 += 16) {{",
        f"  const long r1 = r0 + 16 < {k} ? r0 + 16 : {k};",
        f"  for (long j = 0; j < {width}; ++j) {{",
        f"    for (long r = r0; r < r1; ++r) to[r * {panel} + j] = from[j * {column} + r * {row}];",
        "  }",
    ]
    if isinstance(width, Size) or width < panel:
        lines.append(f"  for (long j = {width}; j < {panel}; ++j) {{")
        lines.append(f"    for (long r = r0; r < r1; ++r) to[r * {panel} + j] = 0.0f;")
        lines.append("  }")
    return [*lines, "}"]
