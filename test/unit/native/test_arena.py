"""``native{arena=kernels}``: no program needs more memory with code than without."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import etir
import etir.runtime
from etir.backends.native import compile
from etir.backends.native.errors import E1162
from etir.memory_bound import bytes_of

BOUNDED = ["native{cpus=x86-64 arena=kernels}"]


class Waits(nn.Module):
    """What the first product makes is needed again after the second one, in a delegate of its own: code keeps it while
    the operators between them run on the kernels, which would make it last.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(64, 96), nn.Linear(64, 160), nn.Linear(96, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        start = torch.tanh(self.first(x))
        wide = torch.cumsum(torch.relu(self.second(x)), 0)
        return self.last(start * torch.cumsum(torch.tanh(wide), 0)[:, :96])


def program(**options: object) -> tuple[etir.Program, nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    model, x = Waits().eval(), torch.randn(16, 64)
    return etir.compile(torch.export.export(model, (x,)), target="etir", **options), model, x


def partitions(made: etir.Program) -> list[str]:
    return [p.name for p in made.delegation.backends[0].partitions] if made.delegation is not None else []


def test_a_program_within_the_bound() -> None:
    """Without the option it takes more; with it, what does not fit is on the kernels, and results are eager's."""
    plain, model, x = program()
    free, *_ = program(delegates=["native{cpus=x86-64}"])
    bounded, *_ = program(delegates=BOUNDED)
    assert bytes_of(bounded) <= bytes_of(plain) < bytes_of(free)
    assert set(partitions(bounded)) < set(partitions(free))
    (got,) = etir.runtime.load(bounded).forward(x)
    with torch.no_grad():
        torch.testing.assert_close(torch.as_tensor(got), model(x), rtol=1e-5, atol=1e-5)


def test_a_partition_that_is_left() -> None:
    """Partitions keep the names of the report without it, and the reason is in the report."""
    free, *_ = program(delegates=["native{cpus=x86-64}"])
    first, *others = partitions(free)
    left, *_ = program(delegates=["native{cpus=x86-64}"], partition={"leave": first})
    assert partitions(left) == others
    assert left.delegation is not None
    assert "to be left to others" in str(left.delegation)


def test_code_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was planned with code and then has none takes no more either."""

    def fails(*_: object) -> None:
        raise E1162.error("the compiler fails")

    monkeypatch.setattr(compile, "shared_objects", fails)
    plain, *_ = program()
    bounded, *_ = program(delegates=BOUNDED)
    assert bytes_of(bounded) <= bytes_of(plain)
