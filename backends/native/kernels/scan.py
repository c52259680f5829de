"""``tile.scan``: running sums, each vector of the last dim with what it has lost by rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from etir.backends.native.cpu import Cpu
from etir.backends.native.kernels.template import CFunction, Template, template
from etir.backends.native.scan import ScanOp
from etir.backends.native.tile import shape_of, strides_of


@template(ScanOp)
class Scan(Template):
    """Units are vectors of the last dim, for each of those before the one that is summed along."""

    name = "scan"

    def illegal(self, op: ScanOp, cpu: Cpu) -> str | None:
        together = shape_of(op.c)[-1] == 1 or all(strides_of(v.type)[-1] == 1 for v in (op.a, op.c))
        return None if together else "elements of the last dim lie side by side"

    def in_place(self, op: ScanOp) -> Sequence[SSAValue]:
        """Each element is read before the sum up to it is written."""
        return [op.a]

    def c(self, op: ScanOp, cpu: Cpu) -> CFunction:
        *outer, count, width = shape_of(op.c)
        lanes = cpu.vector
        blocks, rest = -(-width // lanes), width % lanes
        a, c = strides_of(op.a.type), strides_of(op.c.type)
        lines = ["for (long unit = begin; unit < end; ++unit) {", "  long left = unit;"]
        if blocks > 1:
            lines.append(f"  const long j = left % {blocks} * {lanes}; left /= {blocks};")
        lines += [f"  const long d{d} = left % {outer[d]}; left /= {outer[d]};" for d in reversed(range(len(outer)))]
        lines.append("  (void)left;")
        for name, number, steps in (("a", 0, a), ("c", 1, c)):
            terms = "".join(f" + d{d} * {steps[d]}" for d in range(len(outer)) if steps[d])
            terms += " + j" if blocks > 1 else ""
            lines.append(f"  {'const float*' if name == 'a' else 'float*'} const {name} = p{number}{terms};")

        def sums(some: str) -> list[str]:
            load = f"vload_some(a + i * {a[-2]}, {some})" if some else f"vload(a + i * {a[-2]})"
            store = f"vstore_some(c + i * {c[-2]}, next, {some});" if some else f"vstore(c + i * {c[-2]}, next);"
            return [
                "vf sum = vset(0.0f), lost = sum;",
                f"for (long i = 0; i < {count}; ++i) {{",
                f"  const vf more = {load} - lost, next = sum + more, off = (next - sum) - more;",
                "  lost = vselect(vlt(vabs(off), vset(__builtin_inff())), off, vset(0.0f));",
                "  sum = next;",
                f"  {store}",
                "}",
            ]

        if blocks > 1 and rest:
            lines += [f"  if (j < {width - rest}) {{", *(f"    {line}" for line in sums("")), "  } else {"]
            lines += [*(f"    {line}" for line in sums(str(rest))), "  }"]
        else:
            lines += [f"  {line}" for line in sums(str(rest) if rest else "")]
        lines.append("}")
        grain = max(1, 4096 // (count * min(width, lanes)))
        return CFunction("\n".join(lines), math.prod(outer) * blocks, grain)

    def numpy(self, op: ScanOp, operands: Sequence[Any]) -> None:
        import numpy as np

        a, c = operands
        c[...] = a.astype(np.float64).cumsum(-2)
