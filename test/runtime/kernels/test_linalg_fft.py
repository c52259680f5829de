"""Fourier transforms of the runtime against torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from etir_testing.runtime.kernels import KernelFailure, build_kernels

# Powers, mixed factors, primes with and without a butterfly, and what is left for the convolution.
LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 30, 31, 32, 37, 49, 64, 74, 77, 97, 100, 101, 120, 128, 257, 961, 1000,
           1024, 1013, 1369, 2018]  # fmt: skip
PRECISIONS = [(torch.float32, torch.complex64), (torch.float64, torch.complex128)]


@pytest.fixture(scope="module")
def kernels() -> Any:
    return build_kernels("linalg")


def permuted(t: torch.Tensor) -> torch.Tensor:
    """The same values with dims in the opposite order in memory."""
    order = tuple(reversed(range(t.dim())))
    return t.permute(order).contiguous().permute(order)


def check(
    kernels: Any, name: str, arguments: list[Any], expected: torch.Tensor, like: torch.Tensor | None = None
) -> None:
    (got,) = kernels.call(f"aten::{name}", arguments, [expected if like is None else like])
    scale = max(1.0, expected.abs().max().item()) if expected.numel() else 1.0
    tolerance = 3e-6 if expected.dtype in (torch.float32, torch.complex64) else 1e-13
    torch.testing.assert_close(got / scale, expected / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize(("real", "cx"), PRECISIONS, ids=str)
@pytest.mark.parametrize("n", LENGTHS)
def test_lengths(kernels: Any, n: int, real: torch.dtype, cx: torch.dtype) -> None:
    x, z = torch.randn(3, n, dtype=real), torch.randn(3, n, dtype=cx)
    for forward in (True, False):
        check(kernels, "_fft_c2c.out", [z, [1], 0, forward], torch.ops.aten._fft_c2c(z, [1], 0, forward))
    for one_sided in (True, False):
        expected = torch.ops.aten._fft_r2c(x, [1], 0, one_sided)
        check(kernels, "_fft_r2c.out", [x, [1], 0, one_sided], expected)
    half = torch.randn(3, n // 2 + 1, dtype=cx)
    # Numpy's definition: imaginary parts that should be zero do not count.
    expected = torch.fft.irfft(half, n, norm="forward")
    check(kernels, "_fft_c2r.out", [half, [1], 0, n], expected)
    used = kernels.temp_used
    assert used <= 17 * n * half.itemsize


@pytest.mark.parametrize("dims", [[0], [1], [2], [-1], [0, 1], [1, 0], [2, 0], [0, 1, 2], [2, 1, 0]])
@pytest.mark.parametrize("normalization", [0, 1, 2])
def test_dims(kernels: Any, dims: list[int], normalization: int) -> None:
    # Torch's own functions wrap dims before they come to these operators.
    wrapped = [d % 3 for d in dims]
    x, z = torch.randn(4, 6, 5), torch.randn(4, 6, 5, dtype=torch.complex64)
    for layout in (torch.Tensor.contiguous, permuted):
        for forward in (True, False):
            expected = torch.ops.aten._fft_c2c(z, wrapped, normalization, forward)
            check(kernels, "_fft_c2c.out", [layout(z), dims, normalization, forward], expected)
            check(kernels, "_fft_c2c.out", [z, dims, normalization, forward], expected, layout(expected.contiguous()))
        for one_sided in (True, False):
            expected = torch.ops.aten._fft_c2c(x.to(z.dtype), wrapped, normalization, True)
            if one_sided:
                expected = expected.narrow(dims[-1], 0, x.shape[dims[-1]] // 2 + 1)
            expected = expected.contiguous()
            check(kernels, "_fft_r2c.out", [layout(x), dims, normalization, one_sided], expected, layout(expected))
        # The transform of what a real signal has: a proper half.
        for n in (x.shape[dims[-1]], x.shape[dims[-1]] // 2 * 2):
            signal = x.narrow(dims[-1], 0, n).contiguous()
            half = torch.ops.aten._fft_r2c(signal, wrapped, 0, True).contiguous()
            expected = torch.ops.aten._fft_c2r(half.clone(), wrapped, normalization, n).contiguous()
            check(kernels, "_fft_c2r.out", [layout(half), dims, normalization, n], expected, layout(expected))


def test_no_dims_and_empty(kernels: Any) -> None:
    z = torch.randn(3, 4, dtype=torch.complex64)
    check(kernels, "_fft_c2c.out", [z, [], 0, True], z, permuted(z))
    z = torch.empty(0, 4, dtype=torch.complex64)
    check(kernels, "_fft_c2c.out", [z, [1], 0, True], z)
    check(kernels, "_fft_r2c.out", [z.real.clone(), [1], 0, True], z[:, :3].clone())


def test_refusals(kernels: Any) -> None:
    x, z = torch.randn(3, 4), torch.randn(3, 4, dtype=torch.complex64)
    half = z[:, :3].clone()

    def refused(check: str, name: str, arguments: list[Any], like: torch.Tensor) -> None:
        with pytest.raises(KernelFailure) as failure:
            kernels.call(f"aten::{name}", arguments, [like])
        assert failure.value.check == check

    refused("KernelDtype", "_fft_c2c.out", [x, [1], 0, True], z)
    refused("KernelDtype", "_fft_c2c.out", [z, [1], 0, True], z.to(torch.complex128))
    refused("KernelDtype", "_fft_r2c.out", [x.half(), [1], 0, True], half)
    refused("KernelDim", "_fft_c2c.out", [z, [2], 0, True], z)
    refused("KernelDim", "_fft_c2c.out", [z, [-3], 0, True], z)
    refused("KernelArgument", "_fft_c2c.out", [z, [1, 1], 0, True], z)
    refused("KernelArgument", "_fft_c2c.out", [z, [1], 3, True], z)
    refused("KernelArgument", "_fft_r2c.out", [x, [], 0, True], half)
    refused("KernelRank", "_fft_r2c.out", [torch.randn(()), [0], 0, True], z[0, 0].clone())
    refused("KernelShape", "_fft_r2c.out", [torch.randn(3, 0), [1], 0, True], half)
    refused("KernelShape", "_fft_c2r.out", [half, [1], 0, 6], torch.empty(3, 6))
    refused("KernelArgument", "_fft_c2r.out", [half, [1], 0, 0], x)
    refused("KernelArgument", "_fft_c2r.out", [half, [1], 0, 2**40], x)
