"""EfficientSAM (Xiong et al., 2023, arXiv:2312.00863) as small as SqueezeSAM: a light encoder, points as prompts.

Image encoder (ViT with a convolutional neck), prompt encoder (random Fourier features, Tancik et al., 2020), mask
decoder (two-way transformer of Kirillov et al., 2023, arXiv:2304.02643) with mask and quality heads.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from etir_testing.models.seeding import seeded_normal
from etir_testing.models.zoo_entry import LINEAR_GAIN, Built, seeded


class ChannelNorm(nn.Module):
    """Layer norm over the channels of f32[N, C, H, W]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(1, keepdim=True)
        spread = (x - mean).pow(2).mean(1, keepdim=True)
        return self.weight[:, None, None] * ((x - mean) / torch.sqrt(spread + 1e-6)) + self.bias[:, None, None]


class ImageEncoder(nn.Module):
    """f32[N, 3, S, S] → f32[N, width, S / patch, S / patch]; the position table is resized to the image."""

    def __init__(self, hidden: int, layers: int, heads: int, patch: int, table: int, width: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, hidden, patch, patch)
        self.positions = nn.Parameter(torch.zeros(1, hidden, table, table))
        layer = nn.TransformerEncoderLayer(hidden, heads, 2 * hidden, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.neck = nn.Sequential(
            nn.Conv2d(hidden, width, 1, bias=False),
            ChannelNorm(width),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            ChannelNorm(width),
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.patches(image)
        x = x + functional.interpolate(self.positions, x.shape[-2:], mode="bicubic", align_corners=False)
        y = self.layers(x.flatten(2).transpose(1, 2))
        return self.neck(y.transpose(1, 2).unflatten(2, x.shape[-2:]))


class PromptEncoder(nn.Module):
    """Points f32[N, P, 2] in [0, 1] and labels int64[N, P] in (-1 none, 0 background, 1 object) → f32[N, P, width]."""

    gaussian: torch.Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("gaussian", seeded_normal(9, 2, width // 2))
        self.labels = nn.Embedding(3, width)

    def encode(self, points: torch.Tensor) -> torch.Tensor:
        angles = 2 * math.pi * ((2 * points - 1) @ self.gaussian)
        return torch.cat((angles.sin(), angles.cos()), dim=-1)

    def grid(self, size: int) -> torch.Tensor:
        """Codes of the pixels of a map: f32[1, size * size, width]."""
        line = (torch.arange(size, dtype=torch.float32) + 0.5) / size
        rows, columns = torch.meshgrid(line, line, indexing="ij")
        return self.encode(torch.stack((columns, rows), dim=-1)).view(1, size * size, -1)

    def forward(self, points: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        codes = self.encode(points)
        codes = torch.where((labels == -1).unsqueeze(-1), torch.zeros_like(codes), codes)
        return codes + self.labels(labels + 1)


class Attention(nn.Module):
    """Attention from ``x`` to ``memory``, at the positions that are given."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, at: torch.Tensor, memory: torch.Tensor, memory_at: torch.Tensor) -> torch.Tensor:
        y, _ = self.attention(x + at, memory + memory_at, memory, need_weights=False)
        return self.norm(x + y)


class TwoWay(nn.Module):
    """Tokens among themselves, tokens to the image, an MLP, the image to the tokens."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.among = Attention(width, heads)
        self.to_image = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.norm = nn.LayerNorm(width)
        self.to_tokens = Attention(width, heads)

    def forward(
        self, tokens: torch.Tensor, at: torch.Tensor, image: torch.Tensor, image_at: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = self.among(tokens, at, tokens, at)
        tokens = self.to_image(tokens, at, image, image_at)
        tokens = self.norm(tokens + self.mlp(tokens))
        return tokens, self.to_tokens(image, image_at, tokens, at)


class MaskDecoder(nn.Module):
    """Image map and prompts → masks f32[N, masks, 4 * size, 4 * size] and their quality f32[N, masks]."""

    def __init__(self, width: int, heads: int, layers: int, masks: int) -> None:
        super().__init__()
        self.masks = masks
        self.tokens = nn.Embedding(masks + 1, width)
        self.layers = nn.ModuleList([TwoWay(width, heads) for _ in range(layers)])
        self.last = Attention(width, heads)
        self.upscale = nn.Sequential(
            nn.ConvTranspose2d(width, width // 4, 2, 2),
            ChannelNorm(width // 4),
            nn.GELU(),
            nn.ConvTranspose2d(width // 4, width // 8, 2, 2),
            nn.GELU(),
        )
        self.kernels = nn.ModuleList(
            [nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width // 8)) for _ in range(masks)]
        )
        self.quality = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, masks))

    def forward(
        self, image: torch.Tensor, image_at: torch.Tensor, prompts: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        own = self.tokens.weight.unsqueeze(0).expand(prompts.shape[0], -1, -1)
        at = torch.cat((own, prompts), dim=1)
        tokens, pixels = at, image.flatten(2).transpose(1, 2)
        for layer in self.layers:
            tokens, pixels = layer(tokens, at, pixels, image_at)
        tokens = self.last(tokens, at, pixels, image_at)
        up = self.upscale(pixels.transpose(1, 2).reshape(image.shape))
        kernels = torch.stack([kernel(tokens[:, i + 1]) for i, kernel in enumerate(self.kernels)], dim=1)
        masks = (kernels @ up.flatten(2)).unflatten(2, up.shape[-2:])
        return masks, self.quality(tokens[:, 0])


class EfficientSam(nn.Module):
    """Image, points and labels → masks of the image's size, best first, and their quality."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.encoder = ImageEncoder(hidden=96, layers=3, heads=4, patch=8, table=14, width=width)
        self.prompts = PromptEncoder(width)
        self.decoder = MaskDecoder(width, heads=4, layers=2, masks=3)

    def forward(
        self, image: torch.Tensor, points: torch.Tensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.encoder(image)
        grid = self.prompts.grid(features.shape[-1])
        masks, quality = self.decoder(features, grid, self.prompts(points, labels))
        masks = functional.interpolate(masks, image.shape[-2:], mode="bilinear", align_corners=False)
        quality, order = quality.sort(dim=1, descending=True)
        return masks.gather(1, order[:, :, None, None].expand_as(masks)), quality


def build() -> Built:
    points = torch.tensor([[[0.3, 0.4], [0.7, 0.2], [0.0, 0.0]]])
    labels = torch.tensor([[1, 0, -1]])
    return Built(seeded(EfficientSam(), LINEAR_GAIN), (seeded_normal(1, 1, 3, 96, 96), points, labels))
