"""A small program with an operation of every template."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Small(nn.Module):
    """[1, 3, 9, 7] to [1, 6, 6] and [1, 11]: windows with borders, a residual, rows, products of two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 5, 3, padding=1)
        self.each = nn.Conv2d(5, 5, 3, stride=2, padding=1, groups=5)
        self.one = nn.Conv2d(5, 6, 1)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.norm = nn.LayerNorm(6)
        self.last = nn.Linear(6, 11)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.first(x))
        x = self.one(self.each(x))
        x = x + torch.nn.functional.silu(x)
        rows = self.norm(self.pool(x).flatten(2).transpose(1, 2))
        scores = torch.bmm(rows, rows.transpose(1, 2)).softmax(-1)
        return scores, self.last(x.mean((2, 3)))
