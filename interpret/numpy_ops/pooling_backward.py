"""The gradients of pooling that are Core ATen operators."""

from __future__ import annotations

import math

import numpy as np

from etir.interpret.numpy_ops.convolution import taps
from etir.interpret.numpy_ops.dtype import FLOAT64, Array, compute_dtype, to
from etir.interpret.numpy_ops.pooling import Ints, apply_along, averaging_matrix, divisors, window
from etir.interpret.numpy_ops.registry import op


@op("aten._adaptive_avg_pool2d_backward.default")
def adaptive_avg_pool2d_backward(grad_output: Array, self: Array) -> Array:
    grad = to(grad_output, FLOAT64)
    for axis in (-2, -1):
        grad = apply_along(grad, averaging_matrix(self.shape[axis], grad.shape[axis]).T, axis)
    return to(grad, grad_output.dtype)


@op("aten.avg_pool2d_backward.default")
def avg_pool2d_backward(
    grad_output: Array,
    self: Array,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Array:
    w = window(self, 2, kernel_size, stride, padding, 1, ceil_mode)
    dtype = compute_dtype(self.dtype)
    share = to(grad_output, dtype) / to(divisors(w, self.shape[-2:], count_include_pad, divisor_override), dtype)
    result = np.zeros_like(w.padded(to(self, dtype), 0))
    for _, part in taps(w.kernel, w.out, w.stride, w.dilation):
        result[(..., *part)] += share
    inside = (slice(p, p + n) for p, n in zip(w.padding, self.shape[-2:], strict=True))
    return to(result[(..., *inside)], self.dtype)


@op("aten.max_pool2d_with_indices_backward.default")
def max_pool2d_with_indices_backward(
    grad_output: Array,
    self: Array,
    kernel_size: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
    indices: Array,
) -> Array:
    """Every maximum's gradient, added up at the position where the maximum was."""
    planes = math.prod(self.shape[:-2])
    result = np.zeros((planes, math.prod(self.shape[-2:])), compute_dtype(grad_output.dtype))
    places = (np.arange(planes)[:, None], indices.reshape(planes, -1))
    np.add.at(result, places, to(grad_output, result.dtype).reshape(planes, -1))
    return to(result.reshape(self.shape), grad_output.dtype)
