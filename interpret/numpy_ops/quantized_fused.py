"""Operators that work on quantized operands: additions, embeddings from packed tables, products with int8 weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike

from etir.interpret.numpy_ops.dtype import FLOAT32, Array, Dtype, Scalar, as_dtype, compute_dtype, to
from etir.interpret.numpy_ops.quantized import dequantize_per_channel_group, dequantize_per_tensor, quantize
from etir.interpret.numpy_ops.registry import op


def _dequantized(x: Array, scale: float, zero_point: int) -> Array:
    return dequantize_per_tensor(x, scale, zero_point, 0, 0, x.dtype)


@op("quantized_decomposed.add.default")
def add(
    a: Array,
    a_scale: float,
    a_zero_point: int,
    a_quant_min: int,
    a_quant_max: int,
    b: Array,
    b_scale: float,
    b_zero_point: int,
    b_quant_min: int,
    b_quant_max: int,
    out_scale: float,
    out_zero_point: int,
    out_quant_min: int,
    out_quant_max: int,
) -> Array:
    total = _dequantized(a, a_scale, a_zero_point) + _dequantized(b, b_scale, b_zero_point)
    return quantize(total, out_scale, out_zero_point, out_quant_min, out_quant_max, a.dtype)


@op("quantized_decomposed.add_relu.default")
def add_relu(
    a: Array,
    a_scale: float,
    a_zero_point: int,
    a_quant_min: int,
    a_quant_max: int,
    b: Array,
    b_scale: float,
    b_zero_point: int,
    b_quant_min: int,
    b_quant_max: int,
    out_scale: float,
    out_zero_point: int,
    out_quant_min: int,
    out_quant_max: int,
) -> Array:
    total = _dequantized(a, a_scale, a_zero_point) + _dequantized(b, b_scale, b_zero_point)
    return quantize(np.maximum(total, 0), out_scale, out_zero_point, out_quant_min, out_quant_max, a.dtype)


@op("quantized_decomposed.add.scalar")
def add_scalar(
    qa: Array,
    a_scale: float,
    a_zero_point: int,
    a_quant_min: int,
    a_quant_max: int,
    a_dtype: DTypeLike,
    b: Scalar,
    out_scale: float,
    out_zero_point: int,
    out_quant_min: int,
    out_quant_max: int,
    out_dtype: DTypeLike,
) -> Array:
    total = _dequantized(qa, a_scale, a_zero_point) + to(b, FLOAT32)
    return quantize(total, out_scale, out_zero_point, out_quant_min, out_quant_max, out_dtype)


def _unpacked(weight: Array, bits: int) -> Array:
    """Signed numbers from a table that packs several into a byte, after adding half of their range.

    Two 4-bit numbers have the even column in the high half; four 2-bit numbers have the first in the low bits.
    """
    if bits == 8:
        return weight
    if weight.dtype != np.uint8:
        raise ValueError(f"the packed table is {weight.dtype}, it has to be uint8")
    shifts = (4, 0) if bits == 4 else (0, 2, 4, 6)
    fields = np.stack([(weight >> shift) & (2**bits - 1) for shift in shifts], -1)
    return to(fields, np.dtype(np.int8)).reshape(weight.shape[0], -1) - np.int8(2 ** (bits - 1))


def _embedding(bits: int, weight: Array, scales: Array, zero_points: Array | None, indices: Array, out: Dtype) -> Array:
    """The rows of the dequantized table; ``scales`` (rows,) or (rows, groups of columns)."""
    table = _unpacked(weight, bits)
    group = table.shape[1] // (scales.shape[1] if scales.ndim == 2 else 1)
    rows = dequantize_per_channel_group(table, scales, zero_points, 0, 0, table.dtype, group, out)
    return np.take(rows, indices, 0)


def _register_embeddings() -> None:
    for name, bits in (("embedding_2bit", 2), ("embedding_4bit", 4), ("embedding_byte", 8)):
        plain, with_dtype = _embedding_operators(bits)
        op(f"quantized_decomposed.{name}.default")(plain)
        op(f"quantized_decomposed.{name}.dtype")(with_dtype)


def _embedding_operators(bits: int) -> tuple[Callable[..., Array], Callable[..., Array]]:
    def plain(
        weight: Array,
        weight_scales: Array,
        weight_zero_points: Array | None,
        weight_quant_min: int,
        weight_quant_max: int,
        indices: Array,
    ) -> Array:
        return _embedding(bits, weight, weight_scales, weight_zero_points, indices, weight_scales.dtype)

    def with_dtype(
        weight: Array,
        weight_scales: Array,
        weight_zero_points: Array | None,
        weight_quant_min: int,
        weight_quant_max: int,
        indices: Array,
        *,
        dtype: DTypeLike | None = None,
    ) -> Array:
        result = as_dtype(dtype, weight_scales.dtype)
        return _embedding(bits, weight, weight_scales, weight_zero_points, indices, result)

    return plain, with_dtype


_register_embeddings()


def _weight(weight: Array, scales: Array, zero_points: Array | None, dtype: Dtype) -> Array:
    """An int8 matrix in ``dtype``; ``scales`` and ``zero_points`` (rows,) or (rows, groups of columns)."""
    groups = scales.reshape(scales.shape[0], -1)
    repeats = weight.shape[1] // groups.shape[1]
    result = to(weight, dtype)
    if zero_points is not None:
        result = result - np.repeat(to(zero_points, dtype).reshape(groups.shape), repeats, 1)
    return result * np.repeat(to(groups, dtype), repeats, 1)


@op("quantized_decomposed.mixed_mm.default")
def mixed_mm(input: Array, weight: Array, weight_scales: Array, weight_zero_points: Array | None) -> Array:
    """input (M, K) times an int8 weight (K, N) whose rows have their own scales."""
    dtype = compute_dtype(input.dtype)
    return to(to(input, dtype) @ _weight(weight, weight_scales, weight_zero_points, dtype), input.dtype)


@op("quantized_decomposed.mixed_linear.default")
def mixed_linear(
    input: Array, weight: Array, weight_scales: Array, weight_zero_points: Array | None, dtype: DTypeLike | None = None
) -> Array:
    """input (M, K) times the transpose of an int8 weight (N, K) with scales per row, or per group of columns."""
    wide = compute_dtype(input.dtype)
    matrix = _weight(weight, weight_scales, weight_zero_points, wide)
    return to(to(input, wide) @ matrix.T, as_dtype(dtype, input.dtype))
