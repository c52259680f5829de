"""The operators of ExecuTorch's library for Cortex-M (``cortex_m::*``), to the bit.

Sums are integers and are brought to the scale of the result in fixed point, as CMSIS-NN does it: a product with a
multiplier of 31 bits whose upper half is kept, and a shift to the right, each rounded to the nearest number. Offsets
are zero points with the opposite sign where the schema says ``offset``. Images are [batch, channels, height, width],
filters [outputs, height, width, inputs]; scratch memory has no meaning.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from etir.interpret.numpy_ops.convolution import convolve
from etir.interpret.numpy_ops.dtype import Array
from etir.interpret.numpy_ops.quantized import dequantize, quantize
from etir.interpret.numpy_ops.registry import op

ADD_SHIFT = 20
"""Bits by which operands of a sum are shifted to the left before they are multiplied."""


def requantized(sums: Array, multiplier: Array | int, shift: Array | int) -> Array:
    """``sums * multiplier * 2**(shift - 31)`` with two roundings, as int64: half up, and then half away from zero."""
    left = np.maximum(shift, 0)
    right = np.maximum(-np.asarray(shift, np.int64), 0)
    high = ((sums.astype(np.int64) << left) * np.asarray(multiplier, np.int64) + (1 << 30)) >> 31
    mask = (np.int64(1) << right) - 1
    rest, whole = high & mask, high >> right
    return whole + (rest > (mask >> 1) + (whole < 0)) * (right > 0)


def _stored(sums: Array, offset: int, low: int, high: int) -> Array:
    return np.clip(sums + offset, low, high).astype(np.int8)


@op("cortex_m.quantize_per_tensor.default")
def quantize_per_tensor(
    input: Array, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: DTypeLike
) -> Array:
    return quantize(input, scale, zero_point, quant_min, quant_max, dtype)


@op("cortex_m.dequantize_per_tensor.default")
def dequantize_per_tensor(
    input: Array, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: DTypeLike
) -> Array:
    return dequantize(input.astype(np.float32), scale, zero_point)


@op("cortex_m.quantized_add.default")
def quantized_add(
    self: Array,
    self_zero_point: int,
    self_multiplier: int,
    self_shift: int,
    other: Array,
    other_zero_point: int,
    other_multiplier: int,
    other_shift: int,
    output_zero_point: int,
    output_multiplier: int,
    output_shift: int,
    activation_min: int,
    activation_max: int,
) -> Array:
    a = requantized((self.astype(np.int64) - self_zero_point) << ADD_SHIFT, self_multiplier, self_shift)
    b = requantized((other.astype(np.int64) - other_zero_point) << ADD_SHIFT, other_multiplier, other_shift)
    return _stored(
        requantized(a + b, output_multiplier, output_shift), output_zero_point, activation_min, activation_max
    )


@op("cortex_m.quantized_mul.default")
def quantized_mul(
    self: Array,
    self_zero_point: int,
    other: Array,
    other_zero_point: int,
    output_zero_point: int,
    output_multiplier: int,
    output_shift: int,
) -> Array:
    product = (self.astype(np.int64) - self_zero_point) * (other.astype(np.int64) - other_zero_point)
    return _stored(requantized(product, output_multiplier, output_shift), output_zero_point, -128, 127)


@op("cortex_m.quantized_activation.default")
def quantized_activation(input: Array, lut: Array) -> Array:
    return lut[input.astype(np.int64) + 128]


@op("cortex_m.quantized_linear.default")
def quantized_linear(
    input: Array,
    weights: Array,
    bias: Array | None,
    kernel_sum: Array | None,
    input_offset: int,
    filter_offset: int,
    output_offset: int,
    requantize_multipliers: Sequence[int],
    requantize_shifts: Sequence[int],
    activation_max: int,
    activation_min: int,
) -> Array:
    """``kernel_sum``, which has the bias and the input's offset in it, counts where it is given."""
    numbers, matrix = input.astype(np.int64), weights.astype(np.int64)
    if kernel_sum is not None:
        sums = numbers @ matrix.T + numbers.sum(-1, keepdims=True) * filter_offset + kernel_sum.reshape(-1)
    else:
        sums = (numbers + input_offset) @ (matrix + filter_offset).T + (0 if bias is None else bias)
    found = requantized(sums, int(requantize_multipliers[0]), int(requantize_shifts[0]))
    return _stored(found, output_offset, activation_min, activation_max)


def _convolved(
    input: Array,
    filters: Array,
    bias: Array | None,
    window: tuple[Sequence[int], Sequence[int], Sequence[int]],
    offsets: tuple[int, int],
    factors: tuple[Array, Array],
    limits: tuple[int, int],
) -> Array:
    """A convolution with filters [outputs, inputs of a group, height, width]."""
    numbers = input.astype(np.int64) + offsets[0]
    sums = convolve(numbers, filters.astype(np.int64), *window, input.shape[1] // filters.shape[1])
    along = (1, -1, 1, 1)
    sums = sums if bias is None else sums + bias.astype(np.int64).reshape(along)
    multipliers, shifts = (values.astype(np.int64).reshape(along) for values in factors)
    return _stored(requantized(sums, multipliers, shifts), offsets[1], *limits)


@op("cortex_m.quantized_conv2d.default")
def quantized_conv2d(
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    input_offset: int,
    output_offset: int,
    requantize_multipliers: Array,
    requantize_shifts: Array,
    activation_min: int,
    activation_max: int,
    scratch: Array,
) -> Array:
    filters, factors = weight.transpose(0, 3, 1, 2), (requantize_multipliers, requantize_shifts)
    window, offsets = (stride, padding, dilation), (input_offset, output_offset)
    return _convolved(input, filters, bias, window, offsets, factors, (activation_min, activation_max))


@op("cortex_m.quantized_depthwise_conv2d.default")
def quantized_depthwise_conv2d(
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    depth_multiplier: int,
    input_offset: int,
    output_offset: int,
    requantize_multipliers: Array,
    requantize_shifts: Array,
    activation_min: int,
    activation_max: int,
    scratch: Array,
) -> Array:
    """Filters are [1, height, width, outputs]."""
    filters, factors = weight.transpose(3, 0, 1, 2), (requantize_multipliers, requantize_shifts)
    window, offsets = (stride, padding, dilation), (input_offset, output_offset)
    return _convolved(input, filters, bias, window, offsets, factors, (activation_min, activation_max))


@op("cortex_m.quantized_avg_pool2d.default")
def quantized_avg_pool2d(
    input: Array,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    zero_point: int,
    multiplier: int,
    shift: int,
    scratch: Array,
) -> Array:
    """Of a whole image, which is the one form that is made here. Raises ``ValueError`` for another."""
    if tuple(kernel_size) != input.shape[2:] or any(padding):
        raise ValueError(f"a window of {list(kernel_size)} in an image of {list(input.shape[2:])}")
    scale = np.float32(multiplier * 2.0**shift / (1 << 31))
    numbers = (input.astype(np.float32) - np.float32(zero_point)) * scale
    count = np.float32(input.shape[2] * input.shape[3])
    means = numbers.sum((2, 3), keepdims=True, dtype=np.float32) / count
    return _stored(np.rint(means / scale), zero_point, -128, 127)


@op("cortex_m.quantized_max_pool2d.default")
def quantized_max_pool2d(
    input: Array,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    input_zero_point: int,
    output_zero_point: int,
    activation_min: int,
    activation_max: int,
) -> Array:
    """Raises ``ValueError`` for windows with gaps, and for those that begin in the image and end outside."""
    if tuple(dilation) != (1, 1) or ceil_mode:
        raise ValueError(f"dilation {list(dilation)}, ceil_mode {ceil_mode}")
    (top, left), (ky, kx), (sy, sx) = padding, kernel_size, stride
    whole = np.pad(input, ((0, 0), (0, 0), (top, top), (left, left)), constant_values=-128)
    found = np.lib.stride_tricks.sliding_window_view(whole, (ky, kx), (2, 3))[:, :, ::sy, ::sx]
    return np.clip(found.max((-2, -1)), activation_min, activation_max).astype(np.int8)


@op("cortex_m.quantized_batch_matmul.default")
def quantized_batch_matmul(
    lhs: Array,
    lhs_zero_point: int,
    rhs_transposed: Array,
    rhs_zero_point: int,
    output_zero_point: int,
    output_multiplier: int,
    output_shift: int,
    scratch: Array,
) -> Array:
    """The zero points of the operands have the opposite sign."""
    right = (rhs_transposed.astype(np.int64) + rhs_zero_point).swapaxes(1, 2)
    sums = (lhs.astype(np.int64) + lhs_zero_point) @ right
    return _stored(requantized(sums, output_multiplier, output_shift), output_zero_point, -128, 127)
