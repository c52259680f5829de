"""Joining, repeating and reordering tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from etir.interpret.numpy_ops.arguments import along, axes_of, axis_of
from etir.interpret.numpy_ops.dtype import BOOL, Array, result_type, to
from etir.interpret.numpy_ops.registry import op
from etir.interpret.numpy_ops.shape import diagonal


@op("aten.cat.default", "aten.concat.default", "aten.concatenate.default")
def cat(tensors: Sequence[Array], dim: int = 0) -> Array:
    """Tensors of shape (0,) take no part but in the dtype, a rule that torch keeps for old programs."""
    dtype = result_type(*tensors)
    parts = [to(x, dtype) for x in tensors if x.shape != (0,)]
    if not parts:
        return np.empty(0, dtype)
    return np.concatenate(parts, axis_of(dim, parts[0].ndim))


@op("aten.stack.default")
def stack(tensors: Sequence[Array], dim: int = 0) -> Array:
    dtype = result_type(*tensors)
    return np.stack([to(x, dtype) for x in tensors], axis_of(dim, tensors[0].ndim + 1))


@op("aten.hstack.default")
def hstack(tensors: Sequence[Array]) -> Array:
    parts = [np.atleast_1d(x) for x in tensors]
    return cat(parts, 0 if parts[0].ndim == 1 else 1)


@op("aten.vstack.default", "aten.row_stack.default")
def vstack(tensors: Sequence[Array]) -> Array:
    return cat([np.atleast_2d(x) for x in tensors], 0)


@op("aten.dstack.default")
def dstack(tensors: Sequence[Array]) -> Array:
    return cat([np.atleast_3d(x) for x in tensors], 2)


@op("aten.column_stack.default")
def column_stack(tensors: Sequence[Array]) -> Array:
    return hstack([x.reshape(-1, 1) if x.ndim < 2 else x for x in tensors])


@op("aten.diff.default")
def diff(self: Array, n: int = 1, dim: int = -1, prepend: Array | None = None, append: Array | None = None) -> Array:
    x = cat([part for part in (prepend, self, append) if part is not None], dim)
    axis = axis_of(dim, x.ndim)
    for _ in range(min(n, x.shape[axis])):
        later, earlier = x[along(axis, slice(1, None))], x[along(axis, slice(None, -1))]
        x = later != earlier if x.dtype == BOOL else later - earlier
    return x


@op("aten.repeat.default")
def repeat(self: Array, repeats: Sequence[int]) -> Array:
    if len(repeats) < self.ndim:
        raise ValueError(f"{list(repeats)} has fewer numbers than the tensor has dimensions, {self.ndim}")
    return np.tile(self, tuple(repeats))


@op("aten.tile.default")
def tile(self: Array, dims: Sequence[int]) -> Array:
    return np.tile(self, tuple(dims))


@op("aten.repeat_interleave.self_int", "aten.repeat_interleave.self_Tensor")
def repeat_interleave(
    self: Array, repeats: int | Array, dim: int | None = None, *, output_size: int | None = None
) -> Array:
    return np.repeat(self, repeats, None if dim is None or self.ndim == 0 else axis_of(dim, self.ndim))


@op("aten.repeat_interleave.Tensor")
def repeated_positions(repeats: Array, *, output_size: int | None = None) -> Array:
    return np.repeat(np.arange(repeats.size, dtype=repeats.dtype), repeats)


@op("aten.flip.default")
def flip(self: Array, dims: Sequence[int]) -> Array:
    return np.flip(self, axes_of(dims, self.ndim) if len(dims) else ())


@op("aten.fliplr.default")
def fliplr(self: Array) -> Array:
    return np.flip(self, 1)


@op("aten.flipud.default")
def flipud(self: Array) -> Array:
    return np.flip(self, 0)


@op("aten.rot90.default")
def rot90(self: Array, k: int = 1, dims: Sequence[int] = (0, 1)) -> Array:
    return np.rot90(self, k, (axis_of(dims[0], self.ndim), axis_of(dims[1], self.ndim)))


@op("aten.roll.default")
def roll(self: Array, shifts: int | Sequence[int], dims: int | Sequence[int] = ()) -> Array:
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    dims = [dims] if isinstance(dims, int) else list(dims)
    if not dims:
        return np.roll(self, shifts[0]).reshape(self.shape)
    return np.roll(self, shifts, [axis_of(d, self.ndim) for d in dims]) if self.ndim else self.copy()


@op("aten.meshgrid.default")
def meshgrid(tensors: Sequence[Array]) -> list[Array]:
    return meshgrid_indexing(tensors, indexing="ij")


@op("aten.meshgrid.indexing")
def meshgrid_indexing(tensors: Sequence[Array], *, indexing: str) -> list[Array]:
    if indexing not in ("ij", "xy"):
        raise ValueError(f"indexing is {indexing!r}; it can be 'ij' or 'xy'")
    return list(np.meshgrid(*tensors, indexing=indexing))


@op("aten.diag.default")
def diag(self: Array, diagonal: int = 0) -> Array:
    return np.diag(self, diagonal)


@op("aten.diag_embed.default")
def diag_embed(self: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    rank = self.ndim + 1
    first, second = axis_of(dim1, rank), axis_of(dim2, rank)
    if first == second:
        raise ValueError(f"dim1 and dim2 are both dimension {first}")
    size, line = self.shape[-1] + abs(offset), np.arange(self.shape[-1])
    result = np.zeros((*self.shape[:-1], size, size), self.dtype)
    result[..., line + max(-offset, 0), line + max(offset, 0)] = self
    return np.moveaxis(result, (-2, -1), (first, second))


@op("aten.tril.default")
def tril(self: Array, diagonal: int = 0) -> Array:
    return _triangle(self, lower=True, offset=diagonal)


@op("aten.triu.default")
def triu(self: Array, diagonal: int = 0) -> Array:
    return _triangle(self, lower=False, offset=diagonal)


def _triangle(x: Array, *, lower: bool, offset: int) -> Array:
    if x.ndim < 2:
        raise ValueError(f"needs a matrix, the tensor has {x.ndim} dimensions")
    rows, columns = np.ogrid[: x.shape[-2], : x.shape[-1]]
    return np.where(columns <= rows + offset if lower else columns >= rows + offset, x, np.zeros((), x.dtype))


@op("aten.pixel_shuffle.default")
def pixel_shuffle(self: Array, upscale_factor: int) -> Array:
    *batch, channels, height, width = self.shape
    r = upscale_factor
    blocks = self.reshape(*batch, channels // r**2, r, r, height, width)
    n = len(batch)
    blocks = blocks.transpose(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return blocks.reshape(*batch, channels // r**2, height * r, width * r)


@op("aten.pixel_unshuffle.default")
def pixel_unshuffle(self: Array, downscale_factor: int) -> Array:
    *batch, channels, height, width = self.shape
    r = downscale_factor
    blocks = self.reshape(*batch, channels, height // r, r, width // r, r)
    n = len(batch)
    blocks = blocks.transpose(*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return blocks.reshape(*batch, channels * r**2, height // r, width // r)


@op("aten.channel_shuffle.default", "aten.native_channel_shuffle.default")
def channel_shuffle(self: Array, groups: int) -> Array:
    batch, channels, *rest = self.shape
    return self.reshape(batch, groups, channels // groups, *rest).swapaxes(1, 2).reshape(self.shape)


@op("aten.select_scatter.default")
def select_scatter(self: Array, src: Array, dim: int, index: int) -> Array:
    result = self.copy()
    result[along(axis_of(dim, self.ndim), index)] = _exactly(src, result[along(axis_of(dim, self.ndim), index)])
    return result


@op("aten.slice_scatter.default")
def slice_scatter(
    self: Array, src: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Array:
    result = self.copy()
    part = along(axis_of(dim, self.ndim), slice(start, end, step))
    result[part] = np.broadcast_to(to(src, self.dtype), result[part].shape)
    return result


@op("aten.diagonal_scatter.default")
def diagonal_scatter(self: Array, src: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    result = self.copy()
    target = diagonal(result, offset, dim1, dim2)
    target.flags.writeable = True
    target[...] = _exactly(src, target)
    return result


def _exactly(src: Array, target: Array) -> Array:
    """``src``, which has to have the shape of the part that it replaces."""
    if src.shape != target.shape:
        raise ValueError(f"src is {list(src.shape)}, the part that it replaces is {list(target.shape)}")
    return to(src, target.dtype)


@op("aten.block_diag.default")
def block_diag(tensors: Sequence[Array]) -> Array:
    blocks = [np.atleast_2d(x) for x in tensors]
    result = np.zeros((sum(b.shape[0] for b in blocks), sum(b.shape[1] for b in blocks)), result_type(*tensors))
    row = column = 0
    for block in blocks:
        result[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return result
