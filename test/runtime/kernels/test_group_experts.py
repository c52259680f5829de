"""Rows that choose one of several packed matrices: the kernels against NumPy, to the bit where sums are integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from etir.interpret.numpy_ops import lookup
from etir.interpret.numpy_ops.groups import Packed, packed_groups

from etir_testing.runtime.integer_variants import VARIANTS, integer_kernels
from etir_testing.runtime.kernels import KernelFailure, Kernels, build_kernels

CASES = [
    (5, [0, 0, 0, 1, 3], 64, 32, 2), (1, [2], 576, 40, 18), (40, [1] * 17 + [3] * 3 + [0] * 20, 96, 17, 3),
    (6, [3, 1, 3, 1, 0, 2], 40, 16, 1), (0, [], 32, 16, 1), (36, [3] * 36, 128, 48, 4),
]  # fmt: skip
"""Rows, the matrix of each, depth, columns, groups."""


@pytest.fixture(scope="module", params=VARIANTS)
def kernels(request: pytest.FixtureRequest) -> Kernels:
    return integer_kernels(str(request.param))


@pytest.fixture(scope="module")
def floats() -> Kernels:
    return build_kernels("linalg")


def experts(bits: int, depth: int, columns: int, groups: int, low: bool) -> tuple[list[Any], np.ndarray]:
    """Four matrices at random, packed one after the other, and the sums of their rows."""
    random = np.random.default_rng(bits + depth + columns)
    parts: list[Packed] = []
    sums: list[np.ndarray] = []
    for _ in range(4):
        numbers = random.integers(0, 1 << bits, (columns, depth)).astype(np.uint8)
        scales = (random.random((columns, groups)) * 0.01 + 0.001).astype(np.float16)
        lows = (random.standard_normal((columns, groups)) * 0.05).astype(np.float16) if low else None
        parts.append(packed_groups(numbers, scales, lows, bits))
        rows = np.arange(columns)
        own = [parts[-1].weight, parts[-1].scales, parts[-1].minimums]
        sums.append(lookup(f"etir.int{bits}_group_embedding.default")(*own, rows, columns, depth).sum(1))
    minimums = np.concatenate([p.minimums for p in parts if p.minimums is not None]) if low else None
    weights = [np.concatenate([p.weight for p in parts]), np.concatenate([p.scales for p in parts]), minimums]
    return weights, np.concatenate(sums).astype(np.float32)


def call(kernels: Kernels, name: str, arguments: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The kernel's result and the oracle's."""
    wanted = lookup(f"etir.{name}.default")(*arguments)
    given = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arguments]
    (found,) = kernels.call(f"etir::{name}.out", given, [torch.zeros(wanted.shape)])
    return found.numpy(), wanted


def inputs(rows: int, depth: int) -> np.ndarray:
    random = np.random.default_rng(rows + depth)
    return (random.standard_normal((rows, depth)) + random.standard_normal((rows, 1))).astype(np.float32)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}x{case[2]}x{case[3]}")
def test_on_integers(kernels: Kernels, bits: int, case: tuple[int, list[int], int, int, int]) -> None:
    rows, chosen, depth, columns, groups = case
    x = inputs(rows, depth)
    for low in (False, True):
        weights, sums = experts(bits, depth, columns, groups, low)
        for dtype in (np.int64, np.int32):
            arguments = [x, np.array(chosen, dtype), *weights, sums if dtype == np.int64 else None, columns]
            found, wanted = call(kernels, f"int{bits}_group_dynamic_expert_linear", arguments)
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}x{case[2]}x{case[3]}")
def test_on_floats(floats: Kernels, bits: int, case: tuple[int, list[int], int, int, int]) -> None:
    rows, chosen, depth, columns, groups = case
    weights, _ = experts(bits, depth, columns, groups, groups == 1)
    found, wanted = call(
        floats, f"int{bits}_group_expert_linear", [inputs(rows, depth), np.array(chosen, np.int64), *weights, columns]
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "at"),
    [
        ({1: np.array([0, 1, 4], np.int64)}, "KernelIndex"),
        ({1: np.array([0, -1, 2], np.int64)}, "KernelIndex"),
        ({1: np.array([0, 1], np.int64)}, "KernelShape"),
        ({1: np.array([0, 1, 2], np.float32)}, "KernelDtype"),
        ({5: 33}, "KernelShape"),
        ({5: 0}, "KernelArgument"),
        ({0: inputs(3, 96)}, "KernelShape"),
        ({3: np.ones((7, 2, 16), np.float16)}, "KernelShape"),
    ],
)
def test_operands_that_do_not_fit(floats: Kernels, change: dict[int, Any], at: str) -> None:
    weights, _ = experts(4, 64, 32, 2, False)
    arguments: list[Any] = [inputs(3, 64), np.array([0, 1, 2], np.int64), *weights, 32]
    for index, value in change.items():
        arguments[index] = value
    given = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arguments]
    with pytest.raises(KernelFailure, match=at):
        floats.call("etir::int4_group_expert_linear.out", given, [torch.zeros(3, 32)])
