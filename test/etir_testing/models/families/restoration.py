"""EDSR (Lim et al., 2017, arXiv:1707.02921): residual blocks without norms, upsampling by pixel shuffle."""

from __future__ import annotations

import torch
from torch import nn

from etir_testing.models.seeding import seeded_normal
from etir_testing.models.zoo_entry import LINEAR_GAIN, Built, seeded


class ResidualBlock(nn.Module):
    """Two convolutions whose result is scaled before it is added."""

    def __init__(self, width: int, scale: float) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(True), nn.Conv2d(width, width, 3, 1, 1))
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x).mul(self.scale)


class Edsr(nn.Module):
    """f32[N, 3, H, W] in [0, 255] → f32[N, 3, factor * H, factor * W]."""

    mean: torch.Tensor

    def __init__(self, blocks: int = 16, width: int = 64, factor: int = 2, scale: float = 0.1) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([114.4, 111.5, 103.0]).view(1, 3, 1, 1))
        self.head = nn.Conv2d(3, width, 3, 1, 1)
        self.body = nn.Sequential(
            *(ResidualBlock(width, scale) for _ in range(blocks)), nn.Conv2d(width, width, 3, 1, 1)
        )
        self.tail = nn.Sequential(
            nn.Conv2d(width, width * factor**2, 3, 1, 1), nn.PixelShuffle(factor), nn.Conv2d(width, 3, 3, 1, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.head(x - self.mean)
        return self.tail(x + self.body(x)) + self.mean


def build() -> Built:
    """A dynamic size of the image."""
    rows, columns = torch.export.Dim("rows", min=8, max=48), torch.export.Dim("columns", min=8, max=48)
    image, other = (seeded_normal(seed, 1, 3, *size) * 40 + 120 for seed, size in ((1, (24, 32)), (2, (17, 20))))
    return Built(seeded(Edsr(), LINEAR_GAIN), (image,), ({2: rows, 3: columns},), ((other,),))
