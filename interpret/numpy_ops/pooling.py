"""Pooling in one to three dimensions, by adding up or comparing the kernel's taps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from etir.interpret.numpy_ops.arguments import ints
from etir.interpret.numpy_ops.convolution import taps
from etir.interpret.numpy_ops.dtype import FLOAT64, INT64, Array, compute_dtype, is_integral, to
from etir.interpret.numpy_ops.registry import op

Ints = int | Sequence[int]


class Window(NamedTuple):
    """A pooling window's parameters, one number per spatial dimension, and what follows from them."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    out: tuple[int, ...]

    @property
    def rank(self) -> int:
        """The number of spatial dimensions."""
        return len(self.kernel)

    def padded(self, x: Array, fill: float | bool) -> Array:
        """``x`` (*, *spatial) with ``fill`` before it, and after it as far as the last window reaches."""
        extents = (
            (n - 1) * s + d * (k - 1) + 1
            for n, s, d, k in zip(self.out, self.stride, self.dilation, self.kernel, strict=True)
        )
        sizes = x.shape[-self.rank :]
        pads = [(p, max(e - p - n, 0)) for e, p, n in zip(extents, self.padding, sizes, strict=True)]
        return np.pad(x, [(0, 0)] * (x.ndim - self.rank) + pads, constant_values=fill)


def window(x: Array, rank: int, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool) -> Window:
    """The window of a pooling operator over the last ``rank`` dimensions of ``x``; no stride means the kernel size."""
    kernels = ints(kernel, rank)
    strides = kernels if not isinstance(stride, int) and len(stride) == 0 else ints(stride, rank)
    paddings, dilations = ints(padding, rank), ints(dilation, rank)
    if x.ndim not in (rank + 1, rank + 2):
        raise ValueError(f"needs {rank + 1} or {rank + 2} dimensions, the tensor has {x.ndim}")
    if any(p > k // 2 for p, k in zip(paddings, kernels, strict=True)):
        raise ValueError(f"padding {list(paddings)} is more than half of the kernel {list(kernels)}")
    sizes = zip(x.shape[-rank:], kernels, strides, paddings, dilations, strict=True)
    out = tuple(_count(n, k, s, p, d, ceil_mode) for n, k, s, p, d in sizes)
    if min(out) < 1:
        raise ValueError(f"a kernel of {list(kernels)} does not fit an input of {list(x.shape)}")
    return Window(kernels, strides, paddings, dilations, out)


def _count(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (-(-room // stride) if ceil_mode else room // stride) + 1
    # A last window that starts in the padding after the input is dropped.
    return count - 1 if ceil_mode and (count - 1) * stride >= size + padding else count


def divisors(w: Window, sizes: Sequence[int], count_include_pad: bool, divisor_override: int | None) -> Array:
    """What the sum over each window is divided by, as an array over the output."""
    if divisor_override is not None:
        return np.full(w.out, divisor_override, INT64)
    result = np.ones((1,) * w.rank, INT64)
    for axis, (n, k, s, p, size) in enumerate(zip(w.out, w.kernel, w.stride, w.padding, sizes, strict=True)):
        first = np.arange(n) * s - p
        if count_include_pad:
            counts = np.minimum(first + k, size + p) - first
        else:
            counts = np.minimum(first + k, size) - np.maximum(first, 0)
        result = result * counts.reshape([-1 if a == axis else 1 for a in range(w.rank)])
    return result


def _average(
    self: Array,
    rank: int,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Array:
    w = window(self, rank, kernel_size, stride, padding, 1, ceil_mode)
    if divisor_override == 0:
        raise ZeroDivisionError("divisor_override is 0")
    x = w.padded(to(self, INT64 if is_integral(self.dtype) else compute_dtype(self.dtype)), 0)
    sums = np.zeros((*self.shape[:-rank], *w.out), x.dtype)
    for _, part in taps(w.kernel, w.out, w.stride, w.dilation):
        sums += x[(..., *part)]
    divisor = divisors(w, self.shape[-rank:], count_include_pad, divisor_override)
    if is_integral(self.dtype):
        return to(np.trunc(sums / divisor), self.dtype)
    return to(sums / to(divisor, sums.dtype), self.dtype)


@op("aten.avg_pool1d.default")
def avg_pool1d(
    self: Array,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Array:
    return _average(self, 1, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@op("aten.avg_pool2d.default")
def avg_pool2d(
    self: Array,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    return _average(self, 2, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@op("aten.avg_pool3d.default")
def avg_pool3d(
    self: Array,
    kernel_size: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    return _average(self, 3, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def maximum(
    self: Array, rank: int, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> tuple[Array, Array]:
    """Maxima and their positions in the flattened spatial dimensions: the first of equal ones, the last NaN."""
    w = window(self, rank, kernel_size, stride, padding, dilation, ceil_mode)
    sizes = self.shape[-rank:]
    lowest = int(np.iinfo(self.dtype).min) if is_integral(self.dtype) else -np.inf
    x = w.padded(self, lowest)
    inside = w.padded(np.ones(sizes, np.bool_), False)
    positions = w.padded(np.arange(math.prod(sizes)).reshape(sizes), 0)
    values = np.full((*self.shape[:-rank], *w.out), lowest, self.dtype)
    indices = np.full(values.shape, -1, INT64)
    for _, part in taps(w.kernel, w.out, w.stride, w.dilation):
        candidate = x[(..., *part)]
        better = inside[part] & ((candidate > values) | np.isnan(candidate) | (indices < 0))
        values = np.where(better, candidate, values)
        indices = np.where(better, positions[part], indices)
    return values, indices


@op("aten.max_pool1d_with_indices.default")
def max_pool1d_with_indices(
    self: Array, kernel_size: Ints, stride: Ints = (), padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False
) -> tuple[Array, Array]:
    return maximum(self, 1, kernel_size, stride, padding, dilation, ceil_mode)


@op("aten.max_pool2d_with_indices.default")
def max_pool2d_with_indices(
    self: Array, kernel_size: Ints, stride: Ints = (), padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False
) -> tuple[Array, Array]:
    return maximum(self, 2, kernel_size, stride, padding, dilation, ceil_mode)


@op("aten.max_pool3d_with_indices.default")
def max_pool3d_with_indices(
    self: Array, kernel_size: Ints, stride: Ints = (), padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False
) -> tuple[Array, Array]:
    return maximum(self, 3, kernel_size, stride, padding, dilation, ceil_mode)


@op("aten.max_pool1d.default")
def max_pool1d(
    self: Array, kernel_size: Ints, stride: Ints = (), padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False
) -> Array:
    return maximum(self, 1, kernel_size, stride, padding, dilation, ceil_mode)[0]


@op("aten.max_pool2d.default", "etir.max_pool2d.default")
def max_pool2d(
    self: Array, kernel_size: Ints, stride: Ints = (), padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False
) -> Array:
    return maximum(self, 2, kernel_size, stride, padding, dilation, ceil_mode)[0]


@op("aten.max_pool3d.default", "etir.max_pool3d.default")
def max_pool3d(
    self: Array, kernel_size: Ints, stride: Ints = (), padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False
) -> Array:
    return maximum(self, 3, kernel_size, stride, padding, dilation, ceil_mode)[0]


def adaptive_spans(size: int, count: int) -> list[slice]:
    """The ``count`` stretches of ``size`` elements that adaptive pooling reduces: they cover it and may overlap."""
    return [slice(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def averaging_matrix(size: int, count: int) -> Array:
    """The matrix (count, size), in double precision, that averages each of :func:`adaptive_spans`."""
    matrix = np.zeros((count, size), FLOAT64)
    for row, span in zip(matrix, adaptive_spans(size, count), strict=True):
        row[span] = 1 / (span.stop - span.start)
    return matrix


def apply_along(x: Array, matrix: Array, axis: int) -> Array:
    """``matrix`` (rows, size) times every line of ``x`` along ``axis``, which becomes ``rows`` long."""
    return np.moveaxis(np.matmul(np.moveaxis(x, axis, -1), matrix.T), -1, axis)


def _adaptive_average(self: Array, rank: int, output_size: Sequence[int | None]) -> Array:
    if self.ndim not in (rank + 1, rank + 2):
        raise ValueError(f"needs {rank + 1} or {rank + 2} dimensions, the tensor has {self.ndim}")
    x = to(self, FLOAT64)
    for axis, count in zip(range(self.ndim - rank, self.ndim), output_size, strict=True):
        x = apply_along(x, averaging_matrix(x.shape[axis], x.shape[axis] if count is None else count), axis)
    return to(x, self.dtype)


@op("aten.adaptive_avg_pool1d.default")
def adaptive_avg_pool1d(self: Array, output_size: Ints) -> Array:
    return _adaptive_average(self, 1, ints(output_size, 1))


@op("aten.adaptive_avg_pool2d.default", "aten._adaptive_avg_pool2d.default")
def adaptive_avg_pool2d(self: Array, output_size: Ints) -> Array:
    return _adaptive_average(self, 2, ints(output_size, 2))


@op("aten.adaptive_avg_pool3d.default", "aten._adaptive_avg_pool3d.default")
def adaptive_avg_pool3d(self: Array, output_size: Ints) -> Array:
    return _adaptive_average(self, 3, ints(output_size, 3))


def _adaptive_maximum(self: Array, rank: int, output_size: Ints) -> tuple[Array, Array]:
    sizes, counts = self.shape[-rank:], ints(output_size, rank)
    positions = np.arange(math.prod(sizes)).reshape(sizes)
    values = np.empty((*self.shape[:-rank], *counts), self.dtype)
    indices = np.empty(values.shape, INT64)
    spans = [list(enumerate(adaptive_spans(n, c))) for n, c in zip(sizes, counts, strict=True)]
    for cell in itertools.product(*spans):
        place, part = (..., *(i for i, _ in cell)), tuple(span for _, span in cell)
        block = self[(..., *part)].reshape(*self.shape[:-rank], -1)
        best = block.argmax(-1)
        values[place] = np.take_along_axis(block, best[..., None], -1)[..., 0]
        indices[place] = positions[part].reshape(-1)[best]
    return values, indices


@op("aten.adaptive_max_pool1d.default")
def adaptive_max_pool1d(self: Array, output_size: Ints) -> tuple[Array, Array]:
    return _adaptive_maximum(self, 1, output_size)


@op("aten.adaptive_max_pool2d.default")
def adaptive_max_pool2d(self: Array, output_size: Ints) -> tuple[Array, Array]:
    return _adaptive_maximum(self, 2, output_size)


@op("aten.adaptive_max_pool3d.default")
def adaptive_max_pool3d(self: Array, output_size: Ints) -> tuple[Array, Array]:
    return _adaptive_maximum(self, 3, output_size)
