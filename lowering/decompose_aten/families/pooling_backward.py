"""Gradients of pooling for targets without kernels of their own.

An average over windows is linear and works dim by dim: its gradient is a product with the matrix of the windows, dim by
dim. A maximum hands its gradient to the elements that it was found at, whose flat indices the forward operator returns.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import i64
from etir.lowering.build.builder import Builder, dims, element, rank
from etir.lowering.build.sizes import product
from etir.lowering.decompose_aten.decomposition import decomposition
from etir.lowering.decompose_aten.families.contraction import matmul

Ints = Sequence[int]
Window = tuple[int, int, int]
"""Start and end among the elements, and how many elements the average counts."""

_AVERAGE = (aten.avg_pool2d_backward.default, aten.avg_pool3d_backward.default)
_ADAPTIVE = (aten._adaptive_avg_pool2d_backward.default, aten._adaptive_avg_pool3d_backward.default)
_MAX = (aten.max_pool2d_with_indices_backward.default, aten.max_pool3d_with_indices_backward.default)
_ADAPTIVE_MAX = (aten.adaptive_max_pool2d_backward.default, aten.adaptive_max_pool3d_backward.default)


@decomposition(*_AVERAGE, in_float=True)
def avg_pool_backward(
    b: Builder,
    gradient: SSAValue,
    x: SSAValue,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_padding: bool,
    divisor: int | None,
) -> SSAValue | None:
    """The gradient times the matrix of the windows, dim by dim"""
    count = 2 if isinstance(b.rewriter.root, _AVERAGE[0]) else 3
    sizes = _static_sizes(b, gradient, x, count)
    if sizes is None:
        return None
    settings = zip(*sizes, *(_each(values, count) for values in (kernel, stride or kernel, padding)), strict=True)
    windows: list[list[Window]] = []
    for out, size, width, step, pad in settings:
        found: list[Window] = []
        for i in range(out):
            start, end = i * step - pad, min(i * step - pad + width, size + pad)
            first, last = max(start, 0), min(end, size)
            counted = 1 if divisor is not None else end - start if count_padding else last - first
            found.append((first, last, counted))
        windows.append(found)
    result = _spread(b, gradient, sizes[1], windows)
    return result if divisor is None else b.div(result, divisor)


@decomposition(*_ADAPTIVE, in_float=True)
def adaptive_avg_pool_backward(b: Builder, gradient: SSAValue, x: SSAValue) -> SSAValue | None:
    """The gradient times the matrix of the windows, dim by dim"""
    sizes = _static_sizes(b, gradient, x, 2 if isinstance(b.rewriter.root, _ADAPTIVE[0]) else 3)
    if sizes is None:
        return None
    windows: list[list[Window]] = []
    for out, size in zip(*sizes, strict=True):
        edges = [(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]
        windows.append([(start, end, end - start) for start, end in edges])
    return _spread(b, gradient, sizes[1], windows)


def _static_sizes(b: Builder, gradient: SSAValue, x: SSAValue, count: int) -> tuple[list[int], list[int]] | None:
    """The pooled sizes and the input's, in the last ``count`` dims."""
    sizes = [[d for d in dims(t)[-count:] if isinstance(d, int)] for t in (gradient, x)]
    if any(len(known) < count for known in sizes):
        return b.notify_match_failure("sizes are dynamic")
    return sizes[0], sizes[1]


def _each(values: Ints, count: int) -> list[int]:
    return [*values] if len(values) == count else [values[0]] * count


def _spread(b: Builder, gradient: SSAValue, sizes: Ints, windows: Sequence[Sequence[Window]]) -> SSAValue:
    """``gradient`` times the matrix of the windows in each of the last dims."""
    last = rank(gradient) - 1
    for i, (size, found) in enumerate(zip(sizes, windows, strict=True)):
        matrix = [[1 / n if first <= j < end else 0.0 for j in range(size)] for first, end, n in found]
        position = last - len(sizes) + 1 + i
        turned = b.transpose(gradient, position, last) if position != last else gradient
        turned = matmul(b, turned, b.constant(matrix, element(gradient)))
        gradient = b.transpose(turned, position, last) if position != last else turned
    return gradient


@decomposition(*_MAX)
def max_pool_backward(
    b: Builder,
    gradient: SSAValue,
    x: SSAValue,
    _kernel: Ints,
    _stride: Ints,
    _padding: Ints,
    _dilation: Ints,
    _ceil_mode: bool,
    indices: SSAValue,
) -> SSAValue:
    """``scatter_add`` to the elements that the maxima were found at"""
    return _scattered(b, gradient, x, indices, 2 if isinstance(b.rewriter.root, _MAX[0]) else 3)


@decomposition(*_ADAPTIVE_MAX)
def adaptive_max_pool_backward(b: Builder, gradient: SSAValue, x: SSAValue, indices: SSAValue) -> SSAValue:
    """``scatter_add`` to the elements that the maxima were found at"""
    return _scattered(b, gradient, x, indices, 2 if isinstance(b.rewriter.root, _ADAPTIVE_MAX[0]) else 3)


def _scattered(b: Builder, gradient: SSAValue, x: SSAValue, indices: SSAValue, count: int) -> SSAValue:
    outer = b.sizes(x)[:-count]
    pooled = [*outer, product(b.sizes(gradient)[-count:])]
    zeros = b.full([*outer, product(b.sizes(x)[-count:])], 0, element(x))
    indices = b.view(b.cast(indices, i64), pooled)
    result = b(aten.scatter_add.default, zeros, len(outer), indices, b.view(gradient, pooled))
    return b.view(result, b.sizes(x))
