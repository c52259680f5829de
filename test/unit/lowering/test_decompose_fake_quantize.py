"""Pretended quantization against torch: values, masks, ties, elements outside of the range."""

from __future__ import annotations

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators

import etir

from etir_testing.interop.program_runs import Function
from etir_testing.lowering.evaluate import evaluate
from etir_testing.lowering.one_op import check, compare, decompose

X = torch.cat([torch.randn(3, 5) * 4, torch.tensor([[0.25, 0.75, -0.25, 40.0, -40.0]])])
SCALES, ZEROS = torch.tensor([0.1, 0.5, 0.03, 1.0]), torch.tensor([0, 3, -2, 1], dtype=torch.int32)


@pytest.mark.parametrize(("scale", "zero", "low", "high"), [(0.5, 0, -8, 7), (0.1, 3, 0, 255), (0.037, -5, -128, 127)])
def test_by_tensor(scale: float, zero: int, low: int, high: int) -> None:
    check("aten.fake_quantize_per_tensor_affine_cachemask.default", X, scale, zero, low, high)
    scales, zeros = torch.tensor([scale]), torch.tensor([zero], dtype=torch.int32)
    check("aten.fake_quantize_per_tensor_affine.tensor_qparams", X, scales, zeros, low, high)
    for enabled in (0, 1):
        on = torch.tensor([enabled])
        name = "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default"
        check(name, X, scales, zeros, on, low, high)
    learned = torch.tensor([zero + 0.3])
    check("aten._fake_quantize_learnable_per_tensor_affine.default", X, scales, learned, low, high)


@pytest.mark.parametrize("zeros", [ZEROS, ZEROS.float() + 0.25])
def test_by_channel(zeros: torch.Tensor) -> None:
    check("aten.fake_quantize_per_channel_affine_cachemask.default", X, SCALES, zeros, 0, -8, 7)


def test_learned_by_channel() -> None:
    zeros = ZEROS.float() + 0.5
    check("aten._fake_quantize_learnable_per_channel_affine.default", X, SCALES, zeros, 0, -8, 7)
    check("aten._fake_quantize_learnable_per_channel_affine.default", X.T.contiguous(), SCALES, zeros, 1, -8, 7)


@pytest.mark.parametrize("points", [None, torch.tensor([[1, -2], [0, 3], [5, -8]])])
def test_multiplied_out_with_and_without_zero_points(points: torch.Tensor | None) -> None:
    """By channel and in groups: what has no zero point is multiplied as it is."""
    numbers = torch.arange(-6, 6, dtype=torch.int8).reshape(3, 4)
    scales = torch.rand(3, 2) + 0.1
    first = None if points is None else points[:, 0].contiguous()
    q = torch.ops.quantized_decomposed
    for function in (
        lambda x: q.dequantize_per_channel(x, scales[:, 0].contiguous(), first, 0, -8, 7, torch.int8),
        lambda x: q.dequantize_per_channel_group(x, scales, points, -8, 7, torch.int8, 2, torch.float32),
    ):
        module = etir.import_program(torch.export.export(Function(function), (numbers,)))
        assert not any(name.startswith("quantized_decomposed") for name in decompose(module))
        (got,) = evaluate(module, [numbers])
        compare(got, function(numbers), 1e-6)
