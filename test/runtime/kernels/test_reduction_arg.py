"""Indices of extremes, variances and deviations against torch."""

from __future__ import annotations

import pytest
import torch

from etir_testing.runtime.against_torch import LAYOUTS, check, laid_out, numbers, refuses
from etir_testing.runtime.kernels import Kernels, build_kernels

INTS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return build_kernels("reduction")


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS])
@pytest.mark.parametrize("shape", [(3, 70), (70, 3), (2, 3, 5, 7), (1, 1), (300,), (3, 300), (300, 200)])
def test_arg_extremes(kernels: Kernels, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    for layout in LAYOUTS:
        x = laid_out(numbers(shape, dtype), layout)
        for dim in range(-1, len(shape)):
            for keepdim in (False, True):
                for name in ("argmax.out", "argmin.out"):
                    check(kernels, name, [x, dim, keepdim], torch.int64, layout=layout)
                for name in ("max.dim_max", "min.dim_min"):
                    check(kernels, name, [x, dim, keepdim], dtype, torch.int64, layout=layout)
        for name in ("argmax.out", "argmin.out"):
            check(kernels, name, [x, None, True], torch.int64)


def test_ties_and_nan(kernels: Kernels) -> None:
    x = torch.zeros(4, 100)
    x[1, 40] = x[1, 70] = 1
    x[2, 50] = x[2, 51] = float("nan")
    x[2, 10] = float("inf")
    x[3] = -float("inf")
    for layout in LAYOUTS:
        y = laid_out(x, layout)
        for name in ("max.dim_max", "min.dim_min"):
            for dim in (0, 1):
                check(kernels, name, [y, dim, False], torch.float32, torch.int64)
        check(kernels, "argmax.out", [y, None, False], torch.int64)
        check(kernels, "argmax.out", [laid_out(torch.nan_to_num(x), layout), None, False], torch.int64)
        check(kernels, "argmin.out", [laid_out(torch.nan_to_num(x), layout), None, False], torch.int64)


def test_values_and_indices_of_different_layouts(kernels: Kernels) -> None:
    x = numbers((3, 4, 5, 6), torch.float32)
    want = x.max(1, keepdim=True)
    order = (3, 2, 1, 0)
    values = torch.empty(want[0].shape).permute(order).contiguous().permute(order)
    got = kernels.call("aten::max.dim_max", [x, 1, True], [values, torch.empty(want[1].shape, dtype=torch.int64)])
    torch.testing.assert_close(got, list(want))


def test_bool_and_rank_zero(kernels: Kernels) -> None:
    check(kernels, "max.dim_max", [numbers((4, 5), torch.bool), 1, False], torch.bool, torch.int64)
    for dim in (0, -1):
        check(kernels, "max.dim_max", [torch.tensor(3.0), dim, True], torch.float32, torch.int64)
        check(kernels, "argmin.out", [torch.tensor(3.0), dim, False], torch.int64)
    check(kernels, "argmax.out", [torch.tensor(3.0), None, False], torch.int64)


def test_arg_refusals(kernels: Kernels) -> None:
    x = torch.ones(2, 3)
    index = torch.empty(3, dtype=torch.int64)
    refuses(kernels, "KernelShape", "argmax.out", [torch.empty(0, 3), None, False], index)
    refuses(kernels, "KernelShape", "max.dim_max", [torch.empty(0, 3), 0, False], torch.empty(3), index)
    check(kernels, "max.dim_max", [torch.empty(0, 3), 1, False], torch.float32, torch.int64)
    check(kernels, "argmax.out", [torch.empty(2, 0, 3), 0, False], torch.int64)
    refuses(kernels, "KernelDtypeMismatch", "argmax.out", [x, 0, False], index.int())
    refuses(kernels, "KernelDtypeMismatch", "max.dim_max", [x, 0, False], torch.empty(3).double(), index)
    refuses(kernels, "KernelDtype", "argmax.out", [x.bool(), 0, False], index)
    refuses(kernels, "KernelDim", "argmax.out", [x, 2, False], index)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_moments(kernels: Kernels, dtype: torch.dtype, layout: str) -> None:
    for shape in ((2, 3, 5, 7), (3, 600), (600, 3), (1, 4)):
        x = laid_out(numbers(shape, dtype), layout)
        for dim in (None, [], [0], [-1], [0, 1]):
            for keepdim in (False, True):
                for correction in (None, 0, 1, 0.5, 900):
                    for name in ("var.correction_out", "std.correction_out"):
                        check(kernels, name, [x, dim, correction, keepdim], dtype, layout=layout)
                    for name in ("var_mean.correction_out", "std_mean.correction_out"):
                        check(kernels, name, [x, dim, correction, keepdim], dtype, dtype, layout=layout)
                for unbiased in (False, True):
                    check(kernels, "var.out", [x, dim, unbiased, keepdim], dtype, layout=layout)
                    check(kernels, "std.out", [x, dim, unbiased, keepdim], dtype, layout=layout)


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_moments_at_the_edges(kernels: Kernels) -> None:
    check(kernels, "var.correction_out", [torch.tensor(3.0), None, None, False], torch.float32)
    check(kernels, "var_mean.correction_out", [torch.empty(0, 3), [0], None, False], torch.float32, torch.float32)
    check(kernels, "var.correction_out", [torch.empty(0, 3), [1], None, False], torch.float32)
    check(kernels, "var.correction_out", [torch.tensor([1.0, float("inf")]), [0], None, False], torch.float32)
    check(kernels, "std.correction_out", [numbers((9, 2), torch.float16), [0], None, False], torch.float32)
    far = 10_000 + numbers((5, 1000), torch.float32)
    exact = far.double().var(1)
    [got] = kernels.call("aten::var.correction_out", [far, [1], None, False], [torch.empty(5)])
    torch.testing.assert_close(got, exact.float(), rtol=1e-5, atol=0)
    refuses(kernels, "KernelDtype", "var.correction_out", [far.int(), None, None, False], torch.empty(()))
