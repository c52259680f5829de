"""``tile.gather``: elements of each row by their numbers, which are constants.

::

    tile.gather %x, %i, %y() : memref<8x12x16xf32>, memref<8x12x12xf32>, memref<8x12x12xf32>() {...}

``y[..., j]`` is the body of ``x[..., i[..., j]]``: scores by relative positions become scores of keys by that. A table
of weights has the numbers, as floats like all that code reads; they are added to 2²³ to be integers again, so that
longer rows stay with the kernels. A number outside of a row is that of its nearest element: programs have none, since
their kernels fail there.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Region, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, region_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from etir.backends.native.sizes import is_known
from etir.backends.native.tile import TemplateOp, shape_of, verify_body

LONGEST = 1 << 23
"""Elements of a row at most: their numbers, added to this one, are the last bits of floats."""


@irdl_op_definition
class GatherOp(TemplateOp):
    """``c = body(gathered a, extra)``: a [..., n], the numbers, c and extra [..., m]."""

    name = "tile.gather"
    a = operand_def(MemRefType)
    numbers = operand_def(MemRefType)
    c = operand_def(MemRefType)
    extra = var_operand_def(MemRefType)
    body = region_def("single_block")
    assembly_format = (
        "$a `,` $numbers `,` $c `(` $extra `)` (`schedule` $schedule^)? attr-dict `:` "
        "type($a) `,` type($numbers) `,` type($c) `(` type($extra) `)` $body"
    )

    def __init__(self, a: SSAValue, numbers: SSAValue, c: SSAValue, extra: Sequence[SSAValue], body: Region):
        super().__init__(operands=[a, numbers, c, extra], regions=[body])

    def reads(self) -> list[SSAValue]:
        return [self.a, self.numbers, *self.extra]

    def writes(self) -> list[SSAValue]:
        return [self.c]

    def verify_(self) -> None:
        a, c = shape_of(self.a), shape_of(self.c)
        if not a or len(c) != len(a) or c[:-1] != a[:-1] or shape_of(self.numbers) != c:
            raise VerifyException("a is [..., n], the numbers and c [..., m]")
        if not is_known((*a, *c)) or 0 in (*a, *c) or a[-1] > LONGEST:
            raise VerifyException(f"sizes are known, and not 0; rows have up to {LONGEST:,} elements")
        if any(shape_of(e) != c for e in self.extra):
            raise VerifyException("extra operands have the shape of c")
        verify_body(self.body, 1 + len(self.extra))
