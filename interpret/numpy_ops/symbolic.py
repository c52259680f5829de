"""What a program asks of a tensor as a number, and the assertions that ``torch.export`` leaves in a program.

Results are Python scalars. Assertions return ``None`` and raise when they do not hold.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from etir.interpret.numpy_ops.arguments import axis_of
from etir.interpret.numpy_ops.dtype import Array, Scalar
from etir.interpret.numpy_ops.registry import op


@op("aten._local_scalar_dense.default", "aten.item.default")
def item(self: Array) -> Scalar:
    if self.size != 1:
        raise ValueError(f"a tensor of {self.size} elements is not a number")
    return self.reshape(()).item()


@op("aten.sym_size.int", "aten.size.int")
def sym_size(self: Array, dim: int) -> int:
    return self.shape[axis_of(dim, self.ndim)]


@op("aten.sym_numel.default", "aten.numel.default")
def sym_numel(self: Array) -> int:
    return self.size


@op("aten.sym_stride.int", "aten.stride.int")
def sym_stride(self: Array, dim: int) -> int:
    return self.strides[axis_of(dim, self.ndim)] // self.itemsize


@op("aten.sym_storage_offset.default")
def sym_storage_offset(self: Array) -> int:
    """How far the first element lies from that of the array that ``self`` is a view of."""
    storage = self
    while isinstance(storage.base, np.ndarray):
        storage = storage.base
    return (self.ctypes.data - storage.ctypes.data) // self.itemsize


@op("aten.sym_is_contiguous.default")
def sym_is_contiguous(self: Array, memory_format: object = 0) -> bool:
    """Whether the elements are in row-major order, or with channels last where the format's name says so."""
    return (np.moveaxis(self, 1, -1) if "channels_last" in str(memory_format) else self).flags.c_contiguous


@op("aten._assert_scalar.default")
def assert_scalar(self: Scalar, assert_msg: str) -> None:
    if not self:
        raise ValueError(f"assertion failed: {assert_msg}")


@op("aten._assert_async.msg")
def assert_async(self: Array, assert_msg: str) -> None:
    assert_scalar(item(self), assert_msg)


@op("aten._assert_tensor_metadata.default")
def assert_tensor_metadata(
    a: Array,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    dtype: np.dtype | None = None,
    *,
    device: str | None = None,
    layout: str | None = None,
) -> None:
    if size is not None and tuple(size) != a.shape:
        raise ValueError(f"the tensor is {list(a.shape)}, the program expects {list(size)}")
    if dtype is not None and dtype != a.dtype:
        raise ValueError(f"the tensor is {a.dtype}, the program expects {dtype}")


@op("aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default")
def sym_constrain_range(size: Scalar, *, min: int | None = None, max: int | None = None) -> None:
    value = size.real
    if (min is not None and value < min) or (max is not None and value > max):
        raise ValueError(f"{value} is outside of the range [{min}, {max}] that the program states")
