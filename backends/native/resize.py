"""``tile.resize``: an image made larger or smaller, each element a weighted sum of the four nearest ones.

::

    tile.resize %x, %c() scales [0.5 : f64, 0.5 : f64] : memref<1x28x28x64xf32>, memref<1x56x56x64xf32>() {...}

Index ``i`` of a dim of the result lies at ``scale (i + 1/2) - 1/2`` in the image, not before its first element, or at
``scale i`` where corners are ``aligned``. Positions are float32, rounded as torch does: a rounding error in one is one
of the share that each neighbor has. An element beyond the last one is the last one; one whose share is 0 is multiplied
by it nevertheless, so that what is infinite becomes NaN where it does in torch. A dim that stays as long as it is has
shares of 1 and 0 of the same element, whatever its scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, MemRefType, UnitAttr, f64
from xdsl.ir import Region, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, region_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from etir.backends.native.sizes import is_known
from etir.backends.native.tile import TemplateOp, shape_of, verify_body


@dataclass(frozen=True)
class Axis:
    """For each index of a dim of the result the first of its two neighbors in the image, and the ``share`` of the
    second one, as float32; the share of the first one is 1 without it. The second one is ``first + 1``, or ``first``
    where that is ``last`` or more.
    """

    first: tuple[int, ...]
    share: tuple[float, ...]
    last: int

    @property
    def second(self) -> tuple[int, ...]:
        """The second neighbor of each index."""
        return tuple(i + (i < self.last) for i in self.first)

    def runs(self) -> list[int]:
        """The indices at which other neighbors begin, and the number of indices."""
        return [i for i, at in enumerate(self.first) if i == 0 or at != self.first[i - 1]] + [len(self.first)]


def axis(given: int, made: int, scale: float, *, aligned: bool) -> Axis:
    """The neighbors along a dim of ``given`` elements of which ``made`` are made."""
    import numpy as np

    if given == made:
        return Axis(tuple(range(made)), (0.0,) * made, 0)
    index = np.arange(made, dtype=np.float64)
    # Products of two numbers of 24 bits are exact in float64: torch's code has a multiply-add, which rounds once.
    at = (index * scale if aligned else (index + 0.5) * scale - 0.5).astype(np.float32)
    at = np.maximum(at, np.float32(0.0))
    first = np.minimum(at, given - 1).astype(np.int64)
    share = np.clip(at - first.astype(np.float32), np.float32(0.0), np.float32(1.0))
    return Axis(tuple(first.tolist()), tuple(share.tolist()), given - 1)


@irdl_op_definition
class ResizeOp(TemplateOp):
    """``c = body(resized a, extra)``: a [..., h, w, c], c and extra [..., y, x, c]."""

    name = "tile.resize"
    a = operand_def(MemRefType)
    c = operand_def(MemRefType)
    extra = var_operand_def(MemRefType)
    scales = prop_def(ArrayAttr[FloatAttr])
    aligned = opt_prop_def(UnitAttr)
    body = region_def("single_block")
    assembly_format = (
        "$a `,` $c `(` $extra `)` `scales` $scales (`aligned` $aligned^)? (`schedule` $schedule^)? attr-dict `:` "
        "type($a) `,` type($c) `(` type($extra) `)` $body"
    )

    def __init__(
        self,
        a: SSAValue,
        c: SSAValue,
        extra: Sequence[SSAValue],
        scales: Sequence[float],
        body: Region,
        *,
        aligned: bool = False,
    ):
        super().__init__(
            operands=[a, c, extra],
            properties={
                "scales": ArrayAttr([FloatAttr(scale, f64) for scale in scales]),
                "aligned": UnitAttr() if aligned else None,
            },
            regions=[body],
        )

    @property
    def axes(self) -> tuple[Axis, Axis]:
        """The neighbors of rows and of columns."""
        rows, columns = (
            axis(given, made, scale.value.data, aligned=self.aligned is not None)
            for given, made, scale in zip(shape_of(self.a)[-3:-1], shape_of(self.c)[-3:-1], self.scales, strict=True)
        )
        return rows, columns

    def reads(self) -> list[SSAValue]:
        return [self.a, *self.extra]

    def writes(self) -> list[SSAValue]:
        return [self.c]

    def verify_(self) -> None:
        a, c = shape_of(self.a), shape_of(self.c)
        if len(a) < 3 or len(c) != len(a) or c[:-3] != a[:-3] or c[-1] != a[-1]:
            raise VerifyException("a is [..., h, w, c], c [..., y, x, c]")
        if not is_known((*a, *c)) or 0 in (*a, *c):
            raise VerifyException("sizes are known, and not 0")
        scales = [scale.value.data for scale in self.scales]
        if len(scales) != 2 or not all(math.isfinite(scale) and scale >= 0.0 for scale in scales):
            raise VerifyException("scales are two numbers that are not negative, of rows and of columns")
        if any(shape_of(e) != c for e in self.extra):
            raise VerifyException("extra operands have the shape of c")
        verify_body(self.body, 1 + len(self.extra))
