"""Writing values to positions given by tensors, in a new tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from etir.interpret.numpy_ops.arguments import along, axis_of, with_dims
from etir.interpret.numpy_ops.dtype import BOOL, INT64, Array, Dtype, Scalar, category, compute_dtype, is_integral, to
from etir.interpret.numpy_ops.indexing import index_tuple
from etir.interpret.numpy_ops.registry import op

_UFUNCS = {
    "sum": np.add,
    "add": np.add,
    "prod": np.multiply,
    "multiply": np.multiply,
    "mean": np.add,
    "amax": np.maximum,
    "amin": np.minimum,
}


def _positions(self: Array, dim: int, index: Array) -> tuple[Array, ...]:
    """The element that every element of ``index`` stands for: its own place, but for dimension ``dim``."""
    if index.size and with_dims(index).ndim != with_dims(self).ndim:
        raise ValueError(f"index has {index.ndim} dimensions, the tensor {self.ndim}")
    positions: list[Array] = list(np.indices(with_dims(index).shape, sparse=True))
    positions[axis_of(dim, self.ndim)] = with_dims(index)
    return tuple(positions)


def _covered(src: Array, index: Array) -> Array:
    """The part of ``src`` that ``index`` covers: the same leading corner."""
    return with_dims(src)[tuple(slice(n) for n in with_dims(index).shape)]


@op("aten.scatter.src")
def scatter(self: Array, dim: int, index: Array, src: Array) -> Array:
    result = with_dims(self).copy()
    if index.size:
        result[_positions(self, dim, index)] = to(_covered(src, index), self.dtype)
    return result.reshape(self.shape)


@op("aten.scatter.value")
def scatter_value(self: Array, dim: int, index: Array, value: Scalar) -> Array:
    return scatter(self, dim, index, np.broadcast_to(to(value, self.dtype), index.shape))


@op("aten.scatter.value_reduce")
def scatter_value_with(self: Array, dim: int, index: Array, value: Scalar, *, reduce: str) -> Array:
    return scatter_reduce(self, dim, index, np.broadcast_to(to(value, self.dtype), index.shape), reduce)


@op("aten.scatter_add.default")
def scatter_add(self: Array, dim: int, index: Array, src: Array) -> Array:
    return scatter_reduce(self, dim, index, src, "sum")


@op("aten.scatter.reduce")
def scatter_with(self: Array, dim: int, index: Array, src: Array, *, reduce: str) -> Array:
    return scatter_reduce(self, dim, index, src, reduce)


@op("aten.scatter_reduce.two")
def scatter_reduce(self: Array, dim: int, index: Array, src: Array, reduce: str, *, include_self: bool = True) -> Array:
    if reduce not in _UFUNCS:
        raise ValueError(f"reduce is {reduce!r}; it can be {', '.join(map(repr, _UFUNCS))}")
    if index.size == 0:
        return self.copy()
    positions = _positions(self, dim, index)
    result = with_dims(to(self, compute_dtype(self.dtype))).copy()
    if not include_self:
        result[positions] = _identity(reduce, result.dtype)
    _UFUNCS[reduce].at(result, positions, to(_covered(src, index), result.dtype))
    if reduce == "mean":
        counts = np.zeros(result.shape, INT64)
        np.add.at(counts, positions, 1)
        counts = np.maximum(counts + include_self, 1)
        result = np.floor_divide(result, counts) if is_integral(self.dtype) else result / counts
    return to(result.reshape(self.shape), self.dtype)


def _identity(reduce: str, dtype: Dtype) -> Scalar:
    """The value that does not change the result of ``reduce``."""
    if reduce in ("amax", "amin"):
        lowest = reduce == "amax"
        if dtype == BOOL:
            return not lowest
        if category(dtype) == 2:
            return -np.inf if lowest else np.inf
        return int(np.iinfo(dtype).min if lowest else np.iinfo(dtype).max)
    return 1 if reduce in ("prod", "multiply") else 0


@op("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(self: Array, indices: Sequence[Array | None], values: Array, accumulate: bool = False) -> Array:
    where = index_tuple(indices)
    if not accumulate:
        result = self.copy()
        result[where] = to(values, self.dtype)
        return result
    result = to(self, compute_dtype(self.dtype)).copy()
    np.add.at(result, where, to(values, result.dtype))
    return to(result, self.dtype)


@op("aten.index_add.default")
def index_add(self: Array, dim: int, index: Array, source: Array, *, alpha: Scalar = 1) -> Array:
    result = with_dims(to(self, compute_dtype(self.dtype))).copy()
    added = with_dims(to(source, result.dtype) * to(alpha, result.dtype))
    np.add.at(result, along(axis_of(dim, self.ndim), with_dims(index)), added)
    return to(result.reshape(self.shape), self.dtype)


@op("aten.index_copy.default")
def index_copy(self: Array, dim: int, index: Array, source: Array) -> Array:
    result = with_dims(self).copy()
    result[along(axis_of(dim, self.ndim), with_dims(index))] = with_dims(source)
    return result.reshape(self.shape)
