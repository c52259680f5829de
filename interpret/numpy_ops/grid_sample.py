"""Sampling an image at positions given by a grid, and the affine grid that usually feeds it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from etir.interpret.numpy_ops.dtype import Array, compute_dtype, to
from etir.interpret.numpy_ops.registry import op

_BILINEAR, _NEAREST, _BICUBIC = 0, 1, 2
_ZEROS, _BORDER, _REFLECTION = 0, 1, 2
_CUBIC = -0.75


def _pixel(position: Array, size: int, align_corners: bool) -> Array:
    """Positions in [-1, 1] as pixel coordinates."""
    if align_corners:
        return (position + 1) / 2 * (size - 1)
    return ((position + 1) * size - 1) / 2


def _inside(x: Array, size: int, padding_mode: int, align_corners: bool) -> Array:
    """Coordinates brought into the image by clipping or reflection, unless outside is to be zero."""
    if padding_mode == _ZEROS:
        return x
    if padding_mode == _REFLECTION:
        low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
        if span == 0:
            return np.zeros_like(x)
        distance = np.abs(x - low)
        rest = np.fmod(distance, span)
        x = np.where(np.floor(distance / span) % 2 == 0, rest + low, span - rest + low)
    return np.clip(x, 0, size - 1)


def _read(image: Array, places: Sequence[Array]) -> Array:
    """The pixels of an image (C, *spatial) at whole coordinates, zero where they lie outside."""
    valid = np.ones(places[0].shape, np.bool_)
    index: list[Array] = []
    for place, size in zip(places, image.shape[1:], strict=True):
        # Not-a-number and infinite coordinates fail the comparison and read as outside.
        within = (place >= 0) & (place <= size - 1)
        valid &= within
        index.append(np.where(within, place, 0).astype(np.int64))
    return np.where(valid, image[(slice(None), *index)], 0).astype(image.dtype)


def _linear(image: Array, coordinates: Sequence[Array]) -> Array:
    result = np.zeros((image.shape[0], *coordinates[0].shape), image.dtype)
    corners = [np.floor(c) for c in coordinates]
    for offsets in itertools.product((0, 1), repeat=len(corners)):
        weight = np.ones(coordinates[0].shape, image.dtype)
        for offset, corner, coordinate in zip(offsets, corners, coordinates, strict=True):
            weight = weight * (coordinate - corner if offset else corner + 1 - coordinate)
        pixels = _read(image, [c + o for c, o in zip(corners, offsets, strict=True)])
        result += pixels * weight
    return result


def _cubic_weights(fraction: Array) -> list[Array]:
    weights: list[Array] = []
    for offset in range(-1, 3):
        d = np.abs(offset - fraction)
        near = ((_CUBIC + 2) * d - (_CUBIC + 3)) * d * d + 1
        far = ((d - 5) * d + 8) * d * _CUBIC - 4 * _CUBIC
        weights.append(np.where(d <= 1, near, far))
    return weights


def _bicubic(image: Array, coordinates: Sequence[Array], padding_mode: int, align_corners: bool) -> Array:
    """The 4 x 4 neighbors are brought into the image one by one."""
    corners = [np.floor(c) for c in coordinates]
    rows, columns = (_cubic_weights(c - k) for c, k in zip(coordinates, corners, strict=True))
    result = np.zeros((image.shape[0], *coordinates[0].shape), image.dtype)
    for i, j in itertools.product(range(4), repeat=2):
        places = [
            _inside(corner + offset - 1, size, padding_mode, align_corners)
            for corner, offset, size in zip(corners, (i, j), image.shape[1:], strict=True)
        ]
        result += _read(image, places) * rows[i] * columns[j]
    return result


def _sample(input: Array, grid: Array, interpolation: int, padding_mode: int, align_corners: bool) -> Array:
    if input.ndim != grid.ndim or grid.shape[-1] != input.ndim - 2 or input.shape[0] != grid.shape[0]:
        raise ValueError(f"a grid {list(grid.shape)} does not fit an input {list(input.shape)}")
    if interpolation not in (_BILINEAR, _NEAREST, _BICUBIC) or padding_mode not in (_ZEROS, _BORDER, _REFLECTION):
        raise ValueError(f"interpolation mode {interpolation} with padding mode {padding_mode} does not exist")
    dtype = compute_dtype(input.dtype)
    images, positions = to(input, dtype), to(grid, dtype)
    result = np.empty((*input.shape[:2], *grid.shape[1:-1]), dtype)
    for batch, image in enumerate(images):
        # The last number of a grid point is the coordinate along the last dimension.
        raw = [_pixel(positions[batch, ..., -1 - a], n, align_corners) for a, n in enumerate(image.shape[1:])]
        if interpolation == _BICUBIC:
            result[batch] = _bicubic(image, raw, padding_mode, align_corners)
            continue
        kept = [_inside(c, n, padding_mode, align_corners) for c, n in zip(raw, image.shape[1:], strict=True)]
        result[batch] = _read(image, [np.rint(c) for c in kept]) if interpolation == _NEAREST else _linear(image, kept)
    return to(result, input.dtype)


@op("aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default", "aten.grid_sampler.default")
def grid_sampler(input: Array, grid: Array, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Array:
    return _sample(input, grid, interpolation_mode, padding_mode, align_corners)


@op("aten.affine_grid_generator.default")
def affine_grid_generator(theta: Array, size: Sequence[int], align_corners: bool) -> Array:
    """Grid points (N, *spatial, rank) of an image of ``size``, moved by the matrices ``theta`` (N, rank, rank + 1)."""
    dtype = compute_dtype(theta.dtype)
    lines = []
    for n in size[2:]:
        line = np.linspace(-1, 1, n) if n > 1 else np.zeros(n)
        lines.append(line if align_corners or n <= 1 else line * (n - 1) / n)
    coordinates = np.meshgrid(*lines, indexing="ij")[::-1]
    points = np.stack([*coordinates, np.ones_like(coordinates[0])], -1).astype(dtype)
    grid = np.matmul(points.reshape(1, -1, points.shape[-1]), to(theta, dtype).swapaxes(1, 2))
    return to(grid.reshape(size[0], *size[2:], -1), theta.dtype)
