"""Convolutions in one to three dimensions.

A convolution with one input channel per group (depthwise) is a sum over the kernel's taps of shifted inputs times a
per-channel weight. Every other convolution gathers the input windows of one batch element into the columns of a matrix
("im2col") and is one matrix product per group. A transposed convolution is the adjoint: one matrix product gives what
every input element adds to each tap, and the taps are added up at their places in the output.

Layouts: input (N, C, *spatial) or (C, *spatial), weight (C_out, C_in / groups, *kernel), transposed weight
(C_in, C_out / groups, *kernel). Half precision is computed in float32.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from etir.interpret.numpy_ops.arguments import ints, per_channel
from etir.interpret.numpy_ops.dtype import Array, compute_dtype, to
from etir.interpret.numpy_ops.registry import op

Taps = Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]


def taps(kernel: Sequence[int], out: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Taps:
    """Every kernel position, with the elements of the padded input that it meets: one slice per spatial dimension."""
    for tap in itertools.product(*(range(k) for k in kernel)):
        firsts = [t * d for t, d in zip(tap, dilation, strict=True)]
        yield (tap, tuple(slice(f, f + (n - 1) * s + 1, s) for f, n, s in zip(firsts, out, stride, strict=True)))


def output_size(
    size: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> tuple[int, ...]:
    """The spatial size of a convolution's result. Raises ``ValueError`` when the kernel does not fit."""
    result = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
    )
    if min(result) < 1:
        raise ValueError(f"a kernel of {list(kernel)} does not fit an input of {list(size)} padded by {list(padding)}")
    return result


def padded(x: Array, padding: Sequence[int]) -> Array:
    """``x`` with zeros around its spatial dimensions, from the third on."""
    return np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)]) if any(padding) else x


def windows(
    x: Array, kernel: Sequence[int], out: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Array:
    """im2col of a padded input (N, C, *spatial): an array (N, C, taps, output elements)."""
    batch, channels = x.shape[:2]
    result = np.empty((batch, channels, math.prod(kernel), math.prod(out)), x.dtype)
    for i, (_, part) in enumerate(taps(kernel, out, stride, dilation)):
        result[:, :, i] = x[(slice(None), slice(None), *part)].reshape(batch, channels, math.prod(out))
    return result


def convolve(
    x: Array, weight: Array, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int
) -> Array:
    """The convolution of (N, C, *spatial) in the dtype of ``x``, without bias."""
    batch, channels = x.shape[:2]
    features, group_channels, *kernel = weight.shape
    if channels != group_channels * groups or features % groups:
        raise ValueError(f"weight {list(weight.shape)} in {groups} groups does not fit an input of {channels} channels")
    out = output_size(x.shape[2:], kernel, stride, padding, dilation)
    x = padded(x, padding)
    if group_channels == 1 and groups > 1:
        return _depthwise(x, weight, out, stride, dilation)
    matrix = weight.reshape(groups, features // groups, -1)
    result = np.empty((batch, features, *out), x.dtype)
    for i in range(batch):
        columns = windows(x[i : i + 1], kernel, out, stride, dilation).reshape(groups, matrix.shape[2], -1)
        result[i] = np.matmul(matrix, columns).reshape(features, *out)
    return result


def _depthwise(x: Array, weight: Array, out: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Array:
    multiplier = weight.shape[0] // x.shape[1]
    if multiplier > 1:
        x = np.repeat(x, multiplier, 1)
    result = np.zeros((*x.shape[:2], *out), x.dtype)
    for tap, part in taps(weight.shape[2:], out, stride, dilation):
        result += x[(slice(None), slice(None), *part)] * per_channel(weight[(slice(None), 0, *tap)], 1, x.ndim)
    return result


def convolve_transposed(
    x: Array,
    weight: Array,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    out: Sequence[int],
) -> Array:
    """The adjoint of a convolution: (N, C_in, *spatial) to (N, C_out, *out), in the dtype of ``x``, without bias.

    ``out`` may lie above the smallest size that the convolution maps to ``x``: the rest is zero.
    """
    batch, channels, *size = x.shape
    group_features, kernel = weight.shape[1], weight.shape[2:]
    if channels != weight.shape[0] or channels % groups:
        raise ValueError(f"weight {list(weight.shape)} in {groups} groups does not fit an input of {channels} channels")
    matrix = weight.reshape(groups, channels // groups, -1).swapaxes(1, 2)
    added = np.matmul(matrix, x.reshape(batch, groups, channels // groups, -1))
    added = added.reshape(batch, groups * group_features, math.prod(kernel), *size)
    full = [
        max((n - 1) * s + d * (k - 1) + 1, o + 2 * p)
        for n, s, d, k, o, p in zip(size, stride, dilation, kernel, out, padding, strict=True)
    ]
    result = np.zeros((batch, groups * group_features, *full), x.dtype)
    for i, (_, part) in enumerate(taps(kernel, size, stride, dilation)):
        result[(slice(None), slice(None), *part)] += added[:, :, i]
    return result[(slice(None), slice(None), *(slice(p, p + o) for p, o in zip(padding, out, strict=True)))]


@op("aten.convolution.default")
def convolution(
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: int | Sequence[int],
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
    transposed: bool,
    output_padding: int | Sequence[int],
    groups: int,
) -> Array:
    rank = weight.ndim - 2
    if input.ndim not in (rank + 1, rank + 2):
        raise ValueError(f"an input of {input.ndim} dimensions does not fit a weight of {weight.ndim}")
    if input.dtype != weight.dtype:
        raise ValueError(f"input is {input.dtype}, weight is {weight.dtype}")
    dtype = compute_dtype(input.dtype)
    x = to(input if input.ndim == rank + 2 else input[None], dtype)
    w = to(weight, dtype)
    strides, pads, dilations, extra = (ints(v, rank) for v in (stride, padding, dilation, output_padding))
    if transposed:
        out = tuple(
            (n - 1) * s - 2 * p + d * (k - 1) + 1 + e
            for n, s, p, d, k, e in zip(x.shape[2:], strides, pads, dilations, w.shape[2:], extra, strict=True)
        )
        result = convolve_transposed(x, w, strides, pads, dilations, groups, out)
    else:
        result = convolve(x, w, strides, pads, dilations, groups)
    if bias is not None:
        result = result + per_channel(to(bias, dtype), 1, result.ndim)
    return to(result if input.ndim == rank + 2 else result[0], input.dtype)


@op("etir.convolution_add.default")
def convolution_add(
    self: Array,
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: int | Sequence[int],
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
    groups: int,
) -> Array:
    """A convolution plus a tensor of its result's shape."""
    result = convolution(input, weight, bias, stride, padding, dilation, False, 0, groups)
    if self.shape != result.shape:
        raise ValueError(f"{list(self.shape)} is not the shape of the result, {list(result.shape)}")
    return to(to(self, compute_dtype(self.dtype)) + to(result, compute_dtype(self.dtype)), self.dtype)


@op("aten._convolution.default")
def convolution_with_backend_flags(
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: int | Sequence[int],
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
    transposed: bool,
    output_padding: int | Sequence[int],
    groups: int,
    benchmark: bool,
    deterministic: bool,
    cudnn_enabled: bool,
    allow_tf32: bool,
) -> Array:
    return convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


@op("aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default")
def conv(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Array:
    return convolution(input, weight, bias, stride, padding, dilation, False, 0, groups)


@op("aten.conv1d.padding", "aten.conv2d.padding", "aten.conv3d.padding")
def conv_with_named_padding(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: str = "valid",
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Array:
    """Padding ``"same"`` keeps the spatial size; where it is odd, the end gets the extra zero."""
    if padding == "valid":
        return conv(input, weight, bias, stride, 0, dilation, groups)
    if padding != "same" or any(s != 1 for s in ints(stride, weight.ndim - 2)):
        raise ValueError(f"padding {padding!r} with stride {stride}: it can be 'valid', or 'same' with stride 1")
    totals = [d * (k - 1) for d, k in zip(ints(dilation, weight.ndim - 2), weight.shape[2:], strict=True)]
    leading = [(0, 0)] * (input.ndim - len(totals))
    return conv(
        np.pad(input, [*leading, *((n // 2, n - n // 2) for n in totals)]), weight, bias, 1, 0, dilation, groups
    )


@op("aten.conv_transpose1d.default", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input")
def conv_transpose(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Array:
    return convolution(input, weight, bias, stride, padding, dilation, True, output_padding, groups)


@op("aten.im2col.default")
def im2col(
    self: Array, kernel_size: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]
) -> Array:
    x = self if self.ndim == 4 else self[None]
    kernel, dilations, pads, strides = (ints(v, 2) for v in (kernel_size, dilation, padding, stride))
    out = output_size(x.shape[2:], kernel, strides, pads, dilations)
    columns = windows(padded(x, pads), kernel, out, strides, dilations)
    result = columns.reshape(x.shape[0], x.shape[1] * math.prod(kernel), columns.shape[3])
    return result if self.ndim == 4 else result[0]


@op("aten.col2im.default")
def col2im(
    self: Array,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Array:
    """The adjoint of ``im2col``: (N, C * taps, windows) added up to (N, C, *output_size)."""
    x = self if self.ndim == 3 else self[None]
    kernel, dilations, pads, strides = (ints(v, 2) for v in (kernel_size, dilation, padding, stride))
    size = ints(output_size, 2)
    out = _window_counts(size, kernel, strides, pads, dilations)
    columns = x.reshape(x.shape[0], -1, math.prod(kernel), *out)
    result = np.zeros((*columns.shape[:2], *(n + 2 * p for n, p in zip(size, pads, strict=True))), self.dtype)
    for i, (_, part) in enumerate(taps(kernel, out, strides, dilations)):
        result[(slice(None), slice(None), *part)] += columns[:, :, i]
    result = result[(slice(None), slice(None), *(slice(p, p + n) for p, n in zip(pads, size, strict=True)))]
    return result if self.ndim == 3 else result[0]


_window_counts = output_size
"""``output_size`` where an operator's own argument has that name."""
