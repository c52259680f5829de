"""Resizing of images and grids.

Nearest and bilinear resizing of two dims is core; one and three dims are put in terms of it. Every other
interpolation is linear in each dim on its own: a constant matrix from positions to positions, so that resizing is two
matrix products.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import f32, i64
from etir.dialects.et.layout import Dim, dims_of, tensor_type
from etir.lowering.build.builder import Builder, Operator, dims, element, rank
from etir.lowering.build.sizes import Size, SizeLike
from etir.lowering.decompose_aten.decomposition import decomposition
from etir.lowering.decompose_aten.resampling_dynamic import Axis, cubic, nearest_exact, smooth

Scales = Sequence[float | None]

MAX_WEIGHTS = 1 << 20
"""Largest number of elements of a matrix of interpolation weights; above, tracing takes over."""


# --- the core forms ---------------------------------------------------------------------------------------------------


def _core(
    b: Builder,
    name: str,
    x: SSAValue,
    size: Sequence[Any] | None,
    scales: Sequence[float] | None,
    align_corners: bool | None,
    wanted: Sequence[Dim] | None = None,
) -> SSAValue:
    """``upsample_<name>2d.vec`` of the last two dims, by sizes or by scales; ``wanted`` are the dims of the result."""
    options: dict[str, Any] = {} if align_corners is None else {"align_corners": align_corners}
    operator = aten.upsample_nearest2d.vec if name == "nearest" else aten.upsample_bilinear2d.vec
    types = None if wanted is None else [tensor_type(element(x), [*dims(x)[:-2], *wanted])]
    return b(operator, x, output_size=size, scale_factors=scales, types=types, **options)


def _size_or_scales(
    x: SSAValue, size: Sequence[int], scales: Scales
) -> tuple[Sequence[int] | None, Sequence[float] | None] | None:
    """What the ``vec`` form takes, exactly one of both; None when it cannot say the same."""
    given = [scale for scale in scales if scale is not None]
    if not given:
        return size, None
    sources = dims(x)[-len(size) :]
    fits = all(isinstance(d, int) and int(d * s) == n for d, s, n in zip(sources, given, size, strict=False))
    return (None, given) if fits and len(given) == len(size) else None


@decomposition(aten.upsample_nearest2d.default)
def upsample_nearest2d(b: Builder, x: SSAValue, size: Sequence[int], *scales: float | None) -> SSAValue | None:
    """``upsample_nearest2d.vec``"""
    known = _size_or_scales(x, size, scales)
    return (
        b.notify_match_failure("sizes and scales do not agree")
        if known is None
        else _core(b, "nearest", x, *known, None)
    )


@decomposition(aten.upsample_bilinear2d.default)
def upsample_bilinear2d(
    b: Builder, x: SSAValue, size: Sequence[int], align_corners: bool, *scales: float | None
) -> SSAValue | None:
    """``upsample_bilinear2d.vec``"""
    known = _size_or_scales(x, size, scales)
    return (
        b.notify_match_failure("sizes and scales do not agree")
        if known is None
        else _core(b, "bilinear", x, *known, align_corners)
    )


def _targets(b: Builder, size: Sequence[Any] | None) -> list[SizeLike] | None:
    """Sizes that the program computes, which the result is declared to have."""
    if size is None:
        return None
    declared = dims_of(b.declared)[-len(size) :]
    return [_target(b, given, wanted) for given, wanted in zip(size, declared, strict=True)]


def _target(b: Builder, given: Any, wanted: Dim) -> SizeLike:
    known = b.as_size(given)
    if known is not None or isinstance(wanted, int):
        return wanted if known is None else known  # type: ignore[return-value]
    return Size(b.pool, wanted, lambda: given)


def _one_dim(
    b: Builder,
    name: str,
    x: SSAValue,
    size: Sequence[SizeLike] | None,
    scales: Sequence[float] | None,
    align_corners: bool | None,
) -> SSAValue:
    """The form for two dims with a height of 1."""
    wide_size = None if size is None else [1, *size]
    wide_scales = None if scales is None else [1.0, *scales]
    wanted = [1, dims_of(b.declared)[-1]]
    return b.squeeze(_core(b, name, b.unsqueeze(x, -2), wide_size, wide_scales, align_corners, wanted), -2)


@decomposition(aten.upsample_nearest1d.vec, symint_args=("output_size",))
def upsample_nearest1d(b: Builder, x: SSAValue, size: Sequence[Any] | None, scales: Sequence[float] | None) -> SSAValue:
    """``upsample_nearest2d`` with a height of 1"""
    return _one_dim(b, "nearest", x, _targets(b, size), scales, None)


@decomposition(aten.upsample_linear1d.vec, symint_args=("output_size",))
def upsample_linear1d(
    b: Builder, x: SSAValue, size: Sequence[Any] | None, align_corners: bool, scales: Sequence[float] | None
) -> SSAValue:
    """``upsample_bilinear2d`` with a height of 1"""
    return _one_dim(b, "bilinear", x, _targets(b, size), scales, align_corners)


@decomposition(aten.upsample_nearest1d.default)
def upsample_nearest1d_to(b: Builder, x: SSAValue, size: Sequence[int], scale: float | None) -> SSAValue | None:
    """``upsample_nearest2d`` with a height of 1"""
    known = _size_or_scales(x, size, [scale])
    return (
        b.notify_match_failure("size and scale do not agree")
        if known is None
        else _one_dim(b, "nearest", x, *known, None)
    )


@decomposition(aten.upsample_linear1d.default)
def upsample_linear1d_to(
    b: Builder, x: SSAValue, size: Sequence[int], align_corners: bool, scale: float | None
) -> SSAValue | None:
    """``upsample_bilinear2d`` with a height of 1"""
    known = _size_or_scales(x, size, [scale])
    if known is None:
        return b.notify_match_failure("size and scale do not agree")
    return _one_dim(b, "bilinear", x, *known, align_corners)


def _three_dims(
    b: Builder,
    name: str,
    x: SSAValue,
    size: Sequence[SizeLike] | None,
    scales: Sequence[float] | None,
    align_corners: bool | None,
) -> SSAValue:
    """The form for two dims over height and width, then over depth with all columns side by side."""
    batch, channels, depth, height, width = b.sizes(x)
    wanted = dims_of(b.declared)[-3:]
    planes = _core(
        b,
        name,
        b.view(x, [batch, channels * depth, height, width]),
        None if size is None else size[1:],
        None if scales is None else scales[1:],
        align_corners,
        wanted[1:],
    )
    new_height, new_width = b.sizes(planes)[-2:]
    columns = b.view(planes, [batch, channels, depth, new_height * new_width])
    across = None if size is None else [size[0], new_height * new_width]
    sides = [wanted[0], dims(columns)[-1]]
    resized = _core(b, name, columns, across, None if scales is None else [scales[0], 1.0], align_corners, sides)
    return b.view(resized, [batch, channels, b.size(resized, 2), new_height, new_width])


@decomposition(aten.upsample_nearest3d.vec, symint_args=("output_size",))
def upsample_nearest3d(b: Builder, x: SSAValue, size: Sequence[Any] | None, scales: Sequence[float] | None) -> SSAValue:
    """``upsample_nearest2d`` twice"""
    return _three_dims(b, "nearest", x, _targets(b, size), scales, None)


@decomposition(aten.upsample_trilinear3d.vec, symint_args=("output_size",))
def upsample_trilinear3d(
    b: Builder, x: SSAValue, size: Sequence[Any] | None, align_corners: bool, scales: Sequence[float] | None
) -> SSAValue:
    """``upsample_bilinear2d`` twice"""
    return _three_dims(b, "bilinear", x, _targets(b, size), scales, align_corners)


# --- other interpolations ---------------------------------------------------------------------------------------------


def _axes(b: Builder, x: SSAValue, size: Sequence[Any] | None, scales: Scales | None, count: int) -> list[Axis] | None:
    """The last ``count`` dims."""
    found: list[Axis] = []
    declared = dims_of(b.declared)[-count:]
    for i, given in enumerate(b.sizes(x)[-count:]):
        scale = None if not scales else scales[i]
        wanted = b.pool.evaluate(declared[i]) if size is None else _target(b, size[i], declared[i])
        if wanted is None:
            return b.notify_match_failure("a size is dynamic")
        found.append(Axis(given, wanted, scale))
    return found


def _constants(axes: Sequence[Axis]) -> list[tuple[int, int, float | None]] | None:
    """Input size, output size and scale of each dim; None when a size is dynamic."""
    found: list[tuple[int, int, float | None]] = []
    for axis in axes:
        if not isinstance(axis.given, int) or not isinstance(axis.wanted, int):
            return None
        found.append((axis.given, axis.wanted, axis.scale))
    return found


def interpolation_step(given: int, wanted: int, scale: float | None, align_corners: bool) -> float:
    """How far apart the outputs are on the input."""
    if align_corners:
        return (given - 1) / (wanted - 1) if wanted > 1 else 0.0
    return 1 / scale if scale else given / wanted


def _nearest_exact(b: Builder, x: SSAValue, size: Sequence[Any] | None, scales: Scales | None) -> SSAValue | None:
    from etir.lowering.decompose_aten.constants import nearest_positions

    axes = _axes(b, x, size, scales, rank(x) - 2)
    if axes is None:
        return None
    targets = _constants(axes)
    if targets is None:
        for i, axis in enumerate(axes):
            x = nearest_exact(b, x, 2 + i, axis)
        return x
    for i, (given, wanted, scale) in enumerate(targets):
        index = nearest_positions(wanted, given, interpolation_step(given, wanted, scale, False))
        x = b(aten.index_select.default, x, 2 + i, b.constant(index, i64))
    return x


@decomposition(
    aten._upsample_nearest_exact1d.vec,
    aten._upsample_nearest_exact2d.vec,
    aten._upsample_nearest_exact3d.vec,
    symint_args=("output_size",),
)
def upsample_nearest_exact(
    b: Builder, x: SSAValue, size: Sequence[Any] | None, scales: Sequence[float] | None
) -> SSAValue | None:
    """``index_select`` in each dim"""
    return _nearest_exact(b, x, size, scales)


@decomposition(
    aten._upsample_nearest_exact1d.default,
    aten._upsample_nearest_exact2d.default,
    aten._upsample_nearest_exact3d.default,
    symint_args=("output_size",),
)
def upsample_nearest_exact_to(b: Builder, x: SSAValue, size: Sequence[Any], *scales: float | None) -> SSAValue | None:
    """``index_select`` in each dim"""
    return _nearest_exact(b, x, size, scales)


def _weighted(
    b: Builder, x: SSAValue, size: Sequence[Any] | None, scales: Scales | None, align_corners: bool
) -> SSAValue | None:
    """Height and width resized by a product with a matrix each."""
    axes = _axes(b, x, size, scales, 2)
    if axes is None:
        return None
    name = b.rewriter.root.name
    kind = next((k for k in ("bilinear", "bicubic", "lanczos") if f"{k}2d_aa" in name), None)
    targets = _constants(axes)
    if targets is None:
        return _weighted_at_run_time(b, x, axes, kind, align_corners)
    if any(given * wanted > MAX_WEIGHTS for given, wanted, _ in targets):
        return b.notify_match_failure("the matrices of weights are too large")
    from etir.lowering.decompose_aten import constants

    matrices: list[Any] = []
    for given, wanted, scale in targets:
        step = interpolation_step(given, wanted, scale, align_corners)
        if kind is not None:
            matrices.append(constants.smooth_weights(given, wanted, step, kind))
        else:
            matrices.append(constants.cubic_weights(given, wanted, step, align_corners=align_corners))
    for matrix in matrices[::-1]:
        x = b.transpose(_resized(b, x, matrix), -2, -1)
    return x


def _weighted_at_run_time(
    b: Builder, x: SSAValue, axes: Sequence[Axis], kind: str | None, align_corners: bool
) -> SSAValue | None:
    """Height and width resized with weights that the program computes."""
    if kind is None:
        for i, axis in enumerate(axes):
            x = cubic(b, x, rank(x) - 2 + i, axis, align_corners)
        return x
    for axis in reversed(axes):
        resized = smooth(b, x, axis, kind, align_corners)
        if resized is None:
            return None
        x = b.transpose(resized, -2, -1)
    return x


def _resized(b: Builder, x: SSAValue, matrix: Any) -> SSAValue:
    """The last dim times the transposed matrix [outputs, inputs]."""
    *outer, width = b.sizes(x)
    weights = b.cast(b.constant(matrix.T, f32), element(x))
    return b.view(b.mm(b.view(x, [-1, width]), weights), [*outer, matrix.shape[0]])


_TO_SIZES: dict[str, Operator] = {
    aten.upsample_bicubic2d.vec.name: aten.upsample_bicubic2d.default,
    aten._upsample_bilinear2d_aa.vec.name: aten._upsample_bilinear2d_aa.default,
    aten._upsample_bicubic2d_aa.vec.name: aten._upsample_bicubic2d_aa.default,
    aten._upsample_lanczos2d_aa.vec.name: aten._upsample_lanczos2d_aa.default,
}
"""The overload that is given sizes, by the name of the one that may be given scales instead."""


@decomposition(*_TO_SIZES, symint_args=("output_size",))
def upsample_weighted(
    b: Builder, x: SSAValue, size: Sequence[Any] | None, align_corners: bool, scales: Sequence[float] | None
) -> SSAValue | None:
    """Two products with matrices of weights; the operator with sizes first, which a target may have a kernel for"""
    axes = _axes(b, x, size, scales, 2)
    if axes is None:
        return None
    sizes = [axis.wanted for axis in axes]
    type = b.rewriter.root.results[0].type
    return b(_TO_SIZES[b.rewriter.root.name], x, sizes, align_corners, *(scales or ()), types=[type])


@decomposition(*_TO_SIZES.values(), symint_args=("output_size",))
def upsample_weighted_to(
    b: Builder, x: SSAValue, size: Sequence[Any], align_corners: bool, *scales: float | None
) -> SSAValue | None:
    """Two products with matrices of weights"""
    return _weighted(b, x, size, scales, align_corners)


# --- grids ------------------------------------------------------------------------------------------------------------


@decomposition(aten.grid_sampler.default)
def grid_sampler(
    b: Builder, x: SSAValue, grid: SSAValue, interpolation: int, padding: int, align_corners: bool
) -> SSAValue | None:
    """``grid_sampler_2d``, for images"""
    if rank(x) != 4:
        return b.notify_match_failure("it samples a volume")
    return b(aten.grid_sampler_2d.default, x, grid, interpolation, padding, align_corners)


@decomposition(aten.affine_grid_generator.default)
def affine_grid(b: Builder, theta: SSAValue, size: Sequence[int], align_corners: bool) -> SSAValue:
    """The positions of all pixels, a constant, times the transposed matrices"""
    from etir.lowering.decompose_aten.constants import affine_points

    spatial = size[2:]
    points = affine_points(spatial, align_corners=align_corners)
    base = b.cast(b.constant(points, f32), element(theta))
    batch = b.size(theta, 0)
    placed = b.bmm(b.expand(base, [batch, *points.shape[1:]]), b.transpose(theta, 1, 2))
    return b.view(placed, [batch, *spatial, len(spatial)])
