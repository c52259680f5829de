"""Inception-v4 (Szegedy et al., 2016, arXiv:1602.07261), figures 3 to 9."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from etir_testing.models.seeding import seeded_normal
from etir_testing.models.zoo_entry import Built, seeded

Size = int | tuple[int, int]


class Conv(nn.Sequential):
    """Convolution, batch norm, ReLU; ``same`` keeps the image's size."""

    def __init__(self, inputs: int, outputs: int, kernel: Size, stride: int = 1, same: bool = True) -> None:
        rows, columns = (kernel, kernel) if isinstance(kernel, int) else kernel
        padding = (rows // 2, columns // 2) if same else 0
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False),
            nn.BatchNorm2d(outputs, eps=1e-3),
            nn.ReLU(inplace=True),
        )


def chain(inputs: int, *layers: tuple[int, Size]) -> nn.Sequential:
    """Convolutions of (channels, kernel) one after the other."""
    parts: list[nn.Module] = []
    for outputs, kernel in layers:
        parts.append(Conv(inputs, outputs, kernel))
        inputs = outputs
    return nn.Sequential(*parts)


class Branches(nn.Module):
    """The same input through several branches, joined by channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self.branches], dim=1)


def pooled(inputs: int, outputs: int) -> nn.Sequential:
    """Average pooling that leaves the padding out of the mean, and a 1x1 convolution."""
    return nn.Sequential(nn.AvgPool2d(3, 1, 1, count_include_pad=False), Conv(inputs, outputs, 1))


def stem() -> nn.Sequential:
    return nn.Sequential(
        Conv(3, 32, 3, 2, same=False),
        Conv(32, 32, 3, same=False),
        Conv(32, 64, 3),
        Branches(nn.MaxPool2d(3, 2), Conv(64, 96, 3, 2, same=False)),
        Branches(
            nn.Sequential(Conv(160, 64, 1), Conv(64, 96, 3, same=False)),
            nn.Sequential(chain(160, (64, 1), (64, (1, 7)), (64, (7, 1))), Conv(64, 96, 3, same=False)),
        ),
        Branches(Conv(192, 192, 3, 2, same=False), nn.MaxPool2d(3, 2)),
    )


def inception_a() -> Branches:
    return Branches(
        Conv(384, 96, 1), chain(384, (64, 1), (96, 3)), chain(384, (64, 1), (96, 3), (96, 3)), pooled(384, 96)
    )


def reduction_a() -> Branches:
    deep = nn.Sequential(chain(384, (192, 1), (224, 3)), Conv(224, 256, 3, 2, same=False))
    return Branches(Conv(384, 384, 3, 2, same=False), deep, nn.MaxPool2d(3, 2))


def inception_b() -> Branches:
    return Branches(
        Conv(1024, 384, 1),
        chain(1024, (192, 1), (224, (1, 7)), (256, (7, 1))),
        chain(1024, (192, 1), (192, (7, 1)), (224, (1, 7)), (224, (7, 1)), (256, (1, 7))),
        pooled(1024, 128),
    )


def reduction_b() -> Branches:
    wide = nn.Sequential(chain(1024, (256, 1), (256, (1, 7)), (320, (7, 1))), Conv(320, 320, 3, 2, same=False))
    return Branches(nn.Sequential(Conv(1024, 192, 1), Conv(192, 192, 3, 2, same=False)), wide, nn.MaxPool2d(3, 2))


def split(inputs: int) -> Branches:
    """The fork at the end of two branches of block C."""
    return Branches(Conv(inputs, 256, (1, 3)), Conv(inputs, 256, (3, 1)))


def inception_c() -> Branches:
    return Branches(
        Conv(1536, 256, 1),
        nn.Sequential(Conv(1536, 384, 1), split(384)),
        nn.Sequential(chain(1536, (384, 1), (448, (3, 1)), (512, (1, 3))), split(512)),
        pooled(1536, 256),
    )


class InceptionV4(nn.Module):
    """f32[N, 3, H, W], 75 pixels or more a side → logits f32[N, 1000]."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            stem(),
            *(inception_a() for _ in range(4)),
            reduction_a(),
            *(inception_b() for _ in range(7)),
            reduction_b(),
            *(inception_c() for _ in range(3)),
        )
        self.classifier = nn.Linear(1536, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.adaptive_avg_pool2d(self.features(x), 1).flatten(1)
        return self.classifier(functional.dropout(x, 0.2, self.training))


def build() -> Built:
    return Built(seeded(InceptionV4()), (seeded_normal(1, 1, 3, 107, 107),))
