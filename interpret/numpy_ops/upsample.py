"""Resizing of images. Linear and cubic interpolation are one small matrix per spatial dimension, nearest is an index.

Source positions are computed in float32 for anything but float64, as torch does, because the rounding decides which
pixel is nearest. The cubic kernel has a = -0.75, that of the anti-aliased form a = -0.5 (R. Keys, "Cubic convolution
interpolation for digital image processing", 1981).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from etir.interpret.numpy_ops.dtype import FLOAT32, FLOAT64, Array, Dtype, compute_dtype, is_integral, to
from etir.interpret.numpy_ops.pooling import apply_along
from etir.interpret.numpy_ops.registry import op

Mode = Literal["linear", "cubic", "linear_aa", "cubic_aa"]
Scales = Sequence[float | None]


def _sizes(x: Array, output_size: Sequence[int] | None, scale_factors: Sequence[float] | None) -> list[int]:
    spatial = x.shape[2:]
    if (output_size is None) == (scale_factors is None):
        raise ValueError("exactly one of output_size and scale_factors has to be given")
    if output_size is not None:
        return list(output_size)
    return [int(n * s) for n, s in zip(spatial, scale_factors or (), strict=True)]


def _scales(scale_factors: Sequence[float] | None, rank: int) -> Scales:
    return [None] * rank if scale_factors is None else list(scale_factors)


def _step(size: int, out: int, scale: float | None, align_corners: bool, dtype: Dtype) -> Array:
    """The distance in the input between two neighbors of the output."""
    if align_corners:
        return np.asarray((size - 1) / (out - 1) if out > 1 else 0, dtype)
    return np.asarray(1 / scale if scale is not None and scale > 0 else size / out, dtype)


def _cubic(distance: Array, a: float) -> Array:
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def interpolation_matrix(
    size: int, out: int, scale: float | None, align_corners: bool, mode: Mode, dtype: Dtype
) -> Array:
    """The matrix (out, size) that interpolates a line of ``size`` pixels to ``out``, with edges repeated."""
    step = _step(size, out, scale, align_corners, dtype)
    if mode.endswith("_aa"):
        return _antialias_matrix(size, out, float(step), mode)
    target = np.arange(out).astype(dtype)
    source = step * target if align_corners else step * (target + dtype.type(0.5)) - dtype.type(0.5)
    if mode == "linear":
        source = np.maximum(source, 0)
        first = np.minimum(np.floor(source), size - 1)
        fraction = np.clip(source - first, 0, 1)
        neighbors = [(0, 1 - fraction), (1, fraction)]
    else:
        first = np.floor(source)
        fraction = source - first
        neighbors = [(i, _cubic(np.abs(i - fraction), -0.75)) for i in range(-1, 3)]
    matrix = np.zeros((out, size), FLOAT64)
    for offset, weight in neighbors:
        np.add.at(matrix, (np.arange(out), np.clip(first.astype(np.int64) + offset, 0, size - 1)), weight)
    return matrix


def _antialias_matrix(size: int, out: int, step: float, mode: Mode) -> Array:
    """Interpolation whose kernel widens with ``step`` when an image shrinks, and is normalized at the edges."""
    width = 2 if mode == "linear_aa" else 4
    stretch = max(step, 1.0)
    support = width / 2 * stretch
    matrix = np.zeros((out, size), FLOAT64)
    for row in range(out):
        center = step * (row + 0.5)
        first = max(int(center - support + 0.5), 0)
        last = min(int(center + support + 0.5), size)
        distance = np.abs((np.arange(first, last) - center + 0.5) / stretch)
        weight = np.maximum(1 - distance, 0) if mode == "linear_aa" else _cubic(distance, -0.5)
        matrix[row, first:last] = weight / weight.sum()
    return matrix


def _interpolate(x: Array, sizes: Sequence[int], scales: Scales, align_corners: bool, mode: Mode) -> Array:
    _check(x, sizes)
    positions = FLOAT64 if x.dtype == FLOAT64 else FLOAT32
    result = to(x, FLOAT64)
    for axis, (out, scale) in enumerate(zip(sizes, scales, strict=True), start=2):
        matrix = interpolation_matrix(x.shape[axis], out, scale, align_corners, mode, positions)
        result = apply_along(result, matrix, axis)
    if is_integral(x.dtype):
        limits = np.iinfo(x.dtype)
        result = np.clip(np.floor(result + 0.5), limits.min, limits.max)
    return to(result, x.dtype)


def _check(x: Array, sizes: Sequence[int]) -> None:
    if x.ndim != len(sizes) + 2:
        raise ValueError(f"needs {len(sizes) + 2} dimensions, the tensor has {x.ndim}")
    if min((*sizes, *x.shape[2:])) < 1:
        raise ValueError(f"sizes have to be positive: input {list(x.shape)}, output {list(sizes)}")


def _nearest(x: Array, sizes: Sequence[int], scales: Scales, *, exact: bool) -> Array:
    _check(x, sizes)
    positions = compute_dtype(x.dtype) if x.dtype == FLOAT64 else FLOAT32
    for axis, (out, scale) in enumerate(zip(sizes, scales, strict=True), start=2):
        step = _step(x.shape[axis], out, scale, False, positions)
        target = np.arange(out).astype(positions)
        source = np.floor((target + positions.type(0.5)) * step if exact else target * step)
        x = np.take(x, np.minimum(source.astype(np.int64), x.shape[axis] - 1), axis)
    return x


def _register_nearest() -> None:
    for name, exact in (("upsample_nearest", False), ("_upsample_nearest_exact", True)):
        for rank, function in ((1, _nearest1d), (2, _nearest2d), (3, _nearest3d)):
            op(f"aten.{name}{rank}d.default")(function(exact))
            op(f"aten.{name}{rank}d.vec")(_nearest_vec(rank, exact))


def _nearest_vec(rank: int, exact: bool) -> Callable[..., Array]:
    def apply(input: Array, output_size: Sequence[int] | None, scale_factors: Sequence[float] | None) -> Array:
        return _nearest(input, _sizes(input, output_size, scale_factors), _scales(scale_factors, rank), exact=exact)

    return apply


def _nearest1d(exact: bool) -> Callable[..., Array]:
    def apply(self: Array, output_size: Sequence[int], scales: float | None = None) -> Array:
        return _nearest(self, output_size, [scales], exact=exact)

    return apply


def _nearest2d(exact: bool) -> Callable[..., Array]:
    def apply(
        self: Array, output_size: Sequence[int], scales_h: float | None = None, scales_w: float | None = None
    ) -> Array:
        return _nearest(self, output_size, [scales_h, scales_w], exact=exact)

    return apply


def _nearest3d(exact: bool) -> Callable[..., Array]:
    def apply(
        self: Array,
        output_size: Sequence[int],
        scales_d: float | None = None,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> Array:
        return _nearest(self, output_size, [scales_d, scales_h, scales_w], exact=exact)

    return apply


_register_nearest()


def _vec(rank: int, mode: Mode) -> Callable[..., Array]:
    def apply(
        input: Array, output_size: Sequence[int] | None, align_corners: bool, scale_factors: Sequence[float] | None
    ) -> Array:
        sizes = _sizes(input, output_size, scale_factors)
        return _interpolate(input, sizes, _scales(scale_factors, rank), align_corners, mode)

    return apply


def _register_vec() -> None:
    table: dict[str, tuple[int, Mode]] = {
        "upsample_linear1d": (1, "linear"),
        "upsample_bilinear2d": (2, "linear"),
        "upsample_trilinear3d": (3, "linear"),
        "upsample_bicubic2d": (2, "cubic"),
        "_upsample_bilinear2d_aa": (2, "linear_aa"),
        "_upsample_bicubic2d_aa": (2, "cubic_aa"),
    }
    for name, (rank, mode) in table.items():
        op(f"aten.{name}.vec")(_vec(rank, mode))


_register_vec()


@op("aten.upsample_linear1d.default")
def upsample_linear1d(
    self: Array, output_size: Sequence[int], align_corners: bool, scales: float | None = None
) -> Array:
    return _interpolate(self, output_size, [scales], align_corners, "linear")


def _planar(mode: Mode) -> Callable[..., Array]:
    def apply(
        self: Array,
        output_size: Sequence[int],
        align_corners: bool,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> Array:
        return _interpolate(self, output_size, [scales_h, scales_w], align_corners, mode)

    return apply


op("aten.upsample_bilinear2d.default")(_planar("linear"))
op("aten.upsample_bicubic2d.default")(_planar("cubic"))
op("aten._upsample_bilinear2d_aa.default")(_planar("linear_aa"))
op("aten._upsample_bicubic2d_aa.default")(_planar("cubic_aa"))


@op("aten.upsample_trilinear3d.default")
def upsample_trilinear3d(
    self: Array,
    output_size: Sequence[int],
    align_corners: bool,
    scales_d: float | None = None,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Array:
    return _interpolate(self, output_size, [scales_d, scales_h, scales_w], align_corners, "linear")
