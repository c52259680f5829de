"""The text of a file is a program that every check takes, and becomes the file again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import etir
from etir.dialects.et.values import BufferOp, ViewOp
from etir.emit.from_pte import read_program
from etir.tools import et_translate


class Rows(nn.Module):
    """Reads parts of a state, which it then writes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.linspace(-1, 1, 12).reshape(4, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = self.rows[1:].mean(0, keepdim=True)
        self.rows.copy_(torch.cat([self.rows[1:], x]))
        return mean + self.rows[:1]


class Gates(nn.Module):
    """Reads parts of what is computed as a whole."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell = nn.LSTM(4, 5, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = (x * 2).split(3, 1)
        return torch.cat([a.sin(), b.cos(), self.cell(x)[0][..., :4]], 1)


class Residual(nn.Module):
    """A product that is added to what dies there."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x).sigmoid()
        return (y + self.second(y.relu())).tanh()


class Bounded(nn.Module):
    """Asserts what it takes."""

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        n = at.item()
        torch._check(n >= 0)
        torch._check(n <= 4)
        return x.narrow(1, n, 2) * 2


class Attention(nn.Module):
    """Products of tensors that have one size at run time, which nothing in a file says."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.queries, self.keys, self.out = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.register_buffer("mask", torch.full((16, 16), -1e9).triu(1))
        self.register_buffer("turns", torch.linspace(0, 3, 64).reshape(16, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = x.shape[1]
        heads = (1, count, 2, 4)
        turn = self.turns[torch.arange(count)].unsqueeze(1)
        q, k = (layer(x).reshape(heads) * turn.cos() for layer in (self.queries, self.keys))
        scores = q.permute(0, 2, 1, 3) @ k.permute(0, 2, 3, 1) + self.mask[:count, :count]
        mixed = (scores.softmax(-1) @ x.reshape(heads).permute(0, 2, 1, 3)).permute(0, 2, 1, 3).reshape(1, count, 8)
        x = x + self.out(mixed)
        return x * nn.functional.silu(x) * torch.sigmoid(self.out(x))


class Complex(nn.Module):
    """Reads floats as complex numbers, and these as floats."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = nn.Parameter(torch.linspace(-1, 1, 12).reshape(2, 3, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = torch.view_as_complex(x) * torch.view_as_complex(self.turn)
        return torch.view_as_real(z * z.conj() + z) * 2


class Bits(nn.Module):
    """Reads floats as integers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 2).view(torch.int32) + 1


class Ways(nn.Module):
    """Such products in a branch."""

    def forward(self, x: torch.Tensor, take: torch.Tensor) -> torch.Tensor:
        def one(x: torch.Tensor) -> torch.Tensor:
            y = x.exp()
            return y * (x + 1) + y.sin() * x.cos()

        return torch.cond(take, one, lambda x: x.neg(), (x,)) * 2


@dataclass(frozen=True)
class Case:
    """A module and its inputs."""

    module: Callable[[], nn.Module]
    inputs: tuple[torch.Tensor, ...]
    dynamic: Any = None


TOKENS = torch.export.Dim("tokens", min=2, max=15)
CASES = {
    "state": Case(Rows, (torch.full((1, 3), 0.5),)),
    "parts": Case(Gates, (torch.linspace(-1, 1, 24).reshape(1, 6, 4),)),
    "residual": Case(Residual, (torch.linspace(-1, 1, 75).reshape(1, 3, 5, 5),)),
    "assertion": Case(Bounded, (torch.arange(6.0).reshape(1, 6), torch.tensor(3))),
    "attention": Case(Attention, (torch.linspace(-1, 1, 40).reshape(1, 5, 8),), ({1: TOKENS},)),
    "complex": Case(Complex, (torch.linspace(-1, 1, 12).reshape(2, 3, 2),)),
    "bits": Case(Bits, (torch.linspace(-1, 1, 12).reshape(2, 6),)),
    "branch": Case(Ways, (torch.linspace(-1, 1, 40).reshape(5, 8), torch.tensor(True)), ({0: TOKENS}, None)),
}


def compiled(name: str, target: str) -> etir.Program:
    case = CASES[name]
    with torch.no_grad():
        program = torch.export.export(case.module().eval(), case.inputs, dynamic_shapes=case.dynamic)
        return etir.compile(program, target=target)


@pytest.mark.parametrize("target", ["executorch", "etir"])
@pytest.mark.parametrize("name", CASES)
def test_the_file_comes_back(name: str, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiled(name, target).save(tmp_path / "a.pte")
    for options in (["--pte-to-mlir", "a.pte", "-o", "a.mlir"], ["--mlir-to-pte", "a.mlir", "-o", "b.pte"]):
        words = [str(tmp_path / word) if word[:2] in ("a.", "b.") else word for word in options]
        assert et_translate.main(words) == 0, capsys.readouterr().err
    assert (tmp_path / "b.pte").read_bytes() == (tmp_path / "a.pte").read_bytes()


def test_parts_of_a_state_are_views_of_it() -> None:
    module = read_program(compiled("state", "etir").buffer)
    views = [op for op in module.walk() if isinstance(op, ViewOp)]
    of_state = [op for op in views if isinstance(op.base.owner, BufferOp) and op.base.owner.state is not None]
    assert [(op.offset.value.data, op.result.type.get_shape()) for op in of_state] == [(12, (3, 3))]
