"""Weights in the order in which code reads them: each element where its index says, zeros after the last column."""

from __future__ import annotations

import numpy as np
import pytest

from etir.backends.native.packing import CHANNELS, packed
from etir.backends.native.tile import WeightOp, memref
from etir.backends.native.winograd import G, transformed

NUMBERS = np.random.default_rng(0)


def _numbers(*shape: int) -> np.ndarray:
    return NUMBERS.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("n", [32, 64, 35, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_matrices(n: int, transposed: bool) -> None:
    panels = -(-n // 32)
    given = _numbers(n, 7) if transposed else _numbers(7, n)
    found = packed(WeightOp("w", memref((panels, 7, 32)), 32, transposed), given)
    whole = np.zeros((7, panels * 32), np.float32)
    whole[:, :n] = given.T if transposed else given
    for panel, matrix in enumerate(found.reshape(panels, 7, 32)):
        np.testing.assert_array_equal(matrix, whole[:, 32 * panel : 32 * panel + 32])


@pytest.mark.parametrize("n", [16, 32, 20, 5])
@pytest.mark.parametrize("groups", [0, 1, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_windows(n: int, groups: int, transposed: bool) -> None:
    """An element (n, c, y, x) of a group is in row ``x * channels + c`` of the matrix of its row y."""
    panels, channels, count = -(-n // 16), 5, max(groups, 1)
    shape = (*([groups] if groups else []), 3, panels, 2 * channels, 16)
    given = _numbers(count * n, channels, 3, 2) if transposed else _numbers(count * channels, n, 3, 2)
    found = packed(WeightOp("w", memref(shape), 16, transposed), given).reshape(count, 3, panels, 2, channels, 16)
    by_group = given.reshape(count, -1, *given.shape[1:])
    wanted = by_group.transpose((0, 3, 4, 2, 1) if transposed else (0, 3, 4, 1, 2))
    whole = found.transpose(0, 1, 3, 4, 2, 5).reshape(count, 3, 2, channels, -1)
    np.testing.assert_array_equal(whole[..., :n], wanted)
    assert not whole[..., n:].any()


@pytest.mark.parametrize("channels", [CHANNELS, 2 * CHANNELS + 3, 1])
def test_filters_are_transformed_and_rounded_once(channels: int) -> None:
    given = _numbers(35, channels, 3, 3)
    g = np.array(G)
    points = (g @ given.astype(np.float64) @ g.T).transpose(2, 3, 1, 0).reshape(16, channels, 35)
    np.testing.assert_array_equal(transformed(given), points)
    op = WeightOp("w", memref((16, 2, channels, 32)), 32, True, 2)
    found = packed(op, given).reshape(16, 2, channels, 32).transpose(0, 2, 1, 3).reshape(16, channels, 64)
    np.testing.assert_array_equal(found[..., :35], points.astype(np.float32))
    assert not found[..., 35:].any()
