"""Activation functions, softmax and dropout. All compute half precision in float32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike

from etir.interpret.numpy_ops import creation, special
from etir.interpret.numpy_ops.arguments import axis_of
from etir.interpret.numpy_ops.dtype import (
    BOOL,
    FLOAT16,
    FLOAT32,
    Array,
    Dtype,
    Scalar,
    as_dtype,
    compute_dtype,
    float_dtype,
    is_integral,
    to,
)
from etir.interpret.numpy_ops.elementwise import clamp, sigmoid
from etir.interpret.numpy_ops.registry import op

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946
"""The fixed point of Klambauer et al., "Self-Normalizing Neural Networks" (2017)."""


def _compute(self: Array, function: Callable[[Array], Array]) -> Array:
    return to(function(to(self, compute_dtype(self.dtype))), self.dtype)


def _refuse_integers(x: Array) -> None:
    if is_integral(x.dtype):
        raise ValueError(f"is not defined for {x.dtype}")


@op("aten.relu.default")
def relu(self: Array) -> Array:
    if self.dtype == BOOL:
        raise ValueError("is not defined for bool")
    return np.maximum(self, self.dtype.type(0))


@op("aten.relu6.default")
def relu6(self: Array) -> Array:
    return clamp(self, 0, 6)


@op("aten.hardtanh.default")
def hardtanh(self: Array, min_val: Scalar = -1, max_val: Scalar = 1) -> Array:
    return np.minimum(np.maximum(self, to(min_val, self.dtype)), to(max_val, self.dtype))


@op("aten.leaky_relu.default")
def leaky_relu(self: Array, negative_slope: Scalar = 0.01) -> Array:
    _refuse_integers(self)
    return _compute(self, lambda x: np.where(x > 0, x, x * negative_slope))


@op("aten.prelu.default", "aten._prelu_kernel.default")
def prelu(self: Array, weight: Array) -> Array:
    if weight.ndim == 1:
        weight = weight.reshape([-1 if i == min(1, self.ndim - 1) else 1 for i in range(self.ndim)])
    return _compute(self, lambda x: np.where(x > 0, x, x * to(weight, x.dtype)))


@op("aten.elu.default")
def elu(self: Array, alpha: Scalar = 1, scale: Scalar = 1, input_scale: Scalar = 1) -> Array:
    _refuse_integers(self)

    def function(x: Array) -> Array:
        a, s, i = (v for v in (alpha, scale, input_scale))
        return np.where(x > 0, x * s, np.expm1(np.minimum(x, 0) * i) * (a * s))

    return _compute(self, function)


@op("aten.selu.default")
def selu(self: Array) -> Array:
    return elu(self, _SELU_ALPHA, _SELU_SCALE)


@op("aten.celu.default")
def celu(self: Array, alpha: Scalar = 1.0) -> Array:
    return elu(self, alpha, 1, 1 / alpha)


@op("aten.gelu.default")
def gelu(self: Array, *, approximate: str = "none") -> Array:
    _refuse_integers(self)
    if approximate == "none":
        return _compute(self, lambda x: 0.5 * x * (1 + special.erf(x * (0.5**0.5))))
    if approximate != "tanh":
        raise ValueError(f"approximate is {approximate!r}; it can be 'none' or 'tanh'")
    slope = (2 / np.pi) ** 0.5
    return _compute(self, lambda x: 0.5 * x * (1 + np.tanh(slope * (x + 0.044715 * x**3))))


@op("aten.silu.default")
def silu(self: Array) -> Array:
    _refuse_integers(self)
    return _compute(self, lambda x: x / (1 + np.exp(-x)))


@op("aten.mish.default")
def mish(self: Array) -> Array:
    _refuse_integers(self)
    return _compute(self, lambda x: x * np.tanh(np.logaddexp(x, 0)))


@op("aten.hardsigmoid.default")
def hardsigmoid(self: Array) -> Array:
    _refuse_integers(self)
    return _compute(self, lambda x: np.clip(x + 3, 0, 6) / 6)


@op("aten.hardswish.default")
def hardswish(self: Array) -> Array:
    _refuse_integers(self)
    return _compute(self, lambda x: x * np.clip(x + 3, 0, 6) / 6)


@op("aten.softplus.default")
def softplus(self: Array, beta: Scalar = 1, threshold: Scalar = 20) -> Array:
    _refuse_integers(self)

    def function(x: Array) -> Array:
        scaled = x * beta
        return np.where(scaled > threshold, x, np.log1p(np.exp(scaled)) / beta)

    return _compute(self, function)


@op("aten.softshrink.default")
def softshrink(self: Array, lambd: Scalar = 0.5) -> Array:
    _refuse_integers(self)

    def function(x: Array) -> Array:
        bound = lambd
        return np.where(x > bound, x - bound, np.where(x < -bound, x + bound, x * 0))

    return _compute(self, function)


@op("aten.hardshrink.default")
def hardshrink(self: Array, lambd: Scalar = 0.5) -> Array:
    _refuse_integers(self)
    return _compute(self, lambda x: np.where((x >= -lambd) & (x <= lambd), 0, x))


@op("aten.threshold.default")
def threshold(self: Array, threshold: Scalar, value: Scalar) -> Array:
    return np.where(self <= to(threshold, self.dtype), to(value, self.dtype), self)


@op("aten.log_sigmoid.default")
def log_sigmoid(self: Array) -> Array:
    _refuse_integers(self)
    return _compute(self, lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))))


@op("aten.log_sigmoid_forward.default")
def log_sigmoid_forward(self: Array) -> tuple[Array, Array]:
    """The second result is what eager keeps for the gradient: exp(-|x|)."""
    return log_sigmoid(self), _compute(self, lambda x: np.exp(-np.abs(x)))


@op("aten.logit.default", "aten.special_logit.default")
def logit(self: Array, eps: float | None = None) -> Array:
    dtype = float_dtype(self.dtype)
    x = to(self, compute_dtype(dtype))
    if eps is not None:
        x = np.clip(x, eps, (1 - eps))
    return to(np.log(x / (1 - x)), dtype)


@op("aten.glu.default")
def glu(self: Array, dim: int = -1) -> Array:
    axis = axis_of(dim, self.ndim)
    if self.ndim == 0 or self.shape[axis] % 2:
        raise ValueError(f"dimension {dim} has to have an even size")
    value, gate = np.split(to(self, compute_dtype(self.dtype)), 2, axis)
    return to(value * sigmoid(gate), self.dtype)


def softmax_along(x: Array, dim: int, *, log: bool = False) -> Array:
    """Softmax, or its logarithm, of a floating-point array in the dtype of ``x``."""
    axis = axis_of(dim, x.ndim) if x.ndim else None
    if x.size == 0:
        return x.copy()
    shifted = x - np.max(x, axis=axis, keepdims=True)
    exponentials = np.exp(shifted)
    sums = np.sum(exponentials, axis=axis, keepdims=True)
    return np.asarray(shifted - np.log(sums) if log else exponentials / sums)


def _softmax_to(self: Array, dim: int, dtype: Dtype, *, log: bool) -> Array:
    _refuse_integers(np.empty(0, dtype))
    return to(softmax_along(to(self, compute_dtype(dtype)), dim, log=log), dtype)


def _half_to_float(self: Array, half_to_float: bool) -> Dtype:
    if half_to_float and self.dtype != FLOAT16:
        raise ValueError(f"half_to_float is set for a tensor of {self.dtype}")
    return FLOAT32 if half_to_float else self.dtype


@op("aten._softmax.default")
def softmax_default(self: Array, dim: int, half_to_float: bool) -> Array:
    return _softmax_to(self, dim, _half_to_float(self, half_to_float), log=False)


@op("aten._log_softmax.default")
def log_softmax_default(self: Array, dim: int, half_to_float: bool) -> Array:
    return _softmax_to(self, dim, _half_to_float(self, half_to_float), log=True)


@op("aten.softmax.int", "aten.special_softmax.default")
def softmax(self: Array, dim: int, dtype: DTypeLike | None = None) -> Array:
    return _softmax_to(self, dim, as_dtype(dtype, self.dtype), log=False)


@op("aten.log_softmax.int")
def log_softmax(self: Array, dim: int, dtype: DTypeLike | None = None) -> Array:
    return _softmax_to(self, dim, as_dtype(dtype, self.dtype), log=True)


@op("aten.special_log_softmax.default")
def special_log_softmax(self: Array, dim: int, *, dtype: DTypeLike | None = None) -> Array:
    return log_softmax(self, dim, dtype)


@op("aten._safe_softmax.default")
def safe_softmax(self: Array, dim: int, dtype: DTypeLike | None = None) -> Array:
    """Softmax in which a row of nothing but -inf gives zeros, not NaN."""
    masked = np.all(self == -np.inf, axis=dim, keepdims=True)
    result = softmax(self, dim, dtype)
    return np.where(masked, result.dtype.type(0), result)


@op("aten.dropout.default")
def dropout(input: Array, p: float, train: bool) -> Array:
    return native_dropout(input, p, train)[0]


@op("aten.feature_dropout.default")
def feature_dropout(input: Array, p: float, train: bool) -> Array:
    """Dropout of whole channels, the second dimension."""
    _, kept = native_dropout(np.ones((*input.shape[:2], *(1 for _ in input.shape[2:])), FLOAT32), p, train)
    scale = 1 / (1 - p) if train and p < 1 else 1.0
    return _compute(input, lambda x: np.where(kept, x * scale, 0))


@op("aten.native_dropout.default")
def native_dropout(input: Array, p: float, train: bool | None) -> tuple[Array, Array]:
    """Zeros from the generator of :mod:`creation` when training; the input and a mask of ones otherwise."""
    if train is False or p == 0:
        return input.copy(), np.ones(input.shape, BOOL)
    keep = creation.generator().random(input.shape) >= p
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return _compute(input, lambda x: np.where(keep, x * scale, 0)), keep
