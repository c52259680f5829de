"""Medians against torch."""

from __future__ import annotations

import pytest
import torch

from etir_testing.runtime.against_torch import LAYOUTS, check, laid_out, numbers, refuses
from etir_testing.runtime.kernels import Kernels, build_kernels

DTYPES = (
    torch.uint8,
    torch.int8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return build_kernels("reduction")


def check_slices(
    kernels: Kernels, name: str, x: torch.Tensor, dim: int, args: list[object], want: torch.Tensor
) -> None:
    """The values must be torch's; the indices must point at them (torch leaves open at which of equal values)."""
    likes = [want.contiguous(), torch.empty(want.shape, dtype=torch.int64)]
    values, indices = kernels.call(f"aten::{name}", [x, *args], likes)
    torch.testing.assert_close(values, want, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(x.gather(dim, indices), values, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 40), (2, 3, 5, 8), (1, 1), (7,)])
def test_medians(kernels: Kernels, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    for layout in LAYOUTS:
        x = laid_out(numbers(shape, dtype), layout)
        check(kernels, "median.out", [x], dtype)
        for dim in range(len(shape)):
            check_slices(kernels, "median.dim_values", x, dim, [dim, True], x.median(dim, True).values)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_nan_and_infinity(kernels: Kernels, dtype: torch.dtype) -> None:
    x = numbers((6, 9), dtype)
    x[1, 3] = x[1, 5] = float("nan")
    x[2] = float("nan")
    x[3, :4] = float("inf")
    x[4, :4] = -float("inf")
    x[5, :4] = 0.0
    x[5, 4:] = -0.0
    check_slices(kernels, "median.dim_values", x, 1, [1, True], x.median(1, True).values)
    check_slices(kernels, "nanmedian.dim_values", x, 1, [1, True], x.nanmedian(1, True).values)
    check(kernels, "median.out", [x], dtype)
    check(kernels, "nanmedian.out", [x], dtype)
    check(kernels, "nanmedian.out", [x[2].clone()], dtype)
    check(kernels, "median.out", [torch.empty(0, dtype=dtype)], dtype)


def test_refusals(kernels: Kernels) -> None:
    x, value, index = torch.ones(2, 3), torch.empty(2), torch.empty(2, dtype=torch.int64)
    refuses(kernels, "KernelShape", "median.dim_values", [torch.empty(2, 0), 1, False], value, index)
    refuses(kernels, "KernelDtype", "median.out", [x.bool()], torch.empty((), dtype=torch.bool))
    refuses(kernels, "KernelDtypeMismatch", "median.dim_values", [x, 1, False], value, index.int())
