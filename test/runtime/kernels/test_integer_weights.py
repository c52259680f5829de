"""Linear layers with integer weights against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from etir.interpret.numpy_ops import lookup
from etir.interpret.numpy_ops.integer import in_halves

from etir_testing.runtime.kernels import KernelFailure, Kernels, build_kernels


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return build_kernels("linalg")


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize(
    ("rows", "depth", "columns", "groups"),
    [(1, 64, 5, 1), (4, 66, 33, 3), (5, 96, 40, 3), (13, 1030, 17, 5), (9, 2, 1, 1), (0, 8, 4, 1), (3, 32, 0, 1)],
)
@pytest.mark.parametrize("has_bias", [False, True])
def test_weight_linear(
    kernels: Kernels, bits: int, rows: int, depth: int, columns: int, groups: int, has_bias: bool
) -> None:
    random = np.random.default_rng(rows + depth + columns)
    most = 1 << (bits - 1)
    numbers = random.integers(-most, most, (columns, depth)).astype(np.int8)
    weight = numbers if bits == 8 else in_halves(numbers)
    scales = random.random((columns, groups)).astype(np.float32)
    x = random.standard_normal((2, rows, depth)).astype(np.float32)
    bias = random.standard_normal(columns).astype(np.float32) if has_bias else None
    wanted = lookup(f"etir.int{bits}_weight_linear.default")(x, weight, scales, bias)
    arguments = [None if v is None else torch.from_numpy(np.ascontiguousarray(v)) for v in (x, weight, scales, bias)]
    (found,) = kernels.call(f"etir::int{bits}_weight_linear.out", arguments, [torch.from_numpy(wanted)])
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-3 * most)


def test_refused(kernels: Kernels) -> None:
    x, scales = torch.zeros(3, 6), torch.zeros(4, 1)
    good = torch.zeros(4, 3, dtype=torch.uint8)
    for weight, given, check in (
        (good.to(torch.int8), scales, "KernelDtype"),
        (torch.zeros(4, 6, dtype=torch.uint8), scales, "KernelShape"),
        (good, torch.zeros(4, 4), "KernelShape"),
        (good, torch.zeros(4), "KernelRank"),
    ):
        with pytest.raises(KernelFailure) as failure:
            kernels.call("etir::int4_weight_linear.out", [x, weight, given, None], [torch.zeros(3, 4)])
        assert failure.value.check == check
