"""Programs whose batch, length, height or width is known at run time only."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.export import Dim

import etir

from etir_testing.native.images import here


@dataclass(frozen=True)
class Sized:
    """A module, the dims of its inputs (numbers, or ``factor * name + offset`` as a tuple), the ranges of names."""

    module: nn.Module
    inputs: Sequence[Sequence[Any]]
    ranges: Mapping[str, tuple[int, int]]

    def exported(self) -> torch.export.ExportedProgram:
        """The program, from an example between the bounds."""
        dims = {name: Dim(name, min=low, max=high) for name, (low, high) in self.ranges.items()}
        shapes = tuple(
            {d: _of(n, dims) for d, n in enumerate(shape) if not isinstance(n, int)} or None for shape in self.inputs
        )
        given = self.given({name: (low + high) // 2 | 1 for name, (low, high) in self.ranges.items()})
        return torch.export.export(self.module, given, dynamic_shapes=shapes)

    def given(self, values: Mapping[str, int]) -> tuple[torch.Tensor, ...]:
        """Random inputs of these sizes."""
        return tuple(torch.randn([n if isinstance(n, int) else _of(n, values) for n in shape]) for shape in self.inputs)

    def compiled(self, options: str = "") -> etir.Program:
        """The program with code for this machine."""
        delegate = options or f"native{{cpus={here()[-1]}}}"
        return etir.compile(self.exported(), target="etir", delegates=[delegate])

    def points(self, chance: random.Random) -> list[dict[str, int]]:
        """Sizes of 1, the bounds, and numbers beside those of rows that tiles have."""
        names = [*self.ranges]
        found = [{name: ends[i] for name, ends in self.ranges.items()} for i in (0, 1)]
        for near in (1, 6, 7, 13, 14, 15, 17, 31, 33):
            point = {name: chance.randint(*self.ranges[name]) for name in names}
            name = chance.choice(names)
            low, high = self.ranges[name]
            point[name] = min(max(near, 1 if low <= 2 else low), high)
            found.append(point)
        return found


def _of(n: Any, values: Mapping[str, Any]) -> Any:
    name, factor, offset = n if isinstance(n, tuple) else (n, 1, 0)
    found = values[name] if factor == 1 else factor * values[name]
    return found + offset if offset else found


class Layer(nn.Module):
    """An encoder layer with attention over all positions, f32[N, T, width]."""

    def __init__(self, width: int, heads: int, hidden: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in self.qkv(x).chunk(3, -1))
        scores = (q @ k.transpose(-1, -2)) * (q.shape[-1] ** -0.5)
        x = self.first(x + self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(-2)))
        return self.second(x + self.down(nn.functional.gelu(self.up(x))))


class Picture(nn.Module):
    """Convolutions of every kind, pools, a norm of groups, another size: f32[N, 3, H, W]."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.each = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.mix = nn.Conv2d(16, 24, 1)
        self.halve = nn.Conv2d(24, 16, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(4, 16)
        self.last = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.relu(self.first(x))
        x = self.mix(self.norm(x) + torch.relu(self.each(x)))
        x = self.halve(nn.functional.max_pool2d(x, 3, 1, 1))
        return self.last(x.mean((2, 3))), nn.functional.interpolate(x, scale_factor=2.0)


class Related(nn.Module):
    """Two inputs of which one is twice as long as the other, and one more."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(16, 32), nn.Linear(32, 24)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z, w = torch.relu(self.a(x)), self.a(y)
        return self.b(torch.cat([z, w], 1)).softmax(-1), torch.bmm(z, w.transpose(1, 2))


class Halved(nn.Module):
    """Between two parts is an operator of the kernels: the second one knows half of the length only."""

    def __init__(self) -> None:
        super().__init__()
        self.halve = nn.Conv1d(16, 16, 3, stride=2, padding=1)
        self.up, self.down, self.norm = nn.Linear(16, 40), nn.Linear(40, 16), nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.logcumsumexp(self.halve(x.transpose(1, 2)).transpose(1, 2), 1) * 0.1
        y = self.down(torch.relu(self.up(x)))
        return torch.cat([self.norm(x + y), y], 1), y.mean(1)


class Chance(nn.Module):
    """Some operators one after another on f32[N, T, width], of a seed."""

    def __init__(self, seed: int):
        super().__init__()
        chance = random.Random(seed)
        self.width = chance.choice([8, 20, 32])
        self.steps = [chance.choice([*_STEPS]) for _ in range(5)]
        self.linears = nn.ModuleList(nn.Linear(self.width, self.width) for _ in self.steps)
        self.norms = nn.ModuleList(nn.LayerNorm(self.width) for _ in self.steps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, step in enumerate(self.steps):
            x = _STEPS[step](self, x, number)
        return x


_STEPS: dict[str, Any] = {
    "linear": lambda m, x, i: torch.relu(m.linears[i](x)),
    "residual": lambda m, x, i: x + torch.tanh(m.linears[i](x)),
    "norm": lambda m, x, i: m.norms[i](x),
    "softmax": lambda m, x, i: x.softmax(1),
    "attention": lambda m, x, i: (m.linears[i](x) @ x.transpose(1, 2)).softmax(-1) @ x,
    "twice": lambda m, x, i: torch.cat([x, x * 0.5], 1),
    "rows": lambda m, x, i: m.linears[i](x.flatten(0, 1)).view(x.shape),
    "mean": lambda m, x, i: x - x.mean(1, keepdim=True),
    "length": lambda m, x, i: x / (1.0 + x.pow(2).mean(-1, keepdim=True)).sqrt(),
    "turned": lambda m, x, i: m.linears[i](x.transpose(0, 1).contiguous()).transpose(0, 1),
    "gated": lambda m, x, i: nn.functional.glu(torch.cat([x, m.linears[i](x)], -1), -1),
}


def cases() -> dict[str, Sized]:
    """Programs by name."""
    torch.manual_seed(0)
    rows = {"n": (1, 3), "t": (2, 40)}
    found = {
        "encoder": Sized(nn.Sequential(Layer(32, 4, 56)).eval(), [("n", "t", 32)], {"n": (1, 4), "t": (2, 130)}),
        "picture": Sized(Picture().eval(), [("n", 3, "h", "w")], {"n": (1, 3), "h": (4, 18), "w": (4, 30)}),
        "related": Sized(Related().eval(), [(2, "t", 16), (2, ("t", 2, 1), 16)], {"t": (4, 20)}),
        "halved": Sized(Halved().eval(), [("n", "t", 16)], {"n": (1, 3), "t": (4, 40)}),
    }
    found |= {f"chance {seed}": Sized(Chance(seed).eval(), [("n", "t", _width(seed))], rows) for seed in range(30)}
    return found


def _width(seed: int) -> int:
    return random.Random(seed).choice([8, 20, 32])
