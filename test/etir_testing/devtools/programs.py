"""Small programs that go through everything that moves operations: folding, merging, control flow, state, layouts.

Each is a module in eval mode and its example inputs; weights and inputs come from one seed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram


class Cond(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: (x + 1).relu(), lambda x: x * 2 - 1, (x,)) * 3


class Loop(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def go_on(i: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return i < 5

        def step(i: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return i + 1, torch.sin(y) + y

        return torch._higher_order_ops.while_loop(go_on, step, (torch.tensor(0), x))[1] * 2


class State(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("k", torch.zeros(4, 3))
        self.fc = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.k[1:2].copy_(self.fc(x))
        self.k.add_(1)
        y = x.clone()
        y[:, 0] = 2
        y.mul_(3)
        return self.k @ y.t()


class Encoder(nn.Module):
    """Dynamic sizes, attention, layer norms, views."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).view(x.shape[0], -1).sum(-1)


class Image(nn.Module):
    """Batch norm that is folded, a dim order of the user's, an operator with two results."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4 * 3 * 3, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = nn.functional.gelu(self.norm(self.conv(x.to(memory_format=torch.channels_last))))
        y = nn.functional.max_pool2d(y, 2)
        y = self.head(y.flatten(1))
        return y.softmax(-1), y.topk(2)[0] + y.topk(2)[0]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(5, 7, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cells(x)[0]


_DYNAMIC = ({0: Dim("b", max=8), 1: Dim("t", max=20)},)

PROGRAMS: dict[str, tuple[Callable[[], nn.Module], tuple[tuple[int, ...], ...], Any]] = {
    "cond": (Cond, ((2, 3),), None),
    "loop": (Loop, ((3,),), None),
    "state": (State, ((1, 3),), None),
    "encoder": (Encoder, ((2, 6, 16),), _DYNAMIC),
    "image": (Image, ((1, 3, 8, 8),), None),
    "recurrent": (Recurrent, ((2, 4, 5),), None),
}
"""Name to what builds the module, the shapes of its inputs, and its dynamic shapes."""


def exported(name: str) -> tuple[ExportedProgram, list[torch.Tensor]]:
    """One of the programs and inputs for it, the same in every process."""
    build, shapes, dynamic = PROGRAMS[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = build().eval()
        inputs = [torch.randn(shape) for shape in shapes]
        return torch.export.export(module, tuple(inputs), dynamic_shapes=dynamic), inputs
