"""Rows that are each multiplied by the matrix whose number they have (``etir::expert_linear``, and the kernels of
etir's own runtime that read packed weights, ``etir::int4_group_*expert_linear`` and ``etir::int8_group_*``).

The kernels' operators are those of linear layers (:mod:`~etir.interpret.numpy_ops.groups`) for the rows of each matrix.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from etir.interpret.numpy_ops.dtype import Array
from etir.interpret.numpy_ops.groups import LANES, dynamic_linear, weight_linear
from etir.interpret.numpy_ops.registry import op


def _by_expert(input: Array, experts: Array, columns: int, product: Callable[[Array, int], Array]) -> Array:
    """``product(rows, number)`` of the rows that have each number."""
    out = np.zeros((len(input), columns), np.float32)
    for number in np.unique(experts):
        rows = experts == number
        out[rows] = product(input[rows], int(number))
    return out


def _check(experts: Array, count: int) -> None:
    if experts.size and (experts.min() < 0 or experts.max() >= count):
        raise IndexError(f"numbers of {count} matrices that are not among them")


@op("etir.expert_linear.default")
def expert_linear(input: Array, weight: Array, experts: Array, columns: int) -> Array:
    matrices = weight.reshape(-1, columns, weight.shape[-1])
    _check(experts, len(matrices))
    return _by_expert(input, experts, columns, lambda rows, number: rows @ matrices[number].T)


def _part(factors: Array | None, number: int, size: int) -> Array | None:
    return None if factors is None else factors[number * size : (number + 1) * size]


def _packed(
    input: Array,
    experts: Array,
    weight: Array,
    scales: Array,
    minimums: Array | None,
    sums: Array | None,
    columns: int,
    bits: int,
    dynamic: bool,
) -> Array:
    panels = -(-columns // LANES)
    _check(experts, len(weight) // panels)

    def product(rows: Array, number: int) -> Array:
        own = [_part(array, number, panels) for array in (weight, scales, minimums)]
        assert own[0] is not None and own[1] is not None
        if not dynamic:
            return weight_linear(rows, own[0], own[1], own[2], None, columns, bits)
        return dynamic_linear(rows, own[0], own[1], own[2], _part(sums, number, columns), None, columns, bits)

    return _by_expert(input, experts, columns, product)


@op("etir.int4_group_dynamic_expert_linear.default")
def int4_group_dynamic_expert_linear(
    input: Array,
    experts: Array,
    weight: Array,
    scales: Array,
    minimums: Array | None,
    sums: Array | None,
    columns: int,
) -> Array:
    return _packed(input, experts, weight, scales, minimums, sums, columns, 4, True)


@op("etir.int8_group_dynamic_expert_linear.default")
def int8_group_dynamic_expert_linear(
    input: Array,
    experts: Array,
    weight: Array,
    scales: Array,
    minimums: Array | None,
    sums: Array | None,
    columns: int,
) -> Array:
    return _packed(input, experts, weight, scales, minimums, sums, columns, 8, True)


@op("etir.int4_group_expert_linear.default")
def int4_group_expert_linear(
    input: Array, experts: Array, weight: Array, scales: Array, minimums: Array | None, columns: int
) -> Array:
    return _packed(input, experts, weight, scales, minimums, None, columns, 4, False)


@op("etir.int8_group_expert_linear.default")
def int8_group_expert_linear(
    input: Array, experts: Array, weight: Array, scales: Array, minimums: Array | None, columns: int
) -> Array:
    return _packed(input, experts, weight, scales, minimums, None, columns, 8, False)
