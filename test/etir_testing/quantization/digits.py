"""Scikit-learn's scans of digits, a small net that is trained on them in seconds, and a hostile form of it.

The net is depthwise-separable with residual sums and relu, eleven convolutions and a linear layer. The hostile form is
the same function: between a depthwise convolution and the pointwise one after it, each channel is scaled by a power of
two from 2^-5 to 2^5, which the next filter undoes. Whoever stores a value with one scale for all channels loses it.
"""

from __future__ import annotations

import copy
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

TRAINED = 1000
"""Scans that are trained on; the others are tested."""


class _Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1):
        super().__init__()
        self.depthwise = nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False)
        self.norm1 = nn.BatchNorm2d(inputs)
        self.pointwise = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.residual = inputs == outputs and stride == 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.depthwise(x)))
        y = self.norm2(self.pointwise(y))
        return F.relu(x + y if self.residual else y)


class DigitsNet(nn.Module):
    """``[N, 1, 8, 8]`` float32 to ``[N, 10]``."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        self.blocks = nn.Sequential(
            _Block(16, 16), _Block(16, 32, 2), _Block(32, 32), _Block(32, 48, 2), _Block(48, 48)
        )
        self.head = nn.Linear(48, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(F.relu(self.norm(self.first(x))))
        return self.head(x.mean([2, 3]))


@cache
def scans() -> tuple[torch.Tensor, torch.Tensor]:
    """All scans ``[1797, 1, 8, 8]`` from 0 to 1, and what they are."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    order = np.random.default_rng(0).permutation(len(images))
    return images[order], torch.tensor(data.target)[order]


@cache
@torch.enable_grad()
def trained(epochs: int = 6) -> DigitsNet:
    """The net, trained with a fixed seed."""
    torch.manual_seed(0)
    net = DigitsNet()
    images, labels = (part[:TRAINED] for part in scans())
    steps = epochs * -(-TRAINED // 64)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
    for _ in range(epochs):
        for batch in torch.randperm(TRAINED).split(64):
            loss = F.cross_entropy(net(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return net.eval()


def hostile(net: DigitsNet, octaves: int = 5) -> DigitsNet:
    """The same function with channels that differ by up to ``2 ** (2 * octaves)``."""
    net = copy.deepcopy(net)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for block in net.blocks:
            assert isinstance(block, _Block)
            channels = block.norm1.num_features
            scales = 2.0 ** torch.randint(-octaves, octaves + 1, (channels,), generator=generator)
            block.norm1.weight *= scales
            block.norm1.bias *= scales
            block.pointwise.weight /= scales.reshape(1, -1, 1, 1)
    return net


def top1(outputs: np.ndarray, labels: np.ndarray) -> float:
    """Percent of rows whose largest number is at the place of the label."""
    return float((outputs.argmax(1) == labels).mean() * 100)
