"""DS-CNN (Zhang et al., "Hello Edge: Keyword Spotting on Microcontrollers", 2017): MLPerf Tiny's keyword spotter."""

from __future__ import annotations

import torch
from torch import nn

WORDS = 12
SHAPE = (1, 1, 49, 10)
"""49 frames of 10 cepstral coefficients."""


def _normed(convolution: nn.Conv2d) -> nn.Sequential:
    return nn.Sequential(convolution, nn.BatchNorm2d(convolution.out_channels), nn.ReLU())


class DsCnn(nn.Module):
    """Scores of :data:`WORDS` words, from f32 :data:`SHAPE`: a convolution, four depthwise-separable ones, a mean."""

    def __init__(self, channels: int = 64):
        super().__init__()
        layers = [_normed(nn.Conv2d(1, channels, (10, 4), stride=2, padding=(5, 1)))]
        for _ in range(4):
            layers.append(_normed(nn.Conv2d(channels, channels, 3, padding=1, groups=channels)))
            layers.append(_normed(nn.Conv2d(channels, channels, 1)))
        self.layers = nn.Sequential(*layers)
        self.last = nn.Linear(channels, WORDS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers(x)
        x = nn.functional.avg_pool2d(x, (x.shape[2], x.shape[3]))
        return torch.softmax(self.last(x.flatten(1)), -1)
