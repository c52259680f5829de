"""MobileNetV2 (Sandler et al., 2018, arXiv:1801.04381), width 1.0.

Structure, defaults and state-dict keys are those of ``torchvision.models.mobilenet_v2``, so its checkpoints load here;
the in-place ReLU6 is kept because it is what an exported program has to be cleaned of.
"""

from __future__ import annotations

import torch
from torch import nn

INVERTED_RESIDUALS = (
    # expansion, output channels, repeats, stride of the first repeat (table 2 of the paper)
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def _conv_norm_relu6(channels_in: int, channels_out: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False),
        nn.BatchNorm2d(channels_out),
        nn.ReLU6(inplace=True),
    )


class InvertedResidual(nn.Module):
    """Expand by 1x1, filter by 3x3 depthwise, project by a linear 1x1; add the input where the shapes agree."""

    def __init__(self, channels_in: int, channels_out: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = channels_in * expansion
        layers: list[nn.Module] = [] if expansion == 1 else [_conv_norm_relu6(channels_in, hidden, 1)]
        layers += [
            _conv_norm_relu6(hidden, hidden, 3, stride, groups=hidden),
            nn.Conv2d(hidden, channels_out, 1, bias=False),
            nn.BatchNorm2d(channels_out),
        ]
        self.conv = nn.Sequential(*layers)
        self.residual = stride == 1 and channels_in == channels_out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.conv(x) if self.residual else self.conv(x)


class MobileNetV2(nn.Module):
    """f32[N, 3, H, W] image, normalized → f32[N, classes] logits."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [_conv_norm_relu6(3, 32, 3, stride=2)]
        channels = 32
        for expansion, channels_out, repeats, first_stride in INVERTED_RESIDUALS:
            for repeat in range(repeats):
                stride = first_stride if repeat == 0 else 1
                layers.append(InvertedResidual(channels, channels_out, stride, expansion))
                channels = channels_out
        layers.append(_conv_norm_relu6(channels, 1280, 1))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(torch.flatten(x, 1))
