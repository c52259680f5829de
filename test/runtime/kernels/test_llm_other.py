"""The Hadamard transform, the gated delta rule and tile_crop against ExecuTorch's operators and torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from etir.interpret.numpy_ops import lookup

from etir_testing.runtime.kernels import KernelFailure, Kernels, build_kernels


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return build_kernels("llm")


@pytest.fixture(scope="module")
def stock() -> Any:
    """ExecuTorch's C++ operators, as torch operators."""
    pytest.importorskip("executorch.extension.llm.custom_ops.custom_ops")
    return torch.ops.llama


@pytest.mark.parametrize("n", [1, 2, 8, 64, 128, 28, 56, 448])
def test_hadamard(kernels: Kernels, stock: Any, n: int) -> None:
    x = torch.randn(3, 2, n)
    expected = stock.fast_hadamard_transform(x)
    (result,) = kernels.call("llama::fast_hadamard_transform.out", [x], [x])
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        (result,) = kernels.call("llama::fast_hadamard_transform.out", [x.to(dtype)], [x.to(dtype)])
        exact = stock.fast_hadamard_transform(x.to(dtype).float()).to(dtype)
        tolerance = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float64: 1e-5}[dtype]
        torch.testing.assert_close(result, exact, rtol=tolerance, atol=tolerance)


def delta_rule(
    query: Any, key: Any, value: Any, decay: Any, beta: Any, state: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """The recurrence, position by position, in double."""
    query, key, value, decay, beta, state = (t.double() for t in (query, key, value, decay, beta, state))
    decay = decay.unsqueeze(-1).expand_as(key) if decay.dim() == 3 else decay
    repeats = query.shape[1] // key.shape[1]
    outs = []
    for t in range(query.shape[2]):
        state = state * decay[:, :, t, :, None]
        error = (value[:, :, t] - torch.einsum("bhkv,bhk->bhv", state, key[:, :, t])) * beta[:, :, t, None]
        state = state + key[:, :, t, :, None] * error[:, :, None]
        outs.append(torch.einsum("bhkv,bhk->bhv", state.repeat_interleave(repeats, 1), query[:, :, t]))
    return torch.stack(outs, 2).float(), state.float()


@pytest.mark.parametrize("name", ["gated_delta_rule.out", "channelwise_gated_delta_rule.out"])
@pytest.mark.parametrize("scalar_decay", [False, True])
def test_gated_delta_rule(kernels: Kernels, scalar_decay: bool, name: str) -> None:
    for batch, heads, state_heads, length, keys, values in (
        (2, 4, 2, 9, 5, 6),
        (1, 3, 3, 1, 16, 130),
        (1, 2, 1, 40, 8, 64),
    ):
        key = torch.nn.functional.normalize(torch.randn(batch, state_heads, length, keys), dim=-1)
        value = torch.randn(batch, state_heads, length, values)
        query = torch.randn(batch, heads, length, keys)
        decay = torch.rand(key.shape[:3] if scalar_decay else key.shape)
        beta, state = torch.rand(key.shape[:3]), torch.randn(batch, state_heads, keys, values)
        out, final = delta_rule(query, key, value, decay, beta, state)
        kept = state.clone()
        results = kernels.call(f"llama::{name}", [query, key, value, decay, beta, state], [out, final])
        torch.testing.assert_close(results[0], out, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(results[1], final, rtol=1e-4, atol=1e-4)
        assert torch.equal(state, kept)


def test_gated_delta_rule_is_stock(kernels: Kernels, stock: Any) -> None:
    key, query = torch.randn(1, 2, 5, 4) / 2, torch.randn(1, 4, 5, 4)
    value, state = torch.randn(1, 2, 5, 3), torch.randn(1, 2, 4, 3)
    arguments = [query, key, value, torch.rand(1, 2, 5, 4), torch.rand(1, 2, 5), state]
    expected = stock.gated_delta_rule(*arguments)
    results = kernels.call("llama::gated_delta_rule.out", arguments, list(expected))
    for result, wanted in zip(results, expected, strict=True):
        torch.testing.assert_close(result, wanted, rtol=1e-4, atol=1e-4)


def test_custom_sdpa_is_stock(kernels: Kernels, stock: Any) -> None:
    query, key, value = torch.randn(1, 5, 4, 16), torch.randn(1, 40, 2, 16), torch.randn(1, 40, 2, 16)
    for mask, causal in ((None, True), (None, False), (torch.randn(5, 40), False)):
        arguments = [query, key, value, 30, mask, 0.0, causal]
        (result,) = kernels.call("llama::custom_sdpa.out", [*arguments, None], [query])
        torch.testing.assert_close(result, stock.custom_sdpa(*arguments), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float16, torch.float64])
def test_tile_crop(kernels: Kernels, dtype: torch.dtype) -> None:
    for channels, height, width, size in ((3, 8, 12, 4), (1, 5, 5, 5), (2, 6, 2, 1), (0, 4, 4, 2), (2, 0, 4, 2)):
        image = torch.randint(0, 200, (channels, height, width)).to(dtype)
        down, across = height // size, width // size
        expected = image.view(channels, down, size, across, size).permute(1, 3, 0, 2, 4)
        expected = expected.reshape(down * across, channels, size, size).contiguous()
        (result,) = kernels.call("preprocess::tile_crop.out", [image, size], [expected])
        assert torch.equal(result, expected)


def test_refusals(kernels: Kernels) -> None:
    image, key = torch.ones(3, 8, 8), torch.ones(1, 2, 4, 4)
    rule, beta = "llama::gated_delta_rule.out", torch.ones(1, 2, 4)
    cases: list[tuple[str, list[Any], list[torch.Tensor], str]] = [
        ("preprocess::tile_crop.out", [image, 0], [image[None]], "KernelArgument"),
        ("preprocess::tile_crop.out", [image, 3], [image[None]], "KernelShape"),
        ("preprocess::tile_crop.out", [image[0], 4], [image[None]], "KernelRank"),
        ("llama::fast_hadamard_transform.out", [torch.ones(2, 12)], [torch.ones(2, 12)], "KernelShape"),
        ("llama::fast_hadamard_transform.out", [torch.ones(2, 0)], [torch.ones(2, 0)], "KernelShape"),
        ("llama::fast_hadamard_transform.out", [torch.ones(2, 4).int()], [torch.ones(2, 4).int()], "KernelDtype"),
        (rule, [key, key, key, key, beta[:, :, :3].contiguous(), key], [key, key], "KernelShape"),
        (rule, [key, key, key, torch.ones(1, 2, 3), beta, key], [key, key], "KernelShape"),
        (rule, [torch.ones(1, 3, 4, 4), key, key, key, beta, key], [torch.ones(1, 3, 4, 4), key], "KernelShape"),
        (rule, [key.double(), key, key, key, beta, key], [key, key], "KernelDtypeMismatch"),
    ]
    for name, arguments, likes, failure in cases:
        with pytest.raises(KernelFailure) as caught:
            kernels.call(name, arguments, likes)
        assert caught.value.check == failure, (name, arguments)


@pytest.mark.parametrize("shape", [(1, 1, 9, 64), (1, 7, 3, 16), (2, 5, 1, 2), (1, 0, 2, 8), (1, 33, 4, 80)])
def test_rotary(kernels: Kernels, shape: tuple[int, ...]) -> None:
    """What transformers' models compute on ``[batch, heads, positions, width]``."""
    x = torch.randn(shape)
    angles = torch.randn(1, shape[1], shape[3])
    cos, sin = angles.cos(), angles.sin()
    turned, half = x.double().transpose(1, 2), shape[3] // 2
    crossed = torch.cat([-turned[..., half:], turned[..., :half]], -1)
    expected = (turned * cos.double()[:, None] + crossed * sin.double()[:, None]).transpose(1, 2).float()
    (result,) = kernels.call("etir::rotary.out", [x, cos, sin], [x])
    torch.testing.assert_close(result, expected, rtol=1e-6, atol=1e-6)
    oracle = lookup("etir.rotary.default")(x.numpy(), cos.numpy(), sin.numpy())
    torch.testing.assert_close(result, torch.from_numpy(oracle), rtol=1e-6, atol=1e-6)


def test_rotary_refuses(kernels: Kernels) -> None:
    x, table = torch.zeros(1, 3, 2, 8), torch.zeros(1, 3, 8)
    for bad in (
        (x[0], table, table),
        (x, table[0], table),
        (x, table, table[:, :2]),
        (x, table[..., :4].contiguous(), table),
        (x, torch.zeros(2, 3, 8), table),
        (torch.zeros(1, 3, 2, 7), torch.zeros(1, 3, 7), torch.zeros(1, 3, 7)),
        (x.double(), table, table),
    ):
        with pytest.raises(KernelFailure):
            kernels.call("etir::rotary.out", list(bad), [bad[0]])
