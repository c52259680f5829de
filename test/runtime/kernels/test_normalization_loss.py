"""Losses against torch."""

from __future__ import annotations

import pytest
import torch

from etir_testing.runtime.against_torch import LAYOUTS, check, laid_out, numbers, refuses
from etir_testing.runtime.kernels import Kernels, build_kernels

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
CLOSE = {
    torch.float16: (4e-3, 1e-3),
    torch.bfloat16: (3.2e-2, 1e-2),
    torch.float32: (1e-5, 1e-6),
    torch.float64: (1e-12, 1e-12),
}


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return build_kernels("normalization")


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("dtype", FLOATS)
def test_pointwise_losses(kernels: Kernels, dtype: torch.dtype, reduction: int) -> None:
    for shape in ((2, 3, 4, 5), (700,), (), (0, 3)):
        for layout in LAYOUTS:
            x, y = (laid_out(numbers(shape, dtype, seed), layout) for seed in (0, 1))
            for name, last in (
                ("mse_loss.out", []), ("smooth_l1_loss.out", [1.0]), ("smooth_l1_loss.out", [0.0]),
                ("smooth_l1_loss.out", [0.3]), ("huber_loss.out", [1.0]), ("huber_loss.out", [0.3]),
            ):  # fmt: skip
                overload = getattr(torch.ops.aten, name.removesuffix(".out")).default
                want = overload(x.double(), y.double(), reduction, *last).to(dtype)
                like = laid_out(want, layout)
                [got] = kernels.call(f"aten::{name}", [x, y, reduction, *last], [like])
                torch.testing.assert_close(got, want, rtol=CLOSE[dtype][0], atol=CLOSE[dtype][1], equal_nan=True)


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("dtype", FLOATS)
def test_nll_loss(kernels: Kernels, dtype: torch.dtype, reduction: int) -> None:
    generator = torch.Generator().manual_seed(5)
    for shape, name in (((9, 4), "nll_loss"), ((4,), "nll_loss"), ((2, 4, 3, 5), "nll_loss2d"), ((0, 4), "nll_loss")):
        x = numbers(shape, dtype)
        target = torch.randint(0, 4, (*shape[:1], *shape[2:]) if len(shape) > 1 else (), generator=generator)
        if target.numel() > 2:
            target.view(-1)[1] = -100
            target.view(-1)[2] = 2
        for weight in (None, numbers((4,), dtype, 1).abs()):
            wide = None if weight is None else weight.double()
            for ignore in (-100, 2):
                kept = torch.where(target == -100, ignore, target)
                forward = getattr(torch.ops.aten, f"{name}_forward").default
                want = forward(x.double(), kept, wide, reduction, ignore)
                likes = [w.to(dtype) for w in want]
                got = kernels.call(f"aten::{name}_forward.output", [x, kept, weight, reduction, ignore], likes)
                for a, b in zip(got, want, strict=True):
                    torch.testing.assert_close(
                        a, b.to(dtype), rtol=CLOSE[dtype][0], atol=CLOSE[dtype][1], equal_nan=True
                    )
                grad = numbers(want[0].shape, dtype, 3)
                total = want[1].to(dtype)
                args = [grad, x, kept, weight, reduction, ignore, total]
                backward = getattr(torch.ops.aten, f"{name}_backward").default
                slope = backward(*(a.double() if a is not kept and isinstance(a, torch.Tensor) else a for a in args))
                [got_slope] = kernels.call(f"aten::{name}_backward.grad_input", args, [x])
                torch.testing.assert_close(
                    got_slope, slope.to(dtype), rtol=CLOSE[dtype][0], atol=CLOSE[dtype][1], equal_nan=True
                )


def test_loss_refusals(kernels: Kernels) -> None:
    x, target, scalar = torch.ones(3, 4), torch.tensor([0, 1, 4]), torch.empty(())
    name = "nll_loss_forward.output"
    refuses(kernels, "KernelIndex", name, [x, target, None, 1, -100], scalar, scalar)
    refuses(kernels, "KernelIndex", name, [x, -target, None, 1, -100], scalar, scalar)
    refuses(kernels, "KernelShape", name, [x, target[:2].clone(), None, 1, -100], scalar, scalar)
    refuses(kernels, "KernelShape", name, [x, target % 4, torch.ones(3), 1, -100], scalar, scalar)
    refuses(kernels, "KernelArgument", name, [x, target % 4, None, 3, -100], scalar, scalar)
    refuses(kernels, "KernelDtype", name, [x, target.int() % 4, None, 1, -100], scalar, scalar)
    refuses(kernels, "KernelShape", "mse_loss.out", [x, x[:1].clone(), 1], scalar)
    refuses(kernels, "KernelArgument", "huber_loss.out", [x, x, 1, 0.0], scalar)
    check(kernels, "mse_loss.out", [x, x + 1, 1], torch.float32)
