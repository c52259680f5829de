"""``tile.scan``: running sums.

::

    tile.scan %x, %y : memref<8x12x16xf32>, memref<8x12x16xf32>

``y[..., i, j]`` is the sum of ``x[..., k, j]`` for all k up to i. What a sum loses by rounding is added to the next
element: torch's sums are of float64. What lies side by side in memory is the last dim, of 1 where that is what is
summed.
"""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def
from xdsl.utils.exceptions import VerifyException

from etir.backends.native.sizes import is_known
from etir.backends.native.tile import TemplateOp, shape_of


@irdl_op_definition
class ScanOp(TemplateOp):
    """``c = running sums of a`` along the last dim but one: both are [..., n, lanes]."""

    name = "tile.scan"
    a = operand_def(MemRefType)
    c = operand_def(MemRefType)
    assembly_format = "$a `,` $c (`schedule` $schedule^)? attr-dict `:` type($a) `,` type($c)"

    def __init__(self, a: SSAValue, c: SSAValue):
        super().__init__(operands=[a, c])

    def reads(self) -> list[SSAValue]:
        return [self.a]

    def writes(self) -> list[SSAValue]:
        return [self.c]

    def verify_(self) -> None:
        a, c = shape_of(self.a), shape_of(self.c)
        if len(a) < 2 or a != c:
            raise VerifyException("a and c are [..., n, lanes]")
        if not is_known(a) or 0 in a:
            raise VerifyException("sizes are known, and not 0")
