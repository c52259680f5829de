"""LSTMs: a tagger of sequences, and a stack of two directions with its own state."""

from __future__ import annotations

import torch
from torch import nn

from etir_testing.models.lstm import LstmTagger
from etir_testing.models.seeding import seeded_normal
from etir_testing.models.zoo_entry import LINEAR_GAIN, Built, seeded


class TwoDirections(nn.Module):
    """f32[T, N, 12] and the state h, c f32[4, N, 16] → outputs f32[T, N, 32] and the new state."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(12, 16, num_layers=2, bidirectional=True)
        self.gru = nn.GRU(32, 32)

    def forward(
        self, x: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        y, state = self.lstm(x, state)
        return self.gru(y)[0], state


def tagger() -> Built:
    return Built(seeded(LstmTagger(), LINEAR_GAIN), (seeded_normal(1, 1, 24, 40),))


def two_directions() -> Built:
    state = (seeded_normal(2, 4, 3, 16), seeded_normal(3, 4, 3, 16))
    return Built(seeded(TwoDirections(), LINEAR_GAIN), (seeded_normal(1, 9, 3, 12), state))
