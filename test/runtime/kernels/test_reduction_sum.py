"""Sums, means, products, extremes, any and all against torch."""

from __future__ import annotations

import pytest
import torch

from etir_testing.runtime.against_torch import LAYOUTS, check, laid_out, numbers, refuses
from etir_testing.runtime.kernels import Kernels, build_kernels

INTS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)
REAL = (torch.bool, *INTS, *FLOATS)
SHAPE = (2, 3, 5, 7)
DIMS = (None, [], [0], [1], [3], [-2], [0, 2], [1, 3], [2, 3], [0, 1, 2, 3])


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return build_kernels("reduction")


def summed(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype.is_floating_point or dtype.is_complex else torch.int64


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", DIMS)
def test_every_set_of_dims(kernels: Kernels, dim: list[int] | None, keepdim: bool, layout: str) -> None:
    x = laid_out(numbers(SHAPE, torch.float32), layout)
    for name in ("sum.IntList_out", "mean.out"):
        for out_layout in LAYOUTS:
            check(kernels, name, [x, dim, keepdim, None], torch.float32, layout=out_layout)
    for name in ("any.dims_out", "all.dims_out"):
        check(kernels, name, [laid_out(x > -1, layout), dim, keepdim], torch.bool, layout=layout)
    if dim is not None:
        for name in ("amax.out", "amin.out"):
            check(kernels, name, [x, dim, keepdim], torch.float32, layout=layout)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32])
@pytest.mark.parametrize(("shape", "dim"), [((300, 5), 1), ((3, 131, 9), 2), ((2, 300, 1, 40), 3), ((4, 3, 200), 0)])
def test_many_short_rows(kernels: Kernels, shape: tuple[int, ...], dim: int, dtype: torch.dtype, layout: str) -> None:
    # More rows than are stored at once, next to each other in the result or not.
    x = laid_out(numbers(shape, dtype), layout)
    for out_layout in LAYOUTS:
        check(kernels, "sum.IntList_out", [x, [dim], False, None], summed(dtype), layout=out_layout)
        check(kernels, "amax.out", [x, [dim], True], dtype, layout=out_layout)


@pytest.mark.parametrize("dtype", [*REAL, *COMPLEX, torch.uint16, torch.uint32])
def test_sum_and_product_dtypes(kernels: Kernels, dtype: torch.dtype) -> None:
    x = numbers((4, 37), dtype)
    for dim in ([0], [1], None):
        check(kernels, "sum.IntList_out", [x, dim, False, None], summed(dtype))
    check(kernels, "sum.out", [x, None], summed(dtype))
    if dtype in (torch.uint16, torch.uint32):
        return
    for dim in (0, 1):
        check(kernels, "prod.int_out", [x, dim, True, None], summed(dtype), tolerance=(2e-2, 1e-4))
    check(kernels, "prod.out", [x, None], summed(dtype), tolerance=(2e-2, 1e-4))


@pytest.mark.parametrize("to", [*REAL, *COMPLEX])
@pytest.mark.parametrize("dtype", [*REAL])
def test_sum_in_another_dtype(kernels: Kernels, dtype: torch.dtype, to: torch.dtype) -> None:
    x = numbers((3, 40), dtype)
    if dtype.is_floating_point and to == torch.uint8:
        x = x.abs()
    if to in (torch.float16, torch.bfloat16):
        x = x.to(to).to(dtype)
    check(kernels, "sum.IntList_out", [x, [1], False, to], to)
    check(kernels, "sum.IntList_out", [x, [0], False, None], to)
    if to.is_floating_point or to.is_complex:
        check(kernels, "mean.out", [x, [1], False, to], to)
        check(kernels, "mean.dtype_out", [x, to], to)
    check(kernels, "prod.int_out", [x, 0, False, to], to, tolerance=(2e-2, 1e-4))


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX])
def test_mean_dtypes(kernels: Kernels, dtype: torch.dtype) -> None:
    x = numbers((5, 70), dtype)
    for dim in ([0], [1], None):
        check(kernels, "mean.out", [x, dim, False, None], dtype)
    check(kernels, "mean.dtype_out", [x, None], dtype)


@pytest.mark.parametrize("shape", [(300_000,), (5, 40_000), (40_000, 5), (3000, 130), (2, 3000, 3, 4)])
def test_long_sums_are_accurate(kernels: Kernels, shape: tuple[int, ...]) -> None:
    x = torch.rand(shape, generator=torch.Generator().manual_seed(1))
    for dim in range(len(shape)):
        exact = x.double().sum(dim)
        [got] = kernels.call("aten::sum.IntList_out", [x, [dim], False, None], [torch.empty(exact.shape)])
        error = ((got - exact).abs() / exact).max()
        assert error < 3e-7
        half = x.half()
        [got] = kernels.call("aten::mean.out", [half, [dim], False, None], [torch.empty(exact.shape).half()])
        torch.testing.assert_close(got, half.double().mean(dim).half(), rtol=1e-3, atol=0)


def test_integers_wrap(kernels: Kernels) -> None:
    x = torch.full((70,), torch.iinfo(torch.int64).max)
    check(kernels, "sum.IntList_out", [x, None, False, None], torch.int64)
    check(kernels, "prod.out", [x, None], torch.int64)
    check(kernels, "sum.IntList_out", [torch.full((5,), 100, dtype=torch.int8), None, False, None], torch.int8)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3), (0, 0)])
def test_empty(kernels: Kernels, shape: tuple[int, ...]) -> None:
    x = torch.empty(shape)
    for dim in [None, *([d] for d in range(len(shape)))]:
        for keepdim in (False, True):
            check(kernels, "sum.IntList_out", [x, dim, keepdim, None], torch.float32)
            check(kernels, "mean.out", [x, dim, keepdim, None], torch.float32)
            check(kernels, "nansum.out", [x, dim, keepdim, None], torch.float32)
            check(kernels, "any.dims_out", [x, dim, keepdim], torch.bool)
            check(kernels, "all.dims_out", [x, dim, keepdim], torch.bool)
            if dim is not None and shape[dim[0]] != 0:
                check(kernels, "amax.out", [x, dim, keepdim], torch.float32)
            if dim is not None and shape[dim[0]] == 0:
                size = [s for d, s in enumerate(shape) if d != dim[0]]
                refuses(kernels, "KernelShape", "amax.out", [x, dim, False], torch.empty(size))
    check(kernels, "prod.out", [x, None], torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8, torch.bool])
def test_rank_zero(kernels: Kernels, dtype: torch.dtype) -> None:
    x = torch.tensor(1, dtype=dtype)
    for dim in (None, [], [0], [-1]):
        check(kernels, "sum.IntList_out", [x, dim, True, None], summed(dtype))
        check(kernels, "any.dims_out", [x, dim, False], torch.bool)
    check(kernels, "amax.out", [x, [0], False], dtype)
    check(kernels, "max.unary_out", [x], dtype)
    check(kernels, "prod.int_out", [x, -1, False, None], summed(dtype))


@pytest.mark.parametrize("dtype", [*FLOATS])
def test_nansum(kernels: Kernels, dtype: torch.dtype) -> None:
    x = numbers((6, 50), dtype)
    x[2, 3:20] = float("nan")
    x[:, 7] = float("nan")
    for dim in ([0], [1], None):
        check(kernels, "nansum.out", [x, dim, False, None], dtype)
    check(kernels, "nansum.out", [numbers((6, 50), torch.int32), [1], False, None], torch.int64)


@pytest.mark.parametrize("dtype", REAL)
def test_extreme_dtypes(kernels: Kernels, dtype: torch.dtype) -> None:
    x = numbers((5, 70), dtype)
    for name in ("amax.out", "amin.out"):
        for dim in ([0], [1], []):
            check(kernels, name, [x, dim, False], dtype)
    for name in ("max.unary_out", "min.unary_out"):
        check(kernels, name, [x], dtype)
        check(kernels, name, [x], torch.float64)
    for dim in (0, 1, None):
        check(kernels, "aminmax.out", [x, dim, True], dtype, dtype)


@pytest.mark.parametrize("at", [0, 3, 63, 69])
def test_extremes_of_nan_and_infinity(kernels: Kernels, at: int) -> None:
    for value in (float("nan"), float("inf"), -float("inf")):
        x = numbers((3, 70), torch.float32)
        x[1, at] = value
        for name in ("amax.out", "amin.out"):
            for dim in ([0], [1]):
                check(kernels, name, [x, dim, False], torch.float32)
        for name in ("max.unary_out", "min.unary_out"):
            check(kernels, name, [x], torch.float32)
    nothing = torch.full((2, 2), -float("inf"))
    check(kernels, "amax.out", [nothing, [0], False], torch.float32)


def test_extremes_of_large_integers(kernels: Kernels) -> None:
    limits = torch.iinfo(torch.int64)
    x = torch.tensor([limits.min, limits.min + 1, limits.max - 1, limits.max])
    check(kernels, "amax.out", [x, [0], False], torch.int64)
    check(kernels, "amin.out", [x, [0], False], torch.int64)


@pytest.mark.parametrize("dtype", [*REAL, *COMPLEX])
def test_any_and_all_dtypes(kernels: Kernels, dtype: torch.dtype) -> None:
    x = numbers((9, 70), dtype)
    x[:, 2] = 0
    x[4] = 0
    # For a result of uint8 torch cuts fractions off before it tests.
    for out in (torch.bool,) if dtype.is_floating_point or dtype.is_complex else (torch.bool, torch.uint8):
        for name in ("any", "all"):
            for dim in (0, 1, -1):
                check(kernels, f"{name}.out", [x, dim, False], out)
            check(kernels, f"{name}.all_out", [x], out)
    check(kernels, "count_nonzero.out", [x, None], torch.int64)
    check(kernels, "count_nonzero.out", [x, 1], torch.int64)
    check(kernels, "count_nonzero.dim_IntList_out", [x, [0, 1]], torch.int64)


def test_any_of_nan(kernels: Kernels) -> None:
    check(kernels, "any.all_out", [torch.tensor([0.0, float("nan")])], torch.bool)
    check(kernels, "any.all_out", [torch.tensor([0.0, -0.0])], torch.bool)
    check(kernels, "any.all_out", [torch.tensor([0.0, 1e-45])], torch.bool)


def test_refusals(kernels: Kernels) -> None:
    x = torch.ones(2, 3)
    refuses(kernels, "KernelDim", "sum.IntList_out", [x, [2], False, None], torch.empty(2))
    refuses(kernels, "KernelDim", "prod.int_out", [x, -3, False, None], torch.empty(2))
    refuses(kernels, "KernelArgument", "sum.IntList_out", [x, [0, -2], False, None], torch.empty(3))
    refuses(kernels, "KernelDtypeMismatch", "sum.out", [x, torch.float64], torch.empty(()))
    refuses(kernels, "KernelDtype", "mean.dtype_out", [x.int(), None], torch.empty(()))
    refuses(kernels, "KernelDtype", "mean.dtype_out", [x, None], torch.empty((), dtype=torch.int32))
    refuses(kernels, "KernelDtypeMismatch", "amax.out", [x, [0], False], torch.empty(3, dtype=torch.float64))
    refuses(kernels, "KernelDtype", "max.unary_out", [x], torch.empty((), dtype=torch.int32))
    refuses(kernels, "KernelDtype", "any.all_out", [x], torch.empty(()))
    refuses(kernels, "KernelResizeRank", "sum.IntList_out", [x, [0], False, None], torch.empty(()))
    refuses(kernels, "KernelShape", "max.unary_out", [torch.empty(0)], torch.empty(()))
    refuses(kernels, "KernelDtype", "sum.out", [x.to(torch.complex64), None], torch.empty(()))
