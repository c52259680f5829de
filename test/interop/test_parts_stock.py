"""Kernels of the stock runtime in parts: the bits of the whole, and PyTorch's numbers."""

from __future__ import annotations

import pytest
import torch

from etir.passes.analysis.cuts import RULES
from etir.targets.manifest import load

from etir_testing.interop.parts import Case, Input, Weight, difference, rules
from etir_testing.runtime.in_place_calls import same_bits

X, W = Input, Weight
LONG, BOOL, BYTE, HALF = torch.int64, torch.bool, torch.int8, torch.float16

UNARY = """
    abs acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor isinf isnan log log10 log1p log2 neg
    reciprocal relu round rsqrt sigmoid sin sinh sqrt tan tanh trunc
"""
BINARY = """
    atan2.out div.out eq.Tensor_out floor_divide.out fmod.Tensor_out ge.Tensor_out gt.Tensor_out le.Tensor_out
    lt.Tensor_out maximum.out minimum.out mul.out ne.Tensor_out pow.Tensor_Tensor_out remainder.Tensor_out
"""
SCALAR = """
    div.Scalar_out eq.Scalar_out fmod.Scalar_out ge.Scalar_out gt.Scalar_out le.Scalar_out lt.Scalar_out mul.Scalar_out
    ne.Scalar_out pow.Tensor_Scalar_out remainder.Scalar_out
"""
PLANES = (1, 16, 6, 6)
CASES = [
    *[Case(f"aten::{name}.out", (X(16, 40),)) for name in UNARY.split()],
    *[Case(f"aten::{name}", (X(1, 16, 40), X(16, 40))) for name in BINARY.split()],
    *[Case(f"aten::{name}", (X(16, 40), X(40))) for name in BINARY.split()],
    *[Case(f"aten::{name}", (X(16, 40), 2.5)) for name in SCALAR.split()],
    *[Case(f"aten::{name}.out", (X(8, 64, dtype=HALF),)) for name in ("exp", "sigmoid", "relu")],
    Case("aten::add.Scalar_out", (X(16, 40), 2.5, 1)),
    Case("aten::add.out", (X(1, 16, 40), X(16, 1), 1)),
    Case("aten::add.out", (X(16, 40), W(16, 40), 1)),
    Case("aten::add.out", (X(16, 40), X(16, 40), 0.3)),
    Case("aten::sub.out", (X(16, 40), W(40), 0.3)),
    Case("aten::sub.Scalar_out", (X(16, 40), 2.5, 1)),
    Case("aten::rsub.Scalar_out", (X(16, 40), 2.5, 0.3)),
    Case("aten::bitwise_and.Scalar_out", (X(16, 40, dtype=LONG), 5)),
    Case("aten::bitwise_or.Scalar_out", (X(16, 40, dtype=LONG), 5)),
    Case("aten::bitwise_xor.Scalar_out", (X(16, 40, dtype=LONG), 5)),
    *[Case(f"aten::bitwise_{n}.Tensor_out", (X(16, 48, dtype=BYTE), X(48, dtype=BYTE))) for n in ("and", "or", "xor")],
    Case("aten::bitwise_not.out", (X(16, 48, dtype=BYTE),)),
    *[Case(f"aten::logical_{n}.out", (X(16, 48, dtype=BOOL), X(48, dtype=BOOL))) for n in ("and", "or", "xor")],
    Case("aten::logical_not.out", (X(16, 48, dtype=BOOL),)),
    Case("aten::clamp.Tensor_out", (X(16, 40), X(16, 1), None)),
    Case("aten::clamp.out", (X(16, 40), -1.0, None)),
    Case("aten::clone.out", (X(16, 40), None)),
    Case("aten::div.Scalar_mode_out", (X(16, 40), 0.7, "floor")),
    Case("aten::div.out_mode", (X(16, 40), X(40), "trunc")),
    Case("aten::elu.out", (X(16, 40), 1.5, 1.0, 1.0)),
    Case("aten::gelu.out", (X(16, 40), "none")),
    Case("aten::gelu.out", (X(16, 40), "tanh")),
    Case("aten::hardtanh.out", (X(16, 40), -1.0, 1.5)),
    Case("aten::leaky_relu.out", (X(16, 40), 0.1)),
    Case("aten::logit.out", (X(16, 40), 0.1)),
    Case("aten::masked_fill.Scalar_out", (X(16, 48), X(16, 48, dtype=BOOL), -1.0)),
    Case("aten::pow.Scalar_out", (2.5, X(16, 40))),
    Case("aten::where.self_out", (X(16, 48, dtype=BOOL), X(16, 48), W(48))),
    Case("aten::sign.out", (X(16, 40, dtype=LONG),)),
    # What computes along some dims.
    Case("aten::_adaptive_avg_pool2d.out", (X(*PLANES), [1, 1])),
    Case("aten::_adaptive_avg_pool2d.out", (X(16, 2, 6, 6), [2, 3])),
    *[Case(f"aten::{n}.out", (X(8, 16, 24), dim, False)) for n in ("_softmax", "_log_softmax") for dim in (1, 2, -1)],
    *[Case(f"aten::{n}.out", (X(1, 16, 24), -1, False)) for n in ("_softmax", "_log_softmax")],
    *[Case(f"aten::{n}.out", (X(1, 16, 24), [-1], keep)) for n in ("amax", "amin") for keep in (True, False)],
    *[Case(f"aten::{n}", (X(*PLANES), [2, 3], True, None)) for n in ("mean.out", "sum.IntList_out")],
    *[Case(f"aten::{n}", (X(16, 40, 3), [1], False, None)) for n in ("mean.out", "sum.IntList_out")],
    *[Case(f"aten::{n}", (X(1, 16, 40), [0, 2], False, None)) for n in ("mean.out", "sum.IntList_out")],
    Case("aten::avg_pool2d.out", (X(*PLANES), [3, 3], [2, 2], [1, 1], True, False, None)),
    Case("aten::max_pool2d_with_indices.out", (X(*PLANES), [3, 3], [2, 2], [1, 1], [1, 1], True)),
    Case("aten::max_pool2d_with_indices.out", (X(16, 6, 6), [2, 2], [2, 2], [0, 0], [1, 1], False)),
    Case("aten::constant_pad_nd.out", (X(*PLANES), [1, 2, 3, 0], 0.5)),
    Case("aten::reflection_pad2d.out", (X(*PLANES), [1, 2, 0, 2])),
    Case("aten::replication_pad2d.out", (X(*PLANES), [1, 2, 0, 2])),
    Case("aten::upsample_bilinear2d.vec_out", (X(*PLANES), [9, 11], False, None)),
    Case("aten::upsample_nearest2d.vec_out", (X(*PLANES), None, [2.0, 2.0])),
    Case("aten::slice_copy.Tensor_out", (X(16, 40), 1, 3, 31, 2)),
    Case("aten::slice_copy.Tensor_out", (X(1, 16, 40), -1, 4, None, 1)),
    Case("aten::cat.out", ([X(16, 40), X(16, 24)], 1)),
    Case("aten::cat.out", ([X(*PLANES), X(1, 16, 2, 6)], -2)),
    Case("aten::glu.out", (X(16, 40), -1)),
    Case("aten::permute_copy.out", (X(1, 16, 4, 8), [0, 1, 3, 2])),
    Case("aten::permute_copy.out", (X(16, 1, 4, 8), [1, 0, -1, 2])),
    Case("aten::pixel_shuffle.out", (X(1, 32, 6, 6), 2)),
    Case("aten::pixel_unshuffle.out", (X(1, 8, 6, 6), 2)),
    Case("aten::native_layer_norm.out", (X(16, 40), [40], W(40), W(40), 1e-5)),
    Case("aten::native_layer_norm.out", (X(1, 16, 3, 40), [3, 40], None, None, 1e-5)),
    Case("aten::native_group_norm.out", (X(1, 32, 4, 4), W(32), W(32), 1, 32, 16, 8, 1e-5)),
    Case("aten::native_group_norm.out", (X(1, 16, 40), None, None, 1, 16, 40, 16, 1e-5)),
    # Convolutions: output channels, groups, images; of lines, and in strides.
    Case("aten::convolution.out", (X(1, 6, 9, 9), W(16, 6, 3, 3), W(16), [1, 1], [1, 1], [1, 1], False, [0, 0], 1)),
    Case("aten::convolution.out", (X(1, 6, 12), W(16, 6, 3), None, [2], [1], [1], False, [0], 1)),
    Case("aten::convolution.out", (X(1, 16, 8, 8), W(16, 1, 3, 3), W(16), [2, 2], [1, 1], [1, 1], False, [0, 0], 16)),
    Case("aten::convolution.out", (X(1, 16, 8, 8), W(32, 4, 3, 3), W(32), [1, 1], [1, 1], [2, 2], False, [0, 0], 4)),
    Case("aten::convolution.out", (X(8, 4, 8, 8), W(6, 2, 3, 3), W(6), [1, 1], [0, 0], [1, 1], False, [0, 0], 2)),
    Case("aten::convolution.out", (X(8, 4, 8, 8), W(4, 6, 3, 3), W(6), [2, 2], [1, 1], [1, 1], True, [1, 1], 1)),
    # Products: rows in blocks, of which some columns are left over, and long sums; batches; rows of a weight.
    *[
        Case(f"aten::{name}", arguments)
        for m, k, n in ((128, 20, 12), (192, 300, 52), (144, 2100, 37), (256, 64, 64))
        for name, arguments in (
            ("mm.out", (X(m, k), W(k, n))),
            ("addmm.out", (W(n), X(m, k), W(k, n), 1, 1)),
            ("addmm.out", (X(m, n), X(m, k), X(k, n), 2.0, 0.5)),
            ("addmm.out", (W(1, n), X(m, k), W(k, n), 1, 1)),
            ("bmm.out", (X(1, m, k), X(1, k, n))),
            ("bmm.out", (X(4, m, k), X(4, k, n))),
            ("linear.out", (X(1, m, k), W(n, k), W(n))),
            ("linear.out", (X(2, m, k), W(n, k), None)),
        )
    ],
    Case("aten::linear.out", (X(1, 1, 70), W(256, 70), W(256))),
]


def test_every_rule_has_a_case() -> None:
    """Each kernel of the stock runtime that is cut, and the target says that it computes parts."""
    assert "parts" in load("executorch").features
    assert list(rules()) == list(RULES)
    assert {case.kernel for case in CASES} == set(RULES)


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{case.kernel[6:]}" for i, case in enumerate(CASES)])
def test_parts_have_the_bits_of_the_whole(case: Case) -> None:
    """In each number of parts that the rule gives."""
    _, region = case.region()
    assert region is not None
    counts = list(region.counts())
    assert counts
    whole = case.run(None)
    assert difference(whole[0], case.expected[0]) < 2e-5
    for count in counts:
        parts = case.run(count)
        assert len(parts) == len(whole)
        assert all(same_bits(a, b) for a, b in zip(parts, whole, strict=True)), count
