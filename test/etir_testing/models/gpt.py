"""One block of GPT-2 (Radford et al., 2019): pre-norm causal self-attention and a GELU feed-forward layer."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class GptBlock(nn.Module):
    """f32[N, T, width] → the same shape. One fused projection makes query, key and value."""

    def __init__(self, width: int = 256, heads: int = 8, hidden: int = 1024) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.fc_in = nn.Linear(width, hidden)
        self.fc_out = nn.Linear(hidden, width)

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        query, key, value = (
            part.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        y = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.ln_1(x))
        return x + self.fc_out(functional.gelu(self.fc_in(self.ln_2(x))))
