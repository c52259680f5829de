"""Seeded weights that exercise every term of a model.

A fresh initialization leaves biases, norm scales and running statistics at 0 or 1, and a compiler that drops or swaps
one of those terms still gives the right answer. Here every parameter and every floating-point running statistic
gets a random value from one private generator, scaled so that activations keep their magnitude through the depth.
The global random state is neither read nor changed.
"""

from __future__ import annotations

import math

import torch
from torch import nn

_WEIGHT_GAIN = math.sqrt(2.0)
"""He et al. (2015): keeps the variance through a layer followed by ReLU."""


def seed_weights(module: nn.Module, seed: int, gain: float = _WEIGHT_GAIN) -> nn.Module:
    """Overwrite all parameters and batch-norm statistics of ``module`` in place, and return it in eval mode.

    Matrices and kernels get a normal distribution of standard deviation ``gain / sqrt(fan in)``, embedding tables a
    standard deviation of 0.5, scales of norms (1-d ``weight``) values in [0.6, 1.4], every other 1-d parameter a
    standard deviation of 0.1, running means 0.2, running variances values in [0.5, 1.5]. The result depends on
    ``seed`` and on the order of the submodules only.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(tensor: torch.Tensor, deviation: float) -> None:
        tensor.copy_(torch.randn(tensor.shape, generator=generator) * deviation)

    def uniform(tensor: torch.Tensor, low: float, high: float) -> None:
        tensor.copy_(torch.rand(tensor.shape, generator=generator) * (high - low) + low)

    with torch.no_grad():
        for part in module.modules():
            for name, parameter in part.named_parameters(recurse=False):
                if isinstance(part, nn.Embedding):
                    normal(parameter, 0.5)
                elif parameter.dim() >= 2:
                    normal(parameter, gain / math.sqrt(parameter[0].numel()))
                elif name == "weight":
                    uniform(parameter, 0.6, 1.4)
                else:
                    normal(parameter, 0.1)
            for name, buffer in part.named_buffers(recurse=False):
                if name == "running_mean":
                    normal(buffer, 0.2)
                elif name == "running_var":
                    uniform(buffer, 0.5, 1.5)
    return module.eval()


def seeded_normal(seed: int, *shape: int) -> torch.Tensor:
    """Standard-normal float32 values of the given shape, the same for the same seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def seeded_integers(seed: int, high: int, *shape: int) -> torch.Tensor:
    """int64 values in [1, ``high``) of the given shape, the same for the same seed; 0 is left for padding."""
    return torch.randint(1, high, shape, generator=torch.Generator().manual_seed(seed))
