"""Reductions and running sums. Sums and means of floating point are accumulated in double precision.

An empty list of dimensions, or ``None``, means all of them, as in torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import DTypeLike

from etir.interpret.numpy_ops.arguments import axes_of, axis_of, with_dims
from etir.interpret.numpy_ops.dtype import (
    BOOL,
    INT64,
    Array,
    Dtype,
    Scalar,
    accumulate_dtype,
    as_dtype,
    average,
    compute_dtype,
    float_dtype,
    is_complex,
    is_integral,
    real_dtype,
    sum_dtype,
    to,
    total,
)
from etir.interpret.numpy_ops.elementwise import maximum, minimum
from etir.interpret.numpy_ops.registry import op

Dims = int | Sequence[int] | None


def _result_dtype(x: Array, dtype: DTypeLike | None) -> Dtype:
    return as_dtype(dtype, sum_dtype(x.dtype))


@op("aten.sum.default")
def sum_all(self: Array, *, dtype: DTypeLike | None = None) -> Array:
    return sum_dims(self, None, dtype=dtype)


@op("aten.sum.dim_IntList")
def sum_dims(self: Array, dim: Dims, keepdim: bool = False, *, dtype: DTypeLike | None = None) -> Array:
    result = _result_dtype(self, dtype)
    return to(total(to(self, result), axes_of(dim, self.ndim), keepdims=keepdim), result)


@op("aten.nansum.default")
def nansum(self: Array, dim: Dims = None, keepdim: bool = False, *, dtype: DTypeLike | None = None) -> Array:
    return sum_dims(np.where(np.isnan(self), 0, self).astype(self.dtype), dim, keepdim, dtype=dtype)


@op("aten.nanmean.default")
def nanmean(self: Array, dim: Dims = None, keepdim: bool = False, *, dtype: DTypeLike | None = None) -> Array:
    result = as_dtype(dtype, self.dtype)
    valid = ~np.isnan(self)
    counts = total(valid, axes_of(dim, self.ndim), keepdims=keepdim)
    sums = total(np.where(valid, to(self, result), 0).astype(result), axes_of(dim, self.ndim), keepdims=keepdim)
    return to(sums / counts, result)


@op("aten.mean.default")
def mean_all(self: Array, *, dtype: DTypeLike | None = None) -> Array:
    return mean_dims(self, None, dtype=dtype)


@op("aten.mean.dim")
def mean_dims(self: Array, dim: Dims, keepdim: bool = False, *, dtype: DTypeLike | None = None) -> Array:
    result = as_dtype(dtype, self.dtype)
    if is_integral(result):
        raise ValueError(f"a mean is not defined for {result}: ask for a floating-point dtype")
    return to(average(to(self, result), axes_of(dim, self.ndim), keepdims=keepdim), result)


@op("aten.prod.default")
def prod_all(self: Array, *, dtype: DTypeLike | None = None) -> Array:
    return _product(self, tuple(range(self.ndim)), False, dtype)


@op("aten.prod.dim_int")
def prod_dim(self: Array, dim: int, keepdim: bool = False, *, dtype: DTypeLike | None = None) -> Array:
    return _product(self, axes_of(dim, self.ndim), keepdim, dtype)


def _product(x: Array, axes: tuple[int, ...], keepdim: bool, dtype: DTypeLike | None) -> Array:
    result = _result_dtype(x, dtype)
    wide = accumulate_dtype(result)
    return to(np.asarray(np.prod(to(x, result), axis=axes, dtype=wide, keepdims=keepdim)), result)


def _logical(function: Callable[..., Array], self: Array, dim: Dims, keepdim: bool) -> Array:
    """``any`` and ``all`` give bool, but uint8 for uint8, which was the bool of early torch."""
    result = np.asarray(function(to(self, BOOL), axis=axes_of(dim, self.ndim), keepdims=keepdim))
    return to(result, self.dtype) if self.dtype == np.uint8 else result


@op("aten.any.default")
def any_all(self: Array) -> Array:
    return _logical(np.any, self, None, False)


@op("aten.any.dim", "aten.any.dims")
def any_dims(self: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    return _logical(np.any, self, dim, keepdim)


@op("aten.all.default")
def all_all(self: Array) -> Array:
    return _logical(np.all, self, None, False)


@op("aten.all.dim", "aten.all.dims")
def all_dims(self: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    return _logical(np.all, self, dim, keepdim)


@op("aten.amax.default")
def amax(self: Array, dim: Dims = (), keepdim: bool = False) -> Array:
    return np.asarray(np.max(self, axis=axes_of(dim, self.ndim), keepdims=keepdim))


@op("aten.amin.default")
def amin(self: Array, dim: Dims = (), keepdim: bool = False) -> Array:
    return np.asarray(np.min(self, axis=axes_of(dim, self.ndim), keepdims=keepdim))


@op("aten.aminmax.default")
def aminmax(self: Array, *, dim: int | None = None, keepdim: bool = False) -> tuple[Array, Array]:
    return amin(self, dim, keepdim), amax(self, dim, keepdim)


@op("aten.max.default")
def max_all(self: Array) -> Array:
    return amax(self)


@op("aten.min.default")
def min_all(self: Array) -> Array:
    return amin(self)


def _position(function: Callable[..., Array], self: Array, dim: int | None, keepdim: bool) -> Array:
    if self.ndim == 0:
        return np.zeros((), INT64)
    axis = None if dim is None else axis_of(dim, self.ndim)
    return to(np.asarray(function(self, axis=axis, keepdims=keepdim)), INT64)


@op("aten.argmax.default")
def argmax(self: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    return _position(np.argmax, self, dim, keepdim)


@op("aten.argmin.default")
def argmin(self: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    return _position(np.argmin, self, dim, keepdim)


@op("aten.max.dim")
def max_dim(self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    return amax(self, dim, keepdim), argmax(self, dim, keepdim)


@op("aten.min.dim")
def min_dim(self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    return amin(self, dim, keepdim), argmin(self, dim, keepdim)


def _variance(self: Array, dim: Dims, correction: Scalar | None, keepdim: bool) -> tuple[Array, Array]:
    """Variance and mean in double precision: squares are divided by their count less ``correction`` (1 if None)."""
    if is_integral(self.dtype):
        raise ValueError(f"a variance is not defined for {self.dtype}")
    axes = axes_of(dim, self.ndim)
    wide = to(self, accumulate_dtype(self.dtype))
    mean = average(wide, axes, keepdims=True)
    count = math.prod(self.shape[a] for a in axes) - (1 if correction is None else correction.real)
    squares = np.sum(np.abs(wide - mean) ** 2, axis=axes, keepdims=keepdim)
    return np.true_divide(squares, max(count, 0)), mean if keepdim else np.squeeze(mean, axes)


@op("aten.var.correction")
def var(self: Array, dim: Dims = None, *, correction: Scalar | None = None, keepdim: bool = False) -> Array:
    return to(_variance(self, dim, correction, keepdim)[0], real_dtype(self.dtype))


@op("aten.var.dim")
def var_dim(self: Array, dim: Dims, unbiased: bool = True, keepdim: bool = False) -> Array:
    return var(self, dim, correction=int(unbiased), keepdim=keepdim)


@op("aten.var.default")
def var_all(self: Array, unbiased: bool = True) -> Array:
    return var(self, correction=int(unbiased))


@op("aten.std.correction")
def std(self: Array, dim: Dims = None, *, correction: Scalar | None = None, keepdim: bool = False) -> Array:
    return to(np.sqrt(_variance(self, dim, correction, keepdim)[0]), real_dtype(self.dtype))


@op("aten.std.dim")
def std_dim(self: Array, dim: Dims, unbiased: bool = True, keepdim: bool = False) -> Array:
    return std(self, dim, correction=int(unbiased), keepdim=keepdim)


@op("aten.std.default")
def std_all(self: Array, unbiased: bool = True) -> Array:
    return std(self, correction=int(unbiased))


@op("aten.var_mean.correction")
def var_mean(
    self: Array, dim: Dims = None, *, correction: Scalar | None = None, keepdim: bool = False
) -> tuple[Array, Array]:
    variance, mean = _variance(self, dim, correction, keepdim)
    return to(variance, real_dtype(self.dtype)), to(mean, self.dtype)


@op("aten.std_mean.correction")
def std_mean(
    self: Array, dim: Dims = None, *, correction: Scalar | None = None, keepdim: bool = False
) -> tuple[Array, Array]:
    variance, mean = _variance(self, dim, correction, keepdim)
    return to(np.sqrt(variance), real_dtype(self.dtype)), to(mean, self.dtype)


@op("aten.var_mean.dim")
def var_mean_dim(self: Array, dim: Dims, unbiased: bool = True, keepdim: bool = False) -> tuple[Array, Array]:
    return var_mean(self, dim, correction=int(unbiased), keepdim=keepdim)


@op("aten.var_mean.default")
def var_mean_all(self: Array, unbiased: bool = True) -> tuple[Array, Array]:
    return var_mean(self, correction=int(unbiased))


@op("aten.std_mean.dim")
def std_mean_dim(self: Array, dim: Dims, unbiased: bool = True, keepdim: bool = False) -> tuple[Array, Array]:
    return std_mean(self, dim, correction=int(unbiased), keepdim=keepdim)


@op("aten.std_mean.default")
def std_mean_all(self: Array, unbiased: bool = True) -> tuple[Array, Array]:
    return std_mean(self, correction=int(unbiased))


def _running(function: np.ufunc, self: Array, dim: int, dtype: DTypeLike | None) -> Array:
    result = _result_dtype(self, dtype)
    wide = to(to(self, result), accumulate_dtype(result))
    return to(function.accumulate(with_dims(wide), axis_of(dim, self.ndim)), result).reshape(self.shape)


@op("aten.cumsum.default")
def cumsum(self: Array, dim: int, *, dtype: DTypeLike | None = None) -> Array:
    return _running(np.add, self, dim, dtype)


@op("aten.cumprod.default")
def cumprod(self: Array, dim: int, *, dtype: DTypeLike | None = None) -> Array:
    return _running(np.multiply, self, dim, dtype)


@op("aten.logcumsumexp.default")
def logcumsumexp(self: Array, dim: int) -> Array:
    wide = with_dims(to(self, accumulate_dtype(self.dtype)))
    return to(np.logaddexp.accumulate(wide, axis_of(dim, self.ndim)), self.dtype).reshape(self.shape)


def _running_extreme(function: Callable[[Array, Array], Array], self: Array, dim: int) -> tuple[Array, Array]:
    """Values and positions of the running extreme: the last of equal ones, and NaN from the first NaN on."""
    axis = axis_of(dim, self.ndim)
    lines = np.moveaxis(with_dims(self), axis, 0)
    values, indices = lines.copy(), np.zeros(lines.shape, INT64)
    for i in range(1, len(lines)):
        values[i] = function(values[i - 1], lines[i])
        moved = (lines[i] == values[i]) | np.isnan(lines[i])
        indices[i] = np.where(moved, i, indices[i - 1])
    return tuple(np.moveaxis(r, 0, axis).reshape(self.shape) for r in (values, indices))  # type: ignore[return-value]


@op("aten.cummax.default")
def cummax(self: Array, dim: int) -> tuple[Array, Array]:
    return _running_extreme(maximum, self, dim)


@op("aten.cummin.default")
def cummin(self: Array, dim: int) -> tuple[Array, Array]:
    return _running_extreme(minimum, self, dim)


@op("aten.logsumexp.default", "aten.special_logsumexp.default")
def logsumexp(self: Array, dim: Dims, keepdim: bool = False) -> Array:
    dtype = float_dtype(self.dtype)
    axes = axes_of(dim, self.ndim)
    x = to(self, compute_dtype(dtype))
    size = np.real(x) if is_complex(dtype) else x
    top = np.max(size, axis=axes, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    result = np.log(np.sum(np.exp(x - top), axis=axes, keepdims=True)) + top
    return to(result if keepdim else np.squeeze(result, axes), dtype)
