"""int8 values that cross the boundary of XNNPACK's partitions, and that have several scales."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
from torch import nn

import etir

from etir_testing.interop.xnnpack_runs import run_stock

Q = torch.ops.quantized_decomposed


def quantize(x: torch.Tensor, scale: float, zero: int) -> torch.Tensor:
    return Q.quantize_per_tensor.default(x, scale, zero, -128, 127, torch.int8)


def dequantize(q: torch.Tensor, scale: float, zero: int) -> torch.Tensor:
    return Q.dequantize_per_tensor.default(q, scale, zero, -128, 127, torch.int8)


def out_and_in(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Out of one partition, through an operator that stays outside, into another one; the value is an output too."""
    q = torch.flip(quantize(torch.tanh(x), 0.01, 3), [1])
    return torch.sigmoid(dequantize(q, 0.01, 3)), q


def caller_to_caller(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """From the caller to the caller, computed in int8."""
    q = quantize(x, 0.02, -5)
    a = dequantize(torch.flip(q, [0]), 0.02, -5)
    return (quantize(torch.relu(a + a), 0.04, 7),)


def other_scale(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Read with another scale and zero point than it was written with."""
    return (torch.sigmoid(dequantize(quantize(torch.tanh(x), 0.01, 3), 0.02, -5)),)


def two_scales(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """One int8 input that is read with two scales."""
    q = torch.flip(quantize(x, 0.02, 0), [0])
    return (torch.tanh(dequantize(q, 0.02, 0)) + torch.sigmoid(dequantize(q, 0.05, -9)),)


def reshaped(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """A view of the integers between writing and reading."""
    q = quantize(torch.tanh(x), 0.01, 3)
    return (torch.sigmoid(dequantize(q.reshape(-1), 0.01, 3)), q)


def used_outside(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Used inside of the partition and outside of it."""
    q = quantize(torch.tanh(x), 0.015, -20)
    return (torch.sigmoid(dequantize(q, 0.015, -20)), torch.flip(q, [0]).to(torch.int32))


class _Function(nn.Module):
    def __init__(self, function: Callable[..., tuple[torch.Tensor, ...]]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.function(x)


@pytest.mark.parametrize(
    "function",
    [out_and_in, caller_to_caller, other_scale, two_scales, reshaped, used_outside],
    ids=lambda f: f.__name__,
)
def test_values_across_the_boundary(function: Callable[..., tuple[torch.Tensor, ...]]) -> None:
    """Integers as eager has them but for one step of rounding, floats within that step."""
    x = torch.linspace(-2, 2, 60).reshape(3, 20)
    program = etir.compile(torch.export.export(_Function(function), (x,)), delegates=["xnnpack"])
    assert program.delegation is not None and program.delegation.delegated > 0
    for found, wanted in zip(run_stock(program.buffer, [x]), function(x), strict=True):
        assert found.dtype == wanted.dtype
        if wanted.dtype.is_floating_point:
            torch.testing.assert_close(found, wanted, atol=0.02, rtol=0)
        else:
            assert (found.int() - wanted.int()).abs().max() <= 1


@pytest.mark.parametrize(
    "function",
    [lambda x: ((x + 1).view(-1)[3],), lambda x: (torch.topk(x.view(-1), 9)[0][8] + 1,)],
    ids=["element", "from_outside"],
)
def test_results_without_dims(function: Callable[..., tuple[torch.Tensor, ...]]) -> None:
    """The runtime cannot hand them out: the operators that give them stay outside."""
    x = torch.linspace(-2, 2, 60).reshape(3, 20)
    program = etir.compile(torch.export.export(_Function(function), (x,)), delegates=["xnnpack"])
    (found,) = run_stock(program.buffer, [x])
    assert found.shape == ()
    torch.testing.assert_close(found, function(x)[0])
