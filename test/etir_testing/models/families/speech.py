"""Wav2Letter (Collobert et al., 2016, arXiv:1609.03193) and Conformer (Gulati et al., 2020, arXiv:2005.08100)."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from etir_testing.models.seeding import seeded_normal
from etir_testing.models.zoo_entry import LINEAR_GAIN, Built, seeded


def _wav2letter(classes: int = 40) -> nn.Sequential:
    """Samples f32[N, 1, T] → log-probabilities f32[N, classes, frames]."""
    layers: list[nn.Module] = []
    shapes = [(1, 250, 250, 160, 45), (250, 250, 48, 2, 23), *[(250, 250, 7, 1, 3)] * 7]
    shapes += [(250, 2000, 32, 1, 16), (2000, 2000, 1, 1, 0), (2000, classes, 1, 1, 0)]
    for inputs, outputs, kernel, stride, padding in shapes:
        layers += [nn.Conv1d(inputs, outputs, kernel, stride, padding), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers[:-1], nn.LogSoftmax(dim=1))


def wav2letter() -> Built:
    samples = torch.export.Dim("samples", min=4000, max=16000)
    inputs = seeded_normal(1, 1, 1, 5000)
    return Built(seeded(_wav2letter()), (inputs,), ({2: samples},), ((seeded_normal(2, 1, 1, 6400),),))


class FeedForward(nn.Sequential):
    def __init__(self, width: int) -> None:
        super().__init__(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Dropout(0.1), nn.Linear(4 * width, width)
        )


class Convolution(nn.Module):
    """Pointwise convolution with a gate, depthwise convolution, batch norm, pointwise convolution."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(
            nn.Conv1d(width, 2 * width, 1),
            nn.GLU(dim=1),
            nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width),
            nn.BatchNorm1d(width),
            nn.SiLU(),
            nn.Conv1d(width, width, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(self.norm(x).transpose(1, 2)).transpose(1, 2)


class RelativeAttention(nn.Module):
    """Self-attention with sinusoids of relative positions (Dai et al., 2019, arXiv:1901.02860)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.projection = nn.Linear(width, 3 * width)
        self.position = nn.Linear(width, width, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(heads, 1, width // heads))
        self.position_bias = nn.Parameter(torch.zeros(heads, 1, width // heads))
        self.output = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        batch, frames, width = x.shape
        query, key, value = (
            part.view(batch, frames, self.heads, -1).transpose(1, 2)
            for part in self.projection(self.norm(x)).chunk(3, dim=-1)
        )
        distances = torch.arange(frames - 1, -frames, -1, dtype=x.dtype)
        rates = 10000.0 ** (-torch.arange(0, width, 2, dtype=x.dtype) / width)
        angles = distances.unsqueeze(1) * rates
        table = self.position(torch.cat((angles.sin(), angles.cos()), dim=-1)).view(2 * frames - 1, self.heads, -1)
        content = (query + self.content_bias) @ key.transpose(-2, -1)
        shifted = (query + self.position_bias) @ table.permute(1, 2, 0)
        shifted = functional.pad(shifted, (1, 0)).view(batch, self.heads, 2 * frames, frames)
        shifted = shifted[:, :, 1:].reshape(batch, self.heads, frames, 2 * frames - 1)[..., :frames]
        scores = (content + shifted) / (width // self.heads) ** 0.5
        scores = scores.masked_fill(padding[:, None, None, :], float("-inf"))
        y = scores.softmax(-1) @ value
        return self.output(y.transpose(1, 2).reshape(batch, frames, width))


class Block(nn.Module):
    """Half a feed-forward layer, attention, convolution, half a feed-forward layer, norm."""

    def __init__(self, width: int, heads: int, kernel: int) -> None:
        super().__init__()
        self.first = FeedForward(width)
        self.attention = RelativeAttention(width, heads)
        self.convolution = Convolution(width, kernel)
        self.second = FeedForward(width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        x = x + 0.5 * self.first(x)
        x = x + self.attention(x, padding)
        x = x + self.convolution(x)
        return self.norm(x + 0.5 * self.second(x))


class Conformer(nn.Module):
    """Features f32[N, T, 80] and lengths int64[N] → f32[N, T / 4, width] and the lengths after the subsampling."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 3, kernel: int = 15) -> None:
        super().__init__()
        self.subsampling = nn.Sequential(nn.Conv2d(1, width, 3, 2), nn.ReLU(), nn.Conv2d(width, width, 3, 2), nn.ReLU())
        self.input = nn.Linear(width * 19, width)
        self.blocks = nn.ModuleList([Block(width, heads, kernel) for _ in range(layers)])

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.subsampling(x.unsqueeze(1))
        x = self.input(x.transpose(1, 2).flatten(2))
        lengths = ((lengths - 1) // 2 - 1) // 2
        padding = torch.arange(x.shape[1]).unsqueeze(0) >= lengths.unsqueeze(1)
        for block in self.blocks:
            x = block(x, padding)
        return x, lengths


def conformer() -> Built:
    return Built(seeded(Conformer(), LINEAR_GAIN), (seeded_normal(1, 2, 67, 80), torch.tensor([67, 50])))
