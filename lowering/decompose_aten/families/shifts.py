"""Shifts by any count, and powers of integers, where a target's kernels are right for some values only.

torch gives 0, or the sign in every bit, for a count that is negative or not below the width of the type, and powers
that wrap around; C++ leaves such shifts undefined, and a power by way of double has 53 bits. A manifest says so in the
kernel's row (``wrong``); elsewhere the operators stay.
"""

from __future__ import annotations

from typing import TypeAlias

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import i64, ui8
from etir.lowering.build.builder import Builder, Scalar, TensorOrScalar, dims, element, is_tensor
from etir.lowering.build.promotion import INTEGER, category_of
from etir.lowering.decompose_aten.decomposition import ALL, decomposition
from etir.lowering.decompose_aten.loops import scan
from etir.lowering.decompose_aten.value_range import value_range

Operands: TypeAlias = tuple[SSAValue, SSAValue, IntegerType]

UNROLLED = 6
"""Bits of an exponent for which the steps are written out; more are a loop."""


def _operands(b: Builder, x: TensorOrScalar, y: TensorOrScalar) -> Operands | None:
    """Both as tensors of the result's type, which is one of integers; and that type."""
    type = element(b.rewriter.root.results[0])
    if category_of(type) != INTEGER or not isinstance(type, IntegerType):
        return b.notify_match_failure("they are no integers")
    first, second = (b.cast(v, type) if is_tensor(v) else b.as_tensor(v, type) for v in (x, y))
    return first, second, type


def _power_of_two(b: Builder, count: SSAValue, last: int, *, beyond: int) -> SSAValue:
    """``2 ** count`` for counts up to ``last``; ``beyond`` for larger and negative ones."""
    type = element(count)
    assert isinstance(type, IntegerType)
    bits = type.width.data
    powers = [1 << n for n in range(last + 1)]
    wrapped = [n - (1 << bits) if type != ui8 and n >= 1 << (bits - 1) else n for n in powers]
    table = b.constant([*wrapped, beyond], type)
    place = b.where(b.lt(count, 0), last + 1, b.clamp(count, None, last + 1))
    found = b(aten.index_select.default, table, 0, b.view(b.cast(place, i64), [-1]))
    return b.view(found, b.sizes(count))


@decomposition(aten.bitwise_left_shift.Tensor)
def left_shift(b: Builder, x: SSAValue, count: SSAValue) -> SSAValue | None:
    """The product with a power of two, which is 0 for what torch shifts out"""
    operands = _operands(b, x, count)
    if operands is None:
        return None
    x, count, type = operands
    return b.mul(x, _power_of_two(b, count, type.width.data - 1, beyond=0))


@decomposition(aten.bitwise_right_shift.Tensor)
def right_shift(b: Builder, x: SSAValue, count: SSAValue) -> SSAValue | None:
    """The quotient by a power of two, rounded down; the sign in every bit where the type has no such power"""
    operands = _operands(b, x, count)
    if operands is None:
        return None
    x, count, type = operands
    last = type.width.data - (1 if type == ui8 else 2)
    quotient = b(aten.floor_divide.default, x, _power_of_two(b, count, last, beyond=1))
    outside = b.logical_or(b.lt(count, 0), b.gt(count, last))
    sign = b.cast(b.lt(x, 0), type)
    return b.where(outside, b.neg(sign) if type != ui8 else b.mul(sign, 0), quotient)


@decomposition(aten.bitwise_left_shift.Tensor_Scalar, aten.bitwise_right_shift.Tensor_Scalar)
def shift_by_a_number(b: Builder, x: SSAValue, count: Scalar) -> SSAValue | None:
    """Of a number that is negative, or not below the width of the type: 0, or the sign"""
    type = element(x)
    if not isinstance(count, int) or not isinstance(type, IntegerType) or category_of(type) != INTEGER:
        return b.notify_match_failure("it is no integer shifted by an integer that is known")
    if 0 <= count < type.width.data:
        return b.notify_match_failure("the kernel shifts by that")
    if "left" in b.rewriter.root.name or type == ui8:
        return b.mul(x, 0)
    return b.neg(b.cast(b.lt(x, 0), type))


@decomposition(aten.pow.Tensor_Tensor, aten.pow.Scalar, symint_args=ALL)
def power_by_integers(b: Builder, x: TensorOrScalar, exponent: TensorOrScalar) -> SSAValue | None:
    """The product of the powers ``x``, ``x ** 2``, ``x ** 4``, ... that the bits of the exponent choose"""
    operands = _operands(b, x, exponent)
    if operands is None:
        return None
    x, exponent, type = operands
    known = value_range(exponent)
    bits = type.width.data - (type != ui8)
    if known is not None:
        bits = min(bits, max(int(known[1]), 0).bit_length())
    if dims(x) != dims(exponent):  # What is carried keeps its shape: that of the result.
        x, exponent = b.add(x, b.mul(exponent, 0)), b.add(exponent, b.mul(x, 0))

    def step(carried: list[SSAValue], _slices: list[SSAValue]) -> tuple[list[SSAValue], list[SSAValue]]:
        found, power, left = carried
        found = b.where(b.ne(b(aten.bitwise_and.Scalar, left, 1), 0), b.mul(found, power), found)
        return [found, b.mul(power, power), b(aten.floor_divide.default, left, b.as_tensor(2, type))], []

    carried = [b.full(b.sizes(x), 1, type), x, exponent]
    if bits > UNROLLED:
        carried, _ = scan(b, carried, [b.arange(bits, i64)], step)
    else:
        for _ in range(bits):
            carried, _ = step(carried, [])
    if type == ui8 or (known is not None and known[0] >= 0):
        return carried[0]
    # What 1 / x ** n rounds to: of 1 itself, of -1 by the parity, of all others 0.
    odd = b.ne(b(aten.bitwise_and.Scalar, exponent, 1), 0)
    unit = b.where(b.logical_or(b.eq(x, 1), b.logical_and(b.eq(x, -1), odd)), x, b.cast(b.eq(x, -1), type))
    return b.where(b.lt(exponent, 0), unit, carried[0])
