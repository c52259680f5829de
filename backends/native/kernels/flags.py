"""``tile.flags``: bytes of 0 and 1 to floats or back, which compilers make vectors of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from etir.backends.native.cpu import Cpu
from etir.backends.native.flags import FlagsOp
from etir.backends.native.kernels.template import CFunction, Template, template
from etir.backends.native.tile import is_flags, shape_of

CHUNK = 4096
"""Elements of a unit of work."""


@template(FlagsOp)
class Flags(Template):
    """A float for each byte, or a byte for each float."""

    name = "flags"

    def c(self, op: FlagsOp, cpu: Cpu) -> CFunction:
        count = math.prod(shape_of(op.out))
        lines = [
            f"const long from = begin * {CHUNK}, end_of = end * {CHUNK};",
            f"const long to = end_of < {count} ? end_of : {count};",
        ]
        if is_flags(op.out.type):
            lines += [
                "const float* restrict const read = p0;",
                "unsigned char* restrict const out = (unsigned char*)p1;",
                "for (long i = from; i < to; ++i) out[i] = read[i] != 0.0f;",
            ]
        else:
            lines += [
                "const unsigned char* restrict const read = (const unsigned char*)p0;",
                "float* restrict const out = p1;",
                "for (long i = from; i < to; ++i) out[i] = read[i] != 0 ? 1.0f : 0.0f;",
            ]
        return CFunction("\n".join(lines), -(-count // CHUNK))

    def numpy(self, op: FlagsOp, operands: Sequence[Any]) -> None:
        given, out = operands
        out[...] = given != 0
