"""Steps of optimizers, scaling of gradients, observers: what training and training for quantization call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from etir.lowering.decompose_aten.formulas import formula

Tensors = Sequence[Tensor]


def _scaled(gradients: Tensors, scale: Tensor | None, found: Tensor | None) -> list[Tensor]:
    if found is not None:
        raise NotImplementedError("a step that is left out")
    return list(gradients) if scale is None else [g / scale for g in gradients]


@formula("_fused_sgd.default", "_fused_sgd.tensor_lr")
def fused_sgd(
    parameters: Tensors,
    gradients: Tensors,
    momenta: Tensors,
    *,
    weight_decay: float,
    momentum: float,
    lr: Any,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """Stochastic gradient descent with momentum."""
    gradients = _scaled(gradients, grad_scale, found_inf)
    new_parameters, new_momenta = [], list(momenta)
    for i, (p, g) in enumerate(zip(parameters, gradients, strict=True)):
        step = -g if maximize else g
        step = step + weight_decay * p if weight_decay else step
        if momentum:
            new_momenta[i] = step if is_first_step else momenta[i] * momentum + (1 - dampening) * step
            step = step + momentum * new_momenta[i] if nesterov else new_momenta[i]
        new_parameters.append(p - lr * step)
    return new_parameters, gradients, new_momenta


@formula("_fused_adagrad.tensor_lr")
def fused_adagrad_by_tensor(*args: Any, **kwargs: Any) -> tuple[list[Tensor], ...]:
    """The same with a rate that is a tensor; its schema does not return the numbers of steps."""
    return fused_adagrad(*args, **kwargs)[:3]


@formula("_fused_adagrad.default")
def fused_adagrad(
    parameters: Tensors,
    gradients: Tensors,
    sums: Tensors,
    steps: Tensors,
    *,
    lr: Any,
    lr_decay: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]]:
    """Steps divided by the root of the sum of squares (Duchi et al., 2011)."""
    gradients = _scaled(gradients, grad_scale, found_inf)
    new_parameters, new_sums = [], []
    for p, g, total, step in zip(parameters, gradients, sums, steps, strict=True):
        g = -g if maximize else g
        g = g + weight_decay * p if weight_decay else g
        total = total + g * g
        rate = lr / (1 + (step - 1) * lr_decay)
        new_parameters.append(p - rate * g / (total.sqrt() + eps))
        new_sums.append(total)
    return new_parameters, gradients, new_sums, [s.clone() for s in steps]


def _adam(
    decoupled: bool,
    parameters: Tensors,
    gradients: Tensors,
    means: Tensors,
    squares: Tensors,
    largest: Tensors,
    steps: Tensors,
    *,
    lr: Any,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    amsgrad: bool,
    maximize: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> tuple[list[Tensor], ...]:
    gradients = _scaled(gradients, grad_scale, found_inf)
    results: tuple[list[Tensor], ...] = ([], gradients, [], [], [])
    for i, (p, g, mean, square, step) in enumerate(zip(parameters, gradients, means, squares, steps, strict=True)):
        g = -g if maximize else g
        if weight_decay:
            p, g = (p - lr * weight_decay * p, g) if decoupled else (p, g + weight_decay * p)
        mean = torch.lerp(mean, g, 1 - beta1)
        square = square * beta2 + (1 - beta2) * g * g
        divisor = square
        if amsgrad:
            divisor = torch.maximum(largest[i], square)
            results[4].append(divisor)
        root = divisor.sqrt() / (1 - beta2**step).sqrt() + eps
        results[0].append(p - lr / (1 - beta1**step) * mean / root)
        results[2].append(mean)
        results[3].append(square)
    return results


@formula("_fused_adam.default", "_fused_adam.tensor_lr")
def fused_adam(*args: Any, **kwargs: Any) -> tuple[list[Tensor], ...]:
    """Adam (Kingma and Ba, 2015, arXiv:1412.6980)."""
    return _adam(False, *args, **kwargs)


@formula("_fused_adamw.default", "_fused_adamw.tensor_lr")
def fused_adamw(*args: Any, **kwargs: Any) -> tuple[list[Tensor], ...]:
    """Adam whose decay is a step of its own (Loshchilov and Hutter, 2019, arXiv:1711.05101)."""
    return _adam(True, *args, **kwargs)


@formula("_amp_foreach_non_finite_check_and_unscale.default")
def unscale(tensors: Tensors, found: Tensor, inverse: Tensor) -> tuple[list[Tensor], Tensor]:
    """Gradients times a scale, and 1 where one of them is not finite."""
    for t in tensors:
        found = torch.where((~t.isfinite()).any(), torch.ones_like(found), found)
    return [t if t.numel() == 0 else (t * inverse).to(t.dtype) for t in tensors], found


@formula("_amp_update_scale.default")
def update_scale(
    scale: Tensor, tracker: Tensor, found: Tensor, growth: float, backoff: float, interval: int
) -> tuple[Tensor, Tensor]:
    """A smaller scale after a step that overflowed, a larger one after ``interval`` that did not."""
    overflowed = found != 0
    steps = tracker + 1
    grows = (steps == interval) & ~overflowed
    grown = scale * growth
    grown = torch.where(grown.isfinite(), grown, scale)
    new_scale = torch.where(overflowed, scale * backoff, torch.where(grows, grown, scale))
    return new_scale.to(scale.dtype), torch.where(overflowed | grows, 0, steps).to(tracker.dtype)


@formula("_fused_moving_avg_obs_fq_helper_functional.default")
def moving_average_fake_quantize(
    x: Tensor,
    observe: Tensor,
    fake_quantize: Tensor,
    low: Tensor,
    high: Tensor,
    scale: Tensor,
    zero: Tensor,
    rate: float,
    smallest: int,
    largest: int,
    axis: int,
    per_row: bool = False,
    symmetric: bool = False,
) -> tuple[Tensor, ...]:
    """The range of what was seen, averaged; scale and zero of that range; ``x`` to those integers and back."""
    rows = x.transpose(0, axis).flatten(1) if per_row else x.reshape(1, -1)
    observes, quantizes = observe.reshape(()) != 0, fake_quantize.reshape(()) != 0
    # The first range is what is seen; ranges before are infinite.
    seen_low, seen_high = rows.amin(1), rows.amax(1)
    new_low = torch.where(low.isinf(), seen_low, low + rate * (seen_low - low))
    new_high = torch.where(high.isinf(), seen_high, high + rate * (seen_high - high))
    low = torch.where(observes, new_low.reshape(low.shape), low)
    high = torch.where(observes, new_high.reshape(high.shape), high)
    new_scale, new_zero = _range_parameters(low, high, smallest, largest, symmetric)
    scale = torch.where(observes, new_scale.to(scale.dtype), scale)
    zero = torch.where(observes, new_zero.to(zero.dtype), zero)
    if per_row:
        result, mask = torch.ops.aten.fake_quantize_per_channel_affine_cachemask(
            x, scale, zero, axis, smallest, largest
        )
    else:
        on = torch.ones([1], dtype=torch.int64)
        result, mask = torch.ops.aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
            x, scale, zero, on, smallest, largest
        )
    return torch.where(quantizes, result, x), mask | ~quantizes, low, high, scale, zero


def _range_parameters(low: Tensor, high: Tensor, smallest: int, largest: int, symmetric: bool) -> tuple[Tensor, Tensor]:
    """Scale and zero of integers from ``smallest`` to ``largest`` that stand for ``low`` to ``high``."""
    low, high = low.double(), high.double()
    steps = largest - smallest
    spans = (low < 0) & (high > 0)
    if symmetric:
        below, above = -(steps // 2 + 1), steps // 2
        unit = torch.maximum((low / below).abs(), (high / above).abs())
        low, high = torch.where(spans, unit * below, low), torch.where(spans, unit * above, high)
    low, high = low.clamp(max=0.0), high.clamp(min=0.0)
    scale = ((high - low) / steps).float()
    scale = torch.where((scale == 0) | (1 / scale).isinf(), 0.1, scale)
    # Small ranges get wider.
    least = float(np.float32(6.1e-5))
    is_small, factor = scale < least, (torch.full_like(scale, least) / scale).double()
    wider_low = torch.where(low == 0, low, torch.where(high == 0, -least * steps, low * factor))
    wider_high = torch.where(low == 0, least * steps, torch.where(high == 0, high, high * factor))
    low, high = torch.where(is_small, wider_low, low), torch.where(is_small, wider_high, high)
    single = torch.where(is_small, least, scale)
    scale = single.double()
    from_low, from_high = smallest - low / scale, largest - high / scale
    error_low = abs(smallest) - (low / scale).abs()
    error_high = abs(largest) - (high / scale).abs()
    zero = torch.where(error_low < error_high, from_low, from_high)
    if symmetric:
        zero = torch.where(spans, (smallest + largest) / 2, zero)
    return single, zero.clamp(smallest, largest).round()
