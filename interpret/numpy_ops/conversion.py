"""Copies and changes of dtype."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from etir.interpret.numpy_ops.dtype import Array, as_dtype, to
from etir.interpret.numpy_ops.registry import op


def converted_copy(self: Array, dtype: DTypeLike | None) -> Array:
    """A new array with the values of ``self``, in ``dtype`` when that is given."""
    result = to(self, as_dtype(dtype, self.dtype))
    return result.copy() if result is self else result


@op("aten._to_copy.default")
def to_copy(self: Array, *, dtype: DTypeLike | None = None) -> Array:
    return converted_copy(self, dtype)


@op("dim_order_ops._to_dim_order_copy.default")
def to_dim_order_copy(self: Array, *, dtype: DTypeLike | None = None, dim_order: Sequence[int] | None = None) -> Array:
    return converted_copy(self, dtype)


@op("dim_order_ops._clone_dim_order.default")
def clone_dim_order(self: Array, *, dim_order: Sequence[int] | None = None) -> Array:
    return self.copy()


@op("aten.clone.default", "aten.lift_fresh_copy.default", "et_copy._d2h_copy.default", "et_copy._h2d_copy.default")
def clone(self: Array) -> Array:
    return self.copy()


@op("aten.to.dtype")
def to_dtype(
    self: Array, dtype: DTypeLike, non_blocking: bool = False, copy: bool = False, memory_format: str | None = None
) -> Array:
    return converted_copy(self, dtype) if copy else to(self, np.dtype(dtype))


@op("aten.to.dtype_layout")
def to_dtype_layout(self: Array, *, dtype: DTypeLike | None = None, copy: bool = False) -> Array:
    return converted_copy(self, dtype) if copy else to(self, as_dtype(dtype, self.dtype))


@op("aten.to.device")
def to_device(
    self: Array,
    device: object,
    dtype: DTypeLike,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: str | None = None,
) -> Array:
    return to_dtype(self, dtype, copy=copy)


@op("aten.to.other")
def to_other(
    self: Array, other: Array, non_blocking: bool = False, copy: bool = False, memory_format: str | None = None
) -> Array:
    return to_dtype(self, other.dtype, copy=copy)


@op("aten.type_as.default")
def type_as(self: Array, other: Array) -> Array:
    return to(self, other.dtype)


@op("aten.copy.default")
def copy(self: Array, src: Array, non_blocking: bool = False) -> Array:
    return np.broadcast_to(converted_copy(src, self.dtype), self.shape).copy()


@op("quantized_decomposed.convert_element_type.no_fuse")
def convert_element_type(input: Array, dtype: DTypeLike) -> Array:
    return to(input, np.dtype(dtype))


@op("aten.resize.default")
def resize(self: Array, size: Sequence[int]) -> Array:
    """The first elements of ``self`` in row-major order, and zeros where there are not enough."""
    result = np.zeros(tuple(size), self.dtype)
    count = min(result.size, self.size)
    result.reshape(-1)[:count] = self.reshape(-1)[:count]
    return result
