"""The integer operators of etir's own runtime (``etir::int8_*``): what its kernels compute, to the bit.

Sums are of int64 numbers here, which do not overflow; they are cut to 32 bits as the kernels' are, and multiplied in
float32.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from etir.interpret.numpy_ops.dtype import Array
from etir.interpret.numpy_ops.registry import op

PANEL, QUAD = 16, 4


def packed(weight: Array) -> Array:
    """A matrix ``[columns, depth]`` of int8 as ``[panels, quads, 16, 4]``, zeros where it ends."""
    columns, depth = weight.shape
    panels, quads = -(-columns // PANEL), -(-depth // QUAD)
    padded = np.zeros((panels * PANEL, quads * QUAD), np.int8)
    padded[:columns, :depth] = weight
    return np.ascontiguousarray(padded.reshape(panels, PANEL, quads, QUAD).transpose(0, 2, 1, 3))


def unpacked(weight: Array, columns: int, depth: int) -> Array:
    """The matrix of :func:`packed`, as int64."""
    panels, quads, *_ = weight.shape
    whole = weight.transpose(0, 2, 1, 3).reshape(panels * PANEL, quads * QUAD)
    return whole[:columns, :depth].astype(np.int64)


def requantized(sums: Array, factors: Array | float, zero_point: int, low: int, high: int) -> Array:
    """``clamp(rint(float32(sums) * factors) + zero_point, low, high)`` as int8; ``sums`` wrap to 32 bits."""
    product = sums.astype(np.int64).astype(np.int32).astype(np.float32) * np.asarray(factors, np.float32)
    limited = np.clip(np.nan_to_num(product, nan=low - zero_point), low - zero_point, high - zero_point)
    return (np.rint(limited) + zero_point).astype(np.int8)


@op("etir.int8_linear.default")
def int8_linear(
    input: Array, weight: Array, bias: Array, factors: Array, zero_point: int, low: int, high: int
) -> Array:
    return requantized(_linear_sums(input, weight, bias), factors, zero_point, low, high)


def _linear_sums(input: Array, weight: Array, bias: Array) -> Array:
    return (input.astype(np.int64) + 128) @ unpacked(weight, bias.size, input.shape[-1]).T + bias


@op("etir.int8_float_linear.default")
def int8_float_linear(input: Array, weight: Array, bias: Array, factors: Array) -> Array:
    return _multiplied(_linear_sums(input, weight, bias), factors)


def _multiplied(sums: Array, factors: Array) -> Array:
    """float32 numbers of sums, which wrap to 32 bits."""
    return sums.astype(np.int32).astype(np.float32) * factors


def quantized_rows(input: Array) -> tuple[Array, Array, Array]:
    """int8 numbers of rows of float32, and the scale and zero point of each, by the formula of
    ``choose_qparams_per_token_asymmetric``. The scale of a row with a number that is not finite is NaN.
    """
    finite = np.isfinite(input).all(-1, keepdims=True)
    input = np.where(finite, input, np.float32(0))
    one = np.float32(1)
    low = np.minimum(np.fmin.reduce(input, -1, keepdims=True, initial=0), 0).astype(np.float32)
    high = np.maximum(np.fmax.reduce(input, -1, keepdims=True, initial=0), 0).astype(np.float32)
    scale = np.maximum((high - low) / np.float32(255), np.finfo(np.float32).eps * one)
    down, up = low / scale, high / scale
    ends = (np.float32(-128) + down) + (np.float32(127) + up)
    point = np.rint(np.clip(np.where(ends > 0, np.float32(-128) - down, np.float32(127) - up), -128, 127))
    inverse = (1.0 / scale.astype(np.float64)).astype(np.float32)
    numbers = np.rint(np.clip(input * inverse + point, -128, 127))
    return numbers.astype(np.int8), np.where(finite, scale, np.float32(np.nan)), point.astype(np.int64)


@op("etir.int8_dynamic_linear.default")
def int8_dynamic_linear(
    input: Array, weight: Array, column_sums: Array, scales: Array, bias: Array | None = None
) -> Array:
    numbers, scale, point = quantized_rows(input)
    matrix = unpacked(weight, column_sums.size, input.shape[-1])
    sums = (numbers.astype(np.int64) + 128) @ matrix.T - (point + 128) * column_sums.astype(np.int64)
    result = sums.astype(np.int32).astype(np.float32) * (scale * scales)
    return result if bias is None else result + bias


def _patches(input: Array, zero_point: int, window: Sequence[Sequence[int]]) -> Array:
    """``[batch, height, width, taps, channels]`` numbers of an image, as int64."""
    (ky, kx), (sy, sx), (py, px), (dy, dx) = window
    whole = np.pad(input.astype(np.int64), ((0, 0), (0, 0), (py, py), (px, px)), constant_values=zero_point)
    height = max(0, (whole.shape[2] - dy * (ky - 1) - 1) // sy + 1)
    width = max(0, (whole.shape[3] - dx * (kx - 1) - 1) // sx + 1)
    batch, channels = input.shape[:2]
    found = np.zeros((batch, height, width, ky * kx, channels), np.int64)
    for y in range(ky if height and width else 0):
        for x in range(kx):
            part = whole[
                :, :, y * dy : y * dy + (height - 1) * sy + 1 : sy, x * dx : x * dx + (width - 1) * sx + 1 : sx
            ]
            found[:, :, :, y * kx + x] = part.transpose(0, 2, 3, 1)
    return found


@op("etir.int8_conv2d.default")
def int8_conv2d(
    input: Array,
    weight: Array,
    bias: Array,
    factors: Array,
    input_zero_point: int,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    zero_point: int,
    low: int,
    high: int,
) -> Array:
    window = kernel, stride, padding, dilation
    sums = _convolution_sums(input, weight, bias, input_zero_point, window, groups)
    return np.ascontiguousarray(requantized(sums, factors, zero_point, low, high).transpose(0, 3, 1, 2))


@op("etir.int8_float_conv2d.default")
def int8_float_conv2d(
    input: Array,
    weight: Array,
    bias: Array,
    factors: Array,
    input_zero_point: int,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Array:
    window = kernel, stride, padding, dilation
    sums = _convolution_sums(input, weight, bias, input_zero_point, window, groups)
    return np.ascontiguousarray(_multiplied(sums, factors).transpose(0, 3, 1, 2))


def _convolution_sums(
    input: Array, weight: Array, bias: Array, zero_point: int, window: Sequence[Sequence[int]], groups: int
) -> Array:
    """Sums ``[batch, height, width, channels]``, as int64."""
    patches = _patches(input, zero_point, window) + 128
    *places, taps, channels = patches.shape
    inner, outer = channels // groups, bias.size // groups
    parts: list[Array] = []
    for group in range(groups):
        rows = patches[..., group * inner : (group + 1) * inner].reshape(*places, taps * inner)
        parts.append(rows @ unpacked(weight[group], outer, taps * inner).T)
    return np.concatenate(parts, -1) + bias


def phases_of(
    kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> list[tuple[list[int], list[int]]]:
    """By phase of the stride, row by row, the taps of a transposed convolution that it reads, the last first: lines
    and columns of the kernel.
    """
    by_dim = [
        [[k for k in reversed(range(kernel[d])) if k * dilation[d] % stride[d] == phase] for phase in range(stride[d])]
        for d in range(2)
    ]
    return [(lines, columns) for lines in by_dim[0] for columns in by_dim[1]]


@op("etir.int8_conv_transpose2d.default")
def int8_conv_transpose2d(
    input: Array,
    weight: Array,
    bias: Array,
    factors: Array,
    input_zero_point: int,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
    zero_point: int,
    low: int,
    high: int,
) -> Array:
    """Every number of the input is added where it goes; what the phases' biases hold comes on top."""
    batch, channels, *inside = input.shape
    inner, outer = channels // groups, bias.shape[1] // groups
    spans = [(inside[d] - 1) * stride[d] + dilation[d] * (kernel[d] - 1) + 1 for d in range(2)]
    sizes = [max(0, spans[d] - 2 * padding[d] + output_padding[d]) for d in range(2)]
    room = [max(spans[d], sizes[d] + padding[d]) for d in range(2)]
    taps = np.zeros((groups, *kernel, inner, outer), np.int64)
    for group in range(groups):
        begin = 0
        for lines, columns in phases_of(kernel, stride, dilation):
            depth = len(lines) * len(columns) * inner
            quads = -(-outer // PANEL) * -(-depth // QUAD)
            part = weight[group, begin : begin + quads].reshape(-(-outer // PANEL), -(-depth // QUAD), PANEL, QUAD)
            begin += quads
            if depth:
                found = unpacked(part, outer, depth).T.reshape(len(lines), len(columns), inner, outer)
                taps[group][np.ix_(lines, columns)] = found
    # What is outside of the image is the zero point, wherever a tap could hit it.
    sums = np.zeros((batch, bias.shape[1], *room), np.int64)
    less = input.astype(np.int64) - input_zero_point
    for group in range(groups):
        images = less[:, group * inner : (group + 1) * inner]
        to = sums[:, group * outer : (group + 1) * outer]
        for y in range(kernel[0]):
            for x in range(kernel[1]):
                places = tuple(
                    slice(k * dilation[d], k * dilation[d] + (inside[d] - 1) * stride[d] + 1, stride[d])
                    for d, k in enumerate((y, x))
                )
                to[:, :, places[0], places[1]] += np.einsum("nihw,io->nohw", images, taps[group, y, x])
    sums = sums[:, :, padding[0] : padding[0] + sizes[0], padding[1] : padding[1] + sizes[1]]
    # The zero point plus 128 times the weights of its phase is a part of each sum.
    of_place = [(np.arange(sizes[d]) + padding[d]) % stride[d] for d in range(2)]
    phase = of_place[0][:, None] * stride[1] + of_place[1][None, :]
    whole = np.stack(
        [
            taps[:, lines][:, :, columns].sum((1, 2, 3)).reshape(-1) if lines and columns else np.zeros(bias.shape[1])
            for lines, columns in phases_of(kernel, stride, dilation)
        ]
    ).astype(np.int64)
    more = bias.astype(np.int64) + (input_zero_point + 128) * whole
    sums = sums.transpose(0, 2, 3, 1) + more[phase]
    return np.ascontiguousarray(requantized(sums, factors, zero_point, low, high).transpose(0, 3, 1, 2))


@op("etir.int8_bmm.default")
def int8_bmm(
    a: Array, b: Array, a_zero_point: int, b_zero_point: int, factor: float, zero_point: int, low: int, high: int
) -> Array:
    sums = (a.astype(np.int64) - a_zero_point) @ (b.astype(np.int64) - b_zero_point)
    return requantized(sums, factor, zero_point, low, high)


@op("etir.int8_softmax.default")
def int8_softmax(input: Array, table: Array, factor: float, zero_point: int, low: int, high: int) -> Array:
    numbers = input.astype(np.int64)
    entries = table[numbers.max(-1, keepdims=True, initial=-128) - numbers]
    sums = entries.astype(np.int64).sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        ratios = (np.float64(factor) / sums).astype(np.float32)
    return requantized(entries, ratios, zero_point, low, high)


@op("etir.int8_depthwise_conv2d.default")
def int8_depthwise_conv2d(
    input: Array,
    weight: Array,
    bias: Array,
    factors: Array,
    input_zero_point: int,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    zero_point: int,
    low: int,
    high: int,
) -> Array:
    patches = _patches(input, input_zero_point, (kernel, stride, padding, dilation)) - input_zero_point
    sums = (patches * weight.astype(np.int64)).sum(-2) + bias
    return np.ascontiguousarray(requantized(sums, factors, zero_point, low, high).transpose(0, 3, 1, 2))


@op("etir.int8_add.default")
def int8_add(
    a: Array,
    b: Array,
    a_multiplier: int,
    b_multiplier: int,
    bias: int,
    shift: int,
    zero_point: int,
    low: int,
    high: int,
) -> Array:
    total = a.astype(np.int64) * a_multiplier + b.astype(np.int64) * b_multiplier + bias
    return np.clip(((total + (1 << (shift - 1))) >> shift) + zero_point, low, high).astype(np.int8)


@op("etir.int8_mul.default")
def int8_mul(
    a: Array, b: Array, a_zero_point: int, b_zero_point: int, factor: float, zero_point: int, low: int, high: int
) -> Array:
    product = (a.astype(np.int64) - a_zero_point) * (b.astype(np.int64) - b_zero_point)
    return requantized(product, factor, zero_point, low, high)


@op("etir.int8_lookup.default")
def int8_lookup(input: Array, table: Array) -> Array:
    return table[input.astype(np.int64) + 128]


@op("etir.int8_mean.default")
def int8_mean(
    input: Array, input_zero_point: int, keepdim: bool, factor: float, zero_point: int, low: int, high: int
) -> Array:
    sums = (input.astype(np.int64) - input_zero_point).sum((2, 3), keepdims=keepdim)
    return requantized(sums, factor, zero_point, low, high)


@op("etir.int8_max_pool2d.default")
def int8_max_pool2d(
    input: Array, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> Array:
    patches = _patches(input, -128, (kernel, stride, padding, dilation))
    return np.ascontiguousarray(patches.max(-2, initial=-128).astype(np.int8).transpose(0, 3, 1, 2))


def _weight_linear(input: Array, weight: Array, scales: Array, bias: Array | None) -> Array:
    rows, groups = scales.shape
    matrix = (weight.reshape(rows, groups, weight.shape[1] // groups).astype(np.float32) * scales[..., None]).reshape(
        weight.shape
    )
    result = (input.astype(np.float64) @ matrix.T.astype(np.float64)).astype(np.float32)
    return result if bias is None else result + bias


@op("etir.int8_weight_linear.default")
def int8_weight_linear(input: Array, weight: Array, scales: Array, bias: Array | None = None) -> Array:
    return _weight_linear(input, weight, scales, bias)


@op("etir.int4_weight_linear.default")
def int4_weight_linear(input: Array, weight: Array, scales: Array, bias: Array | None = None) -> Array:
    return _weight_linear(input, halves(weight), scales, bias)


def halves(weight: Array) -> Array:
    """The numbers from -8 to 7 of rows of bytes, the lower half of each first."""
    numbers = np.stack([weight & 15, weight >> 4], -1).astype(np.int8) - np.int8(8)
    return numbers.reshape(weight.shape[0], 2 * weight.shape[1])


def in_halves(numbers: Array) -> Array:
    """Rows of an even number of numbers from -8 to 7, two in a byte."""
    shifted = (numbers.astype(np.int16) + 8).astype(np.uint8)
    return shifted[:, 0::2] | (shifted[:, 1::2] << 4)
