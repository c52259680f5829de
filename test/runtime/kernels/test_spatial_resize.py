"""Resizing and sampling kernels against torch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from etir_testing.runtime.kernels import KernelFailure, Kernels, build_kernels
from etir_testing.runtime.spatial_cases import LAYOUTS, TOLERANCE, make, operator, relaid

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
NEAREST = [f"{kind}{dims}d" for kind in ("upsample_nearest", "_upsample_nearest_exact") for dims in (1, 2, 3)]
LINEAR = ["upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"]


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return build_kernels("spatial")


def spatial(name: str) -> int:
    return int(name[-2])


def check(
    kernels: Kernels, name: str, arguments: list[Any], layout: str = "plain", out_layout: str | None = None,
    tolerance: dict[str, float] | None = None,
) -> None:  # fmt: skip
    """The kernel's result is torch's; that of 16-bit inputs is torch's for the same values as float."""
    wide = [a.float() if isinstance(a, torch.Tensor) and a.element_size() == 2 else a for a in arguments]
    dtype = arguments[0].dtype
    expected = operator(name)(*wide).to(dtype)
    given = [relaid(a, layout) if isinstance(a, torch.Tensor) else a for a in arguments]
    (result,) = kernels.call(f"aten::{name}", given, [relaid(expected, out_layout or layout)])
    assert result.shape == expected.shape
    tolerance = tolerance or TOLERANCE.get(dtype) or ({"rtol": 0, "atol": 0} if dtype == torch.uint8 else {})
    torch.testing.assert_close(result.contiguous(), expected.contiguous(), equal_nan=True, **tolerance)


SIZES = [((2, 3, 5, 6, 7), (10, 12, 14)), ((1, 10, 4, 9, 3), (3, 7, 100)), ((2, 1, 4, 5, 6), (4, 5, 6))]


@pytest.mark.parametrize("name", NEAREST)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.uint8])
def test_nearest(kernels: Kernels, name: str, dtype: torch.dtype) -> None:
    dims = spatial(name)
    for shape, size in SIZES:
        for layout, out_layout in LAYOUTS if dims > 1 else LAYOUTS[:1]:
            x = make(shape[: 2 + dims], dtype)
            check(kernels, f"{name}.out", [x, list(size[:dims]), *[None] * dims], layout, out_layout)
            check(kernels, f"{name}.out", [x, list(size[:dims]), *[1.7] * dims], layout, out_layout)


def test_nearest_many_scales(kernels: Kernels) -> None:
    """Rounding of positions is torch's for many ratios of sizes."""
    for size in (3, 7, 10, 49, 64):
        x = torch.arange(float(size)).reshape(1, 1, size)
        for result in range(1, 150, 7):
            for name in ("upsample_nearest1d", "_upsample_nearest_exact1d"):
                check(kernels, f"{name}.out", [x, [result], None], tolerance={"rtol": 0, "atol": 0})
                check(kernels, f"{name}.out", [x, [result], result / size * 1.01], tolerance={"rtol": 0, "atol": 0})


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("dtype", FLOATS)
def test_linear(kernels: Kernels, name: str, dtype: torch.dtype) -> None:
    dims = spatial(name)
    for shape, size in SIZES:
        for layout, out_layout in LAYOUTS if dims > 1 else LAYOUTS[:1]:
            x = make(shape[: 2 + dims], dtype)
            for align, scale in ((False, None), (True, None), (False, 1.7)):
                check(kernels, f"{name}.out", [x, list(size[:dims]), align, *[scale] * dims], layout, out_layout)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.uint8])
def test_bilinear_and_bicubic(kernels: Kernels, dtype: torch.dtype) -> None:
    for name in ("upsample_bilinear2d.out", "upsample_bicubic2d.out"):
        for layout, out_layout in LAYOUTS:
            for shape, size in (((2, 3, 6, 7), [9, 20]), ((1, 10, 9, 4), [5, 3]), ((1, 1, 1, 1), [4, 70])):
                x = make(shape, dtype)
                for align in (False, True):
                    check(kernels, name, [x, size, align, None, None], layout, out_layout)


@pytest.mark.parametrize("name", ["upsample_bilinear2d", "upsample_bicubic2d"])
@pytest.mark.parametrize("value", [0.5, math.inf, math.nan])
def test_rows_of_many_columns(kernels: Kernels, name: str, value: float) -> None:
    """Results are computed some columns at a time; what is not finite reaches those that torch makes of it.

    Positions along the row are exact: of others, compilers round those far from the start differently.
    """
    for width, size in ((301, (20, 602)), (1200, (3, 300)), (130, (18, 520))):
        for layout, out_layout in LAYOUTS:
            x = make((2, 3, 9, width), torch.float32)
            x[0, 1, 4, width // 2] = value
            check(kernels, f"{name}.out", [x, list(size), False, None, None], layout, out_layout)


def test_vec(kernels: Kernels) -> None:
    x = make((2, 3, 6, 7), torch.float32)
    for sizes, scales in ((None, [2.0, 1.5]), ([5, 9], None), (None, [0.6, 3.2])):
        check(kernels, "upsample_nearest2d.vec_out", [x, sizes, scales])
        check(kernels, "upsample_bilinear2d.vec_out", [x, sizes, False, scales])
        check(kernels, "upsample_bilinear2d.vec_out", [x, sizes, True, scales], "last")
    for sizes, scales in ((None, None), ([5, 9], [2.0, 2.0]), ([5], None), (None, [2.0]), (None, [math.nan, 2.0])):
        with pytest.raises(KernelFailure) as caught:
            kernels.call("aten::upsample_nearest2d.vec_out", [x, sizes, scales], [x])
        assert caught.value.check == "KernelArgument"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8, torch.float16])
@pytest.mark.parametrize("name", ["_upsample_bilinear2d_aa.out", "_upsample_bicubic2d_aa.out"])
def test_antialiased(kernels: Kernels, name: str, dtype: torch.dtype) -> None:
    for layout, out_layout in LAYOUTS:
        for shape, size in (((2, 3, 16, 17), [5, 6]), ((1, 9, 6, 7), [11, 3]), ((1, 1, 30, 1), [4, 5])):
            for align, scale in ((False, None), (True, None), (False, 0.4))[: 3 if size == [5, 6] else 2]:
                check(kernels, name, [make(shape, dtype), size, align, scale, scale], layout, out_layout)


@pytest.mark.parametrize("name", [*NEAREST, *LINEAR, "upsample_bicubic2d"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_backward(kernels: Kernels, name: str, dtype: torch.dtype) -> None:
    dims = spatial(name)
    weighted = "nearest" not in name
    for shape, size in SIZES:
        grad = make((*shape[:2], *size[:dims]), dtype)
        for extra in ([False], [True]) if weighted else ([],):
            arguments = [grad, list(size[:dims]), list(shape[: 2 + dims]), *extra, *[None] * dims]
            wide = [grad.double(), *arguments[1:]]
            expected = operator(f"{name}_backward.grad_input")(*wide).to(dtype)
            for layout in ("plain", "last", "odd"):
                (result,) = kernels.call(
                    f"aten::{name}_backward.grad_input",
                    [relaid(grad, layout), *arguments[1:]],
                    [relaid(expected, layout)],
                )
                tolerance = TOLERANCE.get(dtype) or {"rtol": 1e-4, "atol": 1e-4}
                torch.testing.assert_close(result.contiguous(), expected, **tolerance)


def grid_for(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    grid = torch.rand(shape, generator=torch.Generator().manual_seed(3)).mul(3).sub(1.5)
    grid.flatten()[:4] = torch.tensor([-1.0, 1.0, 0.0, -1.0])
    return grid.to(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_grid_sampler_2d(kernels: Kernels, mode: int, padding: int, dtype: torch.dtype) -> None:
    for layout, out_layout in LAYOUTS:
        for shape, size in (((2, 3, 6, 7), (5, 20)), ((1, 70, 5, 4), (3, 3)), ((1, 1, 1, 1), (4, 4))):
            grid = grid_for((shape[0], *size, 2), dtype)
            for align in (False, True):
                check(
                    kernels, "grid_sampler_2d.out", [make(shape, dtype), grid, mode, padding, align], layout, out_layout
                )


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_grid_sampler_3d(kernels: Kernels, mode: int, padding: int) -> None:
    for dtype in FLOATS:
        for layout in ("plain", "last"):
            x, grid = make((2, 9, 4, 5, 6), dtype), grid_for((2, 3, 4, 5, 3), dtype)
            for align in (False, True):
                check(kernels, "grid_sampler_3d.out", [x, grid, mode, padding, align], layout)


def test_grid_sampler_wild_coordinates(kernels: Kernels) -> None:
    x = torch.ones(1, 1, 4, 4)
    grid = torch.tensor([math.nan, math.inf, -math.inf, 1e30, -1e30, 3e9]).reshape(1, 1, 3, 2)
    for mode in (0, 1, 2):
        for padding in (0, 1, 2):
            (result,) = kernels.call("aten::grid_sampler_2d.out", [x, grid, mode, padding, False], [x[:, :, :1, :3]])
            assert result.shape == (1, 1, 1, 3)


def test_empty_batch(kernels: Kernels) -> None:
    x = torch.ones(0, 3, 4, 4)
    check(kernels, "upsample_nearest2d.out", [x, [8, 8], None, None])
    check(kernels, "upsample_bilinear2d.out", [x, [8, 8], False, None, None])
    check(kernels, "grid_sampler_2d.out", [x, torch.ones(0, 2, 2, 2), 0, 0, False])


def test_refusals(kernels: Kernels) -> None:
    x = torch.ones(1, 2, 4, 4)
    cases: list[tuple[str, list[Any], list[torch.Tensor], str]] = [
        ("upsample_nearest2d.out", [x, [8], None, None], [x], "KernelArgument"),
        ("upsample_nearest2d.out", [x, [8, 0], None, None], [x], "KernelArgument"),
        ("upsample_nearest2d.out", [x.int(), [8, 8], None, None], [x.int()], "KernelDtype"),
        ("upsample_nearest2d.out", [x[0], [8, 8], None, None], [x], "KernelRank"),
        ("upsample_bilinear2d.out", [x, [8, 8], False, None, None], [x.half()], "KernelDtypeMismatch"),
        ("upsample_bilinear2d.out", [torch.ones(1, 2, 0, 4), [8, 8], False, None, None], [x], "KernelShape"),
        ("upsample_bilinear2d.out", [x, [2**31 - 1, 2**31 - 1], False, None, None], [x], "KernelResize"),
        ("grid_sampler_2d.out", [x, torch.ones(1, 2, 2, 3), 0, 0, False], [x], "KernelShape"),
        ("grid_sampler_2d.out", [x, torch.ones(2, 2, 2, 2), 0, 0, False], [x], "KernelShape"),
        ("grid_sampler_2d.out", [x, torch.ones(1, 2, 2, 2), 3, 0, False], [x], "KernelArgument"),
        ("grid_sampler_2d.out", [x, torch.ones(1, 2, 2, 2), 0, 3, False], [x], "KernelArgument"),
    ]
    for name, arguments, likes, failure in cases:
        with pytest.raises(KernelFailure) as caught:
            kernels.call(f"aten::{name}", arguments, likes)
        assert caught.value.check == failure, name


@pytest.mark.parametrize("name", ["upsample_bilinear2d", "upsample_bicubic2d"])
def test_bytes_are_exact(kernels: Kernels, name: str) -> None:
    for shape, size in (((2, 3, 70, 90), [130, 37]), ((1, 7, 20, 30), [33, 17]), ((1, 1, 5, 5), [40, 5])):
        x = torch.randint(0, 256, shape, dtype=torch.uint8)
        for layout in ("plain", "last"):
            for align in (False, True):
                check(kernels, f"{name}.out", [x, size, align, None, None], layout)
                check(kernels, f"_{name}_aa.out", [x, size, align, None, None], layout)


def test_wild_scales(kernels: Kernels) -> None:
    """Scales that do not go with the sizes read nothing outside of the image."""
    x = torch.ones(1, 2, 4, 4)
    for scale in (1e-300, 1e300, math.inf, math.nan, -1.0, 1e-3):
        for name in ("upsample_nearest2d.out", "_upsample_nearest_exact2d.out"):
            (result,) = kernels.call(f"aten::{name}", [x, [5, 5], scale, scale], [torch.ones(1, 2, 5, 5)])
            assert result.eq(1).all()
        for name in ("upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
            for image in (x, x.to(torch.uint8)):
                like = torch.ones(1, 2, 5, 5, dtype=image.dtype)
                kernels.call(f"aten::{name}.out", [image, [5, 5], False, scale, scale], [like])
