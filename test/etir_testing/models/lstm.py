"""A two-layer LSTM (Hochreiter and Schmidhuber, 1997) with a linear read-out of every step: a keyword spotter."""

from __future__ import annotations

import torch
from torch import nn


class LstmTagger(nn.Module):
    """f32[N, T, features] → f32[N, T, classes] logits, and the final (hidden, cell), each f32[layers, N, hidden]."""

    def __init__(self, features: int = 40, hidden: int = 128, layers: int = 2, classes: int = 12) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, hidden, layers, batch_first=True)
        self.readout = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        y, state = self.lstm(x)
        return self.readout(y), state
