"""Quantized embeddings and products against ExecuTorch's references."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from etir_testing.runtime.kernels import KernelFailure, Kernels, build_kernels

FLOATS = [torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return build_kernels("quantized")


@pytest.fixture(scope="module")
def stock() -> Any:
    """ExecuTorch's operators: Python references and the C++ kernels of the out variants."""
    pytest.importorskip("executorch.kernels.quantized")
    pytest.importorskip("executorch.exir.passes._quant_patterns_and_replacements")
    return torch.ops.quantized_decomposed


def run(kernels: Kernels, name: str, arguments: list[Any], *likes: torch.Tensor) -> torch.Tensor:
    return kernels.call(f"quantized_decomposed::{name}", arguments, list(likes))[0]


@pytest.mark.parametrize("bits", ["2bit", "4bit", "byte"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_embedding(kernels: Kernels, stock: Any, bits: str, dtype: torch.dtype) -> None:
    low, high = {"2bit": (-2, 1), "4bit": (-8, 7), "byte": (-128, 127)}[bits]
    weights = [torch.randint(0, 256, (11, 48), dtype=torch.uint8)]
    if bits == "byte":
        weights.append(torch.randint(-128, 128, (11, 48)).to(torch.int8))
    for weight in weights:
        dim = weight.shape[1] * {"2bit": 4, "4bit": 2, "byte": 1}[bits]
        for groups in (None, 1, 3):
            shape = (11,) if groups is None else (11, groups)
            scales = (torch.rand(shape) + 0.1).to(dtype)
            for zeros in (None, torch.randint(-3, 4, shape).to(dtype)):
                for indices in (
                    torch.tensor([[0, 10, 3], [3, 7, 1]]),
                    torch.tensor(5, dtype=torch.int32),
                    torch.empty(0, 2).long(),
                ):
                    wide_zeros = None if zeros is None else zeros.float()
                    arguments = [weight, scales, zeros, low, high, indices]
                    expected = getattr(stock, f"embedding_{bits}")(
                        weight, scales.float(), wide_zeros, low, high, indices.long()
                    )
                    assert expected.shape[-1] == dim
                    result = run(kernels, f"embedding_{bits}.out", arguments, expected.to(dtype))
                    torch.testing.assert_close(result, expected.to(dtype))
                    result = run(kernels, f"embedding_{bits}.dtype_out", [*arguments, torch.float32], expected)
                    torch.testing.assert_close(result, expected)
                    run(kernels, f"embedding_{bits}.dtype_out", [*arguments, None], expected.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_mixed_mm(kernels: Kernels, stock: Any, dtype: torch.dtype) -> None:
    for m, k, n in ((3, 70, 130), (1, 5, 1), (4, 8, 64)):
        x, scales = torch.randn(m, k).to(dtype), (torch.rand(k) / 100).to(dtype)
        weight = torch.randint(-128, 128, (k, n)).to(torch.int8)
        expected = torch.empty(m, n)
        stock.mixed_mm.out(x.float(), weight, scales.float(), None, out=expected)
        result = run(kernels, "mixed_mm.out", [x, weight, scales, None], expected.to(dtype))
        torch.testing.assert_close(result, expected.to(dtype), rtol=2e-3 if dtype == torch.float16 else 1e-5, atol=1e-4)
    zeros = torch.randint(-3, 3, (8,)).to(dtype)
    expected = x.float() @ ((weight.float() - zeros.float()[:, None]) * scales.float()[:, None])
    result = run(kernels, "mixed_mm.out", [x, weight, scales, zeros], expected.to(dtype))
    torch.testing.assert_close(result, expected.to(dtype), rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_mixed_linear(kernels: Kernels, stock: Any, dtype: torch.dtype) -> None:
    for m, k, n, groups in ((3, 72, 130, 3), (1, 5, 1, 1), (2, 512, 5, 2), (2, 16, 70, None)):
        x = torch.randn(m, k).to(dtype)
        scales = (torch.rand((n,) if groups is None else (n, groups)) / 100).to(dtype)
        weight = torch.randint(-128, 128, (n, k)).to(torch.int8)
        expected = torch.empty(m, n)
        stock.mixed_linear.out(x.float(), weight, scales.float(), None, None, out=expected)
        result = run(kernels, "mixed_linear.out", [x, weight, scales, None, None], expected.to(dtype))
        torch.testing.assert_close(result, expected.to(dtype), rtol=2e-3 if dtype == torch.float16 else 1e-5, atol=1e-4)
        result = run(kernels, "mixed_linear.out", [x, weight, scales, None, torch.float32], expected)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
    for shape in ((0, 16, 3), (2, 0, 3), (2, 16, 0)):
        m, k, n = shape
        x, weight = torch.ones(m, k), torch.ones(n, k, dtype=torch.int8)
        result = run(kernels, "mixed_linear.out", [x, weight, torch.ones(n), None, None], torch.empty(m, n))
        torch.testing.assert_close(result, x @ weight.float().T)


def test_refusals(kernels: Kernels) -> None:
    packed, scales = torch.zeros(4, 8, dtype=torch.uint8), torch.ones(4)
    out = torch.zeros(1, 16)
    index = torch.tensor([1])
    x, weight = torch.ones(2, 8), torch.ones(8, 4, dtype=torch.int8)
    cases: list[tuple[str, list[Any], torch.Tensor, str]] = [
        ("embedding_4bit.out", [packed, scales, None, -8, 7, torch.tensor([4])], out, "KernelIndex"),
        ("embedding_4bit.out", [packed, scales, None, -8, 7, torch.tensor([-1])], out, "KernelIndex"),
        ("embedding_4bit.out", [packed, scales, None, -7, 7, index], out, "KernelArgument"),
        ("embedding_4bit.out", [packed, scales[:3], None, -8, 7, index], out, "KernelShape"),
        ("embedding_4bit.out", [packed, torch.ones(4, 3), None, -8, 7, index], out, "KernelShape"),
        ("embedding_4bit.out", [packed, torch.ones(4, 0), None, -8, 7, index], out, "KernelShape"),
        ("embedding_4bit.out", [packed.to(torch.int8), scales, None, -8, 7, index], out, "KernelDtype"),
        ("embedding_4bit.out", [packed, scales, None, -8, 7, index], out.half(), "KernelDtypeMismatch"),
        ("mixed_mm.out", [x, weight, torch.ones(7), None], torch.ones(2, 4), "KernelShape"),
        ("mixed_mm.out", [x, weight.to(torch.uint8), torch.ones(8), None], torch.ones(2, 4), "KernelDtype"),
        ("mixed_mm.out", [x, weight[:7], torch.ones(7), None], torch.ones(2, 4), "KernelShape"),
        ("mixed_linear.out", [x, weight.T.contiguous(), torch.ones(4, 3), None, None], torch.ones(2, 4), "KernelShape"),
    ]
    for name, arguments, like, failure in cases:
        with pytest.raises(KernelFailure) as caught:
            run(kernels, name, arguments, like)
        assert caught.value.check == failure, name
