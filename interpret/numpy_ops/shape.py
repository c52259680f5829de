"""Views: operators that only reorder, split or select, and their ``*_copy`` forms.

A result may share memory with the argument (none of these operators writes), except in the ``*_copy`` forms. Strides
are NumPy's business; where torch shows them to a program, ``as_strided_copy`` and ``view.dtype`` take the tensor's
elements in row-major order, and ``as_strided`` takes only tensors that are all of their storage in that order.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided as strided_view
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import DTypeLike

from etir.interpret.numpy_ops.arguments import along, axes_of, axis_of
from etir.interpret.numpy_ops.dtype import FLOAT16, Array, complex_dtype, is_complex, real_dtype
from etir.interpret.numpy_ops.elementwise import conj_physical
from etir.interpret.numpy_ops.registry import op

View = TypeVar("View", bound=Callable[..., Any])


def view_op(*names: str) -> Callable[[View], View]:
    """Register a view under ``names``, and the ``_copy`` form of each of them with memory of its own."""

    def register(function: View) -> View:
        @functools.wraps(function)
        def copying(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            return [r.copy() for r in result] if isinstance(result, list) else np.array(result)

        op(*names)(function)
        op(*(_copy_name(name) for name in names))(copying)
        return function

    return register


def _copy_name(name: str) -> str:
    namespace, operator, overload = name.split(".")
    return f"{namespace}.{operator}_copy.{overload}"


@view_op("aten.view.default")
def view(self: Array, size: Sequence[int]) -> Array:
    return self.reshape(tuple(size))


@op("aten._unsafe_view.default", "aten._reshape_copy.default")
def unsafe_view(self: Array, size: Sequence[int]) -> Array:
    return self.reshape(tuple(size)).copy()


@op("aten.reshape.default")
def reshape(self: Array, shape: Sequence[int]) -> Array:
    return self.reshape(tuple(shape))


@op("aten.view_as.default", "aten.reshape_as.default")
def view_as(self: Array, other: Array) -> Array:
    return self.reshape(other.shape)


@view_op("aten.view.dtype")
def view_dtype(self: Array, dtype: DTypeLike) -> Array:
    if self.dtype.itemsize == np.dtype(dtype).itemsize:
        return np.ascontiguousarray(self).view(dtype).reshape(self.shape)
    if self.ndim == 0:
        raise ValueError(f"a tensor without dimensions cannot be viewed as {np.dtype(dtype)}, whose size differs")
    return np.ascontiguousarray(self).view(dtype)


@view_op("aten.alias.default", "aten.detach.default")
def alias(self: Array) -> Array:
    return self


@op(
    "aten.contiguous.default",
    "aten.lift.default",
    "aten.lift_fresh.default",
    "aten.resolve_conj.default",
    "aten.resolve_neg.default",
)
def identity(self: Array) -> Array:
    return self


@op("aten.flatten.using_ints")
def flatten(self: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    first, last = axis_of(start_dim, self.ndim), axis_of(end_dim, self.ndim)
    if first > last:
        raise ValueError(f"start_dim {start_dim} comes after end_dim {end_dim}")
    middle = math.prod(self.shape[first : last + 1])
    return self.reshape((*self.shape[:first], middle, *self.shape[last + 1 :]))


@op("aten.ravel.default")
def ravel(self: Array) -> Array:
    return self.reshape(-1)


@op("aten.unflatten.int")
def unflatten(self: Array, dim: int, sizes: Sequence[int]) -> Array:
    axis = axis_of(dim, self.ndim)
    return self.reshape(self.shape[:axis] + _without_minus_one(sizes, self.shape[axis]) + self.shape[axis + 1 :])


def _without_minus_one(sizes: Sequence[int], size: int) -> tuple[int, ...]:
    known = math.prod(s for s in sizes if s != -1)
    return tuple(size // known if s == -1 and known else s for s in sizes)


@view_op("aten.permute.default")
def permute(self: Array, dims: Sequence[int]) -> Array:
    return np.transpose(self, tuple(dims))


@view_op("aten.transpose.int")
def transpose(self: Array, dim0: int, dim1: int) -> Array:
    if self.ndim == 0:
        return self
    return np.swapaxes(self, axis_of(dim0, self.ndim), axis_of(dim1, self.ndim))


@op("aten.swapaxes.default")
def swapaxes(self: Array, axis0: int, axis1: int) -> Array:
    return transpose(self, axis0, axis1)


@op("aten.swapdims.default")
def swapdims(self: Array, dim0: int, dim1: int) -> Array:
    return transpose(self, dim0, dim1)


@view_op("aten.t.default")
def t(self: Array) -> Array:
    if self.ndim > 2:
        raise ValueError(f"t takes at most two dimensions, the tensor has {self.ndim}")
    return self.T


@op("aten.numpy_T.default")
def reverse_dims(self: Array) -> Array:
    return self.T


@op("aten.mT.default")
def matrix_transpose(self: Array) -> Array:
    return np.swapaxes(self, -2, -1)


@op("aten.adjoint.default", "aten.mH.default")
def adjoint(self: Array) -> Array:
    return conj_physical(np.swapaxes(self, -2, -1))


@op("aten.movedim.intlist", "aten.moveaxis.intlist", "aten.movedim.int", "aten.moveaxis.int")
def movedim(self: Array, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    return np.moveaxis(self, source, destination) if self.ndim else self


@view_op("aten.squeeze.default")
def squeeze(self: Array) -> Array:
    return np.squeeze(self)


@view_op("aten.squeeze.dim", "aten.squeeze.dims")
def squeeze_dims(self: Array, dim: int | Sequence[int]) -> Array:
    axes = () if not isinstance(dim, int) and len(dim) == 0 else axes_of(dim, self.ndim)
    return np.squeeze(self, tuple(a for a in axes if self.shape[a] == 1))


@view_op("aten.unsqueeze.default")
def unsqueeze(self: Array, dim: int) -> Array:
    return np.expand_dims(self, axis_of(dim, self.ndim + 1))


@view_op("aten.expand.default")
def expand(self: Array, size: Sequence[int], *, implicit: bool = False) -> Array:
    if len(size) < self.ndim:
        raise ValueError(f"{list(size)} has fewer dimensions than the tensor, which has {self.ndim}")
    own = (1,) * (len(size) - self.ndim) + self.shape
    return np.broadcast_to(self, tuple(o if s == -1 else s for s, o in zip(size, own, strict=True)))


@op("aten.expand_as.default")
def expand_as(self: Array, other: Array) -> Array:
    return expand(self, other.shape)


@op("aten.broadcast_to.default")
def broadcast_to(self: Array, size: Sequence[int]) -> Array:
    return expand(self, size)


@op("aten.broadcast_tensors.default")
def broadcast_tensors(tensors: Sequence[Array]) -> list[Array]:
    return list(np.broadcast_arrays(*tensors))


@view_op("aten.slice.Tensor")
def slice_tensor(self: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Array:
    if step < 1:
        raise ValueError(f"step is {step}, it has to be positive")
    if self.ndim == 0:
        raise ValueError("a tensor without dimensions cannot be sliced")
    return self[along(axis_of(dim, self.ndim), slice(start, end, step))]


@view_op("aten.select.int")
def select(self: Array, dim: int, index: int) -> Array:
    if self.ndim == 0:
        raise ValueError("a tensor without dimensions has nothing to select")
    return self[along(axis_of(dim, self.ndim), index)]


@op("aten.narrow.default", "aten.narrow_copy.default")
def narrow(self: Array, dim: int, start: int, length: int) -> Array:
    axis = axis_of(dim, self.ndim)
    first = start + self.shape[axis] if start < 0 else start
    if length < 0 or not 0 <= first <= self.shape[axis] - length:
        raise IndexError(f"{length} elements from {start} do not lie in dimension {dim} of size {self.shape[axis]}")
    return self[along(axis, slice(first, first + length))].copy()


def pieces(x: Array, sizes: Sequence[int], dim: int) -> list[Array]:
    """``x`` cut along ``dim`` into ``sizes``, which have to add up to the whole."""
    axis = axis_of(dim, x.ndim)
    if x.ndim == 0 or sum(sizes) != x.shape[axis]:
        raise ValueError(f"sizes {list(sizes)} do not add up to dimension {dim} of {list(x.shape)}")
    ends = np.cumsum([0, *sizes]).tolist()
    return [x[along(axis, slice(a, b))] for a, b in itertools.pairwise(ends)]


@view_op("aten.split_with_sizes.default")
def split_with_sizes(self: Array, split_sizes: Sequence[int], dim: int = 0) -> list[Array]:
    return pieces(self, split_sizes, dim)


@op("aten.unsafe_split_with_sizes.default")
def unsafe_split_with_sizes(self: Array, split_sizes: Sequence[int], dim: int = 0) -> list[Array]:
    return [piece.copy() for piece in pieces(self, split_sizes, dim)]


@op("aten.split.sizes")
def split_sizes(self: Array, split_size: Sequence[int], dim: int = 0) -> list[Array]:
    return pieces(self, split_size, dim)


@view_op("aten.split.Tensor")
def split(self: Array, split_size: int, dim: int = 0) -> list[Array]:
    size = self.shape[axis_of(dim, self.ndim)] if self.ndim else 1
    if split_size < 0 or (split_size == 0 and size):
        raise ValueError(f"split_size is {split_size} for a dimension of {size}")
    count = max(-(-size // split_size), 1) if split_size else 1
    return pieces(self, [min(split_size, size - i * split_size) for i in range(count)] if split_size else [0], dim)


@op("aten.unsafe_split.Tensor")
def unsafe_split(self: Array, split_size: int, dim: int = 0) -> list[Array]:
    return [piece.copy() for piece in split(self, split_size, dim)]


@op("aten.chunk.default", "aten.unsafe_chunk.default")
def chunk(self: Array, chunks: int, dim: int = 0) -> list[Array]:
    if chunks < 1:
        raise ValueError(f"chunks is {chunks}, it has to be positive")
    size = self.shape[axis_of(dim, self.ndim)] if self.ndim else 1
    return split(self, -(-size // chunks), dim) if size else pieces(self, [0] * chunks, dim)


@op("aten.tensor_split.sections")
def tensor_split(self: Array, sections: int, dim: int = 0) -> list[Array]:
    return np.array_split(self, sections, axis_of(dim, self.ndim))


@op("aten.tensor_split.indices")
def tensor_split_indices(self: Array, indices: Sequence[int], dim: int = 0) -> list[Array]:
    return np.array_split(self, list(indices), axis_of(dim, self.ndim))


@view_op("aten.unbind.int")
def unbind(self: Array, dim: int = 0) -> list[Array]:
    axis = axis_of(dim, self.ndim)
    return [np.asarray(self[along(axis, i)]) for i in range(self.shape[axis])]


@view_op("aten.diagonal.default")
def diagonal(self: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    return np.diagonal(self, offset, axis_of(dim1, self.ndim), axis_of(dim2, self.ndim))


@view_op("aten.unfold.default")
def unfold(self: Array, dimension: int, size: int, step: int) -> Array:
    axis = axis_of(dimension, self.ndim)
    if self.ndim == 0:
        return self.reshape(1)[:size]
    if size == 0:
        count = self.shape[axis] // step + 1
        return np.empty((*self.shape[:axis], count, *self.shape[axis + 1 :], 0), self.dtype)
    return sliding_window_view(self, size, axis)[along(axis, slice(None, None, step))]


@op("aten.as_strided.default")
def as_strided(self: Array, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Array:
    storage = self
    while isinstance(storage.base, np.ndarray):
        storage = storage.base
    if storage.nbytes != self.nbytes or not self.flags.c_contiguous:
        raise ValueError("it reads the storage under a view, which an array does not show: run functionalize first")
    return _row_major_strided(self, size, stride, storage_offset)


@op("aten.as_strided_copy.default")
def as_strided_copy(
    self: Array, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Array:
    return np.array(_row_major_strided(self, size, stride, storage_offset))


@op("aten.as_strided_scatter.default")
def as_strided_scatter(
    self: Array, src: Array, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Array:
    result = np.array(self, order="C")
    places = _row_major_strided(np.arange(result.size).reshape(self.shape), size, stride, storage_offset)
    result.reshape(-1)[places] = src
    return result


def _row_major_strided(self: Array, size: Sequence[int], stride: Sequence[int], storage_offset: int | None) -> Array:
    storage = np.ascontiguousarray(self).reshape(-1)
    first = storage_offset or 0
    last = first + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if 0 in size:
        return np.empty(tuple(size), self.dtype)
    if first < 0 or min(stride, default=0) < 0 or last >= storage.size:
        raise IndexError(f"elements {first} to {last} do not all lie in the {storage.size} of the tensor")
    return strided_view(storage[first:], tuple(size), [s * storage.itemsize for s in stride], writeable=False)


@view_op("aten.view_as_real.default")
def view_as_real(self: Array) -> Array:
    if not is_complex(self.dtype):
        raise ValueError(f"the tensor is {self.dtype}, not complex")
    return np.ascontiguousarray(self)[..., None].view(real_dtype(self.dtype)).reshape(*self.shape, 2)


@view_op("aten.view_as_complex.default")
def view_as_complex(self: Array) -> Array:
    if self.ndim == 0 or self.shape[-1] != 2:
        raise ValueError("the last dimension has to have size 2")
    if self.dtype == FLOAT16:
        raise ValueError("there is no complex dtype of two float16")
    return np.ascontiguousarray(self).view(complex_dtype(self.dtype))[..., 0]


@op("aten.real.default")
def real(self: Array) -> Array:
    return np.real(self)


@op("aten.imag.default")
def imag(self: Array) -> Array:
    if not is_complex(self.dtype):
        raise ValueError(f"the tensor is {self.dtype}, not complex")
    return np.imag(self)
