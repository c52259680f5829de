"""What is joined, or lies in a border, made in memory of its own first (``native.late``)."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, i64

import etir
import etir.runtime
from etir.backends.api.interface import Outlined
from etir.backends.native import savings
from etir.backends.native.blob import read_blob
from etir.backends.native.functions import CUT, LATE, SAVES
from etir.memory_bound import bytes_of

from etir_testing.native.blobs import blobs_of


class Branches(nn.Module):
    """Branches that are joined, of which one needs most: a pool of all channels before its product."""

    def __init__(self, channels: int = 12) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4 * channels, 1)
        self.plain, self.after_pool = nn.Conv2d(4 * channels, channels, 1), nn.Conv2d(4 * channels, channels, 1)
        self.narrow, self.wide = nn.Conv2d(4 * channels, 8, 1), nn.Conv2d(8, 2 * channels, 3, padding=1)
        self.last = nn.Conv2d(4 * channels, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        pooled = functional.max_pool2d(x, 3, 1, 1)
        branches = [self.plain(x), self.wide(torch.relu(self.narrow(x))), self.after_pool(pooled)]
        return self.last(torch.relu(torch.cat(branches, 1)))


class Causal(nn.Module):
    """Signals with zeros before them, which a convolution reads in a border of its own."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(3, channels, 3, dilation=4), nn.Conv1d(channels, channels, 3, dilation=8)
        self.third = nn.Conv1d(channels, channels, 3, dilation=8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(functional.pad(x, (8, 0))))
        y = torch.relu(self.second(functional.pad(x, (16, 0))))
        return torch.relu(self.third(functional.pad(y, (16, 0)))) + x


CASES = {"branches": (Branches, (1, 2, 24, 24)), "causal": (Causal, (1, 3, 60))}


@pytest.mark.parametrize("name", list(CASES))
def test_late(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code needs less, and computes what eager does; two threads give the same bits as one."""
    torch.manual_seed(0)
    build, shape = CASES[name]
    model, x = build().eval(), torch.randn(shape)
    exported = torch.export.export(model, (x,))
    arenas: list[int] = []
    for is_late in (False, True):

        def choose(outlined: Outlined, _: object, is_late: bool = is_late) -> None:
            outlined.func.attributes |= {SAVES: ArrayAttr([StringAttr("order")]), CUT: IntegerAttr(0, i64)}
            if is_late:
                outlined.func.attributes[LATE] = IntegerAttr(0, i64)

        monkeypatch.setattr(savings, "choose_savings", choose)
        program = etir.compile(exported, target="etir", delegates=["native{cpus=x86-64 arena=free}"])
        assert program.warnings == ()
        arenas += [read_blob(data).arena_bytes for data in blobs_of(program.buffer)]
    assert arenas[1] < arenas[0]
    (got,) = etir.runtime.load(program).forward(x)
    with torch.no_grad():
        torch.testing.assert_close(torch.as_tensor(got), model(x), rtol=1e-5, atol=1e-5)
    (two,) = etir.runtime.load(program, threads=2).forward(x)
    assert torch.equal(torch.as_tensor(got), torch.as_tensor(two))


@pytest.mark.parametrize("name", list(CASES))
def test_programs_that_need_it(name: str) -> None:
    """No more memory than without the delegate, with all operators as code."""
    torch.manual_seed(0)
    build, shape = CASES[name]
    exported = torch.export.export(build().eval(), (torch.randn(shape),))
    program = etir.compile(exported, target="etir", delegates=["native{cpus=x86-64 arena=free}"])
    assert program.delegation is not None and not program.delegation.fallback
    assert bytes_of(program) <= bytes_of(etir.compile(exported, target="etir"))
