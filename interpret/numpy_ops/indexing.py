"""Reading elements at positions given by tensors, and finding positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from etir.interpret.numpy_ops.arguments import along, axes_of, axis_of, with_dims
from etir.interpret.numpy_ops.dtype import BOOL, INT32, INT64, Array, Operand, Scalar, to
from etir.interpret.numpy_ops.registry import op


def index_tuple(indices: Sequence[Array | None]) -> tuple[Any, ...]:
    """A ``Tensor?[]`` index as NumPy takes it: ``None`` is a whole dimension, uint8 is a mask as bool is."""
    return tuple(
        slice(None) if index is None else to(index, BOOL) if index.dtype == np.uint8 else index for index in indices
    )


@op("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(self: Array, indices: Sequence[Array | None]) -> Array:
    return np.array(self[index_tuple(indices)])


@op("aten.index_select.default")
def index_select(self: Array, dim: int, index: Array) -> Array:
    result = np.take(with_dims(self), with_dims(index), axis_of(dim, self.ndim))
    return result if self.ndim else result.reshape(())


@op("aten.take.default")
def take(self: Array, index: Array) -> Array:
    return np.take(self.reshape(-1), index)


@op("aten.gather.default")
def gather(self: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Array:
    axis = axis_of(dim, self.ndim)
    source, positions = with_dims(self), with_dims(index)
    if index.size == 0:
        return np.empty(index.shape, self.dtype)
    if positions.ndim != source.ndim:
        raise ValueError(f"index has {index.ndim} dimensions, the tensor {self.ndim}")
    covered = tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(positions.shape))
    return np.take_along_axis(source[covered], to(positions, INT64), axis).reshape(index.shape)


@op("aten.take_along_dim.default")
def take_along_dim(self: Array, indices: Array, dim: int | None = None) -> Array:
    if dim is None:
        return np.take_along_axis(self.reshape(-1), indices.reshape(-1), 0)
    return np.take_along_axis(self, indices, axis_of(dim, self.ndim))


@op("aten.masked_select.default")
def masked_select(self: Array, mask: Array) -> Array:
    values, chosen = np.broadcast_arrays(self, mask)
    return values[chosen]


@op("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(self: Array, mask: Array, value: Operand) -> Array:
    return np.where(to(mask, BOOL), to(value, self.dtype), self)


@op("aten.masked_scatter.default")
def masked_scatter(self: Array, mask: Array, source: Array) -> Array:
    values, chosen = np.broadcast_arrays(self, to(mask, BOOL))
    result = values.copy()
    count = int(chosen.sum())
    if count > source.size:
        raise ValueError(f"mask asks for {count} values, source has {source.size}")
    result[chosen] = source.reshape(-1)[:count]
    return result


@op("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def index_fill(self: Array, dim: int, index: Array, value: Scalar | Array) -> Array:
    result = with_dims(self).copy()
    result[along(axis_of(dim, self.ndim), with_dims(index))] = to(value, self.dtype)
    return result.reshape(self.shape)


@op("aten.nonzero.default", "aten.argwhere.default")
def nonzero(self: Array) -> Array:
    return to(np.argwhere(self), INT64)


@op("aten.nonzero_numpy.default")
def nonzero_per_dim(self: Array) -> list[Array]:
    return [to(positions, INT64) for positions in np.nonzero(with_dims(self))]


@op("aten.where.default")
def where_true(condition: Array) -> list[Array]:
    return nonzero_per_dim(condition)


@op("aten.count_nonzero.dim_IntList")
def count_nonzero_dims(self: Array, dim: Sequence[int]) -> Array:
    return np.asarray(np.count_nonzero(self, axes_of(dim, self.ndim)), INT64)


@op("aten.count_nonzero.default")
def count_nonzero(self: Array, dim: int | None = None) -> Array:
    return np.asarray(np.count_nonzero(self, None if dim is None else axis_of(dim, self.ndim)), INT64)


@op("aten.bucketize.Tensor", "aten.bucketize.Scalar")
def bucketize(self: Operand, boundaries: Array, *, out_int32: bool = False, right: bool = False) -> Array:
    return to(np.searchsorted(boundaries, self, "right" if right else "left"), INT32 if out_int32 else INT64)


@op("aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def searchsorted(
    sorted_sequence: Array,
    self: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Array | None = None,
) -> Array:
    """One sequence for all values, or a row of values for every row of sequences."""
    edge = "right" if right or side == "right" else "left"
    values = np.asarray(self)
    if sorter is not None:
        sorted_sequence = np.take_along_axis(sorted_sequence, sorter, -1)
    if sorted_sequence.ndim == 1:
        found = np.searchsorted(sorted_sequence, values, edge)
    else:
        rows = zip(
            sorted_sequence.reshape(-1, sorted_sequence.shape[-1]), values.reshape(-1, values.shape[-1]), strict=True
        )
        found = np.array([np.searchsorted(s, v, edge) for s, v in rows]).reshape(values.shape)
    return to(np.asarray(found), INT32 if out_int32 else INT64)
