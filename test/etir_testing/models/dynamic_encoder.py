"""A small text classifier whose batch size and sequence length are both dynamic.

Embedding with learned positions, two post-norm Transformer encoder layers (Vaswani et al., 2017, arXiv:1706.03762)
under a padding mask, mean over the real tokens, linear classes.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class EncoderLayer(nn.Module):
    """f32[N, T, width] and bool[N, 1, 1, T] (True: a real token) → f32[N, T, width]."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.norm_attention = nn.LayerNorm(width)
        self.fc_in = nn.Linear(width, hidden)
        self.fc_out = nn.Linear(hidden, width)
        self.norm_ffn = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        y = functional.scaled_dot_product_attention(query, key, value, attn_mask=real)
        x = self.norm_attention(x + self.out(y.transpose(1, 2).flatten(-2)))
        return self.norm_ffn(x + self.fc_out(functional.relu(self.fc_in(x))))


class DynamicEncoder(nn.Module):
    """int64[N, T] token ids, 0 for padding (at least one other per row) → f32[N, classes] logits."""

    def __init__(
        self, vocabulary: int = 500, width: int = 96, heads: int = 4, hidden: int = 192, longest: int = 64
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(longest, width)
        self.layers = nn.ModuleList(EncoderLayer(width, heads, hidden) for _ in range(2))
        self.classes = nn.Linear(width, 10)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        real = ids != 0
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x, real[:, None, None, :])
        weight = real.to(x.dtype).unsqueeze(-1)
        return self.classes((x * weight).sum(1) / weight.sum(1))
