"""Softmax, its logarithm and their gradients, logsumexp and vector norms against torch."""

from __future__ import annotations

import pytest
import torch

from etir_testing.runtime.against_torch import LAYOUTS, TOLERANCE, check, laid_out, numbers, refuses
from etir_testing.runtime.kernels import Kernels, build_kernels

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SHAPES = ((2, 3, 5, 7), (3, 600), (600, 3), (1, 1), (), (0, 3), (3, 0))
INF = float("inf")


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return build_kernels("normalization")


@pytest.fixture(scope="module")
def reductions() -> Kernels:
    return build_kernels("reduction")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax(kernels: Kernels, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    for layout in LAYOUTS:
        x = laid_out(numbers(shape, dtype) * 3, layout)
        for dim in range(-1, max(len(shape), 1)):
            for name in ("_softmax", "_log_softmax"):
                # Exact values, rounded once: along some dims torch rounds to 16 bits in between.
                want = getattr(torch.ops.aten, name).default(x.double(), dim, False)
                [got] = kernels.call(f"aten::{name}.out", [x, dim, False], [laid_out(want.to(dtype), layout)])
                rtol, atol = TOLERANCE[dtype]
                torch.testing.assert_close(got, want.to(dtype), rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax_gradients(kernels: Kernels, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    for layout in LAYOUTS:
        grad = laid_out(numbers(shape, dtype), layout)
        for dim in range(-1, max(len(shape), 1)):
            y = numbers(shape, torch.float64, 1)
            soft = laid_out(y.softmax(dim).to(dtype), layout)
            log = laid_out(y.log_softmax(dim).to(dtype), layout)
            tolerance = (2e-2, 2e-2) if dtype in (torch.float16, torch.bfloat16) else None
            check(
                kernels, "_softmax_backward_data.out", [grad, soft, dim, dtype], dtype, layout=layout,
                tolerance=tolerance,
            )  # fmt: skip
            check(
                kernels, "_log_softmax_backward_data.out", [grad, log, dim, dtype], dtype, layout=layout,
                tolerance=tolerance,
            )  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_softmax_of_infinities(kernels: Kernels, layout: str) -> None:
    rows = [[INF, 1.0, 2.0], [-INF, -INF, -INF], [-INF, 0.0, 1.0], [float("nan"), 1.0, 2.0], [1e4, -1e4, 1e4]]
    x = laid_out(torch.tensor(rows), layout)
    for y, dim in ((x, 1), (laid_out(x.t(), layout), 0)):
        check(kernels, "_softmax.out", [y, dim, False], torch.float32, layout=layout)
        check(kernels, "_log_softmax.out", [y, dim, False], torch.float32, layout=layout)


def test_softmax_refusals(kernels: Kernels) -> None:
    x = numbers((2, 3), torch.float32)
    refuses(kernels, "KernelDim", "_softmax.out", [x, 2, False], x)
    refuses(kernels, "KernelDtype", "_softmax.out", [x.int(), 0, False], x.int())
    refuses(kernels, "KernelDtypeMismatch", "_softmax.out", [x, 0, False], x.double())
    refuses(kernels, "KernelDimOrder", "_softmax.out", [x, 0, False], laid_out(x, "transposed"))
    refuses(kernels, "KernelShape", "_softmax_backward_data.out", [x, x[:1].clone(), 0, x.dtype], x)
    widened = kernels.call("aten::_softmax.out", [x.half(), 1, True], [x])
    torch.testing.assert_close(widened[0], x.half().float().softmax(1))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.bool])
def test_logsumexp(reductions: Kernels, dtype: torch.dtype) -> None:
    out = dtype if dtype.is_floating_point else torch.float32
    for shape in ((2, 3, 5, 7), (3, 600), (600, 3), ()):
        for layout in LAYOUTS:
            x = laid_out(numbers(shape, dtype), layout)
            for dims in ([0], [-1], list(range(len(shape)))):
                if not dims and shape:
                    continue
                # In 16 bits torch rounds the largest value and the logarithm before it adds them.
                wide = x.double() if dtype.is_floating_point else x.float()
                want = torch.logsumexp(wide, dims, True)
                [got] = reductions.call("aten::logsumexp.out", [x, dims, True], [laid_out(want.to(out), layout)])
                rtol, atol = TOLERANCE[out]
                torch.testing.assert_close(got.double(), want.double(), rtol=rtol, atol=atol)


def test_logsumexp_in_another_dtype(reductions: Kernels) -> None:
    x = numbers((3, 4), torch.float32)
    check(reductions, "logsumexp.out", [x, [0], False], torch.float64, tolerance=(1e-6, 1e-7))


def test_logsumexp_of_infinities(reductions: Kernels) -> None:
    x = torch.tensor([[INF, 1.0], [-INF, -INF], [INF, -INF], [float("nan"), 1.0], [3e38, 3e38]])
    for y, dim in ((x, 1), (x.t().contiguous(), 0)):
        check(reductions, "logsumexp.out", [y, [dim], False], torch.float32)
    check(reductions, "logsumexp.out", [torch.empty(0, 3), [0], False], torch.float32)


@pytest.mark.parametrize("p", [0, 1, 2, 3, -1, 0.5, 2.5, INF, -INF])
@pytest.mark.parametrize("dtype", FLOATS)
def test_vector_norms(reductions: Kernels, dtype: torch.dtype, p: float) -> None:
    tolerance = (2e-5, 1e-5) if dtype == torch.float32 else None
    for shape in ((2, 3, 5, 7), (3, 300), (300, 3)):
        for layout in LAYOUTS:
            x = laid_out(numbers(shape, dtype), layout)
            for dims in (None, [], [0], [-1], [0, 1]):
                args = [x, p, dims, True, None]
                check(reductions, "linalg_vector_norm.out", args, dtype, layout=layout, tolerance=tolerance)
            check(reductions, "norm.out", [x, p, [0], False], dtype, layout=layout, tolerance=tolerance)
    x = numbers((3, 4), dtype)
    check(reductions, "norm.Scalar_out", [x, p], dtype, tolerance=tolerance)
    if dtype in (torch.float32, torch.float16):
        wide = (2e-5, 1e-5)
        check(reductions, "norm.dtype_out", [x, p, [1], False, torch.float64], torch.float64, tolerance=wide)
        args = [x, p, [1], False, torch.float64]
        check(reductions, "linalg_vector_norm.out", args, torch.float64, tolerance=wide)
        check(reductions, "norm.ScalarOpt_dtype_out", [x, p, torch.float64], torch.float64, tolerance=wide)


def test_norms_at_the_edges(reductions: Kernels) -> None:
    empty = torch.empty(0, 3)
    for p in (0, 1, 2, 3, 0.5):
        check(reductions, "linalg_vector_norm.out", [empty, p, [0], False, None], torch.float32)
    for p in (INF, -INF, -1):
        refuses(reductions, "KernelShape", "linalg_vector_norm.out", [empty, p, [0], False, None], torch.empty(3))
        check(reductions, "linalg_vector_norm.out", [empty, p, [1], False, None], torch.float32)
    check(reductions, "norm.out", [torch.tensor([1.0, float("nan")]), INF, [0], False], torch.float32)
    check(reductions, "norm.out", [torch.tensor(-3.0), None, [0], False], torch.float32)
    refuses(reductions, "KernelDtype", "norm.out", [torch.ones(3).int(), 2, [0], False], torch.empty(()).int())


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, INF])
@pytest.mark.parametrize("dtype", FLOATS)
def test_distances(reductions: Kernels, dtype: torch.dtype, p: float) -> None:
    for a, b in (((4, 7), (5, 7)), ((2, 1, 4, 7), (3, 5, 7)), ((3, 300), (2, 300)), ((2, 0), (3, 0)), ((0, 3), (2, 3))):
        x1, x2 = numbers(a, dtype), numbers(b, dtype, 1)
        want = torch.ops.aten._cdist_forward(x1.double(), x2.double(), float(p), 2)
        [got] = reductions.call("aten::_cdist_forward.out", [x1, x2, float(p), None], [want.to(dtype)])
        rtol, atol = (5e-5, 5e-5) if dtype == torch.float32 else TOLERANCE[dtype]
        torch.testing.assert_close(got, want.to(dtype), rtol=rtol, atol=atol)
    for shape in ((6, 9), (1, 3), (0, 3), (4, 0)):
        x = numbers(shape, dtype)
        want = torch.ops.aten._pdist_forward(x.double(), float(p))
        [got] = reductions.call("aten::_pdist_forward.out", [x, float(p)], [want.to(dtype)])
        torch.testing.assert_close(got, want.to(dtype), rtol=rtol, atol=atol)


def test_distance_refusals(reductions: Kernels) -> None:
    x = torch.ones(2, 3)
    refuses(reductions, "KernelShape", "_cdist_forward.out", [x, torch.ones(2, 4), 2.0, None], torch.empty(2, 2))
    refuses(reductions, "KernelArgument", "_cdist_forward.out", [x, x, -1.0, None], torch.empty(2, 2))
    refuses(reductions, "KernelRank", "_pdist_forward.out", [torch.ones(3), 2.0], torch.empty(3))
    refuses(reductions, "KernelDtypeMismatch", "_cdist_forward.out", [x, x.double(), 2.0, None], torch.empty(2, 2))
