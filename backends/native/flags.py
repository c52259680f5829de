"""``tile.flags``: truth values as floats, and floats as truth values.

Truth values are the only tensors of a function that are not float32: inputs and outputs of a byte for each element, 0
or 1. Inside they are floats, 0.0 and 1.0, so that no other template knows of bytes::

    tile.flags %allowed, %f : memref<31x31xi1>, memref<31x31xf32>
    tile.map %masked(%f, %scores, %least) ... {
    ^bb0(%flag: f32, %score: f32, %low: f32):
      %0 = arith.constant 0.0 : f32
      %1 = arith.cmpf une, %flag, %0 : f32
      %2 = arith.select %1, %low, %score : f32
      tile.yield %2 : f32
    }

The floats are made right before what reads them, again for each reader: between two of them a byte waits, not a float.
Truth values that a function returns are floats until the end of it, where bytes are made of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def
from xdsl.utils.exceptions import VerifyException

from etir.backends.native.sizes import is_known
from etir.backends.native.sizes_attr import SizesAttr, shown
from etir.backends.native.tile import TemplateOp, is_flags, row_major, shape_of, strides_of


def flags(shape: Sequence[int]) -> MemRefType[Attribute]:
    """The type of truth values in memory, in row-major order."""
    if not is_known(shape):
        return MemRefType(i1, shown(shape), SizesAttr.of(shape, row_major(shape)))
    return MemRefType(i1, shape)


@irdl_op_definition
class FlagsOp(TemplateOp):
    """``out`` is 1 where ``given`` is true, or no 0, and 0 elsewhere; both are dense, and one of them is bytes."""

    name = "tile.flags"
    given = operand_def(MemRefType)
    out = operand_def(MemRefType)
    assembly_format = "$given `,` $out (`schedule` $schedule^)? attr-dict `:` type($given) `,` type($out)"

    def __init__(self, given: SSAValue, out: SSAValue):
        super().__init__(operands=[given, out])

    def reads(self) -> list[SSAValue]:
        return [self.given]

    def writes(self) -> list[SSAValue]:
        return [self.out]

    def verify_(self) -> None:
        if is_flags(self.given.type) == is_flags(self.out.type):
            raise VerifyException("flags become floats, or floats flags")
        shape = shape_of(self.given)
        if shape_of(self.out) != shape:
            raise VerifyException("there is a float for each flag")
        if not all(_is_dense(value) for value in (self.given, self.out)):
            raise VerifyException("flags and floats lie in row-major order without gaps")


def _is_dense(value: SSAValue) -> bool:
    """Whether elements lie in row-major order without gaps; strides of dims of length 1 say nothing."""
    shape = shape_of(value)
    rows = zip(shape, strides_of(value.type), row_major(shape), strict=True)
    return all(stride == wanted for n, stride, wanted in rows if n != 1)
