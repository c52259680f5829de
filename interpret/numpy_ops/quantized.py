"""Affine quantization, the ``quantized_decomposed`` operators: q = clamp(round(x / scale) + zero_point).

Arithmetic follows the reference step by step, because one unit in the last place decides how a value rounds: the
scale's reciprocal is formed first and multiplied with, in the dtype that the operands promote to.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import DTypeLike

from etir.interpret.numpy_ops.arguments import axis_of, per_channel
from etir.interpret.numpy_ops.dtype import (
    FLOAT32,
    FLOAT64,
    INT64,
    Array,
    Dtype,
    Operand,
    as_dtype,
    category,
    compute_dtype,
    is_reduced,
    operands_in_compute_dtype,
    result_type,
    to,
)
from etir.interpret.numpy_ops.registry import op

_FLOAT32_EPSILON = 2.0**-23
_INT8_MIN, _INT8_MAX = -128, 127


def _check_range(quant_min: Operand, quant_max: Operand, dtype: Dtype) -> None:
    limits = np.iinfo(dtype)
    if quant_min < limits.min or quant_max > limits.max:  # type: ignore[operator]
        raise ValueError(f"the range [{quant_min}, {quant_max}] does not fit {dtype}")


def _float_input(x: Array) -> Array:
    """Half precision is widened; anything that is not floating point is refused."""
    if category(x.dtype) != 2:
        raise ValueError(f"the tensor is {x.dtype}, not floating point")
    return to(x, FLOAT32) if is_reduced(x.dtype) else x


def _times_reciprocal(x: Array, scale: Operand) -> Array:
    """x * (1 / scale) with each step rounded as torch rounds it."""
    reciprocal = 1.0 / scale if not isinstance(scale, np.ndarray) else (1.0 / scale).astype(scale.dtype)
    (a, b), _ = operands_in_compute_dtype(x, reciprocal)
    return a * b


def _plus(x: Array, zero_point: Operand) -> Array:
    (a, b), _ = operands_in_compute_dtype(x, zero_point)
    return a + b


def quantize(
    x: Array, scale: Operand, zero_point: Operand, quant_min: Operand, quant_max: Operand, dtype: DTypeLike
) -> Array:
    """Quantize with rounding before the zero point is added; scale and zero point broadcast against ``x``."""
    result = np.dtype(dtype)
    _check_range(quant_min, quant_max, result)
    rounded = _plus(np.rint(_times_reciprocal(_float_input(x), scale)), zero_point)
    return limited(rounded, quant_min, quant_max, result)


def limited(rounded: Array, quant_min: Operand, quant_max: Operand, dtype: Dtype) -> Array:
    """Whole numbers within a range, as integers. NaN, for which torch has no definition, is ``quant_min``, as in the
    kernels.
    """
    return to(np.clip(np.where(np.isnan(rounded), quant_min, rounded), quant_min, quant_max), dtype)


def dequantize(x: Array, scale: Operand, zero_point: Operand | None) -> Array:
    """(x - zero_point) * scale in the dtype that the operands promote to."""
    if zero_point is not None:
        dtype = result_type(x, zero_point)
        x = to(x, dtype) - to(zero_point, dtype)
    (a, b), dtype = operands_in_compute_dtype(x, scale)
    return to(a * b, dtype)


def _check_dtype(x: Array, dtype: DTypeLike) -> None:
    if x.dtype != np.dtype(dtype):
        raise ValueError(f"the tensor is {x.dtype}, the operator says {np.dtype(dtype)}")


@op("quantized_decomposed.quantize_per_tensor.default")
def quantize_per_tensor(
    input: Array, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: DTypeLike
) -> Array:
    return quantize(input, scale, zero_point, quant_min, quant_max, dtype)


@op("quantized_decomposed.quantize_per_tensor.tensor", "quantized_decomposed.quantize_per_tensor.tensor2")
def quantize_per_tensor_tensor(
    input: Array, scale: Array, zero_point: Array, quant_min: Operand, quant_max: Operand, dtype: DTypeLike
) -> Array:
    low, high = (int(np.asarray(q).item()) for q in (quant_min, quant_max))
    return quantize(input, float(scale.item()), int(zero_point.item()), low, high, dtype)


@op("quantized_decomposed.dequantize_per_tensor.default")
def dequantize_per_tensor(
    input: Array,
    scale: float,
    zero_point: int,
    quant_min: int,
    quant_max: int,
    dtype: DTypeLike,
    *,
    out_dtype: DTypeLike | None = None,
) -> Array:
    _check_dtype(input, dtype)
    result = as_dtype(out_dtype, FLOAT32)
    return to(dequantize(to(input, compute_dtype(result)), scale, zero_point), result)


@op("quantized_decomposed.dequantize_per_tensor.tensor", "quantized_decomposed.dequantize_per_tensor.tensor2")
def dequantize_per_tensor_tensor(
    input: Array,
    scale: Array,
    zero_point: Array,
    quant_min: Operand,
    quant_max: Operand,
    dtype: DTypeLike,
    *,
    out_dtype: DTypeLike | None = None,
) -> Array:
    number = float(scale.item()), int(zero_point.item())
    return dequantize_per_tensor(input, *number, 0, 0, dtype, out_dtype=out_dtype)


@op("quantized_decomposed.quantize_per_channel.default")
def quantize_per_channel(
    input: Array, scales: Array, zero_points: Array, axis: int, quant_min: int, quant_max: int, dtype: DTypeLike
) -> Array:
    scale, zero = (per_channel(p, axis_of(axis, input.ndim), input.ndim) for p in (scales, zero_points))
    return quantize(input, scale, zero, quant_min, quant_max, dtype)


@op("quantized_decomposed.dequantize_per_channel.default")
def dequantize_per_channel(
    input: Array,
    scales: Array,
    zero_points: Array | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: DTypeLike,
    *,
    out_dtype: DTypeLike | None = None,
) -> Array:
    _check_dtype(input, dtype)
    axis = axis_of(axis, input.ndim)
    zero = None if zero_points is None else per_channel(zero_points, axis, input.ndim)
    return to(dequantize(input, per_channel(scales, axis, input.ndim), zero), as_dtype(out_dtype, FLOAT32))


def _round_after_zero_point(
    x: Array, scale: Array, zero_point: Array, quant_min: int, quant_max: int, dtype: DTypeLike
) -> Array:
    """As :func:`quantize`, but the zero point is added before rounding: so the per-token operators do it."""
    result = np.dtype(dtype)
    _check_range(quant_min, quant_max, result)
    return limited(np.rint(_plus(_times_reciprocal(x, scale), zero_point)), quant_min, quant_max, result)


@op("quantized_decomposed.quantize_per_token.default")
def quantize_per_token(
    input: Array, scales: Array, zero_points: Array, quant_min: int, quant_max: int, dtype: DTypeLike
) -> Array:
    _check_tokens(input, scales, zero_points)
    return _round_after_zero_point(input, scales, zero_points, quant_min, quant_max, dtype)


def _check_tokens(x: Array, scales: Array, zero_points: Array) -> None:
    tokens = x.size // x.shape[-1]
    if scales.size != tokens or zero_points.size != tokens:
        raise ValueError(f"{tokens} tokens, {scales.size} scales and {zero_points.size} zero points")


@op("quantized_decomposed.dequantize_per_token.default")
def dequantize_per_token(
    input: Array,
    scales: Array,
    zero_points: Array,
    quant_min: int,
    quant_max: int,
    dtype: DTypeLike,
    output_dtype: DTypeLike,
) -> Array:
    return to(dequantize(input, scales, zero_points), np.dtype(output_dtype))


def _groups(x: Array, scales: Array, group_size: int) -> Array:
    """A matrix as rows of ``group_size`` numbers; one group per row when it has fewer columns than that."""
    if x.ndim != 2 or group_size < 2:
        raise ValueError(f"needs a matrix and groups of at least 2, got {x.ndim} dimensions and groups of {group_size}")
    size = x.shape[1] if group_size > x.shape[1] and scales.shape[-1] == 1 else group_size
    if x.shape[1] % size:
        raise ValueError(f"{x.shape[1]} columns are not a multiple of the group size {size}")
    return x.reshape(-1, size)


@op("quantized_decomposed.quantize_per_channel_group.default")
def quantize_per_channel_group(
    input: Array,
    scales: Array,
    zero_points: Array,
    quant_min: int,
    quant_max: int,
    dtype: DTypeLike,
    group_size: int = 128,
) -> Array:
    groups = _groups(input, scales, group_size)
    scale, zero = (p.reshape(-1, 1) for p in (scales, zero_points))
    return _round_after_zero_point(groups, scale, zero, quant_min, quant_max, dtype).reshape(input.shape)


@op("quantized_decomposed.dequantize_per_channel_group.default")
def dequantize_per_channel_group(
    input: Array,
    scales: Array,
    zero_points: Array | None,
    quant_min: int,
    quant_max: int,
    dtype: DTypeLike,
    group_size: int = 128,
    output_dtype: DTypeLike = FLOAT32,
) -> Array:
    zero = None if zero_points is None else zero_points.reshape(-1, 1)
    result = dequantize(_groups(input, scales, group_size), scales.reshape(-1, 1), zero)
    return to(result.reshape(input.shape), np.dtype(output_dtype))


@op("quantized_decomposed.fake_quant_per_channel.default")
def fake_quant_per_channel(
    input: Array, scales: Array, zero_points: Array, axis: int, quant_min: int, quant_max: int
) -> Array:
    axis = axis_of(axis, input.ndim)
    scale = per_channel(to(scales, FLOAT32), axis, input.ndim)
    zero = per_channel(to(zero_points, FLOAT32), axis, input.ndim)
    levels = np.clip(np.rint(_times_reciprocal(input, scale)) + zero, quant_min, quant_max)
    return (levels - zero) * scale


Scheme = Literal["affine", "symmetric"]


def _choose(
    x: Array, quant_min: int, quant_max: int, eps: float, dtype: DTypeLike, scheme: Scheme
) -> tuple[Array, Array]:
    """Scale and zero point, of shape (1,), such that the range of ``x`` widened to hold 0 fills the levels."""
    low, high = (np.minimum(x.min(), 0).astype(FLOAT32), np.maximum(x.max(), 0).astype(FLOAT32))
    if scheme == "symmetric":
        scale = np.maximum(np.maximum(-low, high) / FLOAT32.type((quant_max - quant_min) / 2), FLOAT32.type(eps))
        zero_point = 128 if np.dtype(dtype) == np.uint8 else 0
    else:
        scale = np.maximum((high - low) / FLOAT32.type(quant_max - quant_min), FLOAT32.type(eps))
        zero_point = int(np.clip(quant_min - int(np.rint(low / scale)), quant_min, quant_max))
    return np.array([scale], FLOAT64), np.array([zero_point], INT64)


@op("quantized_decomposed.choose_qparams.tensor")
def choose_qparams(input: Array, quant_min: int, quant_max: int, eps: float, dtype: DTypeLike) -> tuple[Array, Array]:
    return _choose(_float_input(input), quant_min, quant_max, eps, dtype, "affine")


@op("quantized_decomposed.choose_qparams_symmetric.tensor")
def choose_qparams_symmetric(
    input: Array, quant_min: int, quant_max: int, eps: float, dtype: DTypeLike
) -> tuple[Array, Array]:
    return _choose(_float_input(input), quant_min, quant_max, eps, dtype, "symmetric")


@op("quantized_decomposed.choose_qparams_per_token.default")
def choose_qparams_per_token(input: Array, dtype: DTypeLike) -> tuple[Array, Array]:
    """Symmetric int8 parameters of every row along the last dimension, which is kept with size 1."""
    if np.dtype(dtype) != np.int8:
        raise ValueError(f"parameters can only be chosen for int8, not {np.dtype(dtype)}")
    size = np.abs(_float_input(input)).max(-1, keepdims=True)
    scales = np.maximum(size, size.dtype.type(1e-5)) / size.dtype.type(_INT8_MAX)
    return scales, np.zeros_like(scales)


@op(
    "quantized_decomposed.choose_qparams_per_token_asymmetric.default",
    "quantized_decomposed._choose_qparams_per_token_asymmetric_impl.default",
)
def choose_qparams_per_token_asymmetric(input: Array, dtype: DTypeLike) -> tuple[Array, Array]:
    """Affine int8 parameters of every row along the last dimension; the zero point errs to the nearer end."""
    x = _float_input(input)
    low = np.minimum(x.min(-1, keepdims=True), 0)
    high = np.maximum(x.max(-1, keepdims=True), 0)
    scale = np.maximum((high - low) / x.dtype.type(_INT8_MAX - _INT8_MIN), x.dtype.type(_FLOAT32_EPSILON))
    steps_low, steps_high = low / scale, high / scale
    from_low = (_INT8_MIN + steps_low) + (_INT8_MAX + steps_high) > 0
    zero_point = np.where(from_low, _INT8_MIN - steps_low, _INT8_MAX - steps_high)
    return to(scale, FLOAT64), to(np.rint(np.clip(zero_point, _INT8_MIN, _INT8_MAX)), INT64)
