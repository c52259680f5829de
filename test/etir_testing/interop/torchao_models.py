"""A small network whose weights torchao has made tensor subclasses of, by configuration."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torchao.quantization import (
    Int8DynamicActivationIntxWeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    quantize_,
)
from torchao.quantization.granularity import PerAxis, PerGroup

CONFIGS: dict[str, tuple[Any, float]] = {
    "8da4w": (Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32)), 0.02),
    "8da8w": (Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int8, weight_granularity=PerAxis(0)), 0.02),
    "4w by group": (IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)), 1e-4),
    "4w by channel": (IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerAxis(0)), 1e-4),
    "8w by channel": (IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0)), 1e-4),
    "8w, written out": (Int8WeightOnlyConfig(version=2), 1e-4),
}


"""Configuration, and how far from eager XNNPACK may be: it rounds activations at run time in another way."""


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(64, 96), nn.Linear(96, 32, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


def quantized(name: str) -> nn.Module:
    """A model whose weights are quantized."""
    model = _Net().eval()
    quantize_(model, CONFIGS[name][0])
    return model


X = torch.linspace(-1, 1, 192).reshape(3, 64)
