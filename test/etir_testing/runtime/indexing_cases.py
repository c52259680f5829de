"""What the tests of indexing, sorting, scan and random kernels share: dtypes, numbers, exact comparison, refusals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from etir_testing.runtime.kernels import KernelFailure, build_kernels

KERNELS = build_kernels("indexing", "sorting", "scan", "random")
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
REAL = [*INTS, *FLOATS]
DTYPES = [torch.bool, *REAL, torch.complex64, torch.complex128]
TOLERANCES = {torch.float16: 5e-3, torch.bfloat16: 4e-2, torch.float32: 1e-5}
"""Of sums, whose order is not that of torch."""


def make(shape: Sequence[int], dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Numbers of both signs; integers repeat, so that there are ties."""
    generator = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if dtype.is_complex or dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(0 if dtype is torch.uint8 else -9, 10, shape, generator=generator).to(dtype)


def same(actual: torch.Tensor, expected: torch.Tensor, tolerance: float = 0.0) -> None:
    """Equal dtypes and numbers; NaN is equal to NaN."""
    assert actual.dtype == expected.dtype
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def refused(check: str, name: str, *arguments: Any) -> KernelFailure:
    """The failure of a call, which has to be that of the check with this name."""
    with pytest.raises(KernelFailure) as caught:
        KERNELS.call(name, *arguments)
    assert caught.value.check == check
    return caught.value
