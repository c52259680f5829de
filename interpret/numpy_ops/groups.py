"""The groupwise operators of etir's own runtime (``etir::int4_group_*``, ``etir::int8_group_*``): weights of 4 or 8
bits with a scale for each group of a row, in the order of ``runtime/kernels/util/group_weights.h``.

``*_group_dynamic_linear`` is computed here as the kernels do it, to the bit: sums of a group are integers, and the
groups are added up in their order in float32. ``*_group_linear`` has sums in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from etir.interpret.numpy_ops.activation import gelu, silu
from etir.interpret.numpy_ops.dtype import Array
from etir.interpret.numpy_ops.integer import quantized_rows
from etir.interpret.numpy_ops.registry import op

LANES, FOUR, CHUNK = 16, 4, 32
MOST_DEPTH = 65536


@dataclass(frozen=True)
class Packed:
    """Packed weights: ``weight`` uint8 ``[panels, depth / 8 or 4, 64]``, ``scales`` ``[panels, groups, 16]``, and
    ``minimums`` as the scales, or None.
    """

    weight: Array
    scales: Array
    minimums: Array | None


def in_lanes(matrix: Array) -> Array:
    """``[rows, n]`` as ``[panels, n, 16]``, zeros for the rows that a last panel has more."""
    rows, n = matrix.shape
    panels = -(-rows // LANES)
    whole = np.zeros((panels * LANES, n), matrix.dtype)
    whole[:rows] = matrix
    return np.ascontiguousarray(whole.reshape(panels, LANES, n).transpose(0, 2, 1))


def packed_groups(numbers: Array, scales: Array, minimums: Array | None, bits: int) -> Packed:
    """Packs unsigned numbers ``[rows, depth]`` below ``2**bits`` with ``[rows, groups]`` scales and minimums.

    Groups are a multiple of 32 numbers long, or a row is one group. Raises ValueError otherwise.
    """
    rows, depth = numbers.shape
    groups = scales.shape[1]
    if groups != 1 and (groups == 0 or depth % (groups * CHUNK)):
        raise ValueError(f"groups of {depth} / {groups} numbers")
    zero = 0 if minimums is not None else 1 << (bits - 1)
    padded = np.full((-(-rows // LANES) * LANES, -(-depth // CHUNK) * CHUNK), zero, np.uint8)
    padded[:rows, :depth] = numbers
    panels, quads = padded.shape[0] // LANES, padded.shape[1] // FOUR
    fours = padded.reshape(panels, LANES, quads, FOUR).transpose(0, 2, 1, 3).reshape(panels, quads, LANES * FOUR)
    if bits == 4:
        fours = fours[:, 0::2] | (fours[:, 1::2] << 4)
    return Packed(np.ascontiguousarray(fours), in_lanes(scales), None if minimums is None else in_lanes(minimums))


def _numbers(weight: Array, rows: int, depth: int, bits: int) -> Array:
    """The unsigned numbers ``[rows, depth]`` of packed weights."""
    if bits == 4:
        weight = np.stack([weight & 15, weight >> 4], 2).reshape(weight.shape[0], 2 * weight.shape[1], LANES * FOUR)
    panels, fours, _ = weight.shape
    whole = weight.reshape(panels, fours, LANES, FOUR).transpose(0, 2, 1, 3).reshape(panels * LANES, fours * FOUR)
    return whole[:rows, :depth]


def _by_row(factors: Array, rows: int) -> Array:
    """``[rows, groups]`` float32 of packed scales or minimums."""
    panels, groups, _ = factors.shape
    return factors.astype(np.float32).transpose(0, 2, 1).reshape(panels * LANES, groups)[:rows]


def _dequantized(weight: Array, scales: Array, minimums: Array | None, rows: int, depth: int, bits: int) -> Array:
    numbers = _numbers(weight, rows, depth, bits).astype(np.float32)
    factors = _by_row(scales, rows)
    lengths = np.full(factors.shape[1], -(-depth // factors.shape[1]))
    columns = np.repeat(np.arange(factors.shape[1]), lengths)[:depth]
    if minimums is None:
        return (numbers - np.float32(1 << (bits - 1))) * factors[:, columns]
    return numbers * factors[:, columns] + _by_row(minimums, rows)[:, columns]


def _symmetric(x: Array) -> tuple[Array, Array]:
    """int8 numbers of ``[rows, n]`` float32 and the scale of each row, by torchao's SYMMETRIC mapping."""
    finite = np.asarray(np.isfinite(x).all(-1, keepdims=True))
    most = np.abs(np.where(finite, x, np.float32(0))).max(-1, keepdims=True, initial=np.float32(0))
    scale = np.maximum(most / np.float32(127.5), np.finfo(np.float32).eps * np.float32(1)).astype(np.float32)
    inverse = np.float32(1) / scale
    numbers = np.rint(np.clip(x * inverse, -128, 127))
    return np.where(finite, numbers, 0).astype(np.int64), np.where(finite, scale, np.float32(np.nan))[:, 0]


def dynamic_linear(
    input: Array,
    weight: Array,
    scales: Array,
    minimums: Array | None,
    sums: Array | None,
    bias: Array | None,
    columns: int,
    bits: int,
) -> Array:
    depth = input.shape[-1]
    x = input.reshape(-1, depth)
    numbers = _numbers(weight, columns, depth, bits).astype(np.int64)
    factors = _by_row(scales, columns)
    lows = None if minimums is None else _by_row(minimums, columns)
    if minimums is None:
        numbers = numbers - (1 << (bits - 1))
    groups = factors.shape[1]
    length = depth if groups == 1 else depth // groups
    acc = np.zeros((x.shape[0], columns), np.float32)
    row_scale = row_point = left = None
    if sums is not None:
        found, row_scale, row_point = quantized_rows(x)
        left = found.astype(np.int64)
    for g in range(groups):
        part = slice(g * length, (g + 1) * length)
        if left is not None:
            ints, own = left[:, part], np.ones(x.shape[0], np.float32)
            scale = np.broadcast_to(factors[:, g], acc.shape)
        else:
            ints, own = _symmetric(x[:, part])
            scale = factors[:, g] * own[:, None]
        acc = acc + scale * (ints @ numbers[:, part].T).astype(np.float32)
        if lows is not None:
            acc = acc + lows[:, g] * (own * ints.sum(-1).astype(np.float32))[:, None]
    if sums is not None:
        assert row_scale is not None and row_point is not None
        acc = (acc - row_point.astype(np.float32) * sums) * row_scale
    result = acc if bias is None else acc + bias
    return result.astype(np.float32).reshape(*input.shape[:-1], columns)


def weight_linear(
    input: Array,
    weight: Array,
    scales: Array,
    minimums: Array | None,
    bias: Array | None,
    columns: int,
    bits: int,
) -> Array:
    matrix = _dequantized(weight, scales, minimums, columns, input.shape[-1], bits)
    result = (input.astype(np.float64) @ matrix.T.astype(np.float64)).astype(np.float32)
    return result if bias is None else result + bias


@op("etir.int4_group_dynamic_linear.default")
def int4_group_dynamic_linear(
    input: Array,
    weight: Array,
    scales: Array,
    minimums: Array | None,
    sums: Array | None,
    bias: Array | None,
    columns: int,
) -> Array:
    return dynamic_linear(input, weight, scales, minimums, sums, bias, columns, 4)


@op("etir.int4_group_dynamic_linear_pair.default", "etir.int4_group_dynamic_linear_triple.default")
def int4_group_dynamic_linear_several(
    input: Array,
    weights: Sequence[Array],
    scales: Sequence[Array],
    minimums: Sequence[Array],
    sums: Sequence[Array],
    columns: Sequence[int],
) -> tuple[Array, ...]:
    none = [None] * len(weights)
    each = zip(weights, scales, minimums or none, sums or none, columns, strict=True)
    return tuple(dynamic_linear(input, w, s, low, total, None, n, 4) for w, s, low, total, n in each)


@op("etir.int4_group_dynamic_linear_gated.default")
def int4_group_dynamic_linear_gated(
    input: Array,
    weights: Sequence[Array],
    scales: Sequence[Array],
    minimums: Sequence[Array],
    sums: Sequence[Array],
    columns: int,
    activation: str,
) -> Array:
    gate, other = int4_group_dynamic_linear_several(input, weights, scales, minimums, sums, [columns] * 2)
    return GATES[activation](gate) * other


GATES: dict[str, Callable[[Array], Array]] = {
    "silu": silu,
    "gelu": gelu,
    "gelu_tanh": partial(gelu, approximate="tanh"),
}
"""What a gate's results go through, by the operator's ``activation``."""


@op("etir.int8_group_dynamic_linear.default")
def int8_group_dynamic_linear(
    input: Array,
    weight: Array,
    scales: Array,
    minimums: Array | None,
    sums: Array | None,
    bias: Array | None,
    columns: int,
) -> Array:
    return dynamic_linear(input, weight, scales, minimums, sums, bias, columns, 8)


@op("etir.int4_group_linear.default")
def int4_group_linear(
    input: Array, weight: Array, scales: Array, minimums: Array | None, bias: Array | None, columns: int
) -> Array:
    return weight_linear(input, weight, scales, minimums, bias, columns, 4)


@op("etir.int8_group_linear.default")
def int8_group_linear(
    input: Array, weight: Array, scales: Array, minimums: Array | None, bias: Array | None, columns: int
) -> Array:
    return weight_linear(input, weight, scales, minimums, bias, columns, 8)


@op("etir.int4_group_embedding.default")
def int4_group_embedding(
    weight: Array, scales: Array, minimums: Array | None, indices: Array, rows: int, depth: int
) -> Array:
    return _dequantized(weight, scales, minimums, rows, depth, 4)[indices]


@op("etir.int8_group_embedding.default")
def int8_group_embedding(
    weight: Array, scales: Array, minimums: Array | None, indices: Array, rows: int, depth: int
) -> Array:
    return _dequantized(weight, scales, minimums, rows, depth, 8)[indices]
