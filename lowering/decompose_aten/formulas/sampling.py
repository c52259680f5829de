"""Gradients of samples with respect to the parameters of their distribution.

``_standard_gamma_grad`` is ``-(d cdf / d alpha) / pdf`` of the gamma distribution, by the three expansions that torch's
kernel chooses from: a Taylor series for small samples, Rice's saddle point for large parameters, and in between a
rational function of the logarithms of ``x / alpha`` and ``alpha``, whose coefficients are those of the kernel
(aten/src/ATen/native/Distributions.h).
"""

from __future__ import annotations

import torch
from torch import Tensor

from etir.lowering.decompose_aten.formulas import formula

_SHIFTS = 6
"""Steps of the recurrence after which digamma's asymptotic series is exact in float32."""
_RATIONAL = (
    (0.16009398, -0.094634809, 0.025146376, -0.0030648343, 1.0, 0.32668115, 0.10406089, 0.0014179084),
    (0.53487893, 0.1298071, 0.065735949, -0.0015649758, 0.16639465, 0.020070113, -0.0035938915, -0.00058392623),
    (0.040121004, -0.0065914022, -0.0026286047, -0.0013441777, 0.017050642, -0.0021309326, 0.00085092367,
     -1.5247877e-07),
)  # fmt: skip
"""Coefficients by the power of ``log(x / alpha)``: four by the power of ``log(alpha)`` each of numerator and
denominator."""


@formula("_standard_gamma_grad.default")
def standard_gamma_grad(alpha: Tensor, x: Tensor) -> Tensor:
    """The derivative of a sample ``x`` by ``alpha``, both positive and of one shape; 16-bit types in float32."""
    wide = torch.promote_types(alpha.dtype, torch.float32)
    a, sample = alpha.to(wide), x.to(wide)
    # Each expansion sees numbers that it is for, so that none of those that are not chosen is infinite.
    small, large = sample < 0.8, a > 8.0
    series = _series(a, torch.where(small, sample, 0.4))
    saddle = _saddle_point(torch.where(large, a, 9.0), torch.where(large & ~small, sample, 12.0))
    between = _rational(torch.where(large, 1.0, a), torch.where(small, 1.0, sample))
    return torch.where(small, series, torch.where(large, saddle, between)).to(alpha.dtype)


def _series(a: Tensor, x: Tensor) -> Tensor:
    """``-cdf_alpha / pdf``, both divided by ``x**alpha``; 0 where that is not a number, as for ``x = 0``."""
    first, second = 1 / a, 1 / (a * a)
    power = torch.ones_like(x)
    for i in range(1, 6):
        power = power * -x / i
        first = first + power / (a + i)
        second = second + power / ((a + i) * (a + i))
    result = -x * torch.exp(x) * ((torch.log(x) - _digamma(a)) * first - second)
    return torch.where(result != result, 0.0, result)


def _digamma(a: Tensor) -> Tensor:
    """For positive ``a``: the recurrence up to ``a + 6``, and the asymptotic series there."""
    total = torch.zeros_like(a)
    for i in range(_SHIFTS):
        total = total - 1 / (a + i)
    y = a + _SHIFTS
    z = 1 / (y * y)
    return total + torch.log(y) - 0.5 / y - z * (1 / 12 - z * (1 / 120 - z / 252))


def _saddle_point(a: Tensor, x: Tensor) -> Tensor:
    near = (x >= 0.9 * a) & (x <= 1.1 * a)
    first = 1 + 24 * a * (1 + 12 * a)
    second = 1440 * (a * a) + 6 * x * (53 - 120 * x) - 65 * x * x / a + a * (107 + 3600 * x)
    at_mode = first * second / (1244160 * (a * a) * (a * a))
    x = torch.where(near, 2 * a, x)
    root = torch.sqrt(8 * a)
    distance = a - x
    third = (x - a - a * torch.log(x / a)) ** -1.5
    terms = root / distance + torch.where(x < a, -third, third)
    term = torch.log(x / a) * terms - torch.sqrt(2 / a) * (a + x) / (distance * distance)
    stirling = 1 + 1 / (12 * a) * (1 + 1 / (24 * a))
    return torch.where(near, at_mode, -stirling * x * term / root)


def _rational(a: Tensor, x: Tensor) -> Tensor:
    u, v = torch.log(x / a), torch.log(a)
    columns = [c0 + u * (c1 + u * c2) for c0, c1, c2 in zip(*_RATIONAL, strict=True)]
    above = columns[0] + v * (columns[1] + v * (columns[2] + v * columns[3]))
    below = columns[4] + v * (columns[5] + v * (columns[6] + v * columns[7]))
    return torch.exp(above / below)
