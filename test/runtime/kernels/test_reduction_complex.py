"""Reductions of complex numbers against torch: moments, norms and log-sums of exponentials."""

from __future__ import annotations

import pytest
import torch

from etir_testing.runtime.against_torch import LAYOUTS, check, laid_out, numbers, refuses
from etir_testing.runtime.kernels import Kernels, build_kernels

COMPLEX = (torch.complex64, torch.complex128)
PART = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return build_kernels("reduction", "scan")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("dim", [None, [0], [-1], [1, 3]])
def test_moments(kernels: Kernels, dim: list[int] | None, dtype: torch.dtype, layout: str) -> None:
    x = laid_out(numbers((2, 3, 5, 7), dtype), layout)
    for name in ("var", "std"):
        check(kernels, f"{name}.correction_out", [x, dim, 1, True], PART[dtype])
        check(kernels, f"{name}.out", [x, dim, False, False], PART[dtype])
        check(kernels, f"{name}_mean.correction_out", [x, dim, 0, False], PART[dtype], dtype)


def test_moments_need_the_parts_dtype(kernels: Kernels) -> None:
    x = numbers((2, 3), torch.complex64)
    like = torch.empty(2)
    refuses(kernels, "KernelDtype", "var.correction_out", [x, [1], 1, False], like.to(torch.complex64))
    refuses(kernels, "KernelDtype", "var_mean.correction_out", [x, [1], 1, False], like, like)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, -1.0, float("inf"), -float("inf")])
def test_norms(kernels: Kernels, p: float, dtype: torch.dtype) -> None:
    x = numbers((4, 5, 6), dtype)
    check(kernels, "linalg_vector_norm.out", [x, p, [1], False, None], PART[dtype])
    check(kernels, "linalg_vector_norm.out", [x, p, None, True, None], PART[dtype])
    check(kernels, "norm.out", [x, p, [0, 2], False], PART[dtype])


def test_norm_of_complex_halves(kernels: Kernels) -> None:
    x = numbers((4, 50), torch.complex64).to(torch.complex32)
    wanted = torch.linalg.vector_norm(x.to(torch.complex64), dim=1).half()
    (found,) = kernels.call("aten::linalg_vector_norm.out", [x, 2.0, [1], False, None], [wanted])
    torch.testing.assert_close(found, wanted)


def test_the_size_of_large_parts_does_not_overflow(kernels: Kernels) -> None:
    x = torch.tensor([complex(3e30, 4e30)], dtype=torch.complex64)
    (found,) = kernels.call("aten::linalg_vector_norm.out", [x, 1.0, None, False, None], [torch.empty(())])
    torch.testing.assert_close(found, torch.tensor(5e30))


@pytest.mark.parametrize("dtype", COMPLEX)
def test_log_sums(kernels: Kernels, dtype: torch.dtype) -> None:
    x = numbers((3, 4, 5), dtype) * 3
    for dim in ([0], [2], [0, 1]):
        check(kernels, "logsumexp.out", [x, dim, False], dtype, tolerance=(1e-5, 1e-5))
    # Larger than any exponential: the largest real part is taken out.
    check(kernels, "logsumexp.out", [x + 2000, [1], False], dtype, tolerance=(1e-5, 1e-5))
    for dim in (0, 2):
        check(kernels, "logcumsumexp.out", [x, dim], dtype, tolerance=(1e-5, 1e-5))
