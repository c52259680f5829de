"""Normalization over layers, groups and batches. Statistics are computed in double precision."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from etir.interpret.numpy_ops.arguments import axis_of, per_channel
from etir.interpret.numpy_ops.dtype import Array, Dtype, accumulate_dtype, average, compute_dtype, to
from etir.interpret.numpy_ops.registry import op

_EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


def _moments(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Mean and biased variance over ``axes``, which are kept with size 1."""
    wide = to(x, accumulate_dtype(x.dtype))
    mean = average(wide, axes, keepdims=True)
    return mean, average((wide - mean) ** 2, axes, keepdims=True)


def _affine(x: Array, weight: Array | None, bias: Array | None) -> Array:
    if weight is not None:
        x = x * to(weight, x.dtype)
    return x if bias is None else x + to(bias, x.dtype)


def _statistics_dtype(dtype: Dtype, weight: Array | None) -> Dtype:
    """The dtype of the saved mean and reciprocal deviation: the weight's when it is wider than a half input."""
    return dtype if weight is None else weight.dtype


@op("aten.native_layer_norm.default")
def native_layer_norm(
    input: Array, normalized_shape: Sequence[int], weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    count = len(normalized_shape)
    if input.shape[input.ndim - count :] != tuple(normalized_shape):
        raise ValueError(f"the tensor does not end in the normalized shape {list(normalized_shape)}")
    mean, variance = _moments(input, tuple(range(input.ndim - count, input.ndim)))
    scale = 1 / np.sqrt(variance + eps)
    result = _affine((to(input, scale.dtype) - mean) * scale, weight, bias)
    saved = _statistics_dtype(input.dtype, weight)
    return to(result, input.dtype), to(mean, saved), to(scale, saved)


@op("etir.rms_norm.default")
def rms_norm_of_rows(input: Array, weight: Array | None, eps: float) -> Array:
    """``x / sqrt(mean(x ** 2) + eps) * weight`` over the last dim."""
    square = average(to(input, accumulate_dtype(input.dtype)) ** 2, (input.ndim - 1,), keepdims=True)
    result = to(to(input, square.dtype) / np.sqrt(square + eps), input.dtype)
    return result if weight is None else weight * result


@op("aten.layer_norm.default")
def layer_norm(
    input: Array,
    normalized_shape: Sequence[int],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-05,
    cudnn_enable: bool = True,
) -> Array:
    return native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


@op("aten.rms_norm.default")
def rms_norm(
    input: Array, normalized_shape: Sequence[int], weight: Array | None = None, eps: float | None = None
) -> Array:
    return fused_rms_norm(input, normalized_shape, weight, eps)[0]


@op("aten._fused_rms_norm.default")
def fused_rms_norm(
    input: Array, normalized_shape: Sequence[int], weight: Array | None, eps: float | None
) -> tuple[Array, Array]:
    """The default ``eps`` is the distance from 1 to the next number of the dtype that is computed in."""
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    x = to(input, accumulate_dtype(input.dtype))
    if eps is None:
        eps = _EPSILON[compute_dtype(input.dtype).name]
    scale = 1 / np.sqrt(average(x * x, axes, keepdims=True) + eps)
    return to(_affine(x * scale, weight, None), input.dtype), to(scale, compute_dtype(input.dtype))


@op("aten._weight_norm_interface.default")
def weight_norm_interface(v: Array, g: Array, dim: int = 0) -> tuple[Array, Array]:
    """The direction ``v`` with the length ``g`` along every index of ``dim``, and the length that ``v`` had."""
    axes = tuple(a for a in range(v.ndim) if a != axis_of(dim, v.ndim))
    wide = to(v, accumulate_dtype(v.dtype))
    length = np.sqrt(np.sum(wide * wide, axis=axes, keepdims=True))
    return to(wide * (g / length), v.dtype), to(length, g.dtype)


@op("aten._weight_norm.default")
def weight_norm(v: Array, g: Array, dim: int = 0) -> Array:
    return weight_norm_interface(v, g, dim)[0]


@op("aten.native_group_norm.default")
def native_group_norm(
    input: Array, weight: Array | None, bias: Array | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Array, Array, Array]:
    grouped = input.reshape(N, group, C // group * HxW)
    mean, variance = _moments(grouped, (2,))
    scale = 1 / np.sqrt(variance + eps)
    normal = ((to(grouped, scale.dtype) - mean) * scale).reshape(N, C, HxW)
    columns = [None if p is None else p.reshape(C, 1) for p in (weight, bias)]
    result = _affine(normal, *columns).reshape(input.shape)
    saved = _statistics_dtype(input.dtype, weight)
    return to(result, input.dtype), to(mean[..., 0], saved), to(scale[..., 0], saved)


@op("aten.group_norm.default")
def group_norm(
    input: Array,
    num_groups: int,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Array:
    batch, channels = input.shape[:2]
    rest = math.prod(input.shape[2:])
    return native_group_norm(input, weight, bias, batch, channels, rest, num_groups, eps)[0]


def _batch_normalized(
    x: Array, weight: Array | None, bias: Array | None, mean: Array, variance: Array, eps: float
) -> tuple[Array, Array]:
    """The result in the dtype of ``x``, and the reciprocal deviation per channel in double precision."""
    wide = accumulate_dtype(x.dtype)
    scale = 1 / np.sqrt(to(variance, wide) + eps)
    factor = scale if weight is None else scale * to(weight, wide)
    shift = -to(mean, wide) * factor + (0 if bias is None else to(bias, wide))
    dtype = compute_dtype(x.dtype)
    factors, shifts = (per_channel(to(v, dtype), 1, x.ndim) for v in (factor, shift))
    return to(to(x, dtype) * factors + shifts, x.dtype), scale


@op("aten._native_batch_norm_legit_no_training.default")
def batch_norm_no_training(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array,
    running_var: Array,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array]:
    """The second and third result are empty: eager saves no statistics when it does not compute any."""
    result, _ = _batch_normalized(input, weight, bias, running_mean, running_var, eps)
    nothing = np.empty(0, _statistics_dtype(input.dtype, weight))
    return result, nothing, nothing.copy()


@op("aten._native_batch_norm_legit_functional.default")
def batch_norm_functional(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array,
    running_var: Array,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array, Array, Array]:
    """Output, saved mean, saved reciprocal deviation, and the running statistics after this batch."""
    if not training:
        results = batch_norm_no_training(input, weight, bias, running_mean, running_var, momentum, eps)
        return *results, running_mean.copy(), running_var.copy()
    axes = tuple(a for a in range(input.ndim) if a != 1)
    mean, variance = (m.reshape(-1) for m in _moments(input, axes))
    result, scale = _batch_normalized(input, weight, bias, mean, variance, eps)
    count = input.size // input.shape[1]
    unbiased = variance * (count / (count - 1)) if count > 1 else variance * np.nan
    saved = _statistics_dtype(input.dtype, weight)
    return (
        result,
        to(mean, saved),
        to(scale, saved),
        to(momentum * mean + (1 - momentum) * running_mean, running_mean.dtype),
        to(momentum * unbiased + (1 - momentum) * running_var, running_var.dtype),
    )


@op("aten._native_batch_norm_legit.default", "aten.native_batch_norm.default")
def batch_norm_legit(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Array, Array, Array]:
    """As every operator here, this one does not write: see ``_native_batch_norm_legit_functional`` for the updates."""
    if training or running_mean is None or running_var is None:
        return batch_norm_no_stats(input, weight, bias, True, momentum, eps)
    return batch_norm_no_training(input, weight, bias, running_mean, running_var, momentum, eps)


@op("aten._native_batch_norm_legit.no_stats")
def batch_norm_no_stats(
    input: Array, weight: Array | None, bias: Array | None, training: bool, momentum: float, eps: float
) -> tuple[Array, Array, Array]:
    zeros = np.zeros(input.shape[1], input.dtype)
    return batch_norm_functional(input, weight, bias, zeros, zeros, True, momentum, eps)[:3]


@op("aten.batch_norm.default")
def batch_norm(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Array:
    if input.size == 0:  # Which need not have channels then.
        return input.copy()
    return batch_norm_legit(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


@op("aten.instance_norm.default")
def instance_norm(
    input: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Array:
    """Batch normalization of every batch element by itself."""
    if not use_input_stats:
        return batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps, cudnn_enabled)
    return group_norm(input, input.shape[1], weight, bias, eps)
