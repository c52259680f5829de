"""Random numbers: mean and variance of many, and what holds for each of them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from etir_testing.lowering.evaluate import evaluate
from etir_testing.lowering.one_op import decompose, one_op_module

COUNT = 20000
X = torch.empty(COUNT)


def _drawn(op_name: str, *args: Any, **kwargs: Any) -> torch.Tensor:
    torch.manual_seed(0)
    module, tensors = one_op_module(op_name, args, kwargs)
    names = decompose(module)
    assert op_name not in names
    (result,) = evaluate(module, tensors)[:1]
    return result


MOMENTS: list[tuple[str, tuple[Any, ...], float, float]] = [
    ("aten.uniform.default", (X, -2.0, 4.0), 1.0, math.sqrt(3)),
    ("aten.normal_functional.default", (X, 1.5, 0.5), 1.5, 0.5),
    ("aten.normal.Tensor_float", (torch.full([COUNT], 2.0), 3.0), 2.0, 3.0),
    ("aten.normal.float_Tensor", (2.0, torch.full([COUNT], 3.0)), 2.0, 3.0),
    ("aten.normal.Tensor_Tensor", (torch.full([COUNT], -1.0), torch.tensor([2.0])), -1.0, 2.0),
    ("aten.normal.float_float", (0.5, 2.0, [COUNT]), 0.5, 2.0),
    ("aten.exponential.default", (X, 4.0), 0.25, 0.25),
    ("aten.geometric.default", (X, 0.25), 4.0, math.sqrt(12)),
    ("aten.geometric.default", (X.long(), 0.25), 4.0, math.sqrt(12)),
    ("aten.alpha_dropout.default", (torch.randn(COUNT), 0.3, True), 0.0, 1.0),
]


@pytest.mark.parametrize(("op_name", "args", "mean", "std"), MOMENTS, ids=[m[0] for m in MOMENTS])
def test_moments(op_name: str, args: tuple[Any, ...], mean: float, std: float) -> None:
    drawn = _drawn(op_name, *args)
    assert drawn.shape == (COUNT,)
    assert drawn.double().mean().item() == pytest.approx(mean, abs=0.04 * (abs(mean) + std))
    assert drawn.double().std().item() == pytest.approx(std, rel=0.05)


def test_ranges() -> None:
    assert _drawn("aten.uniform.default", X, 2.0, 3.0).min() >= 2
    assert _drawn("aten.exponential.default", X, 1.0).min() > 0
    whole = _drawn("aten.geometric.default", X, 0.5)
    assert whole.min() == 1 and torch.equal(whole, whole.round())


def test_multinomial() -> None:
    chances = torch.tensor([[0.0, 1.0, 3.0, 0.0], [2.0, 0.0, 0.0, 2.0]])
    drawn = _drawn("aten.multinomial.default", chances, 4000, True)
    assert drawn.dtype == torch.int64 and drawn.shape == (2, 4000)
    assert (drawn[0] == 2).double().mean().item() == pytest.approx(0.75, abs=0.05)
    assert set(drawn[0].tolist()) == {1, 2} and set(drawn[1].tolist()) == {0, 3}
    drawn = _drawn("aten.multinomial.default", chances, 2)
    assert drawn.sort().values.tolist() == [[1, 2], [0, 3]]


def test_bernoulli() -> None:
    drawn = _drawn("aten.bernoulli.p", X, 0.3)
    assert set(drawn.tolist()) == {0.0, 1.0} and drawn.mean().item() == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize(
    ("op_name", "args", "low", "dtype"),
    [
        ("aten.randint.default", (5, [COUNT]), 0, torch.int64),
        ("aten.randint.low", (-3, 2, [COUNT]), -3, torch.int64),
        ("aten.randint_like.default", (X, 5), 0, torch.float32),
        ("aten.randint_like.low_dtype", (X.int(), -3, 2), -3, torch.int32),
        ("aten.random.from", (X.int(), -3, 2), -3, torch.int32),
        ("aten.random.to", (X, 5), 0, torch.float32),
    ],
)
def test_integers(op_name: str, args: tuple[Any, ...], low: int, dtype: torch.dtype) -> None:
    """All five numbers, equally often."""
    drawn = _drawn(op_name, *args)
    assert drawn.dtype == dtype and drawn.shape == (COUNT,)
    counts = torch.bincount((drawn - low).long(), minlength=5)
    assert counts.shape == (5,) and (counts / COUNT - 0.2).abs().max() < 0.02


def test_wide_integers() -> None:
    drawn = _drawn("aten.randint.low", -(2**40), 2**40, [COUNT])
    assert drawn.min() < -(2**39) and drawn.max() > 2**39 and (drawn % 2 == 1).double().mean() > 0.4


def test_permutation() -> None:
    drawn = _drawn("aten.randperm.default", 50)
    assert drawn.dtype == torch.int64 and drawn.tolist() != list(range(50))
    assert sorted(drawn.tolist()) == list(range(50))


def test_rrelu_in_training() -> None:
    x = torch.randn(COUNT, generator=torch.Generator().manual_seed(1))
    slopes = _drawn("aten.rrelu.default", x, 0.1, 0.3, True) / x
    assert (slopes[x > 0] == 1).all()
    negative = slopes[x < 0]
    assert negative.min() > 0.099 and negative.max() < 0.301
    assert negative.mean().item() == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize("op_name", ["aten.feature_dropout.default", "aten.feature_alpha_dropout.default"])
def test_channels_are_dropped_whole(op_name: str) -> None:
    x = torch.rand(40, 50, 3) + 1
    drawn = _drawn(op_name, x, 0.4, True)
    dropped = (drawn == drawn[..., :1]).all(-1)
    assert dropped.double().mean().item() == pytest.approx(0.4, abs=0.05)
    if op_name == "aten.feature_dropout.default":
        torch.testing.assert_close(drawn[~dropped], x[~dropped] / 0.6)
