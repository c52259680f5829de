"""Activation functions against torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from etir_testing.lowering.evaluate import evaluate
from etir_testing.lowering.one_op import Dynamic, check, decompose, one_op_module

X = torch.linspace(-30.0, 30.0, 61).reshape(1, 61)
IMAGE = torch.linspace(-3.0, 3.0, 48).reshape(2, 4, 6)
UNIT = torch.linspace(0.0, 1.0, 11)
POINTWISE = [
    "silu",
    "relu6",
    "hardsigmoid",
    "hardswish",
    "softplus",
    "mish",
    "log_sigmoid",
    "selu",
    "celu",
    "hardshrink",
    "softshrink",
    "sinc",
]


@pytest.mark.parametrize("name", POINTWISE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_pointwise(name: str, dtype: torch.dtype) -> None:
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 1e-2}[dtype]
    check(f"aten.{name}.default", X.to(dtype), tolerance=tolerance, dynamic={0: [0, 1]})


CASES: list[tuple[str, tuple[Any, ...], Dynamic]] = [
    ("aten.softplus.default", (X, 2, 5), {0: [1]}),
    ("aten.softplus.default", (X, 0.5, 20), {}),
    ("aten.celu.default", (X, 0.7), {}),
    ("aten.hardshrink.default", (X, 2), {}),
    ("aten.softshrink.default", (X, 2), {}),
    ("aten.threshold.default", (X, 0.5, 20), {0: [1]}),
    ("aten.threshold.default", (torch.arange(-3, 3), 1, 7), {}),
    ("aten.prelu.default", (IMAGE, torch.tensor([0.1, 0.2, 0.3, 0.4])), {0: [0, 2]}),
    ("aten.prelu.default", (IMAGE, torch.tensor([0.25])), {0: [0, 1]}),
    ("aten.prelu.default", (X[0], torch.tensor([0.25])), {}),
    ("aten.prelu.default", (IMAGE, torch.tensor(0.25)), {}),
    ("aten.prelu.default", (torch.tensor(-1.5), torch.tensor([0.25])), {}),
    ("aten._prelu_kernel.default", (IMAGE, torch.rand(1, 4, 1)), {}),
    ("aten.glu.default", (IMAGE, 1), {0: [0, 2]}),
    ("aten.glu.default", (IMAGE, -1), {}),
    ("aten.rrelu.default", (X,), {}),
    ("aten.logit.default", (UNIT,), {0: [0]}),
    ("aten.logit.default", (UNIT, 0.01), {}),
    ("aten.special_logit.default", (UNIT, 0.01), {}),
    ("aten.special_expit.default", (X,), {}),
    ("aten.softmax.int", (IMAGE, -2), {0: [0, 1]}),
    ("aten.softmax.int", (torch.arange(6), 0, torch.float32), {}),
    ("aten.special_softmax.default", (IMAGE, 0, torch.float64), {}),
    ("aten.log_softmax.int", (IMAGE, 1), {0: [0, 1]}),
    ("aten.special_log_softmax.default", (IMAGE, 1), {}),
    *[(f"aten.{n}dropout.default", (X, 0.5, False), {}) for n in ("", "feature_", "alpha_", "feature_alpha_")],
]


@pytest.mark.parametrize(("name", "args", "dynamic"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_arguments(name: str, args: tuple[Any, ...], dynamic: Dynamic) -> None:
    check(name, *args, dynamic=dynamic)


def test_both_results_of_log_sigmoid() -> None:
    check("aten.log_sigmoid_forward.default", X, results=1)


def test_small_results_keep_their_relative_precision() -> None:
    x = torch.linspace(-30.0, -5.0, 26)
    for name in ("softplus", "mish", "silu", "log_sigmoid"):
        module, _ = one_op_module(f"aten.{name}.default", [x], {})
        decompose(module)
        (got,) = evaluate(module, [x])
        torch.testing.assert_close(got, getattr(torch.ops.aten, name)(x), rtol=1e-5, atol=0)


def test_dropout_in_training_is_one_operator() -> None:
    module, _ = one_op_module("aten.dropout.default", [X, 0.5, True], {})
    assert decompose(module) == ["aten.native_dropout.default"]
