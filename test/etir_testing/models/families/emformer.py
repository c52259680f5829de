"""Emformer RNN-T (Shi et al., 2020, arXiv:2010.10759; Graves, 2012, arXiv:1211.3711), streaming.

Three programs, as an application runs them: the transcriber takes one segment of features and keeps the keys and
values of its left context and the memory of earlier segments in buffers; the predictor takes the last token and its
state; the joiner gives the scores of the next token.
"""

from __future__ import annotations

import torch
from torch import nn

from etir_testing.models.seeding import seeded_integers, seeded_normal
from etir_testing.models.zoo_entry import LINEAR_GAIN, Built, seeded

SEGMENT = 4
"""Frames of a segment after the time reduction."""
RIGHT = 1
"""Frames of look-ahead after the time reduction, given with the segment."""
LEFT = 8
"""Frames of left context."""
MEMORY = 4
"""Summaries of earlier segments."""


class Layer(nn.Module):
    """One Emformer layer on (right context, segment), f32[N, RIGHT + SEGMENT, width], with its state in buffers."""

    left_key: torch.Tensor
    left_value: torch.Tensor
    memory: torch.Tensor
    seen: torch.Tensor

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.output = nn.Linear(width, width)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width)
        )
        self.last_norm = nn.LayerNorm(width)
        self.register_buffer("left_key", torch.zeros(1, LEFT, width))
        self.register_buffer("left_value", torch.zeros(1, LEFT, width))
        self.register_buffer("memory", torch.zeros(1, MEMORY, width))
        self.register_buffer("seen", torch.zeros(1, dtype=torch.int64))

    def hidden_from(self) -> torch.Tensor:
        """What of memory and left context no segment has filled yet: bool[MEMORY + LEFT]."""
        memories = torch.arange(MEMORY, 0, -1) > self.seen
        frames = torch.arange(LEFT, 0, -1) > self.seen * SEGMENT
        return torch.cat((memories, frames))

    def split(self, x: torch.Tensor) -> torch.Tensor:
        """f32[N, T, width] by heads: f32[N, heads, T, head width]."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def attend(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        scores = self.split(query) @ self.split(key).transpose(-2, -1) * (query.shape[-1] // self.heads) ** -0.5
        scores = scores.masked_fill(hidden, float("-inf"))
        return self.output((scores.softmax(-1) @ self.split(value)).transpose(1, 2).flatten(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm(x)
        summary = normed[:, RIGHT:].mean(dim=1, keepdim=True)
        key, value = self.key_value(torch.cat((self.memory, normed), dim=1)).chunk(2, dim=-1)
        key = torch.cat((key[:, :MEMORY], self.left_key, key[:, MEMORY:]), dim=1)
        value = torch.cat((value[:, :MEMORY], self.left_value, value[:, MEMORY:]), dim=1)
        unfilled = self.hidden_from()
        present = torch.zeros(RIGHT + SEGMENT, dtype=torch.bool)
        hidden = torch.cat((unfilled, present))
        y = self.attend(self.query(normed), key, value, hidden) + x
        # The summary looks at the segment and its context, not at the memory.
        blind = torch.cat((torch.ones(MEMORY, dtype=torch.bool), hidden[MEMORY:]))
        entry = self.attend(self.query(summary), key, value, blind).clamp(-10, 10)
        self.memory.copy_(torch.cat((self.memory[:, 1:], entry), dim=1))
        self.left_key.copy_(torch.cat((self.left_key, key[:, -SEGMENT:]), dim=1)[:, -LEFT:])
        self.left_value.copy_(torch.cat((self.left_value, value[:, -SEGMENT:]), dim=1)[:, -LEFT:])
        self.seen.add_(1)
        return self.last_norm(y + self.feed_forward(y))


class Transcriber(nn.Module):
    """Features f32[1, 4 * (SEGMENT + RIGHT), 80], look-ahead last → f32[1, SEGMENT, outputs]."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 3, outputs: int = 48) -> None:
        super().__init__()
        self.input = nn.Linear(80, width // 4, bias=False)
        self.layers = nn.ModuleList([Layer(width, heads, 2 * width) for _ in range(layers)])
        self.output = nn.Linear(width, outputs)
        self.norm = nn.LayerNorm(outputs)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        frames = self.input(features).unflatten(1, (-1, 4)).flatten(2)
        x = torch.cat((frames[:, SEGMENT:], frames[:, :SEGMENT]), dim=1)
        for layer in self.layers:
            x = layer(x)
        return self.norm(self.output(x[:, RIGHT:]))


class NormedLstm(nn.Module):
    """An LSTM with layer norms of the gates and the cell (Ba et al., 2016), one token a call."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.x2g = nn.Linear(width, 4 * hidden, bias=False)
        self.p2g = nn.Linear(hidden, 4 * hidden, bias=False)
        self.gate_norm = nn.LayerNorm(4 * hidden)
        self.cell_norm = nn.LayerNorm(hidden)

    def forward(self, x: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        hidden, cell = state
        gates = self.gate_norm(self.x2g(x) + self.p2g(hidden))
        enter, forget, change, leave = gates.chunk(4, dim=-1)
        cell = forget.sigmoid() * cell + enter.sigmoid() * change.tanh()
        cell = self.cell_norm(cell)
        return leave.sigmoid() * cell.tanh(), cell


class Predictor(nn.Module):
    """Token int64[N, 1] and the layers' states → f32[N, outputs] and the new states."""

    def __init__(
        self, symbols: int = 60, width: int = 32, hidden: int = 40, layers: int = 2, outputs: int = 48
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList([NormedLstm(width if i == 0 else hidden, hidden) for i in range(layers)])
        self.output = nn.Linear(hidden, outputs)
        self.last_norm = nn.LayerNorm(outputs)

    def forward(
        self, token: torch.Tensor, states: list[tuple[torch.Tensor, torch.Tensor]]
    ) -> tuple[torch.Tensor, list[tuple[torch.Tensor, torch.Tensor]]]:
        x = self.norm(self.embedding(token.squeeze(1)))
        following = []
        for layer, state in zip(self.layers, states, strict=True):
            x, cell = layer(x, state)
            following.append((x, cell))
        return self.last_norm(self.output(x)), following


class Joiner(nn.Module):
    """Source f32[N, T, width] and target f32[N, U, width] → log-probabilities f32[N, T, U, symbols]."""

    def __init__(self, width: int = 48, symbols: int = 60) -> None:
        super().__init__()
        self.output = nn.Linear(width, symbols)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return self.output(torch.relu(source.unsqueeze(2) + target.unsqueeze(1))).log_softmax(-1)


def transcriber() -> Built:
    calls = [(seeded_normal(seed, 1, 4 * (SEGMENT + RIGHT), 80),) for seed in range(1, 6)]
    return Built(seeded(Transcriber(), LINEAR_GAIN), calls[0], None, tuple(calls[1:]))


def predictor() -> Built:
    states = [(seeded_normal(2 * i, 3, 40), seeded_normal(2 * i + 1, 3, 40)) for i in (1, 2)]
    return Built(seeded(Predictor(), LINEAR_GAIN), (seeded_integers(1, 60, 3, 1), states))


def joiner() -> Built:
    frames, tokens = torch.export.Dim("frames", max=32), torch.export.Dim("tokens", max=16)
    more = ((seeded_normal(3, 1, 7, 48), seeded_normal(4, 1, 3, 48)),)
    inputs = (seeded_normal(1, 1, 4, 48), seeded_normal(2, 1, 5, 48))
    return Built(seeded(Joiner(), LINEAR_GAIN), inputs, ({1: frames}, {1: tokens}), more)
