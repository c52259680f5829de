"""A small program of every kind that the developer tools have to take: control flow, state, delegates, integers, files.

Each is built anew by its function, with the same weights and inputs in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch._higher_order_ops.map import map as map_op
from torch._higher_order_ops.scan import scan
from torch.export import Dim, ExportedProgram

from etir_testing.devtools.programs import PROGRAMS
from etir_testing.interop.quantized_classifier import Classifier, quantized


class Scan(nn.Module):
    """Carried and stacked results."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 2))

    def forward(self, start: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        last, stacked = scan(lambda c, x: (c * 0.5 + x, (c + x) @ self.w), start, rows)
        return last, stacked.relu()


class Map(nn.Module):
    def forward(self, rows: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return map_op(lambda x, y: (x * y).sin() + x.sum(), rows, y)


class Tied(nn.Module):
    """The embedding is the head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(tokens).tanh())


class Numbers(nn.Module):
    """Numbers come in and go out, beside tensors without dims."""

    def forward(self, x: torch.Tensor, n: int) -> tuple[torch.Tensor, int, torch.Tensor, float]:
        return x * n, n + 2, x.sum(), 2.5


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(64, 32), nn.Linear(32, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.up(x).relu()).softmax(-1)


class Other(Plain):
    """A second method of another form."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (self.up(x),)).sum(-1)


Exported = dict[str, ExportedProgram]
Inputs = dict[str, list[Any]]


@dataclass(frozen=True)
class Kind:
    """What is exported, with inputs by method, and how it is compiled.

    ``recipe`` is one of ``etir.quantize``; ``stock`` says whether the stock pipeline takes such a program.
    """

    build: Callable[[], tuple[Exported, Inputs]]
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    recipe: str = ""
    stock: bool = True
    target: str = "executorch"


def _single(
    build: Callable[[], nn.Module], make: Callable[[], Sequence[Any]], dynamic: Any = None
) -> Callable[..., Any]:
    def built() -> tuple[Exported, Inputs]:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            module = build().eval()
            inputs = [*make()]
            program = torch.export.export(module, tuple(inputs), dynamic_shapes=dynamic)
        return {"forward": program}, {"forward": inputs}

    return built


def _known(name: str) -> Callable[..., Any]:
    build, shapes, dynamic = PROGRAMS[name]
    return _single(build, lambda: [torch.randn(shape) for shape in shapes], dynamic)


def _methods() -> tuple[Exported, Inputs]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        modules = {"forward": Plain().eval(), "other": Other().eval()}
        x = torch.randn(2, 64)
        return {name: torch.export.export(m, (x,)) for name, m in modules.items()}, {name: [x] for name in modules}


def _integers() -> tuple[Exported, Inputs]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        x = torch.randn(1, 3, 16, 16)
        return {"forward": torch.export.export(quantized(Classifier(), (x,)), (x,))}, {"forward": [x]}


_plain = _single(Plain, lambda: [torch.randn(2, 64)])

KINDS: dict[str, Kind] = {
    "cond": Kind(_known("cond")),
    "while": Kind(_known("loop"), stock=False),
    "scan": Kind(_single(Scan, lambda: [torch.randn(3), torch.randn(5, 3)])),
    "map": Kind(_single(Map, lambda: [torch.randn(4, 3), torch.randn(3)])),
    "methods": Kind(_methods),
    "state": Kind(_known("state")),
    "dynamic": Kind(_known("encoder")),
    "int8": Kind(_integers, {"delegates": "xnnpack"}),
    "int8-kernels": Kind(_integers, target="etir", stock=False),
    "int4": Kind(_plain, recipe="weight-int4", stock=False),
    "xnnpack": Kind(_known("image"), {"delegates": "xnnpack"}),
    "native": Kind(_known("image"), {"delegates": "native"}, target="etir", stock=False),
    "reference": Kind(_known("recurrent"), {"delegates": "reference"}, target="etir", stock=False),
    "external": Kind(_plain, {"external_weights": "weights"}),
    "tied": Kind(_single(Tied, lambda: [torch.arange(5).reshape(1, 5)])),
    "numbers": Kind(_single(Numbers, lambda: [torch.randn(2, 3), 3], (None, Dim.DYNAMIC)), stock=False),
}
