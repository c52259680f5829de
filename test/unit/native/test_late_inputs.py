"""Inputs that a delegate reads late are made late: partitions are cut where the program needs less memory then."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import etir
import etir.runtime
from etir import memory_bound
from etir.backends.api.memory import DelegateNeeds
from etir.memory_bound import bytes_of

NATIVE = "native{cpus=x86-64}"
FREE = "native{cpus=x86-64 arena=free}"


class TwoGathers(nn.Module):
    """Rows of two tables, the second of which is multiplied with what has been made of the first: on the kernels never
    both are there. ``is_late`` is whether the second one is read late.
    """

    def __init__(self, *, is_late: bool) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.randn(8, 32, 48))
        self.second = nn.Parameter(torch.randn(8, 48, 32))
        self.last = nn.Linear(48, 8)
        self.is_late = is_late

    def forward(self, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        if not self.is_late:
            return self.last(x @ (self.first[rows] + self.second[rows].transpose(1, 2)))
        hidden = torch.tanh(x @ self.first[rows])
        return self.last(torch.relu(hidden @ self.second[rows]) @ torch.ones(32, 48))


def program(model: nn.Module, *delegates: str) -> etir.Program:
    return etir.compile(torch.export.export(model, inputs()), target="etir", delegates=list(delegates))


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(16, 8, 32), torch.randint(0, 8, (16,))


def partitions(made: etir.Program) -> int:
    return len(made.delegation.backends[0].partitions) if made.delegation is not None else 0


def test_a_late_gather() -> None:
    """Two calls, between which the second gather runs, need what the kernels do; one needs both gathers at once. Each
    is 16 * 32 * 48 * 4 = 98,304 bytes. The results are eager's.
    """
    model = TwoGathers(is_late=True).eval()
    plain, free, made = program(model), program(model, FREE), program(model, NATIVE)
    assert partitions(free) == 1 and bytes_of(free) >= 2 * 98_304
    assert partitions(made) == 2 and bytes_of(made) <= bytes_of(plain) < 2 * 98_304
    assert program(model, NATIVE).buffer == made.buffer
    (got,) = etir.runtime.load(made).forward(*inputs())
    with torch.no_grad():
        torch.testing.assert_close(torch.as_tensor(got), model(*inputs()), rtol=1e-4, atol=1e-5)


def test_what_is_read_at_once() -> None:
    """Both are read by the first operator: there is nothing to cut."""
    model = TwoGathers(is_late=False).eval()
    assert partitions(program(model, NATIVE)) == partitions(program(model, FREE)) == 1


class Tables(nn.Module):
    """The sum of what several tables have for indices, as embeddings of words, positions and boxes."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(20, 64) for _ in range(6))
        self.norm, self.last = nn.LayerNorm(64), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, *others = (table(x[:, :, number]) for number, table in enumerate(self.tables))
        for other in others:
            first = first + other
        return torch.relu(self.last(self.norm(first)))


def test_a_sum_may_be_cut_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one step of code, of which it is known which addition reads each table."""
    told: list[DelegateNeeds] = []

    def noted(need: DelegateNeeds, room: int) -> list[int]:
        told.append(need)
        return []

    monkeypatch.setattr(memory_bound, "cuts_of", noted)
    torch.manual_seed(0)
    exported = torch.export.export(Tables().eval(), (torch.randint(0, 20, (4, 16, 6)),))
    etir.compile(exported, target="etir", delegates=[NATIVE])
    rows = told[0].inputs
    first = min(row.operator for row in rows)
    assert [row.operator - first for row in rows] == [0, 0, 1, 2, 3, 4]
    assert all(row.last == row.operator and row.bytes == 4 * 16 * 64 * 4 for row in rows)
