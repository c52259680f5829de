"""One block of Llama 2/3 (Touvron et al., 2023, arXiv:2307.09288) that keeps its KV cache in mutable buffers.

RMSNorm (Zhang and Sennrich, 2019), rotary positions (Su et al., 2021), grouped-query attention (Ainslie et al.,
2023), SwiGLU (Shazeer, 2020). The two caches are written in the two ways that are found in the wild, so that
both are compiled: keys by an indexed assignment at the given positions (``index_put_``), values by copying into a
slice that starts at the first position (``slice`` and ``copy_`` with a start read from a tensor).
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import nn
from torch.nn import functional


class RmsNorm(nn.Module):
    """Scale by the reciprocal root mean square over the last dim; no mean is subtracted and no bias added."""

    def __init__(self, width: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * self.weight


class LlamaBlock(nn.Module):
    """f32[1, T, width] tokens and their int64[T] positions, consecutive → f32[1, T, width].

    ``key_cache`` and ``value_cache`` are f32[1, kv heads, cache length, head width]; positions at or beyond
    ``cache_length`` are an error of the caller.
    """

    mask: torch.Tensor
    angles_cos: torch.Tensor
    angles_sin: torch.Tensor
    key_cache: torch.Tensor
    value_cache: torch.Tensor

    def __init__(
        self, width: int = 256, heads: int = 8, kv_heads: int = 4, hidden: int = 688, cache_length: int = 128
    ) -> None:
        super().__init__()
        self.heads = heads
        self.kv_heads = kv_heads
        self.head_width = width // heads
        self.cache_length = cache_length
        self.attention_norm = RmsNorm(width)
        self.wq = nn.Linear(width, heads * self.head_width, bias=False)
        self.wk = nn.Linear(width, kv_heads * self.head_width, bias=False)
        self.wv = nn.Linear(width, kv_heads * self.head_width, bias=False)
        self.wo = nn.Linear(heads * self.head_width, width, bias=False)
        self.ffn_norm = RmsNorm(width)
        self.w1 = nn.Linear(width, hidden, bias=False)
        self.w2 = nn.Linear(hidden, width, bias=False)
        self.w3 = nn.Linear(width, hidden, bias=False)

        frequencies = torch.exp(torch.arange(0, self.head_width, 2) * (-math.log(10000.0) / self.head_width))
        angles = torch.outer(torch.arange(cache_length, dtype=torch.float32), frequencies)
        visible = torch.ones(cache_length, cache_length, dtype=torch.bool).tril()
        cache = (1, kv_heads, cache_length, self.head_width)
        self.register_buffer("angles_cos", angles.cos())
        self.register_buffer("angles_sin", angles.sin())
        self.register_buffer("mask", visible)
        self.register_buffer("key_cache", torch.zeros(cache))
        self.register_buffer("value_cache", torch.zeros(cache))

    def rotate(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Rotate the pairs (even, odd) of f32[1, T, heads, head width] by the angles of their positions."""
        cos = self.angles_cos[positions].unsqueeze(1)
        sin = self.angles_sin[positions].unsqueeze(1)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)

    def attention(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        query = self.rotate(self.wq(x).view(batch, tokens, self.heads, self.head_width), positions).transpose(1, 2)
        key = self.rotate(self.wk(x).view(batch, tokens, self.kv_heads, self.head_width), positions).transpose(1, 2)
        value = self.wv(x).view(batch, tokens, self.kv_heads, self.head_width).transpose(1, 2)

        self.key_cache[:, :, positions] = key
        start = cast("int", positions[0].item())
        torch._check(start >= 0)
        torch._check(start + tokens <= self.cache_length)
        self.value_cache.narrow(2, start, tokens).copy_(value)

        shared_by = self.heads // self.kv_heads
        keys = self.key_cache.repeat_interleave(shared_by, dim=1)
        values = self.value_cache.repeat_interleave(shared_by, dim=1)
        y = functional.scaled_dot_product_attention(query, keys, values, attn_mask=self.mask[positions])
        return self.wo(y.transpose(1, 2).reshape(batch, tokens, width))

    def forward(self, x: torch.Tensor, input_pos: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x), input_pos)
        y = self.ffn_norm(x)
        return x + self.w2(functional.silu(self.w1(y)) * self.w3(y))
