"""Gradients that are one operator each, against torch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.nn import functional

from etir.dialects.aten.base import AtenOp

from etir_testing.lowering.evaluate import evaluate
from etir_testing.lowering.one_op import call, check, decompose, one_op_module

torch.manual_seed(0)
R = torch.randn
IMAGE, VOLUME = R(2, 3, 7, 8), R(2, 3, 4, 5, 6)
QUERY, KEY, VALUE = R(2, 4, 5, 8), R(2, 4, 6, 8), R(2, 4, 6, 8)
MASK = R(2, 1, 5, 6)


def attention(is_causal: bool, mask: torch.Tensor | None, scale: float | None) -> tuple[Any, ...]:
    """The arguments of the gradient of an attention."""
    forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    out, sums = forward(QUERY, KEY, VALUE, 0.0, is_causal, attn_mask=mask, scale=scale)
    return R(out.shape), QUERY, KEY, VALUE, out, sums, 0.0, is_causal


def max_pool(x: torch.Tensor, *settings: Any) -> tuple[Any, ...]:
    pool = functional.max_pool2d if x.dim() == 4 else functional.max_pool3d
    kernel, stride, padding, dilation, ceil_mode = settings
    out, indices = pool(x, kernel, stride, padding, dilation, ceil_mode, return_indices=True)
    return R(out.shape), x, kernel, stride, padding, dilation, ceil_mode, indices


def avg_pool(x: torch.Tensor, *settings: Any) -> tuple[Any, ...]:
    pool = functional.avg_pool2d if x.dim() == 4 else functional.avg_pool3d
    return R(pool(x, *settings).shape), x, *settings


def adaptive_max_pool(x: torch.Tensor, size: Any) -> tuple[Any, ...]:
    out, indices = functional.adaptive_max_pool2d(x, size, return_indices=True)
    return R(out.shape), x, indices


def transposed(mask: list[bool], groups: int = 1) -> tuple[Any, ...]:
    weight = R(6, 4 // groups, 3, 2)
    x = R(2, 6, 5, 4)
    settings = ([2, 1], [1, 0], [1, 2], True, [1, 0], groups)
    out = torch.ops.aten.convolution(x, weight, None, *settings)
    return R(out.shape), x, weight, [4], *settings, mask


ATTENTION = "aten._scaled_dot_product_flash_attention_for_cpu_backward.default"
CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    (ATTENTION, attention(c, m, s), {"attn_mask": m, "scale": s})
    for c, m, s in ((False, None, None), (True, None, 0.5), (False, MASK, None))
]
CASES += [
    ("aten._scaled_dot_product_flash_attention_for_cpu.default", (QUERY, KEY, VALUE, 0.0, c), {"attn_mask": m})
    for c, m in ((False, None), (True, None), (False, MASK))
]
CASES += [
    ("aten._cdist_backward.default", (R(2, 4, 5), R(2, 4, 3), R(2, 5, 3), p, R(2, 4, 5).abs()), {})
    for p in (0.0, 1.0, 2.0, 3.0)
]
CASES += [
    ("aten.max_pool2d_with_indices_backward.default", max_pool(IMAGE, [3, 2], [2, 1], [1, 1], [1, 2], False), {}),
    ("aten.max_pool2d_with_indices_backward.default", max_pool(IMAGE, [3, 3], [2, 2], [0, 1], [1, 1], True), {}),
    ("aten.max_pool3d_with_indices_backward.default", max_pool(VOLUME, [2] * 3, [1] * 3, [1] * 3, [1] * 3, False), {}),
    ("aten.adaptive_max_pool2d_backward.default", adaptive_max_pool(IMAGE, (3, 5)), {}),
    ("aten.avg_pool2d_backward.default", avg_pool(IMAGE, [3, 2], [2, 1], [1, 1], False, True, None), {}),
    ("aten.avg_pool2d_backward.default", avg_pool(IMAGE, [3, 2], [2, 2], [1, 0], True, False, None), {}),
    ("aten.avg_pool2d_backward.default", avg_pool(IMAGE, [3], [2], [1], True, True, 5), {}),
    ("aten.avg_pool3d_backward.default", avg_pool(VOLUME, [2, 3, 2], [2, 1, 1], [1, 1, 0], True, True, None), {}),
    ("aten._adaptive_avg_pool2d_backward.default", (R(2, 3, 3, 5), IMAGE), {}),
    ("aten._adaptive_avg_pool3d_backward.default", (R(2, 3, 2, 3, 4), VOLUME), {}),
    ("aten.constant_pad_nd.default", (IMAGE, [-1, -2, 0, 0, -1, 0], 0), {}),
    ("aten.sort.default", (R(3, 5), -1, True), {}),
    ("aten.sort.default", (R(3, 5), 0), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)])
def test_matches_torch(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    check(name, *args, **kwargs)


def test_distance_between_equal_points_has_no_slope() -> None:
    x = R(4, 3)
    check("aten._cdist_backward.default", torch.ones(4, 4), x, x.clone(), 2.0, torch.cdist(x, x))


def test_largest_difference() -> None:
    x, y = R(4, 3), R(5, 3)
    check("aten._cdist_backward.default", R(4, 5), x, y, math.inf, torch.cdist(x, y, math.inf))


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("aten.convolution_backward.default", transposed([True, True, True])),
        ("aten.convolution_backward.default", transposed([True, True, True], groups=2)),
        (
            "aten.convolution_backward.default",
            (R(2, 4, 5), R(2, 3, 11), R(4, 3, 3), [4], [2], [0], [1], False, [0], 1, [True, True, True]),
        ),
        ("aten.constant_pad_nd.default", (IMAGE, [-1, 2, 1, -3], 1.5)),
    ],
)
def test_becomes_the_form_that_kernels_have(name: str, args: tuple[Any, ...]) -> None:
    """Two dims, not transposed; no negative amounts."""
    module, tensors = one_op_module(name, args, {})
    decompose(module)
    for got, wanted in zip(evaluate(module, tensors), call(name, args, {}), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
    left = [op for op in module.walk() if isinstance(op, AtenOp) and op.name == name]
    for op in left:
        if name == "aten.constant_pad_nd.default":
            assert all(amount >= 0 for amount in op.arg("pad"))
        else:
            assert not op.arg("transposed") and op.arg("input").type.get_num_dims() == 4


def test_sums_of_halves_are_wide() -> None:
    """The logarithms of the sums are float32, of more digits than the attention."""
    inputs = [t.half() for t in (QUERY, KEY, VALUE)]
    check("aten._scaled_dot_product_flash_attention_for_cpu.default", *inputs, tolerance=2e-3)


def test_windows_of_dynamic_sizes_stay() -> None:
    """The matrix of the windows is a constant, which needs the sizes."""
    for name, args in (
        ("aten.avg_pool2d_backward.default", avg_pool(IMAGE, [3, 2], [2, 1], [1, 1], False, True, None)),
        ("aten._adaptive_avg_pool2d_backward.default", (R(2, 3, 3, 5), IMAGE)),
    ):
        module, _ = one_op_module(name, args, {}, {0: [2, 3], 1: [2, 3]})
        assert decompose(module) == [name]
