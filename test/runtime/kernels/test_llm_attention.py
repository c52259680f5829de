"""Attention and cache kernels against torch and ExecuTorch's operators."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from etir_testing.runtime.kernels import KernelFailure, Kernels, build_kernels

TOLERANCE: dict[torch.dtype, dict[str, float]] = {
    torch.float32: {"rtol": 1e-5, "atol": 2e-6},
    torch.float16: {"rtol": 2e-3, "atol": 1e-3},
    torch.bfloat16: {"rtol": 1.6e-2, "atol": 1e-2},
}


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return build_kernels("llm")


def reference(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, scale: float | None = None
) -> torch.Tensor:
    """Attention on [batch, position, head, dim], in double."""
    q, k, v = (t.double().transpose(1, 2) for t in (query, key, value))
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    mask = None if mask is None else mask.double()
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale).transpose(1, 2)


def causal_mask(queries: int, start: int) -> torch.Tensor:
    return torch.full((queries, start + queries), float("-inf")).triu(start + 1)


# batch, queries, query heads, key heads, dim, cache length, start
CASES = [
    (1, 1, 4, 4, 8, 10, 0),
    (2, 3, 6, 2, 16, 20, 7),
    (1, 1, 8, 1, 64, 300, 200),
    (2, 37, 2, 2, 5, 130, 90),
    (1, 6, 2, 1, 300, 70, 64),
    (1, 70, 6, 2, 64, 200, 50),
    (2, 9, 4, 1, 144, 90, 20),
    (1, 1, 7, 1, 80, 150, 149),
    # The keys of one token in two ranges and in four, in none, of which some end early.
    (1, 1, 9, 3, 64, 200, 130),
    (1, 1, 9, 3, 64, 1100, 1000),
    (1, 1, 9, 3, 64, 1100, 193),
    (1, 1, 14, 2, 64, 400, 95),
    (1, 1, 14, 2, 64, 400, 94),
    (2, 1, 2, 1, 256, 500, 480),
    (1, 1, 3, 1, 300, 400, 300),
    (1, 1, 26, 2, 16, 400, 300),
    # Latents of all heads, and vectors wider than the panels.
    (1, 9, 4, 1, 576, 64, 40),
    (1, 7, 2, 1, 700, 70, 60),
]


@pytest.mark.parametrize(
    ("dtype", "cache"),
    [*((t, t) for t in TOLERANCE), (torch.float32, torch.float16), (torch.float32, torch.bfloat16)],
)
@pytest.mark.parametrize("case", CASES)
def test_custom_sdpa(kernels: Kernels, case: tuple[int, ...], dtype: torch.dtype, cache: torch.dtype) -> None:
    """Queries and caches of one dtype, and caches of 16 bits beside queries of float32."""
    batch, queries, heads, key_heads, dim, length, start = case
    query = torch.randn(batch, queries, heads, dim).to(dtype)
    key, value = (torch.randn(batch, length, key_heads, dim).to(cache) for _ in range(2))
    used = start + queries
    full = torch.randn(queries, length)
    full[:, 1::3] = float("-inf")
    for mask, causal, scale, wanted in (
        (None, False, None, reference(query, key[:, :used], value[:, :used], None)),
        (None, True, None, reference(query, key[:, :used], value[:, :used], causal_mask(queries, start))),
        (None, True, 0.1, reference(query, key[:, :used], value[:, :used], causal_mask(queries, start), 0.1)),
        (full, False, None, reference(query, key, value, full)),
    ):
        (result,) = kernels.call(
            "llama::custom_sdpa.out", [query, key, value, start, mask, 0.0, causal, scale], [query]
        )
        torch.testing.assert_close(result, wanted.to(dtype), **TOLERANCE[dtype])


def test_large_scores_and_unused_values(kernels: Kernels) -> None:
    """Scores far apart do not overflow; keys beyond the causal limit may hold anything."""
    query, key, value = torch.randn(1, 3, 2, 8) * 50, torch.randn(1, 90, 2, 8) * 50, torch.randn(1, 90, 2, 8)
    expected = reference(query, key[:, :73], value[:, :73], causal_mask(3, 70)).float()
    key[:, 73:] = float("nan")
    value[:, 73:] = float("inf")
    (result,) = kernels.call("llama::custom_sdpa.out", [query, key, value, 70, None, 0.0, True, None], [query])
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)


def test_ranges_without_a_key_that_is_seen(kernels: Kernels) -> None:
    """A mask may leave out all keys of a range, whatever their values are, and all keys there are."""
    query, key, value = torch.randn(1, 1, 9, 64), torch.randn(1, 400, 3, 64), torch.randn(1, 400, 3, 64)
    value[:, :100] = float("nan")
    for seen in (slice(100, 150), slice(110, 390), slice(399, 400), slice(0, 0)):
        mask = torch.full((1, 400), float("-inf"))
        mask[:, seen] = 0
        (result,) = kernels.call("llama::custom_sdpa.out", [query, key, value, 0, mask, 0.0, False, None], [query])
        wanted = torch.zeros_like(query)
        if seen.stop > seen.start:
            wanted = reference(query, key[:, seen], value[:, seen], None).float()
        torch.testing.assert_close(result, wanted, rtol=1e-5, atol=2e-6)


def test_query_without_keys_gives_zero(kernels: Kernels) -> None:
    query, key = torch.randn(1, 2, 1, 4), torch.randn(1, 80, 1, 4)
    mask = torch.zeros(2, 80)
    mask[0] = float("-inf")
    mask[1, :70] = float("-inf")
    (result,) = kernels.call("llama::custom_sdpa.out", [query, key, key, 0, mask, 0.0, False, None], [query])
    expected = reference(query, key, key, mask).float()
    assert result[0, 0].eq(0).all()
    torch.testing.assert_close(result[:, 1], expected[:, 1])


@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_sdpa_with_kv_cache(kernels: Kernels, dtype: torch.dtype) -> None:
    key_cache, value_cache = torch.zeros(2, 12, 2, 8, dtype=dtype), torch.zeros(2, 12, 2, 8, dtype=dtype)
    wanted_keys, wanted_values = key_cache.clone(), value_cache.clone()
    start = 0
    for count in (3, 1, 1, 5):
        query = torch.randn(2, count, 4, 8).to(dtype)
        key, value = (torch.randn(2, count, 2, 8).to(dtype) for _ in range(2))
        end = start + count
        wanted_keys[:, start:end], wanted_values[:, start:end] = key, value
        expected = reference(query, wanted_keys[:, :end], wanted_values[:, :end], causal_mask(count, start))
        arguments = [query, key, value, key_cache, value_cache, start, count, None, 0.0, True, None]
        (result,) = kernels.call("llama::sdpa_with_kv_cache.out", arguments, [query])
        torch.testing.assert_close(result, expected.to(dtype), **TOLERANCE[dtype])
        assert torch.equal(key_cache, wanted_keys)
        assert torch.equal(value_cache, wanted_values)
        start = end


@pytest.mark.parametrize("heads_first", [False, True])
def test_custom_quantized_sdpa(kernels: Kernels, heads_first: bool) -> None:
    def quantized(batch: int, positions: int, heads: int, dim: int) -> tuple[torch.Tensor, ...]:
        shape = (batch, heads, positions, dim) if heads_first else (batch, positions, heads, dim)
        data = torch.randint(-128, 128, shape).to(torch.int8)
        scale, zero = torch.rand(*shape[:3], 1) / 40, torch.randint(-9, 9, (*shape[:3], 1)).to(torch.int8)
        wide = (data.float() - zero.float()) * scale
        return data, zero, scale, wide.transpose(1, 2) if heads_first else wide

    for batch, queries, heads, key_heads, dim, length, start in CASES:
        query, query_zero, query_scale, wide_query = quantized(batch, queries, heads, dim)
        key, key_zero, key_scale, wide_key = quantized(batch, length, key_heads, dim)
        value, value_zero, value_scale, wide_value = quantized(batch, length, key_heads, dim)
        parameters = [query_zero, query_scale, key_zero, key_scale, value_zero, value_scale, heads_first]
        used = start + queries
        full = torch.randn(queries, length)
        for mask, causal, wanted in (
            (None, True, reference(wide_query, wide_key[:, :used], wide_value[:, :used], causal_mask(queries, start))),
            (full, False, reference(wide_query, wide_key, wide_value, full)),
        ):
            arguments = [query, key, value, start, mask, 0.0, causal, None, *parameters]
            (result,) = kernels.call("llama::custom_quantized_sdpa.out", arguments, [query.float()])
            result = result.transpose(1, 2) if heads_first else result
            torch.testing.assert_close(result, wanted.float(), rtol=1e-4, atol=1e-4)


def test_update_cache(kernels: Kernels) -> None:
    for dtype in (torch.float32, torch.int8, torch.float64, torch.bfloat16):
        cache = torch.zeros(2, 10, 3, 4, dtype=dtype)
        value = torch.randint(1, 100, (2, 4, 3, 4)).to(dtype)
        expected = cache.clone()
        expected[:, 6:10] = value
        kernels.call("llama::update_cache.out", [value, cache, 6], [torch.empty(1, dtype=dtype)])
        assert torch.equal(cache, expected)
        indices = torch.tensor([[9, 0, 1, 2], [1, 7, 3, 3]])
        for batch in range(2):
            for i, position in enumerate(indices[batch].tolist()):
                expected[batch, position] = value[batch, i]
        kernels.call("llama::update_cache_with_indices.out", [value, cache, 0, indices], [torch.empty(1, dtype=dtype)])
        assert torch.equal(cache, expected)


def test_refusals(kernels: Kernels) -> None:
    query, cache = torch.randn(1, 2, 4, 8), torch.randn(1, 6, 2, 8)
    new = cache[:, :2].contiguous()
    mask, one = torch.zeros(2, 6), torch.empty(1)
    sdpa, with_cache, quantized = "custom_sdpa.out", "sdpa_with_kv_cache.out", "custom_quantized_sdpa.out"
    byte = query.to(torch.int8)
    cases: list[tuple[str, list[Any], torch.Tensor, str]] = [
        (sdpa, [query, cache, cache, 5, None, 0.0, True, None], query, "KernelIndex"),
        (sdpa, [query, cache, cache, -1, None, 0.0, True, None], query, "KernelIndex"),
        (sdpa, [query, cache, cache, 2**62, None, 0.0, True, None], query, "KernelIndex"),
        (sdpa, [query, cache, cache, 0, mask[:, :5].contiguous(), 0.0, False, None], query, "KernelShape"),
        (sdpa, [query, cache, cache, 0, mask, 0.0, True, None], query, "KernelArgument"),
        (sdpa, [query, cache, cache, 0, None, 0.5, True, None], query, "KernelArgument"),
        (sdpa, [query, cache[..., :7].contiguous(), cache, 0, None, 0.0, True, None], query, "KernelShape"),
        (
            sdpa,
            [torch.randn(1, 2, 3, 8), cache, cache, 0, None, 0.0, True, None],
            query[:, :, :3].contiguous(),
            "KernelShape",
        ),
        (sdpa, [query.half(), cache, cache, 0, None, 0.0, True, None], query, "KernelDtypeMismatch"),
        (sdpa, [query, cache.half(), cache, 0, None, 0.0, True, None], query, "KernelDtypeMismatch"),
        (sdpa, [query, cache.bfloat16(), cache.half(), 0, None, 0.0, True, None], query, "KernelDtypeMismatch"),
        (
            sdpa,
            [query.half(), cache.bfloat16(), cache.bfloat16(), 0, None, 0.0, True, None],
            query.half(),
            "KernelDtypeMismatch",
        ),
        (sdpa, [query, cache.half(), cache.half(), 0, None, 0.0, True, None], query.half(), "KernelDtypeMismatch"),
        (
            sdpa,
            [query.double(), cache.double(), cache.double(), 0, None, 0.0, True, None],
            query.double(),
            "KernelDtype",
        ),
        (sdpa, [query[0], cache, cache, 0, None, 0.0, True, None], query, "KernelRank"),
        (with_cache, [query, new, new, cache, cache.clone(), 5, 2, None, 0.0, True, None], query, "KernelIndex"),
        (
            with_cache,
            [query, new.half(), new.half(), cache.half(), cache.half(), 0, 2, None, 0.0, True, None],
            query,
            "KernelDtypeMismatch",
        ),
        (with_cache, [query, new, new, cache, cache.clone(), 0, 3, None, 0.0, True, None], query, "KernelArgument"),
        (quantized, [byte, byte, byte, 0, None, 0.0, True, None, *[None] * 6, False], query, "KernelArgument"),
        ("update_cache.out", [new, cache, 5], one, "KernelIndex"),
        ("update_cache.out", [new.half(), cache, 0], one, "KernelDtypeMismatch"),
        ("update_cache.out", [new[:, :, :1].contiguous(), cache, 0], one, "KernelShape"),
        ("update_cache_with_indices.out", [new, cache, 0, torch.zeros(1, 3).long()], one, "KernelShape"),
        ("update_cache_with_indices.out", [new, cache, 0, torch.tensor([[0, 6]])], one, "KernelIndex"),
        ("update_cache_with_indices.out", [new, cache, 0, torch.tensor([[-1, 0]])], one, "KernelIndex"),
    ]
    for name, arguments, like, failure in cases:
        with pytest.raises(KernelFailure) as caught:
            kernels.call(f"llama::{name}", arguments, [like])
        assert caught.value.check == failure, (name, arguments[3:])


def test_a_refused_call_leaves_the_caches(kernels: Kernels) -> None:
    query, cache = torch.randn(1, 2, 3, 8), torch.zeros(1, 6, 2, 8)
    new, other = torch.ones(1, 2, 2, 8), torch.zeros(1, 6, 2, 8)
    with pytest.raises(KernelFailure):
        arguments = [query, new, new, cache, other, 0, 2, None, 0.0, True, None]
        kernels.call("llama::sdpa_with_kv_cache.out", arguments, [query])
    assert cache.eq(0).all()
    assert other.eq(0).all()
