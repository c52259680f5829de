"""Attention of many queries with vectors of 512 bits (``kernels/llm/wide_rows.h``) beside those of 256."""

from __future__ import annotations

import pytest
import torch

from etir_testing.runtime.attention import Case, attention_kernels
from etir_testing.runtime.kernels import Kernels


@pytest.fixture(scope="module")
def narrow() -> Kernels:
    return attention_kernels("avx2")


@pytest.fixture(scope="module")
def wide() -> Kernels:
    return attention_kernels("avx512")


@pytest.mark.parametrize("dim", [16, 48, 64, 80, 128])
@pytest.mark.parametrize("queries", [5, 16, 17, 32, 33, 48, 49, 66, 97, 145])
def test_as_accurate_as_narrow_vectors(narrow: Kernels, wide: Kernels, queries: int, dim: int) -> None:
    """Panels of one, two and three vectors of queries, and rows that no block of registers divides."""
    case = Case(queries, 4, 2, dim, 3 * queries % 40, seed=queries)
    assert case.error(narrow) < 2e-6
    assert case.error(wide) < 2e-6


def test_not_causal_and_batches(wide: Kernels) -> None:
    for case in (
        Case(50, 6, 2, 96, 30, causal=False),
        Case(60, 6, 3, 64, 8, batch=3),
        Case(40, 2, 1, 64, 9, scale=-0.3),
    ):
        assert case.error(wide) < 2e-6


def test_what_is_not_for_them(narrow: Kernels, wide: Kernels) -> None:
    """Heads that are wide, or no whole vectors: the same kernel, the same bits."""
    for dim in (24, 33, 144, 256):
        case = Case(40, 2, 1, dim, 7)
        assert torch.equal(case.run(narrow), case.run(wide))


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan, 3e38])
@pytest.mark.parametrize("where", ["query", "key"])
def test_what_is_not_finite(narrow: Kernels, wide: Kernels, where: str, value: float) -> None:
    case = Case(90, 6, 2, 64, 40)
    getattr(case, where)[0, 45, 1, 7] = value
    one, other = case.run(narrow), case.run(wide)
    if where == "key":
        # The keys of position 45 are those of the heads from 3 on.
        assert torch.equal(one[:, 5:, 3:].isnan(), other[:, 5:, 3:].isnan())
    torch.testing.assert_close(one, other, rtol=1e-5, atol=2e-6, equal_nan=True)


def test_what_lies_past_the_last_position_is_not_read(wide: Kernels) -> None:
    case = Case(50, 6, 2, 64, 17)
    expected = case.run(wide)
    nothing = torch.full((1, 9, 2, 64), torch.nan)
    case.key, case.value = torch.cat([case.key, nothing], 1), torch.cat([case.value, nothing], 1)
    assert torch.equal(case.run(wide), expected)
