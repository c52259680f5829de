"""Quantization that is only pretended, as in training that is aware of it: to integers in a range and back.

``cachemask`` forms also say which elements were inside of the range: gradients pass through those.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import f32, i1, i32
from etir.lowering.build.builder import Builder, TensorOrScalar, element, rank
from etir.lowering.build.dims import wrap
from etir.lowering.build.promotion import FLOATING, category_of
from etir.lowering.decompose_aten.decomposition import decomposition


def _single(number: float) -> float:
    """A number in single precision, in which torch keeps scales."""
    return struct.unpack("<f", struct.pack("<f", number))[0]


def _quantized(
    b: Builder, x: SSAValue, scale: TensorOrScalar, zero: TensorOrScalar, low: int, high: int
) -> tuple[SSAValue, SSAValue]:
    """``(clamp(round(x / scale) + zero) - zero) * scale``, and where nothing was clamped; a zero that is no integer is
    added before rounding.
    """
    if isinstance(scale, SSAValue):
        inverse: TensorOrScalar = b.reciprocal(scale)
    else:
        scale = _single(scale)
        inverse = _single(1.0 / scale)
    scaled = b.mul(x, inverse)
    if isinstance(zero, SSAValue):
        is_integer = category_of(element(zero)) < FLOATING
        zero = b.cast(zero, element(x))
        level = b.add(b.round(scaled), zero) if is_integer else b.round(b.add(scaled, zero))
    else:
        level = b.add(b.round(scaled), zero)
    inside = b.logical_and(b.ge(level, low), b.le(level, high))
    return b.mul(b.sub(b.clamp(level, low, high), zero), scale), inside


def _number(b: Builder, x: SSAValue) -> SSAValue:
    """The first element of a tensor, the only one that torch reads, as a tensor without dims."""
    return b.select(b.view(x, [-1]), 0, 0) if rank(x) else x


def _along(b: Builder, parameter: SSAValue, x: SSAValue, axis: int) -> SSAValue:
    """The parameters of the channels along ``axis`` of ``x``."""
    sizes = [1] * rank(x)
    sizes[wrap(axis, rank(x))] = -1
    return b.view(parameter, sizes)


@decomposition(aten.fake_quantize_per_tensor_affine_cachemask.default, in_float=True)
def fake_quantize(b: Builder, x: SSAValue, scale: float, zero: int, low: int, high: int) -> Sequence[SSAValue]:
    """``(clamp(round(x / scale) + zero) - zero) * scale``"""
    return _quantized(b, x, scale, zero, low, high)


@decomposition(aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default)
def fake_quantize_by_tensors(
    b: Builder, x: SSAValue, scale: SSAValue, zero: SSAValue, enabled: SSAValue, low: int, high: int
) -> Sequence[SSAValue]:
    """The same with parameters that are tensors, and one that turns it off"""
    result, inside = _quantized(b, x, b.cast(_number(b, scale), element(x)), _number(b, zero), low, high)
    on = b.ne(_number(b, enabled), 0)
    off = b.full(b.sizes(x), True, i1)
    return b(aten.where.self, on, result, x), b(aten.where.self, on, inside, off)


@decomposition(aten.fake_quantize_per_channel_affine_cachemask.default)
def fake_quantize_by_channel(
    b: Builder, x: SSAValue, scale: SSAValue, zero: SSAValue, axis: int, low: int, high: int
) -> Sequence[SSAValue]:
    """The same with parameters for each channel"""
    scales, zeros = (_along(b, parameter, x, axis) for parameter in (scale, zero))
    result, inside = _quantized(b, x, b.cast(scales, element(x)), zeros, low, high)
    return result, inside


@decomposition(aten._fake_quantize_learnable_per_tensor_affine.default)
def fake_quantize_learnable(
    b: Builder, x: SSAValue, scale: SSAValue, zero: SSAValue, low: int, high: int, _factor: float
) -> SSAValue:
    """The zero is rounded to even, and not outside of the range"""
    level = b.clamp(b.round(b.cast(_number(b, zero), f32)), low, high)
    return _quantized(b, x, b.cast(_number(b, scale), element(x)), b.cast(level, i32), low, high)[0]


@decomposition(aten._fake_quantize_learnable_per_channel_affine.default)
def fake_quantize_learnable_by_channel(
    b: Builder, x: SSAValue, scale: SSAValue, zero: SSAValue, axis: int, low: int, high: int, _factor: float
) -> SSAValue:
    """The zeros are rounded to even, and not outside of the range"""
    zeros = b.cast(b.clamp(b.round(zero), low, high), i32)
    zeros, scales = (_along(b, parameter, x, axis) for parameter in (zeros, scale))
    return _quantized(b, x, b.cast(scales, element(x)), zeros, low, high)[0]
