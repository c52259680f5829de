"""Sorting and selection by rank. Every order is stable, and NaN counts as greater than any number."""

from __future__ import annotations

import numpy as np

from etir.interpret.numpy_ops.arguments import along, axis_of, with_dims
from etir.interpret.numpy_ops.dtype import INT64, Array, to
from etir.interpret.numpy_ops.registry import op


def order(x: Array, axis: int, *, descending: bool) -> Array:
    """The positions that sort ``x`` along ``axis``; equal elements keep their order in both directions."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    backwards = np.argsort(np.flip(x, axis), axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(backwards, axis)


def _sorted(self: Array, dim: int, descending: bool) -> tuple[Array, Array]:
    x, axis = with_dims(self), axis_of(dim, self.ndim)
    indices = order(x, axis, descending=descending)
    return np.take_along_axis(x, indices, axis).reshape(self.shape), to(indices, INT64).reshape(self.shape)


@op("aten.sort.default")
def sort(self: Array, dim: int = -1, descending: bool = False) -> tuple[Array, Array]:
    return _sorted(self, dim, descending)


@op("aten.sort.stable")
def sort_stable(self: Array, *, stable: bool | None, dim: int = -1, descending: bool = False) -> tuple[Array, Array]:
    return _sorted(self, dim, descending)


@op("aten.argsort.default")
def argsort(self: Array, dim: int = -1, descending: bool = False) -> Array:
    return _sorted(self, dim, descending)[1]


@op("aten.argsort.stable")
def argsort_stable(self: Array, *, stable: bool, dim: int = -1, descending: bool = False) -> Array:
    return _sorted(self, dim, descending)[1]


@op("aten.msort.default")
def msort(self: Array) -> Array:
    return _sorted(self, 0, False)[0]


@op("aten.topk.default")
def topk(self: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Array, Array]:
    """The result is in order even when ``sorted`` is false, which torch leaves open."""
    axis = axis_of(dim, self.ndim)
    size = with_dims(self).shape[axis]
    if not 0 <= k <= size:
        raise ValueError(f"k is {k} for a dimension of {size}")
    values, indices = (with_dims(r) for r in _sorted(self, dim, largest))
    first = along(axis, slice(k))
    return (values[first], indices[first]) if self.ndim else (values.reshape(()), indices.reshape(()))


@op("aten.kthvalue.default")
def kthvalue(self: Array, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    axis = axis_of(dim, self.ndim)
    if not 1 <= k <= with_dims(self).shape[axis]:
        raise ValueError(f"k is {k} for a dimension of {with_dims(self).shape[axis]}")
    part = along(axis, slice(k - 1, k) if keepdim else k - 1)
    values, indices = (np.asarray(with_dims(r)[part]) for r in _sorted(self, dim, False))
    return (values, indices) if self.ndim else (values.reshape(()), indices.reshape(()))


@op("aten.median.default")
def median(self: Array) -> Array:
    """The lower of the two middle elements when their number is even; NaN when there is one."""
    return median_dim(self.reshape(-1), 0)[0]


@op("aten.median.dim")
def median_dim(self: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    x, axis = with_dims(self), axis_of(dim, self.ndim)
    sorted_values, positions = _sorted(x, axis, False)
    middle = np.full([1 if a == axis else n for a, n in enumerate(x.shape)], (x.shape[axis] - 1) // 2)
    is_nan = np.isnan(sorted_values)
    middle = np.where(is_nan.any(axis, keepdims=True), is_nan.argmax(axis, keepdims=True), middle)
    results = (np.take_along_axis(r, middle, axis) for r in (sorted_values, positions))
    values, indices = (r if keepdim else np.squeeze(r, axis) for r in results)
    return (values, indices) if self.ndim else (values.reshape(()), indices.reshape(()))


@op("aten._unique2.default")
def unique(
    self: Array, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Array, Array, Array]:
    """The distinct elements in order, and what was asked for of their places and counts; empty where it was not."""
    values, inverse, counts = np.unique(self, return_inverse=True, return_counts=True)
    nothing = np.empty(0, INT64)
    places = to(inverse.reshape(self.shape), INT64) if return_inverse else nothing
    return values, places, to(counts, INT64) if return_counts else nothing
