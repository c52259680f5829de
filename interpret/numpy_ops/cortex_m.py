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

from etir.interpret.numpy_ops.convolution import convolve, convolve_transposed
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


@op("cortex_m.quantized_transpose_conv2d.default")
def quantized_transpose_conv2d(
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
    input_offset: int,
    output_offset: int,
    requantize_multipliers: Array,
    requantize_shifts: Array,
    activation_min: int,
    activation_max: int,
    scratch: Array,
    output_scratch: Array,
) -> Array:
    """Filters are [outputs, height, width, inputs]. Raises ``ValueError`` for those with gaps."""
    if tuple(dilation) != (1, 1):
        raise ValueError(f"dilation {list(dilation)}")
    filters = weight.astype(np.int64).transpose(3, 0, 1, 2)
    out = [
        (n - 1) * s - 2 * p + k + more
        for n, s, p, k, more in zip(input.shape[2:], stride, padding, filters.shape[2:], output_padding, strict=True)
    ]
    numbers = input.astype(np.int64) + input_offset
    sums = convolve_transposed(numbers, filters, stride, padding, dilation, 1, out)
    along = (1, -1, 1, 1)
    sums = sums if bias is None else sums + bias.astype(np.int64).reshape(along)
    multipliers, shifts = (v.astype(np.int64).reshape(along) for v in (requantize_multipliers, requantize_shifts))
    return _stored(requantized(sums, multipliers, shifts), output_offset, activation_min, activation_max)


_MOST = 2**31 - 1
_SUM_BITS = 12
"""Bits of a softmax's sums before the point."""
_EXPONENTIALS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""``e**-2**k`` for k from -2 to 4, as numbers below one with 31 bits."""


def _product(a: Array | int, b: Array | int) -> Array:
    """The product of numbers below one with 31 bits, rounded half up."""
    return np.minimum((np.asarray(a, np.int64) * b + (1 << 30)) >> 31, _MOST)


def _halved(value: Array, bits: Array | int) -> Array:
    """``value / 2**bits``, rounded half away from zero."""
    mask = (np.int64(1) << bits) - 1
    rest, whole = value & mask, value >> bits
    return whole + (rest > (mask >> 1) + (whole < 0))


def _doubled(value: Array, bits: int) -> Array:
    return np.clip(value << bits, -_MOST - 1, _MOST)


def _exponential(value: Array) -> Array:
    """``e**value`` of numbers with 5 bits before the point that are not above 0, as gemmlowp's ``fixedpoint.h`` has it:
    a polynomial around -1/8, times a constant for each binary digit beyond 1/4.
    """
    within = (value & ((1 << 24) - 1)) - (1 << 24)
    rest, x = within - value, (within << 5) + (1 << 28)
    x2 = _product(x, x)
    higher = _product(_halved(_product(x2, x2), 2) + _product(x2, x), 715827883)
    result = 1895147668 + _product(1895147668, x + _halved(higher + x2, 1))
    for digit, factor in enumerate(_EXPONENTIALS):
        result = np.where(rest >> (24 + digit) & 1, _product(result, factor), result)
    return np.where(value == 0, _MOST, result)


def _reciprocal(value: Array) -> Array:
    """``1 / (1 + value)`` of numbers below one, by three steps of Newton's method; from gemmlowp, too."""
    total = value + _MOST
    half = (np.abs(total) + 1) // 2 * np.where(total >= 0, 1, -1)
    x = 1515870810 + _product(half, -1010580540)
    for _ in range(3):
        x = x + _doubled(_product(x, (1 << 29) - _product(half, x)), 2)
    return _doubled(x, 1)


@op("cortex_m.softmax.default")
def softmax(
    input: Array,
    dim: int,
    input_zero_point: int,
    output_zero_point: int,
    input_multiplier: int,
    input_shift: int,
    diff_min: int,
) -> Array:
    """Of the last dim. Results are 256 times the share, from -128 on. Raises ``ValueError`` for another dim, another
    zero point, and rows whose sums have no room.
    """
    if dim % input.ndim != input.ndim - 1 or output_zero_point != -128 or input.shape[-1] >= 1 << _SUM_BITS:
        raise ValueError(f"softmax of dim {dim} of {list(input.shape)} with zero point {output_zero_point}")
    numbers = input.astype(np.int64)
    below = numbers - numbers.max(-1, keepdims=True, initial=-128)
    counts = below >= diff_min
    powers = _exponential(_product(np.where(counts, below, 0) << input_shift, input_multiplier))
    sums = (_halved(powers, _SUM_BITS) * counts).sum(-1, keepdims=True)
    headroom = 32 - np.frexp(sums.astype(np.float64))[1].astype(np.int64)
    scales = _reciprocal((sums << headroom) - (np.int64(1) << 31))
    bits = _SUM_BITS - headroom + 23
    shares = _halved(_product(scales, powers), np.minimum(bits, 31)) * (counts & (bits <= 31))
    return np.clip(shares - 128, -128, 127).astype(np.int8)


@op("cortex_m.minimum.default")
def minimum(self: Array, other: Array) -> Array:
    return np.minimum(self, other)


@op("cortex_m.maximum.default")
def maximum(self: Array, other: Array) -> Array:
    return np.maximum(self, other)


@op("cortex_m.transpose.default")
def transpose(input: Array, perm: Sequence[int]) -> Array:
    return np.ascontiguousarray(input.transpose(perm))


def _is_channels_last(image: Array) -> bool:
    """As ExecuTorch says it: of images of one channel or one pixel, too, wherever their channels are."""
    if image.ndim != 4:
        return False
    if image.shape[1] == 1 or image.shape[2:] == (1, 1):
        return True
    return sorted(range(4), key=lambda dim: -image.strides[dim])[:2] == [0, 2]


@op("cortex_m.pad.default")
def pad(input: Array, pre_pad: Sequence[int], post_pad: Sequence[int], pad_value: int) -> Array:
    """Four numbers each, for the last dims; of images with their channels last in the order of the memory."""
    last = _is_channels_last(input)
    places = (0, 3, 1, 2) if last else range(4 - input.ndim, 4)
    found = np.pad(input, [(pre_pad[at], post_pad[at]) for at in places], constant_values=pad_value)
    if not last:
        return found
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(found, 1, -1)), -1, 1)
