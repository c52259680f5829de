"""Activation functions against torch."""

from __future__ import annotations

import pytest
import torch
from unit.lowering.one_op import check, decompose, one_op_module

X = torch.linspace(-30.0, 30.0, 61).reshape(1, 61)
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


def test_small_results_keep_their_relative_precision() -> None:
    x = torch.linspace(-30.0, -5.0, 26)
    for name in ("softplus", "mish", "silu", "log_sigmoid"):
        module, _ = one_op_module(f"aten.{name}.default", [x], {})
        decompose(module)
        from unit.lowering.evaluate import evaluate

        (got,) = evaluate(module, [x])
        torch.testing.assert_close(got, torch.ops.aten.__getattr__(name)(x), rtol=1e-5, atol=0)
