"""Gradients of convolutions of the runtime against torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from etir_testing.runtime.kernels import KernelFailure, build_kernels

CASES = {
    # input, weight, stride, padding, dilation, transposed, output padding, groups
    "3x3": ((2, 5, 9, 11), (7, 5, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
    "stride that leaves rows out": ((2, 6, 16, 14), (8, 6, 3, 3), [2, 3], [1, 0], [1, 1], False, [0, 0], 1),
    "dilation": ((1, 3, 20, 17), (9, 3, 3, 2), [1, 2], [2, 3], [2, 3], False, [0, 0], 1),
    "1x1": ((2, 9, 7, 6), (20, 9, 1, 1), [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    "groups": ((2, 12, 8, 9), (18, 4, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 3),
    "depthwise": ((1, 10, 8, 30), (10, 1, 3, 3), [2, 2], [1, 1], [1, 1], False, [0, 0], 10),
    "1-d": ((2, 8, 50), (12, 8, 5), [2], [2], [1], False, [0], 1),
    "3-d": ((2, 3, 5, 6, 7), (5, 3, 3, 2, 3), [1, 2, 1], [1, 0, 1], [1, 1, 1], False, [0, 0, 0], 1),
    "transposed": ((2, 6, 8, 9), (6, 5, 4, 4), [2, 2], [1, 1], [1, 1], True, [0, 0], 1),
    "transposed groups": ((2, 6, 5, 5), (6, 3, 3, 3), [2, 2], [1, 1], [1, 1], True, [1, 1], 3),
    "transposed dilation": ((1, 3, 5, 6), (3, 4, 3, 2), [2, 2], [2, 1], [3, 2], True, [1, 1], 1),
    "no image": ((0, 3, 5, 6), (4, 3, 3, 3), [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
}


@pytest.fixture(scope="module")
def kernels() -> Any:
    return build_kernels("convolution")


def channels_last(t: torch.Tensor) -> torch.Tensor:
    """The same values with dim 1 innermost."""
    return t.movedim(1, -1).contiguous().movedim(-1, 1)


def problem(name: str, dtype: torch.dtype) -> tuple[list[torch.Tensor], list[Any], list[torch.Tensor]]:
    """Tensors, the other arguments, and the gradients that autograd computes in double."""
    x_shape, w_shape, *numbers = CASES[name]
    x, w = (torch.randn(s, dtype=torch.float64).to(dtype) for s in (x_shape, w_shape))
    out_channels = w_shape[1] * numbers[5] if numbers[3] else w_shape[0]
    inputs = [t.double().requires_grad_() for t in (x, w, torch.zeros(out_channels))]
    result = torch.ops.aten.convolution(*inputs, *numbers)
    grad = torch.randn(result.shape, dtype=torch.float64).to(dtype)
    expected = torch.autograd.grad(result, inputs, grad.double())
    return [grad, x, w], [[out_channels], *numbers], [e.to(dtype) for e in expected]


def check(got: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    tolerance = {torch.float32: 2e-4, torch.float64: 1e-7}.get(expected[0].dtype, 5e-2)
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_gradients(kernels: Any, name: str, dtype: torch.dtype) -> None:
    tensors, numbers, expected = problem(name, dtype)
    got = kernels.call("aten::convolution_backward.out", [*tensors, *numbers, [True] * 3], expected)
    check(got, expected)


@pytest.mark.parametrize("name", [n for n in CASES if n != "no image"])
def test_channels_last(kernels: Any, name: str) -> None:
    tensors, numbers, expected = problem(name, torch.float32)
    tensors = [channels_last(t) for t in tensors]
    outs = [channels_last(t) for t in expected[:2]] + expected[2:]
    check(kernels.call("aten::convolution_backward.out", [*tensors, *numbers, [True] * 3], outs), expected)


@pytest.mark.parametrize("which", range(3))
def test_mask(kernels: Any, which: int) -> None:
    tensors, numbers, expected = problem("3x3", torch.float32)
    mask = [i == which for i in range(3)]
    # A result that is not asked for may be of any shape.
    outs = [e if i == which else torch.empty(3) for i, e in enumerate(expected)]
    got = kernels.call("aten::convolution_backward.out", [*tensors, *numbers, mask], outs)
    check([got[which]], [expected[which]])


def test_refusals(kernels: Any) -> None:
    (grad, x, w), numbers, outs = problem("3x3", torch.float32)

    def refused(check: str, tensors: list[torch.Tensor], results: list[torch.Tensor] = outs) -> None:
        with pytest.raises(KernelFailure) as failure:
            kernels.call("aten::convolution_backward.out", [*tensors, *numbers, [True] * 3], results)
        assert failure.value.check == check

    refused("KernelShape", [grad[:, :, 1:].clone(), x, w])
    refused("KernelRank", [grad[0], x, w])
    refused("KernelDtypeMismatch", [grad, x.double(), w])
    refused("KernelDtype", [grad.int(), x.int(), w.int()])
    refused("KernelDtypeMismatch", [grad, x, w], [outs[0], outs[1].double(), outs[2]])
    refused("KernelResize", [grad, x, w], [outs[0], torch.empty(1, 1, 1, 1), outs[2]])
