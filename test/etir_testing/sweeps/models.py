"""Small models for plans, and functions that go with them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from etir.sweeps import Model


def net(width: int = 32) -> Model:
    """Two layers with calibration data and three calls."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 4)).eval()
    calls = [(torch.randn(2, width),) for _ in range(3)]
    return Model(module, calls[0], more=calls[1:], calibration=calls)


def pair() -> Any:
    """The shortest form: a module and its inputs."""
    return nn.ReLU(), (torch.tensor([-1.0, 2.0]),)


def nothing() -> Any:
    """No program."""
    return 3


def broken() -> Any:
    """A factory that fails."""
    raise ValueError("no weights")


class _Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x + self.count


def counter() -> Model:
    """A module with state: each call gives something else."""
    x = (torch.zeros(1),)
    return Model(_Counter(), x, more=[x, x])


def sum_of_outputs(outputs: list[list[Any]]) -> float:
    """A metric."""
    return float(sum(call[0].sum() for call in outputs))


def no_metric(outputs: list[list[Any]]) -> float:
    """A metric that fails."""
    raise KeyError("labels")


def channels_last() -> Model:
    """A convolution that is exported on a tensor with the channels innermost, and called on another that has not."""
    torch.manual_seed(0)
    x, y = torch.randn(2, 2, 3, 6, 5)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval()
    return Model(module, (x.contiguous(memory_format=torch.channels_last),), more=[(y,)])


def not_a_number(outputs: list[list[Any]]) -> float:
    """A metric that has nothing to say."""
    return float("nan")


class _Empty(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:0]


def empty() -> Any:
    """A program whose output has no number."""
    return _Empty(), (torch.ones(3),)


def uneven() -> Model:
    """Two layers, of which the second has no blocks of 32 numbers."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 16)).eval()
    calls = [(torch.randn(2, 64),) for _ in range(3)]
    return Model(module, calls[0], more=calls[1:], calibration=calls)
