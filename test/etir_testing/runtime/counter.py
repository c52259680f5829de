"""A module with a mutable buffer that has initial values, for the tests of delegates that own state."""

from __future__ import annotations

import torch
from torch import nn


class Counter(nn.Module):
    """Adds up what it is given."""

    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.tensor([1.0, 2.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total += x
        return self.total * 2
