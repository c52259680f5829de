"""quantize, dequantize, choose_qparams and add against torch's reference and the stock C++ kernels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed

from etir_testing.runtime.kernels import KernelFailure, Kernels, build_kernels

OPS = torch.ops.quantized_decomposed
INTS = [torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32]
FLOATS = [torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return build_kernels("quantized")


def bounds(dtype: torch.dtype) -> tuple[int, int]:
    info = torch.iinfo(dtype)
    return max(info.min, -(2**24)), min(info.max, 2**24)


def floats(shape: tuple[int, ...], dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 3
    return x.to(dtype)


def integers(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    low, high = bounds(dtype)
    return torch.randint(low, high + 1, shape, generator=torch.Generator().manual_seed(1)).to(dtype)


def run(kernels: Kernels, name: str, arguments: list[Any], *likes: torch.Tensor) -> list[torch.Tensor]:
    return kernels.call(f"quantized_decomposed::{name}", arguments, list(likes))


def assert_nearly_equal(result: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal, but for few elements where float and double round a quotient to different sides."""
    assert result.shape == expected.shape
    difference = (result.to(torch.int64) - expected.to(torch.int64)).abs()
    assert difference.max() <= 1
    assert difference.sum() <= max(1, difference.numel() // 500)


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("source", [*FLOATS, torch.float64])
def test_quantize_per_tensor(kernels: Kernels, source: torch.dtype, dtype: torch.dtype) -> None:
    low, high = bounds(dtype)
    for shape in ((3, 50, 7), (), (0, 4), (1000,)):
        for scale, zero_point, least, most in ((0.05, 3, low, high), (0.013, 0, max(low, -5), min(high, 20))):
            x = floats(shape, source)
            expected = OPS.quantize_per_tensor(x.float(), scale, zero_point, least, most, dtype)
            like = torch.empty(shape, dtype=dtype)
            (result,) = run(kernels, "quantize_per_tensor.out", [x, scale, zero_point, least, most, dtype], like)
            torch.testing.assert_close(result, expected, rtol=0, atol=0)
            tensors = [torch.tensor([scale], dtype=torch.float64), torch.tensor([zero_point])]
            (result,) = run(kernels, "quantize_per_tensor.Tensor_out", [x, *tensors, least, most, dtype], like)
            torch.testing.assert_close(result, expected, rtol=0, atol=0)


def test_quantize_rounds_half_to_even_and_saturates(kernels: Kernels) -> None:
    x = torch.tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1e9, -1e9, float("inf"), float("-inf"), 3e38, -0.0])
    for dtype, zero_point in ((torch.int8, 1), (torch.uint8, 128), (torch.int16, -3)):
        low, high = bounds(dtype)
        expected = OPS.quantize_per_tensor(x, 1.0, zero_point, low, high, dtype)
        (result,) = run(kernels, "quantize_per_tensor.out", [x, 1.0, zero_point, low, high, dtype], expected)
        torch.testing.assert_close(result, expected, rtol=0, atol=0)
    info = torch.iinfo(torch.int32)
    arguments = [x, 1.0, 0, info.min, info.max, torch.int32]
    (result,) = run(kernels, "quantize_per_tensor.out", arguments, x.to(torch.int32))
    assert result.tolist() == [-2, -2, 0, 0, 2, 2, 10**9, -(10**9), info.max, info.min, info.max, 0]
    (result,) = run(
        kernels,
        "quantize_per_tensor.out",
        [torch.tensor([float("nan")]), 1.0, 4, -8, 7, torch.int8],
        x[:1].to(torch.int8),
    )
    assert result.tolist() == [-8]


@pytest.mark.parametrize("layout", ["plain", "last"])
def test_layouts(kernels: Kernels, layout: str) -> None:
    format = torch.channels_last if layout == "last" else torch.contiguous_format
    x = floats((2, 5, 3, 4)).contiguous(memory_format=format)
    expected = OPS.quantize_per_tensor(x, 0.1, 2, -128, 127, torch.int8).contiguous(memory_format=format)
    (result,) = run(kernels, "quantize_per_tensor.out", [x, 0.1, 2, -128, 127, torch.int8], expected)
    torch.testing.assert_close(result, expected, rtol=0, atol=0)
    scales, zeros = torch.rand(5, dtype=torch.float64) + 0.01, torch.arange(5)
    expected = OPS.quantize_per_channel(x, scales, zeros, 1, -128, 127, torch.int8)
    (result,) = run(
        kernels, "quantize_per_channel.out", [x, scales, zeros, 1, -128, 127, torch.int8],
        expected.contiguous(memory_format=format),
    )  # fmt: skip
    assert_nearly_equal(result, expected)
    q = expected.contiguous(memory_format=format)
    expected = OPS.dequantize_per_channel(q, scales, zeros, 1, -128, 127, torch.int8)
    (result,) = run(
        kernels, "dequantize_per_channel.out", [q, scales, zeros, 1, -128, 127, torch.int8, None],
        expected.contiguous(memory_format=format),
    )  # fmt: skip
    torch.testing.assert_close(result.contiguous(), expected.contiguous())
    if layout == "last":
        with pytest.raises(KernelFailure) as caught:
            run(kernels, "quantize_per_tensor.out", [x, 0.1, 2, -128, 127, torch.int8], q.contiguous())
        assert caught.value.check == "KernelDimOrder"


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_quantize_per_channel(kernels: Kernels, axis: int, dtype: torch.dtype) -> None:
    low, high = bounds(dtype)
    x = floats((4, 5, 300))
    count = x.shape[axis]
    for scale_type in (torch.float32, torch.float64):
        scales = (torch.rand(count) + 0.02).to(scale_type)
        zeros = torch.randint(max(low, -5), 6, (count,))
        expected = OPS.quantize_per_channel(x, scales, zeros, axis % 3, low, high, dtype)
        (result,) = run(kernels, "quantize_per_channel.out", [x, scales, zeros, axis, low, high, dtype], expected)
        assert_nearly_equal(result, expected)


@pytest.mark.parametrize("dtype", INTS)
def test_per_token(kernels: Kernels, dtype: torch.dtype) -> None:
    low, high = bounds(dtype)
    for shape in ((2, 7, 150), (9,), (0, 5)):
        x = floats(shape)
        tokens = x.shape[:-1].numel()
        scales = torch.rand((*shape[:-1], 1), dtype=torch.float64) + 0.02
        zeros = torch.randint(max(low, -9), 10, (*shape[:-1], 1))
        assert scales.numel() == tokens
        expected = OPS.quantize_per_token(x, scales, zeros, low, high, dtype)
        (result,) = run(kernels, "quantize_per_token.out", [x, scales, zeros, low, high, dtype], expected)
        if x.numel():
            assert_nearly_equal(result, expected)
        for out_type in FLOATS:
            wanted = OPS.dequantize_per_token(expected.to(torch.int64), scales, zeros, low, high, dtype, out_type)
            arguments = [expected, scales, zeros, low, high, dtype, out_type]
            (result,) = run(kernels, "dequantize_per_token.out", arguments, wanted)
            torch.testing.assert_close(result, wanted)


def test_per_token_ties(kernels: Kernels) -> None:
    """The zero point is added before rounding."""
    x = torch.tensor([[-1.5, -0.5, 0.5, 1.5, 2.5]])
    scales, zeros = torch.ones(1, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.int64)
    expected = OPS.quantize_per_token(x, scales, zeros, -128, 127, torch.int8)
    (result,) = run(kernels, "quantize_per_token.out", [x, scales, zeros, -128, 127, torch.int8], expected)
    assert result.tolist() == expected.tolist() == [[0, 0, 2, 2, 4]]


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("out_type", [None, torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_dequantize_per_tensor(kernels: Kernels, out_type: torch.dtype | None, dtype: torch.dtype) -> None:
    low, high = bounds(dtype)
    for shape in ((3, 50, 7), (), (0, 4)):
        q = integers(shape, dtype)
        wide = torch.float64 if out_type == torch.float64 else torch.float32
        expected = OPS.dequantize_per_tensor(q, 0.0031, 5, low, high, dtype, out_dtype=wide).to(
            out_type or torch.float32
        )
        (result,) = run(kernels, "dequantize_per_tensor.out", [q, 0.0031, 5, low, high, dtype, out_type], expected)
        torch.testing.assert_close(result, expected)
        tensors = [torch.tensor([0.0031], dtype=torch.float64), torch.tensor([5])]
        (result,) = run(
            kernels, "dequantize_per_tensor.Tensor_out", [q, *tensors, low, high, dtype, out_type], expected
        )
        torch.testing.assert_close(result, expected)


@pytest.mark.parametrize("dtype", INTS)
def test_dequantize_per_channel(kernels: Kernels, dtype: torch.dtype) -> None:
    low, high = bounds(dtype)
    q = integers((3, 4, 140), dtype)
    for axis, zeros in ((0, torch.arange(3)), (1, None), (2, torch.arange(140, dtype=torch.int32))):
        scales = torch.rand(q.shape[axis], dtype=torch.float64)
        shape = [1, 1, 1]
        shape[axis] = -1
        offset = 0 if zeros is None else zeros.view(shape)
        expected = ((q.double() - offset) * scales.view(shape)).float()
        (result,) = run(
            kernels, "dequantize_per_channel.out", [q, scales, zeros, axis, low, high, dtype, None], expected
        )
        torch.testing.assert_close(result, expected)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16])
def test_choose_qparams(kernels: Kernels, dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    for x in (
        floats((4, 33)),
        floats((5,)).abs() + 1,
        -floats((70,)).abs() - 2,
        torch.zeros(3),
        torch.full((2, 2), 7.0),
    ):
        scale, zero = OPS.choose_qparams.tensor(x, info.min, info.max, 1e-5, dtype)
        results = run(kernels, "choose_qparams.Tensor_out", [x, info.min, info.max, 1e-5, dtype], scale, zero)
        torch.testing.assert_close(results[0], scale)
        assert results[1].tolist() == zero.tolist()
    for bad in (torch.tensor([float("nan")]), torch.tensor([float("inf"), 1.0])):
        run(kernels, "choose_qparams.Tensor_out", [bad, info.min, info.max, 1e-5, dtype], scale, zero)


def test_choose_qparams_per_token(kernels: Kernels) -> None:
    for shape in ((2, 9, 65), (1, 3), (17,)):
        for x in (floats(shape), floats(shape).abs() + 1, torch.zeros(shape), -floats(shape).abs()):
            scale, zero = OPS.choose_qparams_per_token_asymmetric(x, torch.int8)
            results = run(kernels, "choose_qparams_per_token_asymmetric.out", [x, torch.int8], scale, zero)
            torch.testing.assert_close(results[0], scale)
            assert (results[1] - zero).abs().max() == 0
    x = torch.full((1, 4), float("nan"))
    run(kernels, "choose_qparams_per_token_asymmetric.out", [x, torch.int8], x.double()[:, :1], x.long()[:, :1])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_add(kernels: Kernels, dtype: torch.dtype) -> None:
    low, high = bounds(dtype)
    low, high = max(low, -1000), min(high, 1000)
    a = torch.randint(low, high, (3, 1, 50)).to(dtype)
    b = torch.randint(low, high, (4, 50)).to(dtype)
    wide = (a.double() - 3) * 0.2 + (b.double() + 4) * 0.07
    expected = (torch.round(wide / 0.15) - 2).clamp(low, high).to(dtype)
    arguments = [a, 0.2, 3, low, high, b, 0.07, -4, low, high, 0.15, -2, low, high]
    (result,) = run(kernels, "add.out", arguments, expected)
    assert_nearly_equal(result, expected)


def test_refusals(kernels: Kernels) -> None:
    x, q = floats((2, 3)), torch.zeros(2, 3, dtype=torch.int8)
    ones, zeros = torch.ones(2, dtype=torch.float64), torch.zeros(2, dtype=torch.int64)
    cases: list[tuple[str, list[Any], list[torch.Tensor], str]] = [
        ("quantize_per_tensor.out", [x, 0.1, 0, -129, 127, torch.int8], [q], "KernelArgument"),
        ("quantize_per_tensor.out", [x, 0.1, 0, -128, 128, torch.int8], [q], "KernelArgument"),
        ("quantize_per_tensor.out", [x, 0.1, 0, 5, 4, torch.int8], [q], "KernelArgument"),
        ("quantize_per_tensor.out", [x, 0.1, 2**40, -128, 127, torch.int8], [q], "KernelArgument"),
        ("quantize_per_tensor.out", [x, 0.1, 0, 0, 255, torch.uint8], [q], "KernelDtypeMismatch"),
        ("quantize_per_tensor.out", [q, 0.1, 0, -128, 127, torch.int8], [q], "KernelDtype"),
        ("quantize_per_channel.out", [x, ones, zeros, 1, -128, 127, torch.int8], [q], "KernelShape"),
        ("quantize_per_channel.out", [x, ones, zeros, 2, -128, 127, torch.int8], [q], "KernelDim"),
        ("quantize_per_channel.out", [x, ones.long(), zeros, 0, -128, 127, torch.int8], [q], "KernelDtype"),
        ("quantize_per_token.out", [x, ones[:1], zeros, -128, 127, torch.int8], [q], "KernelShape"),
        ("dequantize_per_tensor.out", [q, 0.1, 0, -128, 127, torch.uint8, None], [x], "KernelDtypeMismatch"),
        ("dequantize_per_tensor.out", [q, 0.1, 0, -128, 127, torch.int8, torch.float16], [x], "KernelDtypeMismatch"),
        ("choose_qparams.Tensor_out", [x[:0], 0, 255, 0.1, torch.uint8], [ones, zeros], "KernelShape"),
        ("choose_qparams.Tensor_out", [x, 0, 0, 0.1, torch.uint8], [ones[:1], zeros[:1]], "KernelArgument"),
        ("add.out", [q, 1.0, 0, 0, 1, q[:, :2].contiguous(), 1.0, 0, 0, 1, 1.0, 0, 0, 1], [q], "KernelShape"),
    ]
    for name, arguments, likes, failure in cases:
        with pytest.raises(KernelFailure) as caught:
            run(kernels, name, arguments, *likes)
        assert caught.value.check == failure, name
