"""Resizing against torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from etir_testing.lowering.one_op import Dynamic, check

torch.manual_seed(0)
LINE = torch.randn(2, 3, 7)
IMAGE = torch.randn(2, 3, 6, 7)
VOLUME = torch.randn(2, 3, 4, 5, 6)

CASES: list[tuple[str, tuple[Any, ...]]] = [
    ("aten.upsample_nearest2d.default", (IMAGE, [9, 20])),
    ("aten.upsample_nearest2d.default", (IMAGE, [12, 17], 2.0, 2.5)),
    ("aten.upsample_bilinear2d.default", (IMAGE, [9, 20], True)),
    ("aten.upsample_bilinear2d.default", (IMAGE, [12, 17], False, 2.0, 2.5)),
    ("aten.upsample_nearest1d.vec", (LINE, None, [2.5])),
    ("aten.upsample_nearest1d.vec", (LINE, [10], None)),
    ("aten.upsample_nearest1d.default", (LINE, [10])),
    ("aten.upsample_linear1d.vec", (LINE, None, False, [2.5])),
    ("aten.upsample_linear1d.vec", (LINE, [10], True, None)),
    ("aten.upsample_linear1d.default", (LINE, [17], False, 2.5)),
    ("aten.upsample_nearest3d.vec", (VOLUME, [7, 9, 3], None)),
    ("aten.upsample_nearest3d.vec", (VOLUME, None, [2.0, 1.5, 0.5])),
    ("aten.upsample_trilinear3d.vec", (VOLUME, [7, 9, 3], True, None)),
    ("aten.upsample_trilinear3d.vec", (VOLUME, None, False, [2.0, 1.5, 0.5])),
    ("aten._upsample_nearest_exact1d.vec", (LINE, [10], None)),
    ("aten._upsample_nearest_exact2d.vec", (IMAGE, None, [1.7, 0.6])),
    ("aten._upsample_nearest_exact2d.default", (IMAGE, [13, 5])),
    ("aten._upsample_nearest_exact3d.vec", (VOLUME, [7, 9, 3], None)),
    ("aten.upsample_bicubic2d.vec", (IMAGE, [9, 20], False, None)),
    ("aten.upsample_bicubic2d.vec", (IMAGE, [4, 20], True, None)),
    ("aten.upsample_bicubic2d.vec", (IMAGE, None, False, [2.0, 1.7])),
    ("aten.upsample_bicubic2d.default", (IMAGE, [30, 20], False)),
    *[
        (f"aten._upsample_{kind}2d_aa.vec", (IMAGE, size, align, None))
        for kind in ("bilinear", "bicubic")
        for size in ([9, 20], [3, 4])
        for align in (False, True)
    ],
    ("aten._upsample_bilinear2d_aa.default", (IMAGE, [3, 9], False)),
    ("aten._upsample_lanczos2d_aa.vec", (IMAGE, [3, 9], False, None)),
    ("aten._upsample_nearest_exact1d.default", (LINE, [10])),
    ("aten._upsample_nearest_exact3d.default", (VOLUME, [7, 9, 3])),
    ("aten.affine_grid_generator.default", (torch.randn(2, 2, 3), [2, 3, 4, 5], False)),
    ("aten.affine_grid_generator.default", (torch.randn(2, 2, 3), [2, 3, 4, 1], True)),
    ("aten.affine_grid_generator.default", (torch.randn(2, 3, 4), [2, 1, 2, 3, 4], False)),
    ("aten.grid_sampler.default", (IMAGE, torch.rand(2, 4, 5, 2) * 2 - 1, 0, 0, False)),
]


@pytest.mark.parametrize(("name", "args"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_static(name: str, args: tuple[Any, ...]) -> None:
    check(name, *args, tolerance=1e-5)


DYNAMIC: list[tuple[str, tuple[Any, ...], Dynamic]] = [
    ("aten.upsample_nearest2d.default", (IMAGE, [9, 20]), {0: [0]}),
    ("aten.upsample_nearest1d.vec", (LINE, None, [2.0]), {0: [0, 2]}),
    ("aten.upsample_nearest3d.vec", (VOLUME, None, [2.0, 3.0, 2.0]), {0: [0, 2, 3, 4]}),
    ("aten.upsample_bicubic2d.vec", (IMAGE, [9, 20], False, None), {0: [0]}),
    ("aten.affine_grid_generator.default", (torch.randn(2, 2, 3), [2, 3, 4, 5], False), {}),
    ("aten._upsample_nearest_exact2d.vec", (IMAGE, None, [1.5, 2.0]), {0: [0, 2, 3]}),
    ("aten._upsample_nearest_exact2d.vec", (IMAGE, [9, 4], None), {0: [2, 3]}),
    ("aten._upsample_nearest_exact1d.vec", (LINE, [10], None), {0: [1, 2]}),
    ("aten.upsample_bicubic2d.vec", (IMAGE, None, False, [2.0, 1.5]), {0: [0, 2, 3]}),
    ("aten.upsample_bicubic2d.vec", (IMAGE, [9, 4], False, None), {0: [2, 3]}),
    ("aten.upsample_bicubic2d.vec", (IMAGE, [9, 1], True, None), {0: [2, 3]}),
    *[
        (f"aten._upsample_{kind}2d_aa.vec", (IMAGE, size, align, None), {0: [2, 3]})
        for kind in ("bilinear", "bicubic")
        for size in ([9, 20], [3, 4])
        for align in (False, True)
    ],
]


@pytest.mark.parametrize(("name", "args", "dynamic"), DYNAMIC, ids=lambda v: v if isinstance(v, str) else "")
def test_dynamic(name: str, args: tuple[Any, ...], dynamic: Dynamic) -> None:
    check(name, *args, dynamic=dynamic, tolerance=1e-5)


def test_a_kernel_of_the_target_is_used() -> None:
    names = check("aten._upsample_bilinear2d_aa.vec", IMAGE, [9, 20], False, None, options={"target": "executorch"})
    assert names == ["aten._upsample_bilinear2d_aa.default"]
