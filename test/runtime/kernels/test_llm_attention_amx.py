"""Attention of many queries with AMX (``kernels/llm/attention_amx.h``) beside the panels: as accurate as float32, and
where keys and values are float16, within an eighth of what they have been rounded by (2^-12). Where they are bfloat16,
queries and weights are rounded as they have been (2^-9 each)."""

from __future__ import annotations

import pytest
import torch

import etir.runtime

from etir_testing.runtime.attention import Case, attention_kernels, compile_layer
from etir_testing.runtime.kernels import Kernels


@pytest.fixture(scope="module")
def panels() -> Kernels:
    return attention_kernels("avx512")


@pytest.fixture(scope="module")
def tiles() -> Kernels:
    return attention_kernels("amx")


CASES = {
    "one head": Case(40, 1, 1, 64, 0),
    "many keys": Case(33, 9, 3, 64, 4967),
    "a prompt": Case(300, 9, 3, 64, 0),
    "a later piece": Case(64, 9, 3, 64, 77),
    "as few as there are": Case(24, 1, 1, 32, 3),
    "not causal": Case(50, 6, 2, 96, 30, causal=False),
    "a scale": Case(70, 4, 1, 128, 9, scale=0.31),
    "a negative scale": Case(70, 4, 1, 32, 9, scale=-0.2),
    "a scale of nothing": Case(40, 4, 1, 32, 9, scale=0.0),
    "half a register": Case(45, 4, 2, 80, 5, batch=2),
    "the least": Case(45, 4, 2, 16, 5),
    "wide": Case(40, 4, 1, 256, 100),
    "wide, not whole": Case(40, 2, 1, 240, 31),
    "more heads than rows": Case(5, 300, 1, 32, 11),
    "heads that do not divide": Case(9, 71, 1, 256, 40),
    "latents": Case(40, 16, 1, 288, 100),
    "wide latents, for panels": Case(30, 8, 1, 576, 40),
    "batches": Case(60, 6, 3, 64, 8, batch=3),
    "for panels": Case(60, 6, 3, 72, 8),
    "for neither": Case(60, 6, 3, 33, 8),
    "float16": Case(300, 9, 3, 64, 77, cache=torch.float16),
    "float16, wide": Case(40, 4, 1, 256, 100, cache=torch.float16),
    "float16, half a register": Case(45, 4, 2, 80, 5, batch=2, cache=torch.float16),
    "float16, for panels": Case(60, 6, 3, 72, 8, cache=torch.float16),
    "bfloat16": Case(300, 9, 3, 64, 77, cache=torch.bfloat16),
    "bfloat16, many keys": Case(33, 9, 3, 64, 4967, cache=torch.bfloat16),
    "bfloat16, one head": Case(40, 1, 1, 32, 0, cache=torch.bfloat16),
    "bfloat16, the least": Case(45, 4, 2, 16, 5, cache=torch.bfloat16),
    "bfloat16, wide, not whole": Case(40, 2, 1, 240, 31, cache=torch.bfloat16),
    "bfloat16, half a register": Case(45, 4, 2, 80, 5, batch=2, cache=torch.bfloat16),
    "bfloat16, not causal": Case(50, 6, 2, 96, 30, causal=False, cache=torch.bfloat16),
    "bfloat16, latents": Case(40, 16, 1, 288, 100, cache=torch.bfloat16),
    "bfloat16, wide latents": Case(30, 8, 1, 576, 40, cache=torch.bfloat16),
    "bfloat16, for panels": Case(60, 6, 3, 72, 8, cache=torch.bfloat16),
}
NEAR = {None: 1e-6, torch.float16: 2.0**-12 / 8, torch.bfloat16: 2 * 2.0**-9}


@pytest.mark.parametrize("name", CASES)
def test_as_accurate_as_float32(panels: Kernels, tiles: Kernels, name: str) -> None:
    case = CASES[name]
    assert case.error(panels) < 2e-6
    assert case.error(tiles) < NEAR[case.cache]
    assert torch.equal(case.run(panels), case.run(tiles)) == ("for" in name.split())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_other_types(tiles: Kernels, dtype: torch.dtype) -> None:
    for name in ("a prompt", "half a register", "wide"):
        torch.testing.assert_close(
            CASES[name].run(tiles, dtype), CASES[name].wanted(dtype).to(dtype), rtol=1e-2, atol=1e-3
        )


def test_int8(panels: Kernels, tiles: Kernels) -> None:
    """Numbers of 8 bits with scales and zero points become the same floats either way."""
    random = torch.Generator().manual_seed(1)
    sizes = ((1, 60, 6, 64), (1, 130, 2, 64), (1, 130, 2, 64))
    data = [torch.randint(-128, 128, size, generator=random).to(torch.int8) for size in sizes]
    scales = [torch.rand(*size[:3], 1, generator=random) / 40 for size in sizes]
    zeros = [torch.randint(-9, 9, (*size[:3], 1), generator=random).to(torch.int8) for size in sizes]
    parameters = [tensor for pair in zip(zeros, scales, strict=True) for tensor in pair]
    arguments = [*data, 70, None, 0.0, True, None, *parameters, False]
    like = torch.empty(sizes[0])
    one, other = (kernels.call("llama::custom_quantized_sdpa.out", arguments, [like])[0] for kernels in (panels, tiles))
    assert not torch.equal(one, other), "the same kernel"
    torch.testing.assert_close(one, other, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("magnitude", [1e-30, 1e-12, 1e-4, 30.0, 1e4, 1e12])
@pytest.mark.parametrize("which", ["keys", "values", "queries"])
def test_magnitudes(panels: Kernels, tiles: Kernels, which: str, magnitude: float) -> None:
    """Scores of thousands are as far from exact as in float32, whose rounding the exponential magnifies."""
    factors = {"queries": (magnitude, 1.0, 1.0), "keys": (1.0, magnitude, 1.0), "values": (1.0, 1.0, magnitude)}
    case = Case(64, 6, 2, 64, 20, factors=factors[which])
    assert case.error(tiles) < 2 * case.error(panels) + 1e-6


def test_scores_that_rise_and_fall(panels: Kernels, tiles: Kernels) -> None:
    """Weights are relative to a score that is not the largest, and change what they are relative to."""
    for order in (1, -1):
        case = Case(64, 3, 1, 64, 600)
        ramp = torch.linspace(-20, 20, 664)[::order] if order == 1 else torch.linspace(20, -20, 664)
        case.key += ramp[None, :, None, None] / 8
        case.query = case.query.abs()
        assert case.error(tiles) < 2 * case.error(panels) + 1e-6


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan, 3e38, 1e25, 1e-40])
@pytest.mark.parametrize("where", ["query", "key", "value"])
def test_unfit_numbers_are_left_to_panels(panels: Kernels, tiles: Kernels, where: str, value: float) -> None:
    """Infinity, NaN, what is too large, and values that are all too small: the bits that the panels give."""
    case = Case(90, 6, 2, 64, 40)
    if abs(value) < 1:
        if where != "value":
            pytest.skip("small queries and keys make small scores")
        case.value.fill_(value)
    else:
        getattr(case, where)[0, 45, 1, 7] = value
    one, other = case.run(panels), case.run(tiles)
    # In the rows that share a task with it; the key head is the second one.
    first = 3 if where != "query" else 1
    if abs(value) < 1:
        assert torch.equal(one, other)
        assert one.abs().max() > 0
        return
    rows = slice(50, 90) if where != "query" else slice(45, 46)
    last = 6 if where != "query" else 2
    assert torch.equal(one[:, rows, first:last].isnan(), other[:, rows, first:last].isnan())
    torch.testing.assert_close(one, other, rtol=1e-5, atol=2e-6, equal_nan=True)


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan, 3e38, 1e25, 1e-40])
@pytest.mark.parametrize("where", ["query", "key", "value"])
def test_unfit_numbers_beside_bfloat16(panels: Kernels, tiles: Kernels, where: str, value: float) -> None:
    """What is not finite comes out where it does without AMX, and the rest is as near as ever."""
    # A value that only some queries see may be in the way of others, by which of them are computed together.
    for at in (3, 45, 89) if where != "value" else (3,):
        case = Case(90, 6, 2, 64, 40, cache=torch.bfloat16)
        getattr(case, where)[0, at, 1, 7] = value
        one, other = case.run(panels), case.run(tiles)
        assert torch.equal(one.isfinite(), other.isfinite())
        seen = one.isfinite() & (one.abs() < 1e3)
        torch.testing.assert_close(one[seen], other[seen], rtol=0.05, atol=0.02)


def test_scores_that_rise_and_fall_beside_bfloat16(panels: Kernels, tiles: Kernels) -> None:
    for ends in ((-20, 20), (20, -20)):
        case = Case(64, 3, 1, 64, 600, cache=torch.bfloat16)
        case.key += torch.linspace(*ends, 664)[None, :, None, None] / 8
        case.key = case.key.bfloat16().float()
        case.query = case.query.abs().bfloat16().float()
        assert case.error(panels) < 1e-4
        assert case.error(tiles) < 4 * 2.0**-9


@pytest.mark.parametrize("cache", [None, torch.float16, torch.bfloat16])
def test_what_lies_past_the_last_position_is_not_read(tiles: Kernels, cache: torch.dtype | None) -> None:
    case = Case(50, 6, 2, 64, 17, cache=cache)
    expected = case.run(tiles)
    nothing = torch.full((1, 9, 2, 64), torch.nan)
    case.key, case.value = torch.cat([case.key, nothing], 1), torch.cat([case.value, nothing], 1)
    assert torch.equal(case.run(tiles), expected)


def test_pieces_of_a_prompt(tiles: Kernels) -> None:
    """A prompt in pieces gives what it gives as a whole, whatever path the pieces take."""
    case = Case(200, 9, 3, 64, 0)
    whole = case.run(tiles)
    for size in (7, 50, 64):
        pieces = []
        for start in range(0, 200, size):
            end = min(start + size, 200)
            arguments = [case.query[:, start:end], case.key, case.value, start, None, 0.0, True, None]
            arguments[0] = case.query[:, start:end].contiguous()
            pieces.append(tiles.call("llama::custom_sdpa.out", arguments, [arguments[0]])[0])
        torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=1e-5, atol=1e-6)


def test_any_number_of_threads_gives_the_same_bits() -> None:
    x = torch.randn(1, 150, 320, generator=torch.Generator().manual_seed(0))
    compiled = compile_layer(x)
    assert compiled.report().methods[0].operators["llama::custom_sdpa.out"] == 1
    results = [
        etir.runtime.load(compiled.buffer, threads=threads)["forward"](x, torch.arange(150) + 100)[0]
        for threads in (1, 2, 3, 8)
    ]
    assert all(torch.equal(results[0], other) for other in results[1:])
