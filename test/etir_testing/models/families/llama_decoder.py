"""Llama 2 (Touvron et al., 2023, arXiv:2307.09288) and Llama 3 (Grattafiori et al., 2024, arXiv:2407.21783).

The same decoder in two forms: prefill, a whole prompt without a cache, and decode, where keys and values of the past
stay in mutable buffers and every call adds the tokens at the given positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from etir_testing.models.llama import RmsNorm
from etir_testing.models.seeding import seed_weights, seeded_integers
from etir_testing.models.zoo_entry import LINEAR_GAIN, Built


@dataclass(frozen=True)
class Shape:
    """Sizes of a decoder. ``length`` is the number of positions of its cache; ``theta`` the base of its angles."""

    width: int
    layers: int
    heads: int
    kv_heads: int
    hidden: int
    vocabulary: int
    length: int
    theta: float


LLAMA2_7B = Shape(4096, 32, 32, 32, 11008, 32000, 2048, 10000.0)
LLAMA3_8B = Shape(4096, 32, 32, 8, 14336, 128256, 2048, 500000.0)
LLAMA2_SMALL = Shape(64, 2, 4, 4, 172, 200, 32, 10000.0)
LLAMA3_SMALL = Shape(64, 2, 8, 2, 224, 300, 32, 500000.0)


class Attention(nn.Module):
    """Grouped-query attention with rotary positions; with ``cached``, over all positions of its buffers."""

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, shape: Shape, cached: bool) -> None:
        super().__init__()
        self.heads, self.kv_heads = shape.heads, shape.kv_heads
        self.head_width = shape.width // shape.heads
        self.cached = cached
        self.wq = nn.Linear(shape.width, shape.heads * self.head_width, bias=False)
        self.wk = nn.Linear(shape.width, shape.kv_heads * self.head_width, bias=False)
        self.wv = nn.Linear(shape.width, shape.kv_heads * self.head_width, bias=False)
        self.wo = nn.Linear(shape.width, shape.width, bias=False)
        if cached:
            cache = (1, shape.kv_heads, shape.length, self.head_width)
            self.register_buffer("keys", torch.zeros(cache))
            self.register_buffer("values", torch.zeros(cache))

    def forward(
        self, x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor], mask: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        batch, tokens, width = x.shape
        query = rotate(self.wq(x).view(batch, tokens, self.heads, self.head_width), turn).transpose(1, 2)
        key = rotate(self.wk(x).view(batch, tokens, self.kv_heads, self.head_width), turn).transpose(1, 2)
        value = self.wv(x).view(batch, tokens, self.kv_heads, self.head_width).transpose(1, 2)
        if self.cached:
            self.keys[:, :, positions] = key
            self.values.index_copy_(2, positions, value)
            key, value = self.keys, self.values
        y = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True)
        return self.wo(y.transpose(1, 2).reshape(batch, tokens, width))


def rotate(x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Pairs (even, odd) of f32[B, T, heads, head width], turned by the angles of cos, sin f32[T, head width / 2]."""
    cos, sin = (part.unsqueeze(1) for part in turn)
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


class Block(nn.Module):
    """Attention, then SwiGLU, each after its norm."""

    def __init__(self, shape: Shape, cached: bool) -> None:
        super().__init__()
        self.attention_norm = RmsNorm(shape.width)
        self.attention = Attention(shape, cached)
        self.ffn_norm = RmsNorm(shape.width)
        self.w1 = nn.Linear(shape.width, shape.hidden, bias=False)
        self.w2 = nn.Linear(shape.hidden, shape.width, bias=False)
        self.w3 = nn.Linear(shape.width, shape.hidden, bias=False)

    def forward(
        self, x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor], mask: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x), turn, mask, positions)
        y = self.ffn_norm(x)
        return x + self.w2(functional.silu(self.w1(y)) * self.w3(y))


class Llama(nn.Module):
    """int64[1, T] tokens (and, with a cache, their positions int64[T]) → logits f32[1, T, vocabulary]."""

    cos: torch.Tensor
    sin: torch.Tensor
    visible: torch.Tensor

    def __init__(self, shape: Shape, cached: bool) -> None:
        super().__init__()
        self.cached = cached
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList([Block(shape, cached) for _ in range(shape.layers)])
        self.norm = RmsNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        half = shape.width // shape.heads // 2
        frequencies = shape.theta ** (-torch.arange(half, dtype=torch.float32) / half)
        angles = torch.outer(torch.arange(shape.length, dtype=torch.float32), frequencies)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("visible", torch.ones(shape.length, shape.length, dtype=torch.bool).tril())

    def forward(self, ids: torch.Tensor, positions: torch.Tensor | None = None) -> torch.Tensor:
        tokens = ids.shape[1]
        if positions is None:
            positions = torch.arange(tokens, device=ids.device)
            mask = self.visible[:tokens, :tokens]
        else:
            mask = self.visible[positions]
        turn = (self.cos[positions], self.sin[positions])
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, turn, mask, positions)
        return self.head(self.norm(x))


def prefill(shape: Shape, tokens: int) -> Built:
    """A prompt of a dynamic number of tokens, up to the length of the positions."""
    module = seed_weights(Llama(shape, cached=False), seed=0, gain=LINEAR_GAIN)
    count = torch.export.Dim("tokens", min=2, max=shape.length - 1)
    more = ((seeded_integers(2, shape.vocabulary, 1, tokens + 3),),)
    return Built(module, (seeded_integers(1, shape.vocabulary, 1, tokens),), ({1: count},), more)


def decode(shape: Shape) -> Built:
    """One token a call, at the position after the last; five calls."""
    module = seed_weights(Llama(shape, cached=True), seed=0, gain=LINEAR_GAIN)
    ids = seeded_integers(1, shape.vocabulary, 1, 5)
    calls = [(ids[:, i : i + 1].clone(), torch.tensor([i])) for i in range(5)]
    return Built(module, calls[0], None, tuple(calls[1:]))


def without_weights(shape: Shape, cached: bool) -> Built:
    """A full-size decoder whose weights are never written: for compilation by shapes only."""
    module = Llama(shape, cached).eval()
    if cached:
        return Built(module, (torch.ones(1, 1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)))
    count = torch.export.Dim("tokens", min=2, max=shape.length - 1)
    return Built(module, (torch.ones(1, 128, dtype=torch.int64),), ({1: count},))
