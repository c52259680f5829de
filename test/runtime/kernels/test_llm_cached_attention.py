"""``etir::cached_attention``: a soft cap of the scores, sinks, and values of another size than keys."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from etir.interpret.numpy_ops import lookup

from etir_testing.runtime.attention import VARIANTS, attention_kernels
from etir_testing.runtime.kernels import KernelFailure, Kernels, build_kernels

KERNEL = "etir::cached_attention.out"
TOLERANCE: dict[torch.dtype, dict[str, float]] = {
    torch.float32: {"rtol": 1e-5, "atol": 5e-6},
    torch.float16: {"rtol": 2e-3, "atol": 1e-3},
    torch.bfloat16: {"rtol": 1.6e-2, "atol": 1e-2},
}
ROUNDED = {"rtol": 1e-5, "atol": 2.0**-12 / 8}
"""Of float32 with a cache of float16: AMX leaves out an eighth of what that has been rounded by, at most."""


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return build_kernels("llm")


def reference(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor,
    scale: float | None,
    softcap: float,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """As transformers' Gemma 2 and GPT-OSS write it, in double: [batch, position, head, dim]."""
    q, k, v = (t.double().transpose(1, 2) for t in (query, key, value))
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    scores = q @ k.transpose(2, 3) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        scores = torch.tanh(scores / softcap) * softcap
    scores = scores + mask.double()
    if sinks is not None:
        scores = torch.cat([scores, sinks.double().view(1, -1, 1, 1).expand(*scores.shape[:3], 1)], -1)
    weights = scores.softmax(-1)[..., : k.shape[2]].nan_to_num(0)
    return (weights @ v).transpose(1, 2)


def causal_mask(queries: int, start: int) -> torch.Tensor:
    return torch.full((queries, start + queries), float("-inf")).triu(start + 1)


# batch, queries, query heads, key heads, size of keys, of values, cache length, start
CASES = [
    (1, 1, 4, 4, 8, 8, 10, 0),
    (2, 3, 6, 2, 16, 16, 20, 7),
    (2, 37, 2, 2, 5, 7, 130, 90),
    (1, 6, 2, 1, 300, 280, 70, 64),
    (1, 70, 6, 2, 64, 64, 200, 50),
    (2, 9, 4, 1, 144, 144, 90, 20),
    (2, 9, 4, 1, 24, 16, 90, 20),
    (1, 40, 4, 4, 192, 128, 90, 20),
    (1, 40, 4, 2, 128, 192, 90, 20),
    (1, 50, 4, 4, 12, 64, 90, 20),
    # One token: by the loops for it, in ranges, with values of another size, in a single one.
    (1, 1, 9, 3, 64, 64, 1100, 1000),
    (2, 1, 9, 3, 64, 64, 400, 193),
    (1, 1, 16, 16, 192, 128, 400, 300),
    (1, 1, 4, 4, 24, 12, 30, 20),
    (1, 1, 2, 1, 300, 280, 400, 300),
]


def _check(kernels: Kernels, case: tuple[int, ...], dtype: torch.dtype, cache: torch.dtype) -> None:
    batch, queries, heads, key_heads, dim, value_dim, length, start = case
    random = torch.Generator().manual_seed(sum(case))
    query = torch.randn(batch, queries, heads, dim, generator=random).to(dtype)
    key = torch.randn(batch, length, key_heads, dim, generator=random).to(cache)
    value = torch.randn(batch, length, key_heads, value_dim, generator=random).to(cache)
    sinks = 3 * torch.randn(heads, generator=random)
    full = torch.randn(queries, length, generator=random)
    full[:, 1::3] = float("-inf")
    out = torch.empty(batch, queries, heads, value_dim, dtype=dtype)
    used = start + queries
    for mask, causal in ((None, True), (None, False), (full, False)):
        for scale, softcap, sink in ((None, 0.0, None), (None, 2.0, None), (0.2, 0.0, sinks), (None, 30.0, sinks)):
            added = causal_mask(queries, start) if causal else torch.zeros(1, 1) if mask is None else mask
            keys = length if mask is not None else used
            wanted = reference(query, key[:, :keys], value[:, :keys], added, scale, softcap, sink)
            arguments = [query, key, value, start, mask, causal, scale, softcap, sink, *[None] * 6]
            (result,) = kernels.call(KERNEL, arguments, [out])
            tolerance = TOLERANCE[dtype] if cache == dtype else ROUNDED
            torch.testing.assert_close(result, wanted.to(dtype), **tolerance)


@pytest.mark.parametrize(("dtype", "cache"), [*((t, t) for t in TOLERANCE), (torch.float32, torch.float16)])
@pytest.mark.parametrize("case", CASES)
def test_cached_attention(kernels: Kernels, case: tuple[int, ...], dtype: torch.dtype, cache: torch.dtype) -> None:
    _check(kernels, case, dtype, cache)


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_variants(variant: str) -> None:
    """Each variant of the inner loops, with caches of both types."""
    kernels = attention_kernels(variant)
    for case in CASES:
        for cache in (torch.float32, torch.float16):
            _check(kernels, case, torch.float32, cache)


@pytest.mark.parametrize("queries", [1, 40])
def test_sinks_at_their_ends(kernels: Kernels, queries: int) -> None:
    """A sink of minus infinity is none, one far above all scores leaves nothing, and so does a row without keys."""
    query, cache = torch.randn(1, queries, 2, 64), torch.randn(2, 1, queries, 2, 64)
    hidden = torch.full((queries, queries), float("-inf"))

    def call(sinks: torch.Tensor | None, mask: torch.Tensor | None = None) -> torch.Tensor:
        arguments = [query, cache[0], cache[1], 0, mask, mask is None, None, 0.0, sinks, *[None] * 6]
        found: torch.Tensor = kernels.call(KERNEL, arguments, [query])[0]
        return found

    torch.testing.assert_close(call(torch.full((2,), float("-inf"))), call(None), rtol=0, atol=0)
    assert not call(torch.full((2,), 1e30)).any()
    assert not call(torch.ones(2), hidden).any()
    mixed = call(torch.tensor([float("-inf"), 1e30]))
    torch.testing.assert_close(mixed[:, :, 0], call(None)[:, :, 0], rtol=0, atol=0)
    assert not mixed[:, :, 1].any()


def test_int8(kernels: Kernels) -> None:
    """Queries, keys and values of 8 bits, with a scale and a zero point for each vector."""
    for queries in (1, 3, 40):
        sizes = ((queries, 4, 24), (64, 2, 24), (64, 2, 16))
        parts: list[Any] = []
        plain = []
        for n, heads, dim in sizes:
            integers = torch.randint(-128, 128, (1, n, heads, dim), dtype=torch.int8)
            scales = torch.rand(1, n, heads, 1) / 40
            points = torch.randint(-20, 20, (1, n, heads, 1), dtype=torch.int8)
            parts.append((integers, points, scales))
            plain.append((integers.float() - points) * scales)
        sinks = torch.randn(4)
        start = 64 - queries
        rest = [one for _, points, scales in parts for one in (points, scales)]
        arguments = [*(p[0] for p in parts), start, None, True, None, 1.5, sinks, *rest]
        (result,) = kernels.call(KERNEL, arguments, [torch.empty(1, queries, 4, 16)])
        wanted = reference(*plain, causal_mask(queries, start), None, 1.5, sinks)
        torch.testing.assert_close(result, wanted.float(), rtol=1e-5, atol=1e-5)
        oracle = lookup("etir.cached_attention.default")
        found = oracle(*(a.numpy() if isinstance(a, torch.Tensor) else a for a in arguments))
        torch.testing.assert_close(torch.from_numpy(found), wanted.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "changed",
    [
        {"sinks": torch.ones(3)},
        {"sinks": torch.ones(2, 1)},
        {"sinks": torch.ones(2, dtype=torch.float64)},
        {"softcap": -1.0},
        {"softcap": math.inf},
        {"softcap": math.nan},
        {"softcap": 1e-60},
        {"value": torch.zeros(1, 5, 2, 8)},
        {"key": torch.zeros(1, 4, 2, 9)},
        {"start_pos": 4},
        {"start_pos": -1},
        {"attn_mask": torch.zeros(1, 4)},
    ],
)
def test_refused(kernels: Kernels, changed: dict[str, Any]) -> None:
    given: dict[str, Any] = {
        **{"query": torch.zeros(1, 1, 2, 8), "key": torch.zeros(1, 4, 2, 8), "value": torch.zeros(1, 4, 2, 6)},
        **{"start_pos": 3, "attn_mask": None, "is_causal": True, "scale": None, "softcap": 2.0, "sinks": torch.ones(2)},
    }
    out = torch.empty(1, 1, 2, 6)
    kernels.call(KERNEL, [*given.values(), *[None] * 6], [out])
    with pytest.raises(KernelFailure):
        kernels.call(KERNEL, [*(given | changed).values(), *[None] * 6], [out])
