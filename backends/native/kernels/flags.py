"""``tile.flags``: bytes of 0 and 1 to floats, which compilers make vectors of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from etir.backends.native.cpu import Cpu
from etir.backends.native.flags import FlagsOp
from etir.backends.native.kernels.template import CFunction, Template, template
from etir.backends.native.tile import shape_of

CHUNK = 4096
"""Elements of a unit of work."""


@template(FlagsOp)
class Flags(Template):
    """A float for each byte."""

    name = "flags"

    def c(self, op: FlagsOp, cpu: Cpu) -> CFunction:
        count = math.prod(shape_of(op.out))
        lines = [
            f"const long from = begin * {CHUNK}, end_of = end * {CHUNK};",
            f"const long to = end_of < {count} ? end_of : {count};",
            "const unsigned char* restrict const flags = (const unsigned char*)p0;",
            "float* restrict const out = p1;",
            "for (long i = from; i < to; ++i) out[i] = flags[i] != 0 ? 1.0f : 0.0f;",
        ]
        return CFunction("\n".join(lines), -(-count // CHUNK))

    def numpy(self, op: FlagsOp, operands: Sequence[Any]) -> None:
        given, out = operands
        out[...] = given != 0
