"""Formulas in torch against torch's kernels, over more of their arguments than a call in the table of operators has."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from etir.lowering.decompose_aten.formulas import formulas


def _same(name: str, *args: Any, tolerance: float = 1e-5) -> None:
    packet, overload = name.split(".")
    given = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
    wanted = getattr(getattr(torch.ops.aten, packet), overload)(*given)
    got = formulas()[f"aten.{name}"](*args)
    torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance * 0.1, equal_nan=True, check_stride=False)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("per_row", [False, True])
@pytest.mark.parametrize(("smallest", "largest"), [(0, 255), (-128, 127), (-127, 127), (-8, 7)])
def test_ranges_become_scales_and_zeros(symmetric: bool, per_row: bool, smallest: int, largest: int) -> None:
    """Ranges on both sides of 0 and on one, empty ones, and those whose scale is too small."""
    ends = [
        (-1, 1),
        (-3, 0.5),
        (-0.2, 4),
        (1, 3),
        (-3, -1),
        (0, 0),
        (-1e-6, 2e-6),
        (0, 1e-5),
        (-1e-5, 0),
        (-1e-40, 1e-40),
    ]
    for low, high in ends:
        x = torch.rand(3, 4, generator=torch.Generator().manual_seed(0)) * (high - low) + low
        x[0, :2] = torch.tensor([low, high])
        count, on = 3 if per_row else 1, torch.tensor([1])
        state = [torch.full([count], v) for v in (torch.inf, -torch.inf, 0.1)]
        zero = torch.zeros(count, dtype=torch.int32)
        name = "_fused_moving_avg_obs_fq_helper_functional.default"
        _same(name, x, on, on, *state, zero, 0.01, smallest, largest, 0, per_row, symmetric)


@pytest.mark.parametrize("zero", [-9.0, -3.6, -2.5, -1.0, -0.6, -0.4, 0.0, 0.5, 0.6, 1.0, 2.5, 3.7, 8.0])
def test_gradients_of_a_learned_zero(zero: float) -> None:
    gradient, x = torch.randn(2, 40, generator=torch.Generator().manual_seed(0)) * 2
    scales, zeros = torch.tensor([0.3]), torch.tensor([zero])
    _same("_fake_quantize_learnable_per_tensor_affine_backward.default", gradient, x, scales, zeros, -8, 7, 0.5)
    rows = (gradient.view(4, 10), x.view(4, 10), torch.rand(4) + 0.1, torch.full([4], zero), 0)
    _same("_fake_quantize_learnable_per_channel_affine_backward.default", *rows, -8, 7, 0.5)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("align", [False, True])
def test_gradients_of_grid_samplers(mode: int, padding: int, align: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    for dims in (2, 3):
        if dims == 3 and mode == 2:  # which torch does not have
            continue
        x = torch.randn((2, 3, 4, 5, 6)[: 2 + dims], generator=generator)
        grid = 1.3 * torch.randn(2, *(3, 4, 5)[:dims], dims, generator=generator)
        gradient = torch.randn(2, 3, *(3, 4, 5)[:dims], generator=generator)
        name = f"grid_sampler_{dims}d_backward.default"
        _same(name, gradient, x, grid, mode, padding, align, [True, True], tolerance=1e-3)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, float("inf")])
def test_gradients_of_distances_within_a_set(p: float) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, 4, generator=generator)
    x[3] = x[1]  # where two points meet
    gradient = torch.randn(10, generator=generator)
    _same("_pdist_backward.default", gradient, x, p, torch.pdist(x, p))


@pytest.mark.parametrize("padding", [-1, 2])
def test_gradients_of_weights_in_bags(padding: int) -> None:
    generator = torch.Generator().manual_seed(0)
    table, indices = torch.randn(6, 3, generator=generator), torch.tensor([0, 2, 5, 2, 1, 4, 4])
    offsets = torch.tensor([0, 3, 3, 4])  # one bag is empty
    mode = 0  # a sum: torch knows weights in no other
    bag = torch.ops.aten._embedding_bag(table, indices, offsets, False, mode, padding_idx=padding)[1]
    gradient = torch.randn(4, 3, generator=generator)
    args = (gradient, table, indices, offsets, bag, mode, padding)
    _same("_embedding_bag_per_sample_weights_backward.default", *args)


@pytest.mark.parametrize("blank", [0, 2, 4])
def test_gradients_of_alignments(blank: int) -> None:
    """Labels in rows and one after the other, short inputs, losses that are infinite."""
    generator = torch.Generator().manual_seed(blank)
    for trial, zero_infinity in itertools.product(range(6), (False, True)):
        log_probs = (3 * torch.randn(7, 3, 5, generator=generator)).log_softmax(2)
        steps = torch.randint(3 if trial % 3 else 1, 8, [3], generator=generator).tolist()
        lengths = torch.randint(0 if trial % 2 else 1, 4, [3], generator=generator).tolist()
        labels = torch.randint(0, 4, [3, 3], generator=generator)
        labels = labels + (labels >= blank)
        in_a_row = torch.cat([row[:length] for row, length in zip(labels, lengths, strict=True)])
        for targets in (labels, in_a_row) if in_a_row.numel() else (labels,):
            losses, log_alpha = torch.ops.aten._ctc_loss(log_probs, targets, steps, lengths, blank, zero_infinity)
            gradient = torch.randn(3, generator=generator)
            rest = (losses, log_alpha, blank, zero_infinity)
            _same("_ctc_loss_backward.default", gradient, log_probs, targets, steps, lengths, *rest, tolerance=1e-3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("order", [0.5, 1.0, 2.0, torch.inf])
def test_slices_of_a_longest_norm(dtype: torch.dtype, order: float) -> None:
    x = 3 * torch.randn(4, 5, 3, generator=torch.Generator().manual_seed(0))
    for position in (0, 1, -1):
        _same("renorm.default", x.to(dtype), order, position, 2.0, tolerance=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_of_gamma_samples(dtype: torch.dtype) -> None:
    """All three expansions, at the borders between them, and around the mode of large parameters; by torch's float64,
    whose powers do not underflow here."""
    alpha = torch.tensor([1e-3, 0.1, 0.5, 1.0, 3.0, 7.99, 8.01, 20.0, 60.0], dtype=dtype)
    factors = torch.tensor([1e-3, 0.3, 0.89, 0.91, 1.0, 1.09, 1.11, 1.5, 4.0], dtype=dtype)
    x = torch.cat([alpha[:, None] * factors, torch.tensor([0.0, 0.79, 0.81], dtype=dtype).expand(9, 3)], 1)
    alpha = alpha[:, None].expand_as(x).contiguous()
    got = formulas()["aten._standard_gamma_grad.default"](alpha, x)
    wanted = torch._standard_gamma_grad(alpha.double(), x.double())
    assert got.dtype == dtype
    # Far from the mode the terms of the saddle point cancel: single precision has three digits there, in torch, too.
    tolerance = 5e-3 if dtype is torch.float32 else 1e-6
    torch.testing.assert_close(got.double(), wanted, rtol=tolerance, atol=tolerance * 0.1)
