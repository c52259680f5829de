"""Casts from and to 8-bit floats, of which no kernel takes any: by a table of their numbers.

An 8-bit float is one of 256 numbers, and its code counts them, the sign apart, from the smallest to the largest. So a
cast from it is a lookup, and a cast to it counts the limits between neighbors that the magnitude has reached. A limit
is the mean of two neighbors, and where the even code is the smaller one, the number after it: ties go to even codes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import BY_TYPE, f32, i1, i32, i64, ui8
from etir.dialects.et.layout import tensor_type
from etir.lowering.build.builder import Builder, dims, element


@dataclass(frozen=True)
class Format:
    """``mantissa`` bits after the exponent, whose smallest means 2 to the power ``lowest``; the codes from ``infinite``
    to below ``nan`` are infinite, those from ``nan`` on no number."""

    mantissa: int
    lowest: int
    infinite: int
    nan: int

    def number(self, code: int) -> float:
        """What a code without the sign means."""
        if code >= self.infinite:
            return math.nan if code >= self.nan else math.inf
        return self._finite(code)

    def _finite(self, code: int) -> float:
        exponent, fraction = divmod(code, 1 << self.mantissa)
        scaled = fraction / (1 << self.mantissa)
        return math.ldexp(scaled + (exponent > 0), self.lowest + max(exponent - 1, 0))

    def limits(self) -> list[float]:
        """The smallest magnitude, in single precision, of each code from 1 to what the largest ones become: infinity,
        or the largest number of a format without it, as in torch."""
        found: list[float] = []
        for code in range(self.infinite if self.nan > self.infinite else self.infinite - 1):
            mean = np.float32((self._finite(code) + self._finite(code + 1)) / 2)
            found.append(float(np.nextafter(mean, np.float32(math.inf)) if code % 2 == 0 else mean))
        return found


FORMATS = {
    "float8_e4m3fn": Format(mantissa=3, lowest=-6, infinite=0x7F, nan=0x7F),
    "float8_e5m2": Format(mantissa=2, lowest=-14, infinite=0x7C, nan=0x7D),
}
"""The formats of "FP8 Formats for Deep Learning" (Micikevicius et al., 2022), by the name of torch's dtype."""


def format_of(type: Attribute) -> Format | None:
    """The format of an element type; None for one that is no 8-bit float, or of another kind."""
    row = BY_TYPE.get(type)
    return None if row is None else FORMATS.get(row.torch_name)


def from_float8(b: Builder, x: SSAValue, wanted: Attribute) -> SSAValue:
    """``x``, an 8-bit float, in another element type."""
    format = format_of(element(x))
    assert format is not None
    positive = [format.number(code) for code in range(128)]
    table = b.constant([*positive, *(-number for number in positive)], f32)
    index = b.cast(_viewed(b, x, ui8), i64)
    return b.cast(b(aten.index.Tensor, table, [index]), wanted)


def to_float8(b: Builder, x: SSAValue, wanted: Attribute) -> SSAValue:
    """``x`` in an 8-bit float, by way of single precision. What is too large is infinite, or the largest number."""
    format = format_of(wanted)
    assert format is not None
    x = b.cast(x, f32)
    limits = b.constant(format.limits(), f32)
    counts = tensor_type(i32, dims(x))
    code = b(aten.bucketize.Tensor, b.abs(x), limits, out_int32=True, right=True, types=[counts])
    code = b.where(b(aten.isnan.default, x), b.as_tensor(0x7F, i32), code)
    code = b.add(code, b.mul(b.cast(b(aten.signbit.default, x, types=[tensor_type(i1, dims(x))]), i32), 0x80))
    return _viewed(b, b.cast(code, ui8), wanted)


def _viewed(b: Builder, x: SSAValue, type: Attribute) -> SSAValue:
    """The bytes of ``x`` under another element type of one byte."""
    given = x.type
    assert isinstance(given, TensorType)
    return b(aten.view.dtype, x, type, types=[TensorType(type, given.get_shape(), given.encoding)])
