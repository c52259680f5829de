"""Attention of one token with vectors of 512 bits (``kernels/llm/attention_token.h``) beside the loops without them."""

from __future__ import annotations

import pytest
import torch

import etir.runtime

from etir_testing.runtime.attention import Case, attention_kernels, compile_layer
from etir_testing.runtime.kernels import Kernels


@pytest.fixture(scope="module")
def plain() -> Kernels:
    return attention_kernels("avx2")


@pytest.fixture(scope="module")
def wide() -> Kernels:
    return attention_kernels("avx512")


# heads, key heads, numbers, keys before the token
CASES = {
    "first": Case(1, 9, 3, 64, 0),
    "one range": Case(1, 9, 3, 64, 62),
    "two ranges": Case(1, 9, 3, 64, 63),
    "four ranges, of which the last is shorter": Case(1, 9, 3, 64, 256),
    "eight ranges": Case(1, 9, 3, 64, 1023),
    "blocks in ranges": Case(1, 9, 3, 64, 4990),
    "heads of their own": Case(1, 4, 4, 64, 200),
    "one key head": Case(1, 71, 1, 64, 200),
    "wide heads, in groups": Case(1, 32, 8, 128, 300),
    "a group that is not whole": Case(1, 6, 3, 128, 77),
    "the widest": Case(1, 4, 2, 256, 500),
    "not whole strips": Case(1, 8, 4, 80, 333),
    "the least": Case(1, 10, 5, 16, 99),
    "not causal": Case(1, 4, 2, 32, 60, causal=False),
    "a scale": Case(1, 8, 2, 64, 60, scale=-0.3),
    "batches": Case(1, 9, 3, 64, 140, batch=3),
    "for others": Case(1, 4, 2, 40, 140),
    "more than there is room for": Case(1, 100, 2, 128, 140),
    "latents": Case(1, 16, 1, 288, 500),
    "latents, no room for ranges": Case(1, 38, 1, 288, 500),
    "latents, wide": Case(1, 16, 1, 576, 77, cache=torch.bfloat16),
    "queries that share heads, in pieces": Case(1, 66, 2, 128, 140),
    "float16": Case(1, 9, 3, 64, 1023, cache=torch.float16),
    "float16, the first": Case(1, 9, 3, 64, 0, cache=torch.float16),
    "float16, not whole strips": Case(1, 8, 4, 80, 333, cache=torch.float16),
    "float16, wide heads in groups": Case(1, 32, 8, 256, 77, cache=torch.float16),
    "float16, batches": Case(1, 9, 3, 64, 140, batch=3, cache=torch.float16),
    "float16, for others": Case(1, 4, 2, 40, 140, cache=torch.float16),
    "bfloat16": Case(1, 9, 3, 64, 1023, cache=torch.bfloat16),
    "bfloat16, the first": Case(1, 9, 3, 64, 0, cache=torch.bfloat16),
    "bfloat16, not whole strips": Case(1, 8, 4, 80, 333, cache=torch.bfloat16),
    "bfloat16, for others": Case(1, 4, 2, 40, 140, cache=torch.bfloat16),
}


@pytest.mark.parametrize("name", CASES)
def test_as_accurate_as_float32(plain: Kernels, wide: Kernels, name: str) -> None:
    case = CASES[name]
    assert case.error(wide) < 1.5e-6
    others = name.endswith("for others") or name == "more than there is room for"
    assert torch.equal(case.run(plain), case.run(wide)) == others or "first" in name


@pytest.mark.parametrize("magnitude", [1e-30, 1e-4, 30.0, 1e4])
@pytest.mark.parametrize("which", ["keys", "values", "queries"])
def test_magnitudes(plain: Kernels, wide: Kernels, which: str, magnitude: float) -> None:
    factors = {"queries": (magnitude, 1.0, 1.0), "keys": (1.0, magnitude, 1.0), "values": (1.0, 1.0, magnitude)}
    case = Case(1, 6, 2, 64, 300, factors=factors[which])
    assert case.error(wide) < 2 * case.error(plain) + 1e-6


def test_scores_that_rise_and_fall(plain: Kernels, wide: Kernels) -> None:
    for ends in ((-20, 20), (20, -20)):
        case = Case(1, 3, 1, 64, 600)
        case.key += torch.linspace(*ends, 601)[None, :, None, None] / 8
        case.query = case.query.abs()
        assert case.error(wide) < 2 * case.error(plain) + 1e-6


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan, 3e38, 1e-40])
@pytest.mark.parametrize("where", ["query", "key", "value"])
@pytest.mark.parametrize("cache", [None, torch.float16, torch.bfloat16])
def test_what_is_not_finite(plain: Kernels, wide: Kernels, where: str, value: float, cache: torch.dtype | None) -> None:
    """Infinity, NaN, and what overflows: in the heads that see it, as without vectors of 512 bits."""
    for at in (0, 45, 200):
        case = Case(1, 6, 2, 64, 200, cache=cache)
        getattr(case, where)[0, min(at, getattr(case, where).shape[1] - 1), 1, 7] = value
        one, other = case.run(plain), case.run(wide)
        assert torch.equal(one.isfinite(), other.isfinite())
        torch.testing.assert_close(one, other, rtol=1e-5, atol=2e-6, equal_nan=True)


def test_what_lies_past_the_last_position_is_not_read(wide: Kernels) -> None:
    case = Case(1, 9, 3, 64, 150)
    expected = case.run(wide)
    nothing = torch.full((1, 9, 3, 64), torch.nan)
    case.key, case.value = torch.cat([case.key, nothing], 1), torch.cat([case.value, nothing], 1)
    assert torch.equal(case.run(wide), expected)


def test_any_number_of_threads_gives_the_same_bits() -> None:
    x = torch.randn(1, 1, 320, generator=torch.Generator().manual_seed(0))
    compiled = compile_layer(x)
    assert compiled.report().methods[0].operators["llama::custom_sdpa.out"] == 1

    def outputs(threads: int) -> list[torch.Tensor]:
        method = etir.runtime.load(compiled.buffer, threads=threads)["forward"]
        return [method(x * (1 + i % 7), torch.tensor([i]))[0] for i in range(250)]

    expected = outputs(1)
    for threads in (2, 3, 8):
        assert all(torch.equal(a, b) for a, b in zip(expected, outputs(threads), strict=True))
