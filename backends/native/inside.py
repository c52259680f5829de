"""``tile.depthwise_inside``: windows for each channel, or for each group of few, of an image that has no border.

``tile.depthwise`` reads windows, which all are in memory: an image lies in a border of zeros for it, and one of 32x32
with windows of 9x9 takes 1.6 times its bytes with that. This operation reads the image, and taps outside of it count as
0::

    tile.depthwise_inside %x, %taps, %c(%bias) strides [1, 1] before [4, 4] dilation [1, 1] : memref<1x32x32x64xf32>,
        memref<9x9x64xf32>, memref<1x32x32x64xf32>(memref<1x32x32x64xf32, strided<[0, 0, 0, 1]>>) {...}

Its sums are those of the taps that are there, in the same order, so that results have the same bits.

Where groups of channels have a window each, as in ResNeXt, the taps have the channels of a group before those of the
result::

    tile.depthwise_inside %x, %taps, %c() strides [1, 1] before [1, 1] dilation [1, 1] : memref<1x56x56x128xf32>,
        memref<3x3x4x128xf32>, memref<1x56x56x128xf32>() {...}

A dense window has
no operation of this kind: its products go over runs of channels and columns, and are cut into parts of the result whose
windows have the same taps (``tile.brgemm``), which for each channel would be as many operations as a window has taps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, MemRefType, i64
from xdsl.ir import Region, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, region_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from etir.backends.native.sizes import is_known
from etir.backends.native.tile import TemplateOp, shape_of, verify_body

Pair = tuple[int, int]
MOST = 1 << 31
"""Where a window begins is below the square of it, which 64 bits hold."""


@dataclass(frozen=True)
class Steps:
    """Rows and columns between windows, before the image that the first window begins, and between its taps."""

    strides: Pair
    before: Pair
    dilation: Pair


def _numbers(pair: Pair) -> ArrayAttr[IntegerAttr]:
    return ArrayAttr([IntegerAttr(n, i64) for n in pair])


def _pair(numbers: ArrayAttr[IntegerAttr]) -> Pair:
    rows, columns = (n.value.data for n in numbers.data)
    return rows, columns


@irdl_op_definition
class DepthwiseInsideOp(TemplateOp):
    """``c = body(sum a b, extra)`` for each channel: a [..., h, w, c], b [y, x, c], c and extra [..., y, x, c]; or for
    each group of channels: b [y, x, group, c], whose [..., k, j] is what channel ``j // group * group + k`` of the
    image is multiplied by for channel j.

    Element [i, j] of the result reads rows ``i strides[0] - before[0] + y dilation[0]`` of the image, and columns
    likewise; those that the image does not have count as 0. A window may have no tap in the image.
    """

    name = "tile.depthwise_inside"
    a = operand_def(MemRefType)
    b = operand_def(MemRefType)
    c = operand_def(MemRefType)
    extra = var_operand_def(MemRefType)
    strides = prop_def(ArrayAttr[IntegerAttr])
    before = prop_def(ArrayAttr[IntegerAttr])
    dilation = prop_def(ArrayAttr[IntegerAttr])
    body = region_def("single_block")
    assembly_format = (
        "$a `,` $b `,` $c `(` $extra `)` `strides` $strides `before` $before `dilation` $dilation "
        "(`schedule` $schedule^)? attr-dict `:` type($a) `,` type($b) `,` type($c) `(` type($extra) `)` $body"
    )

    def __init__(self, a: SSAValue, b: SSAValue, c: SSAValue, extra: Sequence[SSAValue], steps: Steps, body: Region):
        super().__init__(
            operands=[a, b, c, extra],
            properties={
                "strides": _numbers(steps.strides),
                "before": _numbers(steps.before),
                "dilation": _numbers(steps.dilation),
            },
            regions=[body],
        )

    @property
    def steps(self) -> Steps:
        """What the properties say."""
        return Steps(_pair(self.strides), _pair(self.before), _pair(self.dilation))

    @property
    def group(self) -> int:
        """Channels of the image that one of the result is made of."""
        return 1 if len(shape_of(self.b)) == 3 else shape_of(self.b)[2]

    def reads(self) -> list[SSAValue]:
        return [self.a, self.b, *self.extra]

    def writes(self) -> list[SSAValue]:
        return [self.c]

    def verify_(self) -> None:
        for name in ("strides", "before", "dilation"):
            if len(getattr(self, name).data) != 2:
                raise VerifyException(f"'{name}' are two numbers, of rows and of columns")
        if min(*self.steps.strides, *self.steps.dilation) < 1:
            raise VerifyException("strides and dilation are 1 at least")
        if max(map(abs, (*self.steps.strides, *self.steps.before, *self.steps.dilation))) >= MOST:
            raise VerifyException(f"strides, dilation and what is before the image are less than {MOST}")
        a, b, c = (shape_of(v) for v in (self.a, self.b, self.c))
        if len(a) < 3 or len(b) not in (3, 4) or len(c) != len(a) or c[:-3] != a[:-3] or not a[-1] == b[-1] == c[-1]:
            raise VerifyException("a is [..., h, w, c], b [taps, taps, (group,) c] and c [..., rows, columns, c]")
        if not is_known(b):
            raise VerifyException("the shape of b is known")
        if self.group < 1 or (self.group > 1 and (not is_known(c[-1:]) or c[-1] % self.group)):
            raise VerifyException(f"{c[-1]} channels are no groups of {b[2]}")
        if any(shape_of(e) != c for e in self.extra):
            raise VerifyException("extra operands have the shape of c")
        verify_body(self.body, 1 + len(self.extra))
