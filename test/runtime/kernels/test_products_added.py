"""Products that are added to a tensor have the bits of the product and an addition after it, in each build.

The builds have the vectors of one extension of the processor each: where sums are split along the depth, how rows and
columns are cut into tiles and what is packed differ between them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from etir_testing.runtime import builds
from etir_testing.runtime.kernels import Kernels, build_kernels

OPERATORS = ["aten::add.out", "aten::bmm.out", "aten::convolution.out", "aten::linear.out", "aten::mm.out",
             "etir::convolution_add.out", "etir::linear_add.out", "etir::matmul_add.out"]  # fmt: skip
BUILDS = {
    "avx2": ("-march=x86-64-v3", "avx2"),
    "avx512": ("-march=x86-64-v4", "avx512vl"),
    "small stack": ("-DETIR_SMALL_STACK=1", ""),
}
"""Flags of the compiler beside those of the usual build, and what the processor has to have."""
DTYPES = [("usual", dtype) for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)]
DTYPES += [(build, dtype) for build in BUILDS for dtype in (torch.float16, torch.float32)]
every = pytest.mark.parametrize(("build", "dtype"), DTYPES, ids=str)


@functools.cache
def kernels_of(build: str) -> Kernels:
    if build == "usual":
        return build_kernels("linalg", "convolution")
    flags, needed = BUILDS[build]
    if needed and needed not in Path("/proc/cpuinfo").read_text().split():
        pytest.skip(f"the processor has no {needed}")
    only = builds.selection_file("".join(f"{name} Half Float\n" for name in OPERATORS))
    defines = {"ETIR_ONLY_OPS": only, "ETIR_ISAS": "", "CMAKE_CXX_FLAGS": flags}
    folder = builds.build(builds.preset_of_tests(), "etir_kernel_test", defines=defines)
    (found,) = (folder / "runtime" / "testing").glob("libetir_kernel_test.*")
    return Kernels(found)


def random(shape: Sequence[int], dtype: torch.dtype, order: Sequence[int] | None = None) -> torch.Tensor:
    """Numbers of many magnitudes, some of them zeros of either sign; with dims from outermost to innermost."""
    made = torch.randn(*shape, dtype=torch.float64) * torch.exp(2 * torch.randn(*shape, dtype=torch.float64))
    made[torch.rand(*shape) < 0.05] = -0.0
    return ordered(made.clamp(-3e3, 3e3).to(dtype), order)


def ordered(t: torch.Tensor, order: Sequence[int] | None) -> torch.Tensor:
    return t if order is None else t.permute(*order).contiguous().permute(*(order.index(d) for d in range(t.dim())))


def transposed(t: torch.Tensor) -> torch.Tensor:
    return t.transpose(-1, -2).contiguous().transpose(-1, -2)


def bits(t: torch.Tensor) -> torch.Tensor:
    return t.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[t.element_size()])


def check(
    kernels: Kernels, names: tuple[str, str], arguments: list[Any], like: torch.Tensor, adding: list[Any] | None = None
) -> None:
    """The kernel that adds, over what is added and beside it, against the two kernels. ``adding`` are its arguments
    after what is added, where those of the product are others.
    """
    order = sorted(range(like.dim()), key=lambda d: -like.stride(d)) if not like.is_contiguous() else None
    (product,) = kernels.call(f"aten::{names[0]}.out", arguments, [like])
    added = random(like.shape, like.dtype, order)
    (wanted,) = kernels.call("aten::add.out", [product, added, 1], [like])
    (commuted,) = kernels.call("aten::add.out", [added, product, 1], [like])
    assert torch.equal(bits(wanted), bits(commuted))
    for over in (None, 0):
        given = added.clone()
        (got,) = kernels.call(f"etir::{names[1]}.out", [given, *(adding or arguments)], [like], over=over)
        assert torch.equal(bits(got), bits(wanted)), (names, over, (got.double() - wanted.double()).abs().max())
        assert over is not None or torch.equal(bits(given), bits(added))


# Rows, columns and depth around the sizes of tiles, panels, strips and blocks of every build: one block of depth and
# several, the last one short; rows for one strip that waits and for several.
PRODUCTS = [(1, 1, 1), (1, 70, 900), (1, 300, 33), (3, 64, 1000), (5, 19, 257), (7, 33, 113), (40, 48, 231),
            (67, 5, 700), (100, 17, 129), (130, 96, 500), (6, 32, 112), (1100, 20, 301), (9, 1, 400), (4, 6, 0),
            (530, 35, 640)]  # fmt: skip


@every
def test_products_of_matrices(build: str, dtype: torch.dtype) -> None:
    kernels = kernels_of(build)
    torch.manual_seed(1)
    for m, n, k in PRODUCTS:
        a, b, bias = random((m, k), dtype), random((k, n), dtype), random((n,), dtype)
        for left in (a, transposed(a)):
            for right in (b, transposed(b)):
                for like in (torch.empty(m, n, dtype=dtype), transposed(torch.empty(m, n, dtype=dtype))):
                    check(kernels, ("mm", "matmul_add"), [left, right], like)
                    for more in (None, bias):
                        check(kernels, ("linear", "linear_add"), [left, right.t(), more], like)


@every
def test_batches(build: str, dtype: torch.dtype) -> None:
    kernels = kernels_of(build)
    torch.manual_seed(2)
    for batch, m, n, k in [(3, 5, 7, 300), (2, 1, 90, 500), (4, 130, 33, 9), (2, 20, 1, 260), (1, 9, 40, 700)]:
        a, b = random((batch, m, k), dtype), random((batch, k, n), dtype)
        like = torch.empty(batch, m, n, dtype=dtype)
        for left, right in ((a, b), (transposed(a), b), (a, transposed(b))):
            check(kernels, ("bmm", "matmul_add"), [left, right], like)
        weight, bias = random((n, k), dtype), random((n,), dtype)
        for x, out in ((a, like), (ordered(a, (1, 2, 0)), ordered(like, (1, 2, 0)))):
            check(kernels, ("linear", "linear_add"), [x, weight, bias], out)


CONVOLUTIONS = [
    # input, weight, stride, padding, dilation, groups
    ((2, 5, 9, 11), (7, 5, 3, 3), 1, 1, 1, 1),
    ((1, 40, 12, 13), (70, 40, 3, 3), 1, 1, 1, 1),
    ((2, 64, 7, 9), (530, 64, 3, 3), 2, 1, 1, 1),
    ((1, 33, 7, 6), (20, 33, 1, 1), 1, 0, 1, 1),
    ((2, 300, 7, 7), (90, 300, 1, 1), 1, 0, 1, 1),
    ((1, 512, 7, 7), (600, 512, 1, 1), 1, 0, 1, 1),
    ((3, 140, 9, 9), (33, 140, 1, 1), 2, 0, 1, 1),
    ((2, 36, 8, 9), (18, 12, 5, 3), 1, (2, 1), 1, 3),
    ((1, 24, 20, 17), (40, 6, 3, 5), (1, 2), (2, 3), (2, 3), 4),
    ((3, 400, 1, 1), (30, 400, 1, 1), 1, 0, 1, 1),
    ((1, 40, 6, 40), (1, 40, 3, 3), 1, 0, 1, 1),
    ((1, 3, 40, 41), (16, 3, 7, 7), 2, 3, 1, 1),
    ((2, 30, 11), (19, 30, 3), 1, 1, 1, 1),
    ((1, 20, 5, 6, 7), (33, 20, 3, 3, 2), 1, 1, 1, 1),
]


@every
def test_convolutions(build: str, dtype: torch.dtype) -> None:
    kernels = kernels_of(build)
    torch.manual_seed(3)
    for shape, kernel, *given, groups in CONVOLUTIONS:
        dims = len(shape) - 2
        moves = [[value] * dims if isinstance(value, int) else list(value) for value in given]
        x, w, b = random(shape, dtype), random(kernel, dtype), random(kernel[:1], dtype)
        rest = [*moves, False, [0] * dims, groups]
        result = torch.ops.aten.convolution(x.double(), w.double(), None, *rest)
        inside = (0, *range(2, dims + 2), 1)
        orders = (None, inside, (1, 0, 2, 3), (0, 1, 3, 2)) if dims == 2 and x.numel() < 5000 else (None, inside)
        for order in orders:
            like = ordered(torch.empty(result.shape, dtype=dtype), order)
            if order is not None and like.is_contiguous():
                continue
            for weight_order in (None, inside):
                for bias in (b, None):
                    inputs = [ordered(x, order), ordered(w, weight_order), bias]
                    adding = [*inputs, *moves, groups]
                    check(kernels, ("convolution", "convolution_add"), [*inputs, *rest], like, adding)
