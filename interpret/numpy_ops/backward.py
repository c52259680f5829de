"""The gradients that are Core ATen operators: of convolution, normalization and embedding.

``output_mask`` says which gradients are wanted; the others are ``None``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from etir.interpret.numpy_ops.arguments import ints
from etir.interpret.numpy_ops.convolution import convolve, convolve_transposed, padded, taps
from etir.interpret.numpy_ops.dtype import Array, accumulate_dtype, compute_dtype, to
from etir.interpret.numpy_ops.registry import op

Gradients = tuple[Array | None, Array | None, Array | None]


@op("aten.convolution_backward.default")
def convolution_backward(
    grad_output: Array,
    input: Array,
    weight: Array,
    bias_sizes: Sequence[int] | None,
    stride: int | Sequence[int],
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
    transposed: bool,
    output_padding: int | Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> Gradients:
    """Gradients of input, weight and bias."""
    rank = weight.ndim - 2
    dtype = compute_dtype(input.dtype)
    batched = input.ndim == rank + 2
    grad, x = (to(t if batched else t[None], dtype) for t in (grad_output, input))
    w = to(weight, dtype)
    strides, pads, dilations = (ints(v, rank) for v in (stride, padding, dilation))
    grad_input = grad_weight = grad_bias = None
    if output_mask[0]:
        if transposed:
            grad_input = convolve(grad, w, strides, pads, dilations, groups)
        else:
            grad_input = convolve_transposed(grad, w, strides, pads, dilations, groups, x.shape[2:])
        grad_input = to(grad_input if batched else grad_input[0], input.dtype)
    if output_mask[1]:
        # A transposed convolution swaps the roles of its input and its output.
        small, large = (x, grad) if transposed else (grad, x)
        grad_weight = to(_weight_gradient(small, large, w.shape, strides, pads, dilations, groups), weight.dtype)
    if output_mask[2]:
        grad_bias = to(grad.sum(axis=(0, *range(2, grad.ndim))), grad_output.dtype)
    return grad_input, grad_weight, grad_bias


def _weight_gradient(
    small: Array,
    large: Array,
    shape: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Array:
    """For every tap, the product of the convolution's output side ``small`` with its shifted input side ``large``."""
    batch, out = small.shape[0], small.shape[2:]
    rows = small.reshape(batch, groups, small.shape[1] // groups, -1)
    large = padded(large, padding)
    reach = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in zip(out, stride, dilation, shape[2:], strict=True)]
    missing = [max(r - n, 0) for r, n in zip(reach, large.shape[2:], strict=True)]
    large = np.pad(large, [(0, 0), (0, 0), *((0, m) for m in missing)])
    result = np.empty(tuple(shape), small.dtype)
    for tap, part in taps(shape[2:], out, stride, dilation):
        columns = large[(slice(None), slice(None), *part)].reshape(batch, groups, large.shape[1] // groups, -1)
        product = np.matmul(rows, columns.swapaxes(2, 3)).sum(0)
        result[(slice(None), slice(None), *tap)] = product.reshape(shape[0], shape[1])
    return result


@op("aten.native_layer_norm_backward.default")
def native_layer_norm_backward(
    grad_out: Array,
    input: Array,
    normalized_shape: Sequence[int],
    mean: Array,
    rstd: Array,
    weight: Array | None,
    bias: Array | None,
    output_mask: Sequence[bool],
) -> Gradients:
    """Gradients of input, weight and bias."""
    wide = accumulate_dtype(input.dtype)
    outer = input.ndim - len(normalized_shape)
    inner_axes, outer_axes = tuple(range(outer, input.ndim)), tuple(range(outer))
    normal = (to(input, wide) - to(mean, wide)) * to(rstd, wide)
    grad = to(grad_out, wide)
    scaled = grad if weight is None else grad * to(weight, wide)
    grad_input = _through_statistics(scaled, normal, to(rstd, wide), inner_axes)
    return (
        to(grad_input, input.dtype) if output_mask[0] else None,
        to((grad * normal).sum(outer_axes), input.dtype) if output_mask[1] and weight is not None else None,
        to(grad.sum(outer_axes), input.dtype) if output_mask[2] and bias is not None else None,
    )


def _through_statistics(grad: Array, normal: Array, rstd: Array, axes: tuple[int, ...]) -> Array:
    """The gradient through x -> (x - mean) * rstd, where mean and deviation depend on x over ``axes``."""
    average = grad.mean(axes, keepdims=True)
    projection = (grad * normal).mean(axes, keepdims=True)
    return rstd * (grad - average - normal * projection)


@op("aten.native_group_norm_backward.default")
def native_group_norm_backward(
    grad_out: Array,
    input: Array,
    mean: Array,
    rstd: Array,
    weight: Array | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    output_mask: Sequence[bool],
) -> Gradients:
    """Gradients of input, weight and bias."""
    wide = accumulate_dtype(input.dtype)
    shape = (N, group, C // group, HxW)
    statistics = [to(s, wide).reshape(N, group, 1, 1) for s in (mean, rstd)]
    normal = (to(input, wide).reshape(shape) - statistics[0]) * statistics[1]
    grad = to(grad_out, wide).reshape(shape)
    scaled = grad if weight is None else grad * to(weight, wide).reshape(1, group, C // group, 1)
    grad_input = _through_statistics(scaled, normal, statistics[1], (2, 3)).reshape(input.shape)
    return (
        to(grad_input, input.dtype) if output_mask[0] else None,
        to((grad * normal).sum((0, 3)).reshape(C), input.dtype) if output_mask[1] else None,
        to(grad.sum((0, 3)).reshape(C), input.dtype) if output_mask[2] else None,
    )


@op("aten.embedding_dense_backward.default")
def embedding_dense_backward(
    grad_output: Array, indices: Array, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Array:
    """The gradient of the table (num_weights, width): the sum of what its rows' uses got."""
    width = grad_output.shape[-1]
    rows = indices.reshape(-1)
    grad = to(grad_output, compute_dtype(grad_output.dtype)).reshape(math.prod(indices.shape), width)
    if scale_grad_by_freq:
        grad = grad / np.bincount(rows, minlength=num_weights)[rows][:, None].astype(grad.dtype)
    used = rows != padding_idx
    result = np.zeros((num_weights, width), grad.dtype)
    np.add.at(result, rows[used], grad[used])
    return to(result, grad_output.dtype)
