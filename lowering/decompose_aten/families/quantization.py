"""Operators of ``quantized_decomposed`` that neither a delegate nor a kernel takes: arithmetic on the numbers.

Quantized models spell out where numbers are rounded to small integers and multiplied out again. A backend claims these
operators in larger patterns, a runtime may have kernels for them (ExecuTorch's in its library ``quantized``); what is
left is computed as torch defines it, in float32, per-tensor scales inverted in float64.
"""

from __future__ import annotations

from math import prod

from xdsl.ir import Attribute, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import BY_TYPE, f32, f64, i64
from etir.lowering.build.builder import Builder, element
from etir.lowering.build.inference import tensor_type_of
from etir.lowering.decompose_aten.decomposition import decomposition

_NAMESPACE = "quantized_decomposed"
_SMALLEST = 1e-5
"""The least scale per token where zero points are 0."""


def _op(*overloads: str) -> list[str]:
    return [f"{_NAMESPACE}.{overload}" for overload in overloads]


def _declared(b: Builder, index: int = 0) -> Attribute:
    return tensor_type_of(b.rewriter.root.results[index]).element_type


def _wide(b: Builder, x: SSAValue) -> SSAValue:
    """Numbers of 16 bits as float32."""
    return b.cast(x, f32) if BY_TYPE[element(x)].itemsize < 4 else x


def _along(b: Builder, x: SSAValue, like: SSAValue, axis: int) -> SSAValue:
    """A vector with a number for each index of dim ``axis`` of ``like``, so that it broadcasts."""
    rank = len(b.sizes(like))
    return b.view(x, [-1 if d == axis % rank else 1 for d in range(rank)])


def _rounded(
    b: Builder,
    x: SSAValue,
    inverse: SSAValue | float,
    point: SSAValue | int,
    low: SSAValue | int,
    high: SSAValue | int,
) -> SSAValue:
    """``clamp(round(x * inverse) + point)`` in the type of the result."""
    numbers = _shifted(b, b.round(b.mul(_wide(b, x), inverse)), point)
    if isinstance(low, SSAValue) and isinstance(high, SSAValue):
        low, high = (b.cast(b.view(bound, []), element(numbers)) for bound in (low, high))
        numbers = b(aten.minimum.default, b(aten.maximum.default, numbers, low), high)
    elif isinstance(low, int) and isinstance(high, int):
        numbers = b.clamp(numbers, low, high)
    return b.cast(numbers, _declared(b))


def _shifted(b: Builder, numbers: SSAValue, point: SSAValue | float) -> SSAValue:
    return b.add(numbers, b.cast(point, element(numbers)) if isinstance(point, SSAValue) else point)


@decomposition(*_op("quantize_per_tensor.default"))
def quantize_per_tensor(
    b: Builder, x: SSAValue, scale: float, point: int, low: int, high: int, _dtype: object
) -> SSAValue:
    """``clamp(round(x / scale) + point)``."""
    return _rounded(b, x, 1.0 / scale, point, low, high)


@decomposition(*_op("quantize_per_tensor.tensor", "quantize_per_tensor.tensor2"))
def quantize_per_tensor_tensor(
    b: Builder,
    x: SSAValue,
    scale: SSAValue,
    point: SSAValue,
    low: SSAValue | int,
    high: SSAValue | int,
    _dtype: object,
) -> SSAValue:
    """The same with parameters that are computed."""
    inverse = b.cast(b.reciprocal(b.cast(b.view(scale, []), f64)), f32)
    return _rounded(b, x, inverse, b.view(point, []), low, high)


def _multiplied(b: Builder, x: SSAValue, scale: SSAValue | float, point: SSAValue | int) -> SSAValue:
    """``(x - point) * scale``: the difference in the type of the result, the product in float32 at least."""
    wanted = _declared(b)
    numbers = b.cast(x, wanted)
    moved = b.sub(numbers, b.cast(point, wanted)) if isinstance(point, SSAValue) else b.sub(numbers, point)
    return b.cast(b.mul(_wide(b, moved), scale), wanted)


@decomposition(*_op("dequantize_per_tensor.default"))
def dequantize_per_tensor(b: Builder, x: SSAValue, scale: float, point: int, *_rest: object) -> SSAValue:
    """``(x - point) * scale``."""
    return _multiplied(b, x, scale, point)


@decomposition(*_op("dequantize_per_tensor.tensor", "dequantize_per_tensor.tensor2"))
def dequantize_per_tensor_tensor(b: Builder, x: SSAValue, scale: SSAValue, point: SSAValue, *_rest: object) -> SSAValue:
    """The same with parameters that are computed."""
    return _multiplied(b, x, b.cast(b.view(scale, []), f32), b.view(point, []))


def _extremes(b: Builder, x: SSAValue, dims: list[int], keepdim: bool) -> tuple[SSAValue, SSAValue]:
    """The least and the greatest number, and 0 between them."""
    x = _wide(b, x)
    low = b(aten.amin.default, x, dims, keepdim)
    return b.clamp(low, high=0.0), b.clamp(b.amax(x, dims, keepdim), 0.0)


@decomposition(*_op("choose_qparams.tensor"))
def choose_qparams(b: Builder, x: SSAValue, low: int, high: int, eps: float, _dtype: object) -> list[SSAValue]:
    """The scale and zero point that map the range of a tensor to ``low .. high``."""
    least, most = _extremes(b, x, list(range(len(b.sizes(x)))), False)
    scale = b.clamp(b.div(b.sub(most, least), float(high - low)), eps)
    point = b.clamp(b.rsub(b.round(b.div(least, scale)), float(low)), float(low), float(high))
    return [b.cast(b.view(scale, [1]), f64), b.cast(b.view(point, [1]), i64)]


@decomposition(*_op("choose_qparams_symmetric.tensor"))
def choose_qparams_symmetric(
    b: Builder, x: SSAValue, low: int, high: int, eps: float, dtype: Attribute
) -> list[SSAValue]:
    """The scale that maps the largest magnitude to half of the range; the zero point is in the middle."""
    least, most = _extremes(b, x, list(range(len(b.sizes(x)))), False)
    magnitude = b(aten.maximum.default, b.neg(least), most)
    scale = b.clamp(b.div(magnitude, float(high - low) / 2), eps)
    point = {"uint8": 128, "uint16": 32768}.get(BY_TYPE[dtype].torch_name, 0)
    return [b.cast(b.view(scale, [1]), f64), b.full([1], point, i64)]


@decomposition(*_op("quantize_per_channel.default"))
def quantize_per_channel(
    b: Builder, x: SSAValue, scales: SSAValue, points: SSAValue, axis: int, low: int, high: int, _dtype: object
) -> SSAValue:
    """A scale and a zero point for each index of one dim."""
    inverse = b.reciprocal(_along(b, scales, x, axis))
    return _rounded(b, x, inverse, _along(b, points, x, axis), low, high)


@decomposition(*_op("dequantize_per_channel.default"))
def dequantize_per_channel(
    b: Builder, x: SSAValue, scales: SSAValue, points: SSAValue | None, axis: int, *_rest: object
) -> SSAValue:
    """A scale and a zero point for each index of one dim."""
    scales = _along(b, scales, x, axis)
    numbers = b.cast(x, element(scales))
    if points is not None:
        numbers = b.sub(numbers, b.cast(_along(b, points, x, axis), element(scales)))
    return b.cast(b.mul(numbers, scales), _declared(b))


@decomposition(*_op("fake_quant_per_channel.default"))
def fake_quant_per_channel(
    b: Builder, x: SSAValue, scales: SSAValue, points: SSAValue, axis: int, low: int, high: int
) -> SSAValue:
    """Numbers rounded to what is left of them when they are quantized."""
    scales, points = _along(b, scales, x, axis), b.cast(_along(b, points, x, axis), f32)
    stored = b.clamp(b.add(b.round(b.mul(_wide(b, x), b.reciprocal(scales))), points), low, high)
    return b.cast(b.mul(b.sub(stored, points), scales), _declared(b))


@decomposition(*_op("choose_qparams_per_token.default"))
def choose_qparams_per_token(b: Builder, x: SSAValue, _dtype: object) -> list[SSAValue]:
    """A scale for each row that maps its largest magnitude to 127."""
    magnitude = b.amax(b.abs(_wide(b, x)), [-1], True)
    scales = b.div(b.clamp(magnitude, _SMALLEST), 127.0)
    return [b.cast(scales, _declared(b)), b.full(b.sizes(scales), 0, _declared(b, 1))]


@decomposition(*_op("choose_qparams_per_token_asymmetric.default", "_choose_qparams_per_token_asymmetric_impl.default"))
def choose_qparams_per_token_asymmetric(b: Builder, x: SSAValue, _dtype: object) -> list[SSAValue]:
    """A scale and a zero point for each row, the point from the end of the range that it is nearer to."""
    low, high, eps = -128.0, 127.0, 2.0**-23
    least, most = _extremes(b, x, [-1], True)
    scales = b.clamp(b.div(b.sub(most, least), high - low), eps)
    below, above = b.div(least, scales), b.div(most, scales)
    error = b.add(b.add(below, low), b.add(above, high))
    points = b.where(b.gt(error, 0.0), b.rsub(below, low), b.rsub(above, high))
    points = b.round(b.clamp(points, low, high))
    return [b.cast(scales, _declared(b)), b.cast(points, _declared(b, 1))]


@decomposition(*_op("quantize_per_token.default"))
def quantize_per_token(
    b: Builder, x: SSAValue, scales: SSAValue, points: SSAValue, low: int, high: int, _dtype: object
) -> SSAValue:
    """Each row with its own scale; the zero point is added before the rounding."""
    numbers = _shifted(b, b.mul(_wide(b, x), b.reciprocal(scales)), points)
    return b.cast(b.clamp(b.round(numbers), low, high), _declared(b))


@decomposition(*_op("dequantize_per_token.default"))
def dequantize_per_token(b: Builder, x: SSAValue, scales: SSAValue, points: SSAValue, *_rest: object) -> SSAValue:
    """Each row with its own scale."""
    numbers = b.sub(b.cast(x, element(scales)), b.cast(points, element(scales)))
    return b.cast(b.mul(numbers, scales), _declared(b))


def _groups(b: Builder, x: SSAValue, size: int) -> SSAValue | None:
    """``x`` with a row for each group; None (noted) where there are no whole ones, as far as is known now."""
    sizes = b.sizes(x)
    known = [s for s in sizes if isinstance(s, int)]
    if len(known) != len(sizes):
        return b.notify_match_failure("groups of a tensor of dynamic shape")
    if size < 1 or not sizes or known[-1] % size:
        return b.notify_match_failure(f"rows of {known[-1] if known else 'no'} elements in groups of {size}")
    return b.view(x, [prod(known) // size, size])


@decomposition(*_op("quantize_per_channel_group.default"))
def quantize_per_channel_group(
    b: Builder, x: SSAValue, scales: SSAValue, points: SSAValue, low: int, high: int, _dtype: object, size: int
) -> SSAValue | None:
    """Groups of ``size`` numbers of a row, each with a scale and a zero point."""
    rows = _groups(b, x, size)
    if rows is None:
        return None
    inverse = b.reciprocal(b.view(scales, [-1, 1]))
    numbers = b.round(_shifted(b, b.mul(_wide(b, rows), inverse), b.view(points, [-1, 1])))
    return b.view(b.cast(b.clamp(numbers, low, high), _declared(b)), b.sizes(x))


@decomposition(*_op("dequantize_per_channel_group.default"))
def dequantize_per_channel_group(
    b: Builder,
    x: SSAValue,
    scales: SSAValue,
    points: SSAValue | None,
    _low: int,
    _high: int,
    _dtype: object,
    size: int,
    _output: object,
) -> SSAValue | None:
    """Groups of ``size`` numbers of a row, each with a scale and a zero point."""
    rows = _groups(b, x, size)
    if rows is None:
        return None
    numbers = b.cast(rows, element(scales))
    if points is not None:
        numbers = b.sub(numbers, b.cast(b.view(points, [-1, 1]), element(scales)))
    return b.view(b.cast(b.mul(numbers, b.view(scales, [-1, 1])), _declared(b)), b.sizes(x))


@decomposition(*_op("convert_element_type.no_fuse"))
def convert_element_type(b: Builder, x: SSAValue, _dtype: object) -> SSAValue:
    """A cast."""
    return b.cast(x, _declared(b))
