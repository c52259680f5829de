"""Two ``torch.cond`` in a row whose results are both used at the end.

The first result has to survive the second branch: a compiler that gives the branches of both the same memory and
passes results by handle returns the second result twice.
"""

from __future__ import annotations

import torch
from torch import nn


class TwoConds(nn.Module):
    """f32[N, width] and f32[N, width] → f32[N, width]; the signs of the two means choose the branches."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.narrow = nn.Linear(width, width)
        self.wide_in = nn.Linear(width, 2 * width)
        self.wide_out = nn.Linear(2 * width, width)
        self.gate = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        def narrow(x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.narrow(x)) + 1.0

        def wide(x: torch.Tensor) -> torch.Tensor:
            return self.wide_out(torch.tanh(self.wide_in(x)))

        def gated(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return y * torch.sigmoid(self.gate(x))

        def halved(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return (x - y) * 0.5

        first = torch.cond(x.mean() > 0, narrow, wide, (x,))
        second = torch.cond(y.mean() > 0, gated, halved, (x, y))
        return first + 2.0 * second, first
