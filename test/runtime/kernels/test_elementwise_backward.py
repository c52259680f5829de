"""Kernels of activation functions' derivatives against PyTorch."""

from __future__ import annotations

import pytest
import torch

from etir_testing.runtime.elementwise_oracle import COMPLEX, FLOATS, check, kernels, sample
from etir_testing.runtime.kernels import KernelFailure

CASES = [
    ("sigmoid_backward.grad_input", []), ("tanh_backward.grad_input", []), ("threshold_backward.grad_input", [0.3]),
    ("gelu_backward.grad_input", ["none"]), ("gelu_backward.grad_input", ["tanh"]),
    ("leaky_relu_backward.grad_input", [0.1, False]), ("hardtanh_backward.grad_input", [-1, 1]),
    ("silu_backward.grad_input", []), ("hardswish_backward.out", []), ("hardsigmoid_backward.grad_input", []),
    ("softplus_backward.grad_input", [1.5, 20]), ("hardshrink_backward.grad_input", [0.5]),
    ("softshrink_backward.grad_input", [0.5]), ("logit_backward.grad_input", [None]),
    ("logit_backward.grad_input", [0.1]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments"), CASES)
def test_backward(name: str, arguments: list[object]) -> None:
    for dtype in FLOATS:
        tolerances = {"rtol": 2e-2, "atol": 2e-2} if dtype in FLOATS[:2] else {}
        grad, x = sample(dtype, 6, 50, special=False), sample(dtype, 6, 50, seed=3, special=False)
        check(f"aten::{name}", [grad, x, *arguments], dtype, **tolerances)
    last = torch.channels_last
    grad, x = (sample(torch.float32, 2, 3, 4, 5, seed=s, special=False).to(memory_format=last) for s in (1, 2))
    check(f"aten::{name}", [grad, x, *arguments], torch.float32, layout=last)


@pytest.mark.parametrize("is_result", [False, True])
def test_elu(is_result: bool) -> None:
    for dtype in FLOATS[2:]:
        grad, x = sample(dtype, 6, 50, special=False), sample(dtype, 6, 50, seed=3, special=False)
        check("aten::elu_backward.grad_input", [grad, 1.2, 0.7, 0.9, is_result, x], dtype)


def test_log_sigmoid() -> None:
    grad, x = sample(torch.float32, 90, special=False), sample(torch.float32, 90, seed=1, special=False)
    check("aten::log_sigmoid_backward.grad_input", [grad, x, torch.exp(-x.abs())], torch.float32)


def test_threshold_of_integers() -> None:
    check(
        "aten::threshold_backward.grad_input",
        [sample(torch.int64, 40), sample(torch.int64, 40, seed=1), 3],
        torch.int64,
    )


def test_refusals() -> None:
    x = torch.ones(3)
    with pytest.raises(KernelFailure, match="KernelArgument"):
        kernels().call("aten::leaky_relu_backward.grad_input", [x, x, -1.0, True], [x])
    with pytest.raises(KernelFailure, match="KernelDtype"):
        kernels().call("aten::tanh_backward.grad_input", [x.int(), x.int()], [x])


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("name", ["sigmoid_backward", "tanh_backward"])
def test_complex(name: str, dtype: torch.dtype) -> None:
    grad, y = sample(dtype, 6, 5), sample(dtype, 6, 5, seed=1)
    check(f"aten::{name}.grad_input", [grad, y], dtype)
