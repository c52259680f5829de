"""Arithmetic on corresponding elements: unary mathematical functions and binary arithmetic.

The tables name what differs between operators; the functions below them hold what they share: which dtype to compute
in and which to return.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from etir.interpret.numpy_ops import special
from etir.interpret.numpy_ops.dtype import (
    BOOL,
    COMPLEX128,
    FLOAT16,
    FLOAT64,
    Array,
    Operand,
    Scalar,
    category,
    complex_dtype,
    compute_dtype,
    float_dtype,
    is_complex,
    is_integral,
    operands_in_compute_dtype,
    promoted,
    result_type,
    to,
)
from etir.interpret.numpy_ops.registry import op


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), which is 0 and 1 where exp overflows."""
    return 1 / (1 + np.exp(-x))


FLOAT_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cos": np.cos,
    "cosh": np.cosh,
    "deg2rad": lambda x: x * (math.pi / 180),
    "erf": special.erf,
    "erfc": special.erfc,
    "exp": np.exp,
    "exp2": lambda x: np.exp(x * math.log(2)) if is_complex(x.dtype) else np.exp2(x),
    "expm1": np.expm1,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": lambda x: np.log(x) / math.log(2) if is_complex(x.dtype) else np.log2(x),
    "rad2deg": lambda x: x * (180 / math.pi),
    "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": sigmoid,
    "sin": np.sin,
    "sinc": np.sinc,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}
"""Functions to a floating-point result: integers and bool become the default float first."""

FLOAT_FUNCTION_ALIASES = {
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctanh": "atanh",
    "special_erf": "erf",
    "special_erfc": "erfc",
    "special_exp2": "exp2",
    "special_expit": "sigmoid",
    "special_expm1": "expm1",
    "special_log1p": "log1p",
    "special_sinc": "sinc",
}

ROUNDING_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round": np.rint,
    "trunc": np.trunc,
    "fix": np.trunc,
}
"""Functions that leave integers as they are."""

BITWISE_FUNCTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}


def _register_unary_tables() -> None:
    for name, function in FLOAT_FUNCTIONS.items():
        aliases = (alias for alias, target in FLOAT_FUNCTION_ALIASES.items() if target == name)
        op(*(f"aten.{n}.default" for n in (name, *aliases)))(_float_function(function))
    for name, function in ROUNDING_FUNCTIONS.items():
        op(f"aten.{name}.default")(_rounding_function(function))
    for name, function in BITWISE_FUNCTIONS.items():
        overloads = [f"{name}.{overload}" for overload in ("Tensor", "Scalar", "Scalar_Tensor")]
        dunder = name.replace("bitwise_", "__") + "__"
        op(*(f"aten.{n}" for n in (*overloads, f"{dunder}.Tensor", f"{dunder}.Scalar")))(promoted(function))


def _float_function(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def apply(self: Array) -> Array:
        dtype = float_dtype(self.dtype)
        return to(function(to(self, compute_dtype(dtype))), dtype)

    return apply


def _rounding_function(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def apply(self: Array) -> Array:
        return self.copy() if is_integral(self.dtype) else _unary(self, function)

    return apply


def _unary(x: Array, function: Callable[[Array], Array]) -> Array:
    return to(function(to(x, compute_dtype(x.dtype))), x.dtype)


_register_unary_tables()


@op("aten.abs.default", "aten.absolute.default")
def absolute(self: Array) -> Array:
    return np.abs(self)


@op("aten.neg.default", "aten.negative.default")
def neg(self: Array) -> Array:
    if self.dtype == BOOL:
        raise ValueError("negation is not defined for bool; use bitwise_not or logical_not")
    return np.negative(self)


@op("aten.positive.default")
def positive(self: Array) -> Array:
    return self


@op("aten.sign.default")
def sign(self: Array) -> Array:
    return self.copy() if self.dtype == BOOL else np.nan_to_num(np.sign(self))


@op("aten.sgn.default")
def sgn(self: Array) -> Array:
    if is_complex(self.dtype):
        size = np.abs(self)
        return np.where(size == 0, 0, self / size).astype(self.dtype)
    return sign(self)


@op("aten.frac.default")
def frac(self: Array) -> Array:
    return _unary(self, lambda x: x - np.trunc(x))


@op("aten.round.decimals")
def round_decimals(self: Array, *, decimals: int) -> Array:
    if is_integral(self.dtype):
        raise ValueError("rounding to decimals is not defined for integers")
    unit = 10.0 ** abs(decimals)
    if decimals >= 0:
        return _unary(self, lambda x: np.rint(x * unit) / unit)
    return _unary(self, lambda x: np.rint(x / unit) * unit)


@op("aten.square.default")
def square(self: Array) -> Array:
    return power(self, 2)


@op("aten.bitwise_not.default")
def bitwise_not(self: Array) -> Array:
    return np.bitwise_not(self)


@op("aten.conj_physical.default", "aten._conj_physical.default", "aten._conj.default", "aten.conj.default")
def conj_physical(self: Array) -> Array:
    return np.conj(self) if is_complex(self.dtype) else self


@op("aten.angle.default")
def angle(self: Array) -> Array:
    x = to(self, compute_dtype(float_dtype(self.dtype)))
    return to(np.where(np.isnan(x), np.nan, np.angle(x)), float_dtype(np.abs(self).dtype))


@op("aten.nan_to_num.default")
def nan_to_num(
    self: Array, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Array:
    if is_integral(self.dtype):
        return self.copy()
    return _unary(self, lambda x: np.nan_to_num(x, nan=nan or 0.0, posinf=posinf, neginf=neginf))


def _arithmetic(function: Callable[[Array, Array], Array], self: Operand, other: Operand) -> Array:
    (a, b), dtype = operands_in_compute_dtype(self, other)
    return to(function(a, b), dtype)


def _scaled(other: Operand, alpha: Scalar, dtype_with: Operand) -> Operand:
    """``alpha * other`` in the dtype of the whole operation; ``other`` itself when ``alpha`` is 1."""
    if alpha == 1 and not isinstance(alpha, bool):
        return other
    dtype = result_type(dtype_with, other)
    if is_integral(dtype) and category(result_type(alpha)) > 1:
        raise ValueError(f"alpha is {alpha}, which an integer operation cannot use")
    dtype = compute_dtype(dtype)
    scaled = to(other, dtype) * to(alpha, dtype)
    return scaled if isinstance(other, np.ndarray) else scaled.item()


@op("aten.add.Tensor", "aten.add.Scalar")
def add(self: Operand, other: Operand, alpha: Scalar = 1) -> Array:
    dtype = result_type(self, other)
    return to(_arithmetic(np.add, self, _scaled(other, alpha, self)), dtype)


@op("aten.sub.Tensor", "aten.sub.Scalar", "aten.subtract.Tensor", "aten.subtract.Scalar")
def sub(self: Operand, other: Operand, alpha: Scalar = 1) -> Array:
    dtype = result_type(self, other)
    if dtype == BOOL:
        raise ValueError("subtraction is not defined for two bool tensors; use logical_xor")
    return to(_arithmetic(np.subtract, self, _scaled(other, alpha, self)), dtype)


@op("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(self: Operand, other: Operand, alpha: Scalar = 1) -> Array:
    return sub(other, self, alpha)


@op("aten.mul.Tensor", "aten.mul.Scalar", "aten.multiply.Tensor", "aten.multiply.Scalar")
def mul(self: Operand, other: Operand) -> Array:
    return _arithmetic(np.multiply, self, other)


@op(
    "aten.div.Tensor",
    "aten.div.Scalar",
    "aten.divide.Tensor",
    "aten.divide.Scalar",
    "aten.true_divide.Tensor",
    "aten.true_divide.Scalar",
)
def div(self: Operand, other: Operand) -> Array:
    dtype = float_dtype(result_type(self, other))
    return to(np.true_divide(to(self, compute_dtype(dtype)), to(other, compute_dtype(dtype))), dtype)


@op("aten.div.Tensor_mode", "aten.div.Scalar_mode", "aten.divide.Tensor_mode", "aten.divide.Scalar_mode")
def div_mode(self: Operand, other: Operand, *, rounding_mode: str | None) -> Array:
    if rounding_mode is None:
        return div(self, other)
    if rounding_mode == "floor":
        return floor_divide(self, other)
    if rounding_mode != "trunc":
        raise ValueError(f"rounding_mode is {rounding_mode!r}; it can be None, 'trunc' or 'floor'")
    (a, b), dtype = operands_in_compute_dtype(self, other)
    if not is_integral(dtype):
        return to(np.trunc(a / b), dtype)
    _refuse_zero(b)
    quotient = np.floor_divide(a, b)
    return to(quotient + ((quotient < 0) & (quotient * b != a)), dtype)


@op("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_divide(self: Operand, other: Operand) -> Array:
    (a, b), dtype = operands_in_compute_dtype(self, other)
    if is_integral(dtype):
        _refuse_zero(b)
    return to(np.floor_divide(a, b), dtype)


def _refuse_zero(divisor: Array) -> None:
    if divisor.size and not divisor.all():
        raise ZeroDivisionError("integer division by zero")


@op("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
def remainder(self: Operand, other: Operand) -> Array:
    (a, b), dtype = operands_in_compute_dtype(self, other)
    if is_integral(dtype):
        _refuse_zero(b)
    return to(np.remainder(a, b), dtype)


@op("aten.fmod.Tensor", "aten.fmod.Scalar")
def fmod(self: Operand, other: Operand) -> Array:
    (a, b), dtype = operands_in_compute_dtype(self, other)
    if is_integral(dtype):
        _refuse_zero(b)
    return to(np.fmod(a, b), dtype)


@op("aten.pow.Tensor_Tensor", "aten.pow.Tensor_Scalar", "aten.pow.Scalar")
def power(self: Operand, exponent: Operand) -> Array:
    (base, exp), dtype = operands_in_compute_dtype(self, exponent)
    if not is_integral(dtype):
        return to(np.power(base, exp), dtype)
    if not isinstance(exponent, np.ndarray) and exponent < 0:  # type: ignore[operator]
        raise ValueError("integers cannot be raised to a negative power")
    # A negative power of an integer rounds to 0 but for 1 and -1, whose powers only depend on the exponent's parity.
    powers = np.power(base, np.where(exp < 0, exp % 2, exp).astype(base.dtype))
    return to(np.where((exp < 0) & (np.abs(base) != 1), 0, powers), dtype)


@op("aten.float_power.Tensor_Tensor", "aten.float_power.Tensor_Scalar", "aten.float_power.Scalar")
def float_power(self: Operand, exponent: Operand) -> Array:
    """A power in double precision, whatever the operands are."""
    dtype = COMPLEX128 if is_complex(result_type(self, exponent)) else FLOAT64
    return np.power(to(self, dtype), to(exponent, dtype))


@op("aten.maximum.default", "aten.max.other")
def maximum(self: Operand, other: Operand) -> Array:
    return _arithmetic(np.maximum, self, other)


@op("aten.minimum.default", "aten.min.other")
def minimum(self: Operand, other: Operand) -> Array:
    return _arithmetic(np.minimum, self, other)


@op("aten.fmax.default")
def fmax(self: Operand, other: Operand) -> Array:
    return _arithmetic(np.fmax, self, other)


@op("aten.fmin.default")
def fmin(self: Operand, other: Operand) -> Array:
    return _arithmetic(np.fmin, self, other)


def _float_arithmetic(function: Callable[[Array, Array], Array], self: Operand, other: Operand) -> Array:
    dtype = float_dtype(result_type(self, other))
    return to(function(to(self, compute_dtype(dtype)), to(other, compute_dtype(dtype))), dtype)


@op("aten.atan2.default", "aten.arctan2.default")
def atan2(self: Operand, other: Operand) -> Array:
    return _float_arithmetic(np.arctan2, self, other)


@op("aten.hypot.default")
def hypot(self: Operand, other: Operand) -> Array:
    return _float_arithmetic(np.hypot, self, other)


@op("aten.copysign.Tensor", "aten.copysign.Scalar")
def copysign(self: Operand, other: Operand) -> Array:
    return _float_arithmetic(np.copysign, self, other)


@op("aten.logaddexp.default")
def logaddexp(self: Operand, other: Operand) -> Array:
    return _float_arithmetic(np.logaddexp, self, other)


@op("aten.logaddexp2.default")
def logaddexp2(self: Operand, other: Operand) -> Array:
    return _float_arithmetic(np.logaddexp2, self, other)


@op("aten.heaviside.default")
def heaviside(self: Array, values: Array) -> Array:
    return np.where(self == 0, values, to(self > 0, self.dtype))


@op("aten.special_xlog1py.default", "aten.special_xlog1py.other_scalar", "aten.special_xlog1py.self_scalar")
def xlog1py(self: Operand, other: Operand) -> Array:
    return _float_arithmetic(lambda x, y: np.where((x == 0) & ~np.isnan(y), 0, x * np.log1p(y)), self, other)


@op("aten.xlogy.Tensor", "aten.xlogy.Scalar_Other", "aten.xlogy.Scalar_Self")
@op("aten.special_xlogy.default", "aten.special_xlogy.other_scalar", "aten.special_xlogy.self_scalar")
def xlogy(self: Operand, other: Operand) -> Array:
    return _float_arithmetic(lambda x, y: np.where((x == 0) & ~np.isnan(y), 0, x * np.log(y)), self, other)


@op("aten.bitwise_left_shift.Tensor", "aten.bitwise_left_shift.Tensor_Scalar")
@op("aten.__lshift__.Scalar", "aten.__lshift__.Tensor")
def bitwise_left_shift(self: Operand, other: Operand) -> Array:
    (a, b), dtype = operands_in_compute_dtype(self, other)
    outside = (b < 0) | (b >= 8 * dtype.itemsize)
    return np.where(outside, 0, np.left_shift(a, np.where(outside, 0, b))).astype(dtype)


@op("aten.bitwise_right_shift.Tensor", "aten.bitwise_right_shift.Tensor_Scalar")
@op("aten.__rshift__.Scalar", "aten.__rshift__.Tensor")
def bitwise_right_shift(self: Operand, other: Operand) -> Array:
    (a, b), dtype = operands_in_compute_dtype(self, other)
    bits = 8 * dtype.itemsize
    outside = (b < 0) | (b >= bits)
    shifted = np.right_shift(a, np.where(outside, bits - 1, b).astype(dtype))
    return np.where(outside & (a >= 0), 0, shifted).astype(dtype)


@op("aten.lerp.Tensor", "aten.lerp.Scalar")
def lerp(self: Array, end: Array, weight: Operand) -> Array:
    dtype = compute_dtype(self.dtype)
    start, stop, w = to(self, dtype), to(end, dtype), to(weight, dtype)
    # From the nearer end, so that weight 1 gives exactly ``end``.
    near_start = start + w * (stop - start)
    return to(np.where(np.abs(w) < 0.5, near_start, stop - (stop - start) * (1 - w)), self.dtype)


@op("aten.addcmul.default")
def addcmul(self: Array, tensor1: Array, tensor2: Array, *, value: Scalar = 1) -> Array:
    (x, a, b), dtype = operands_in_compute_dtype(self, tensor1, tensor2)
    return to(x + to(value, x.dtype) * a * b, dtype)


@op("aten.addcdiv.default")
def addcdiv(self: Array, tensor1: Array, tensor2: Array, *, value: Scalar = 1) -> Array:
    (x, a, b), dtype = operands_in_compute_dtype(self, tensor1, tensor2)
    if is_integral(dtype):
        raise ValueError("division of integer tensors is not defined for addcdiv")
    return to(x + to(value, x.dtype) * (a / b), dtype)


@op("aten.clamp.default", "aten.clamp.Tensor", "aten.clip.default", "aten.clip.Tensor")
def clamp(self: Array, min: Operand | None = None, max: Operand | None = None) -> Array:
    if min is None and max is None:
        raise ValueError("at least one of min and max has to be given")
    dtype = result_type(self, min, max)
    result = to(self, dtype)
    if min is not None:
        result = np.maximum(result, to(min, dtype))
    if max is not None:
        result = np.minimum(result, to(max, dtype))
    return result


@op("aten.clamp_min.default", "aten.clamp_min.Tensor")
def clamp_min(self: Array, min: Operand) -> Array:
    return clamp(self, min)


@op("aten.clamp_max.default", "aten.clamp_max.Tensor")
def clamp_max(self: Array, max: Operand) -> Array:
    return clamp(self, None, max)


@op("aten.complex.default")
def make_complex(real: Array, imag: Array) -> Array:
    if real.dtype != imag.dtype or real.dtype == FLOAT16:
        raise ValueError(f"cannot make complex numbers of {real.dtype} and {imag.dtype}")
    real, imag = np.broadcast_arrays(real, imag)
    result = np.empty(real.shape, complex_dtype(real.dtype))
    result.real, result.imag = real, imag
    return result


@op("aten.polar.default")
def polar(abs: Array, angle: Array) -> Array:
    return make_complex(abs * np.cos(angle), abs * np.sin(angle))


@op("aten.gcd.default")
def gcd(self: Array, other: Array) -> Array:
    return _arithmetic(np.gcd, self, other)
