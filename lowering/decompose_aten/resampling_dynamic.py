"""Interpolation between dynamic sizes.

What ``resampling.py`` does with constants is computed by the program here: the positions on the input of all outputs
of a dim, from them the indices of the elements that each output takes, and their weights. Positions are f32, as torch
computes them.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import f32, i64
from etir.lowering.build.builder import Builder, element, rank
from etir.lowering.build.sizes import Size, SizeLike

CUBIC = -0.75
"""The coefficient of bicubic interpolation; the antialiased one takes -0.5."""


@dataclass(frozen=True)
class Axis:
    """One dim: input size, output size, and the scale that the program gives, which counts instead of their ratio."""

    given: SizeLike
    wanted: SizeLike
    scale: float | None


def _as_tensor(b: Builder, size: SizeLike) -> SSAValue | float:
    if not isinstance(size, Size):
        return float(size)
    return b.cast(b(aten.full.default, [], size.value, dtype=i64), f32)


def step(b: Builder, axis: Axis, align_corners: bool) -> SSAValue | float:
    """How far apart the outputs are on the input: a constant where it can be."""
    if align_corners:
        given, wanted = _as_tensor(b, axis.given - 1), _as_tensor(b, axis.wanted - 1)
        if not isinstance(wanted, SSAValue):
            return 0.0 if wanted <= 0 else b.div(given, wanted) if isinstance(given, SSAValue) else given / wanted
        return b.where(b.gt(wanted, 0), b.div(b.as_tensor(given, f32), b.clamp(wanted, 1)), 0.0)
    if axis.scale:
        return 1 / axis.scale
    given, wanted = _as_tensor(b, axis.given), _as_tensor(b, axis.wanted)
    if isinstance(given, float) and isinstance(wanted, float):
        return given / wanted
    return b.div(b.as_tensor(given, f32), wanted)


def _centers(b: Builder, axis: Axis, apart: SSAValue | float, align_corners: bool) -> SSAValue:
    """The position on the input of each output."""
    number = b.cast(b.arange(axis.wanted), f32)
    if align_corners:
        return b.mul(number, apart)
    return b.sub(b.mul(b.add(number, 0.5), apart), 0.5)


def _clamped(b: Builder, index: SSAValue, axis: Axis) -> SSAValue:
    """Indices of elements that there are."""
    return b(aten.clamp.default, b.cast(index, i64), 0, b.scalar(axis.given - 1))


def nearest_exact(b: Builder, x: SSAValue, position: int, axis: Axis) -> SSAValue:
    """The element closest to the middle of each output."""
    middle = b.mul(b.add(b.cast(b.arange(axis.wanted), f32), 0.5), step(b, axis, False))
    return b(aten.index_select.default, x, position, _clamped(b, b.floor(middle), axis))


def cubic(b: Builder, x: SSAValue, position: int, axis: Axis, align_corners: bool) -> SSAValue:
    """Four taps around each position, those outside moved to the border (Keys, 1981)."""
    at = _centers(b, axis, step(b, axis, align_corners), align_corners)
    first = b.floor(at)
    fraction = b.sub(at, first)
    total: SSAValue | None = None
    for tap in range(-1, 3):
        taken = b(aten.index_select.default, x, position, _clamped(b, b.add(first, tap), axis))
        weight = _cubic_kernel(b, b.abs(b.sub(fraction, tap)), CUBIC, near=tap in (0, 1))
        weight = b.view(weight, [axis.wanted, *[1] * (rank(x) - 1 - position)])
        share = b.mul(taken, b.cast(weight, element(x)))
        total = share if total is None else b.add(total, share)
    assert total is not None
    return total


def _cubic_kernel(b: Builder, t: SSAValue, a: float, *, near: bool) -> SSAValue:
    """The cubic convolution kernel at distances ``t`` below 1, or from 1 to 2."""
    if near:
        inner = b.sub(b.mul(t, a + 2), a + 3)
        return b.add(b.mul(b.mul(inner, t), t), 1.0)
    inner = b.add(b.mul(b.sub(b.mul(t, a), 5 * a), t), 8 * a)
    return b.sub(b.mul(inner, t), 4 * a)


_REACH = {"bilinear": 1.0, "bicubic": 2.0}


def smooth(b: Builder, x: SSAValue, axis: Axis, kind: str, align_corners: bool) -> SSAValue | None:
    """The last dim times a matrix [inputs, outputs] of antialiasing weights, as ``arrays.smooth_weights`` has them;
    None for a kernel that is not here."""
    if kind not in _REACH:
        return b.notify_match_failure(f"its {kind} kernel needs constant sizes")
    apart = b.as_tensor(step(b, axis, align_corners), f32)
    stretch = b.clamp(apart, 1.0)
    center = b.mul(b.add(b.cast(b.arange(axis.wanted), f32), 0.5), apart)
    reach = b.mul(stretch, _REACH[kind])
    place = b.unsqueeze(b.cast(b.arange(axis.given), f32), 1)
    first = b.trunc(b.add(b.sub(center, reach), 0.5))
    last = b.trunc(b.add(b.add(center, reach), 0.5))
    reached = b.logical_and(b.ge(place, first), b.lt(place, last))
    t = b.abs(b.div(b.add(b.sub(place, center), 0.5), stretch))
    if kind == "bilinear":
        weights = b.clamp(b.rsub(t, 1.0), 0.0)
    else:
        far = b.where(b.lt(t, 2.0), _cubic_kernel(b, t, -0.5, near=False), 0.0)
        weights = b.where(b.lt(t, 1.0), _cubic_kernel(b, t, -0.5, near=True), far)
    weights = b.where(reached, weights, 0.0)
    weights = b.cast(b.div(weights, b.sum(weights, [0], True)), element(x))
    outer = b.sizes(x)[:-1]
    return b.view(b.mm(b.view(x, [-1, axis.given]), weights), [*outer, axis.wanted])
