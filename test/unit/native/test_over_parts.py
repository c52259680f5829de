"""An image without a border over what is added to it: each of its parts is a product of its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, i64
from xdsl.dialects.func import FuncOp

import etir
import etir.runtime
from etir.backends.api.interface import Outlined
from etir.backends.native import compile, savings
from etir.backends.native.cpu import cpu
from etir.backends.native.functions import CUT, SAVES
from etir.backends.native.kernels.brgemm import Brgemm
from etir.backends.native.passes import tile_plan
from etir.backends.native.passes.tile_schedule import choose_schedules
from etir.backends.native.passes.verify_tile import verify_function
from etir.backends.native.tile import BrgemmOp, BufferOp
from etir.diagnostics import EtirError

DELEGATES = ["native{cpus=x86-64 arena=free}"]


class Residual(nn.Module):
    """A convolution that is added to what nobody reads afterwards."""

    def __init__(self, channels: int = 6) -> None:
        super().__init__()
        self.first, self.wide = nn.Conv2d(3, channels, 1), nn.Conv2d(channels, 3 * channels, 1)
        self.second, self.last = nn.Conv2d(3 * channels, channels, 3, padding=1), nn.Conv2d(channels, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        start = torch.relu(self.first(x))
        return self.last(torch.relu(self.second(torch.tanh(self.wide(start))) + start))


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[FuncOp, int]]:
    """The functions that are planned without borders, with their arenas."""

    def choose(outlined: Outlined, _: object) -> None:
        outlined.func.attributes |= {CUT: IntegerAttr(0, i64), SAVES: ArrayAttr([StringAttr("deep")])}

    found: list[tuple[FuncOp, int]] = []
    real = compile.plan_both

    def plan(func: FuncOp, *given: Any) -> Any:
        made = real(func, *given)
        found.append((func.clone(), made.arena))
        return made

    monkeypatch.setattr(savings, "choose_savings", choose)
    monkeypatch.setattr(compile, "plan_both", plan)
    return found


def program() -> tuple[etir.Program, nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    model, x = Residual().eval(), torch.randn(2, 3, 15, 13)
    return etir.compile(torch.export.export(model, (x,)), target="etir", delegates=DELEGATES), model, x


def test_parts_over_a_residual(planned: list[tuple[FuncOp, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Less memory, eager's numbers, the same bits on two threads."""
    made, model, x = program()
    assert made.warnings == ()
    ((func, arena),) = planned
    assert sum(isinstance(op, BrgemmOp) and op.over is not None for op in func.body.block.ops) == 9
    (got,) = etir.runtime.load(made).forward(x)
    (two,) = etir.runtime.load(made, threads=2).forward(x)
    assert torch.equal(torch.as_tensor(got), torch.as_tensor(two))
    with torch.no_grad():
        torch.testing.assert_close(torch.as_tensor(got), model(x), rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(Brgemm, "in_place_always", lambda *_: ())
    program()
    assert arena < planned[1][1]


def test_places_beside_it_are_refused(planned: list[tuple[FuncOp, int]]) -> None:
    """A part would overwrite what the next one adds: the verifier knows it from the places alone."""
    program()
    ((func, arena),) = planned
    product = next(op for op in func.body.block.ops if isinstance(op, BrgemmOp) and op.over is not None)
    buffer = tile_plan.base_of(product.c).owner
    assert isinstance(buffer, BufferOp) and buffer.at is not None
    target = cpu("x86-64")
    choose_schedules(func, target)
    verify_function(func.clone(), target, None, arena)
    for distance in (64, 16):
        buffer.at = IntegerAttr(buffer.at.value.data + distance, i64)
        with pytest.raises(EtirError, match="E1167"):
            verify_function(func.clone(), target, None, arena + 1024)
