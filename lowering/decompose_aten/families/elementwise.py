"""Arithmetic, comparisons and selections, element by element.

Most overloads here are other names of core ones; :data:`ALIASES` is the table of them.
"""

from __future__ import annotations

import math

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.aten.base import aten_op
from etir.dialects.dtypes import f64, i1, i64
from etir.lowering.build.builder import Builder, Operator, Scalar, TensorOrScalar, dims, element, is_tensor
from etir.lowering.build.promotion import FLOATING, category_of, result_type, to_floating
from etir.lowering.decompose_aten.decomposition import ALL, decomposition, rename
from etir.lowering.decompose_aten.value_range import LARGEST

ALIASES: dict[str, str] = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "negative": "neg",
    "clip": "clamp",
    "fix": "trunc",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "not_equal": "ne",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "true_divide": "div",
    "special_erf": "erf",
    "special_erfc": "erfc",
    "special_exp2": "exp2",
    "special_expm1": "expm1",
    "special_log1p": "log1p",
    "special_xlogy": "xlogy",
    "__and__": "bitwise_and",
    "__or__": "bitwise_or",
    "__xor__": "bitwise_xor",
    "__lshift__": "bitwise_left_shift",
    "__rshift__": "bitwise_right_shift",
}
"""Packets that are other names of packets; the overloads have the same names except for those below."""

_OVERLOADS: dict[str, tuple[str, ...]] = {
    "clip": ("default", "Tensor"),
    **{name: ("Scalar", "Tensor") for name in ("greater", "greater_equal", "less", "less_equal", "not_equal")},
    **{name: ("Scalar", "Tensor") for name in ("subtract", "multiply", "true_divide", "__and__", "__or__", "__xor__")},
    "divide": ("Scalar", "Tensor", "Scalar_mode", "Tensor_mode"),
    "__lshift__": ("Tensor",),
    "__rshift__": ("Tensor",),
}

rename(
    (aten_op(f"aten.{alias}.{overload}"), aten_op(f"aten.{packet}.{overload}"))
    for alias, packet in ALIASES.items()
    for overload in _OVERLOADS.get(alias, ("default",))
    if alias != "special_xlogy"
)
rename(
    [
        (aten.special_xlogy.default, aten.xlogy.Tensor),
        (aten.special_xlogy.self_scalar, aten.xlogy.Scalar_Self),
        (aten.special_xlogy.other_scalar, aten.xlogy.Scalar_Other),
        (aten._neg_view.default, aten.neg.default),
        (aten._neg_view_copy.default, aten.neg.default),
        (aten.__lshift__.Scalar, aten.bitwise_left_shift.Tensor_Scalar),
        (aten.__rshift__.Scalar, aten.bitwise_right_shift.Tensor_Scalar),
        (aten.max.other, aten.maximum.default),
        (aten.min.other, aten.minimum.default),
        (aten.clamp_min.Tensor, aten.maximum.default),
        (aten.clamp_max.Tensor, aten.minimum.default),
        (aten.floor_divide.Scalar, aten.floor_divide.default),
    ]
)


@decomposition(aten.square.default)
def square(b: Builder, x: SSAValue) -> SSAValue:
    """``x * x``, of bools as integers"""
    x = b.cast(x, i64) if element(x) == i1 else x
    return b.mul(x, x)


@decomposition(aten._fw_primal.default, aten._fw_primal_copy.default)
def primal(b: Builder, x: SSAValue, _level: int) -> SSAValue:
    """``alias``"""
    return b(aten.alias.default, x)


@decomposition(aten.sgn.default)
def sgn(b: Builder, x: SSAValue) -> SSAValue | None:
    """``sign``, for real types"""
    return b.sign(x) if category_of(element(x)) <= FLOATING else b.notify_match_failure("it is complex")


@decomposition(aten.rsub.Scalar, aten.rsub.Tensor, symint_args=("other",))
def rsub(b: Builder, x: SSAValue, other: TensorOrScalar, alpha: float) -> SSAValue:
    """``other - alpha * x``; for a number, ``other + (-x) * alpha``"""
    if is_tensor(other):
        return b(aten.sub.Tensor, other, x, alpha=alpha)
    return b.add(b.neg(x) if alpha == 1 else b.mul(x, -alpha), other)


@decomposition(aten.add.Tensor, aten.sub.Tensor)
def add_complex_multiple(b: Builder, x: SSAValue, other: TensorOrScalar, alpha: Scalar) -> SSAValue | None:
    """``x + other * alpha`` for a complex number, which is no argument of a kernel"""
    if not isinstance(alpha, complex) or not is_tensor(other):
        return b.notify_match_failure("the factor is real")
    operator = aten.add.Tensor if isinstance(b.rewriter.root, aten.add.Tensor) else aten.sub.Tensor
    return b(operator, x, b(aten.mul.Scalar, other, alpha))


@decomposition(aten.clamp_min.default, symint_args=("min",))
def clamp_min(b: Builder, x: SSAValue, low: Scalar) -> SSAValue:
    """``clamp`` from below"""
    return b(aten.clamp.default, x, low, None)


@decomposition(aten.clamp_max.default, symint_args=("max",))
def clamp_max(b: Builder, x: SSAValue, high: Scalar) -> SSAValue:
    """``clamp`` from above"""
    return b(aten.clamp.default, x, None, high)


@decomposition(aten.floor_divide.default, symint_args=("other",))
def floor_divide(b: Builder, x: SSAValue, other: TensorOrScalar) -> SSAValue:
    """``div`` rounded down"""
    return b(aten.div.Tensor_mode if is_tensor(other) else aten.div.Scalar_mode, x, other, rounding_mode="floor")


@decomposition(aten.remainder.Scalar_Tensor)
def remainder(b: Builder, x: float, other: SSAValue) -> SSAValue:
    """``remainder`` of two tensors"""
    return b(aten.remainder.Tensor, b.as_tensor(x, result_type((x, other))), other)


_WITH_NUMBER = {
    aten.bitwise_and.Scalar_Tensor.name: aten.bitwise_and.Scalar,
    aten.bitwise_or.Scalar_Tensor.name: aten.bitwise_or.Scalar,
    aten.bitwise_xor.Scalar_Tensor.name: aten.bitwise_xor.Scalar,
}


@decomposition(aten.bitwise_and.Scalar_Tensor, aten.bitwise_or.Scalar_Tensor, aten.bitwise_xor.Scalar_Tensor)
def bitwise(b: Builder, x: int, other: SSAValue) -> SSAValue:
    """The operands exchanged"""
    return b(_WITH_NUMBER[b.rewriter.root.name], other, x)


@decomposition(aten.fmax.default, aten.fmin.default)
def fmax(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """``where(x >= y or y is NaN, x, y)``: a NaN loses"""
    common = result_type((x, y))
    x, y = b.cast(x, common), b.cast(y, common)
    wins = b.compare("ge" if "fmax" in b.rewriter.root.name else "le", x, y)
    if category_of(common) >= FLOATING:
        wins = b.logical_or(wins, b.isnan(y))
    return b(aten.where.self, wins, x, y)


# --- tests ------------------------------------------------------------------------------------------------------------


def _everywhere(b: Builder, x: SSAValue, value: bool) -> SSAValue:
    return b.full(b.sizes(x), value, i1)


@decomposition(aten.isfinite.default)
def isfinite(b: Builder, x: SSAValue) -> SSAValue:
    """``|x| < inf``, which NaN fails"""
    if category_of(element(x)) < FLOATING:
        return _everywhere(b, x, True)
    return b.lt(b.abs(x), math.inf)


@decomposition(aten.isposinf.default, aten.isneginf.default)
def isinf(b: Builder, x: SSAValue) -> SSAValue:
    """``x == inf``"""
    if category_of(element(x)) < FLOATING:
        return _everywhere(b, x, False)
    return b.eq(x, math.inf if "posinf" in b.rewriter.root.name else -math.inf)


@decomposition(aten.isreal.default)
def isreal(b: Builder, x: SSAValue) -> SSAValue | None:
    """True, for real types"""
    return _everywhere(b, x, True) if category_of(element(x)) <= FLOATING else b.notify_match_failure("it is complex")


@decomposition(aten.isclose.default)
def isclose(b: Builder, x: SSAValue, y: SSAValue, rtol: float, atol: float, equal_nan: bool) -> SSAValue:
    """``x == y or |x - y| is finite and <= atol + |rtol * y|``"""
    close = b.eq(x, y)
    floating = category_of(element(x)) >= FLOATING
    if equal_nan and floating:
        both = b.logical_and(b.isnan(x), b.isnan(y))
        close = b.logical_or(close, both)
    if rtol == 0 and atol == 0:
        return close
    y = b.cast(y, to_floating(element(y)))
    allowed = b.add(b.abs(b.mul(y, rtol)), atol)
    difference = b.abs(b.sub(b.cast(x, element(y)) if element(x) == i1 else x, y))
    near = b.logical_and(b.lt(difference, math.inf), b.le(difference, allowed))
    return b.logical_or(close, near)


@decomposition(aten.sign.default)
def sign(b: Builder, x: SSAValue) -> SSAValue:
    """``(x > 0) - (x < 0)``, which is 0 for NaN"""
    if element(x) == i1:
        return x
    return b.sub(b.cast(b.gt(x, 0), element(x)), b.cast(b.lt(x, 0), element(x)))


@decomposition(aten.signbit.default)
def signbit(b: Builder, x: SSAValue) -> SSAValue:
    """``x < 0``; for floating point ``atan2(x, -1) < 0``, which sees the sign of zero"""
    if category_of(element(x)) < FLOATING:
        return b.lt(x, 0)
    return b.lt(b(aten.atan2.default, x, b.as_tensor(-1, element(x))), 0)


# --- functions --------------------------------------------------------------------------------------------------------


@decomposition(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(b: Builder, x: SSAValue, y: TensorOrScalar) -> SSAValue:
    """``|x|`` with the sign of ``y``"""
    common = to_floating(result_type((x, y)))
    magnitude = b.abs(b.cast(x, common))
    if not isinstance(y, SSAValue):
        return b.neg(magnitude) if math.copysign(1, y) < 0 else magnitude
    return b(aten.where.self, signbit(b, y), b.neg(magnitude), magnitude)


@decomposition(aten.addcmul.default, aten.addcdiv.default, in_float=True)
def addcmul(b: Builder, x: SSAValue, first: SSAValue, second: SSAValue, value: float) -> SSAValue:
    """``x + value * (first * second)``, or the quotient"""
    combined = (b.mul if isinstance(b.rewriter.root, aten.addcmul.default) else b.div)(first, second)
    return b(aten.add.Tensor, x, combined, alpha=value)


@decomposition("prims.fma.default", in_float=True, symint_args=ALL)
def multiply_add(b: Builder, x: SSAValue, y: TensorOrScalar, z: SSAValue) -> SSAValue:
    """``x * y + z``: what strict export makes of ``addcmul_``, ``addcdiv_`` and ``lerp_`` with a factor"""
    return b.add(b.mul(x, y), z)


@decomposition(aten.lerp.Scalar, in_float=True)
def lerp(b: Builder, start: SSAValue, end: SSAValue, weight: float) -> SSAValue:
    """``start + weight * (end - start)``, from the nearer end"""
    difference = b.sub(end, start)
    if weight < 0.5:
        return b(aten.add.Tensor, start, difference, alpha=weight)
    return b(aten.sub.Tensor, end, difference, alpha=1 - weight)


@decomposition(aten.lerp.Tensor, in_float=True)
def lerp_by_tensor(b: Builder, start: SSAValue, end: SSAValue, weight: SSAValue) -> SSAValue:
    """``(1 - weight) * start + weight * end``, exact at both ends"""
    return b.add(b.mul(start, b.rsub(weight, 1)), b.mul(end, weight))


@decomposition(aten.logaddexp.default, aten.logaddexp2.default, in_float=True)
def logaddexp(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """``max(x, y) + log(1 + exp(-|x - y|))``, where infinities of the same sign have distance 0"""
    scale = math.log(2) if "logaddexp2" in b.rewriter.root.name else 1.0
    difference = b.abs(b.sub(x, y))
    distance = b(aten.where.self, b.eq(x, y), b.as_tensor(0, element(difference)), difference)
    corner = b.log1p(b.exp(b.mul(distance, -scale)))
    return b.add(b(aten.maximum.default, x, y), corner if scale == 1 else b.div(corner, scale))


@decomposition(aten.xlogy.Tensor, aten.xlogy.Scalar_Other, aten.xlogy.Scalar_Self, symint_args=("self", "other"))
def xlogy(b: Builder, x: Scalar, y: Scalar) -> SSAValue:
    """``x * log(y)``, 0 where ``x`` is 0 and ``y`` a number"""
    return _x_times_log(b, aten.log.default, x, y)


@decomposition(
    aten.special_xlog1py.default,
    aten.special_xlog1py.self_scalar,
    aten.special_xlog1py.other_scalar,
    symint_args=("self", "other"),
)
def xlog1py(b: Builder, x: Scalar, y: Scalar) -> SSAValue:
    """``x * log1p(y)``, 0 where ``x`` is 0 and ``y`` a number"""
    return _x_times_log(b, aten.log1p.default, x, y)


def _x_times_log(b: Builder, log: Operator, x: Scalar, y: Scalar) -> SSAValue:
    common = to_floating(result_type((x, y)))
    x, y = (b.cast(v, common) if is_tensor(v) else b.as_tensor(v, common) for v in (x, y))
    zero = b.logical_and(b.eq(x, 0), b.eq(y, y))
    return b(aten.where.self, zero, b.as_tensor(0, common), b.mul(x, b(log, y)))


_POWERS = {
    aten.float_power.Tensor_Tensor.name: aten.pow.Tensor_Tensor,
    aten.float_power.Tensor_Scalar.name: aten.pow.Tensor_Scalar,
    aten.float_power.Scalar.name: aten.pow.Scalar,
}


@decomposition(aten.float_power.Tensor_Tensor, aten.float_power.Tensor_Scalar, aten.float_power.Scalar)
def float_power(b: Builder, base: Scalar, exponent: Scalar) -> SSAValue | None:
    """``pow`` in f64"""
    if any(is_tensor(v) and category_of(element(v)) > FLOATING for v in (base, exponent)):  # type: ignore[arg-type]
        return b.notify_match_failure("it is complex")
    base, exponent = (b.cast(v, f64) if isinstance(v, SSAValue) else float(v.real) for v in (base, exponent))
    return b(_POWERS[b.rewriter.root.name], base, exponent)


@decomposition(aten.exp2.default, in_float=True)
def exp2(b: Builder, x: SSAValue) -> SSAValue:
    """``2 ** x``"""
    return b(aten.pow.Scalar, 2.0, x)


@decomposition(aten.frac.default)
def frac(b: Builder, x: SSAValue) -> SSAValue:
    """``x - trunc(x)``"""
    return b.sub(x, b.trunc(x))


@decomposition(aten.deg2rad.default, aten.rad2deg.default)
def deg2rad(b: Builder, x: SSAValue) -> SSAValue:
    """``x * pi / 180``, or the inverse"""
    return b.mul(x, math.pi / 180 if "deg2rad" in b.rewriter.root.name else 180 / math.pi)


@decomposition(aten.hypot.default, in_float=True)
def hypot(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """``sqrt(x * x + y * y)`` of numbers scaled to at most 1, so that squares neither overflow nor vanish"""
    x, y = b.abs(x), b.abs(y)
    large, small = b(aten.maximum.default, x, y), b(aten.minimum.default, x, y)
    # Equal ones may be zeros or infinities.
    ratio = b.where(b.eq(large, small), 1.0, b.div(small, large))
    length = b.mul(large, b.sqrt(b.add(b.mul(ratio, ratio), 1.0)))
    infinite = b.logical_or(b.eq(x, math.inf), b.eq(y, math.inf))
    return b.where(infinite, math.inf, length)


@decomposition(aten.ldexp.Tensor, in_float=True)
def ldexp(b: Builder, x: SSAValue, exponent: SSAValue) -> SSAValue:
    """``x * 2 ** exponent``"""
    return b.mul(x, b(aten.pow.Scalar, 2.0, exponent))


@decomposition(aten.heaviside.default)
def heaviside(b: Builder, x: SSAValue, values: SSAValue) -> SSAValue:
    """0 below 0, 1 above, ``values`` at 0"""
    step = b.cast(b.gt(x, 0), element(x))
    return b(aten.where.self, b.eq(x, 0), values, step)


@decomposition(aten.nan_to_num.default)
def nan_to_num(b: Builder, x: SSAValue, nan: float | None, above: float | None, below: float | None) -> SSAValue:
    """NaN becomes a number; infinities become the largest numbers, or the given ones"""
    largest = LARGEST.get(element(x))
    if largest is None:
        return x
    result = b(aten.where.self, b.isnan(x), b.as_tensor(0.0 if nan is None else nan, element(x)), x)
    for infinity, value in ((math.inf, above), (-math.inf, below)):
        if value is not None:
            result = b(aten.where.self, b.eq(x, infinity), b.as_tensor(value, element(x)), result)
    if above is not None and below is not None:
        return result
    return b.clamp(result, None if below is not None else -largest, None if above is not None else largest)


@decomposition(aten.round.decimals)
def round_decimals(b: Builder, x: SSAValue, decimals: int) -> SSAValue:
    """``round(x * 10 ** decimals) / 10 ** decimals``"""
    if decimals == 0 or category_of(element(x)) < FLOATING:
        return b.round(x)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return b.div(b.round(b.mul(x, scale)), scale)
    return b.mul(b.round(b.div(x, scale)), scale)


@decomposition(aten._add_relu.Tensor)
def add_relu(b: Builder, x: SSAValue, y: SSAValue, alpha: float) -> SSAValue:
    """``relu(x + alpha * y)``"""
    return b.relu(b(aten.add.Tensor, x, y, alpha=alpha))


# --- selection --------------------------------------------------------------------------------------------------------


@decomposition(aten.where.Scalar, aten.where.ScalarOther, aten.where.ScalarSelf, aten.where.self, symint_args=ALL)
def where(b: Builder, condition: SSAValue, x: Scalar, y: Scalar) -> SSAValue | None:
    """``where.self`` with numbers as tensors of the common type, and a tensor without dims in that of the other one

    Kernels promote by the element types alone, torch by the dims as well.
    """
    common = result_type((x, y))
    if is_tensor(x) and is_tensor(y):
        if element(x) == element(y) or bool(dims(x)) == bool(dims(y)):
            return b.notify_match_failure("both alternatives are tensors whose element types alone give the result's")
        x, y = b.cast(x, common), b.cast(y, common)
    return b(aten.where.self, condition, b.as_tensor(x, common), b.as_tensor(y, common))


@decomposition(aten.masked_fill.Scalar, symint_args=("value",))
def masked_fill(b: Builder, x: SSAValue, mask: SSAValue, value: Scalar) -> SSAValue:
    """``where(mask, value, x)``"""
    return b(aten.where.self, mask, b.as_tensor(value, element(x)), x)


@decomposition(aten.masked_fill.Tensor)
def masked_fill_with_tensor(b: Builder, x: SSAValue, mask: SSAValue, value: SSAValue) -> SSAValue:
    """``where(mask, value, x)``"""
    return b(aten.where.self, mask, b.cast(value, element(x)), x)


@decomposition(aten.polygamma.default, in_float=True)
def polygamma(b: Builder, order: int, x: SSAValue) -> SSAValue:
    """``digamma``, or ``(-1)^(n + 1) n! zeta(n + 1, x)``"""
    type = [TensorType(to_floating(element(x)), x.type.shape, x.type.encoding)]  # type: ignore[union-attr]
    if order == 0:
        return b(aten.digamma.default, x, types=type)
    zeta = b(aten.special_zeta.self_scalar, order + 1, x, types=type)
    return b.mul(zeta, (-1.0) ** (order + 1) * math.gamma(order + 1))
