"""Copies of operations are the same as what they were copied from, and stay apart from it."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from xdsl.dialects.builtin import ModuleOp, StringAttr, UnknownLoc
from xdsl.ir import Operation

import etir
from etir.dialects.copying import copy_of, described, exact_copy, is_same
from etir.dialects.text import print_module
from etir.dialects.verify import verify_module
from etir.passes.infra.instrumentation import Instrument, PassRun, watching


class Loops(nn.Module):
    """A loop, whose method has several blocks at the end, and a value that is used by many."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        def again(i: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return i < n.sum()

        def step(i: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return i + 1, y * x + y

        _, y = torch.while_loop(again, step, (torch.zeros((), dtype=torch.int64), x))
        return torch.relu(y + x) + x


class _Modules(Instrument):
    def __init__(self) -> None:
        super().__init__()
        self.copies: list[tuple[ModuleOp, ModuleOp, str]] = []

    def after_pass(self, run: PassRun, module: ModuleOp) -> None:
        copy = exact_copy(module)
        assert is_same(copy, module)
        verify_module(copy)
        self.copies.append((copy, copy_of(module), print_module(module, locations=True)))


@pytest.fixture(scope="module")
def modules() -> list[tuple[ModuleOp, ModuleOp, str]]:
    seen = _Modules()
    program = torch.export.export(Loops(), (torch.randn(3), torch.ones(2, dtype=torch.int64)))
    with watching(seen):
        etir.compile(program, target="etir")
    return seen.copies


def test_copies_have_the_same_text(modules: list[tuple[ModuleOp, ModuleOp, str]]) -> None:
    assert any(op.successors for op in modules[-1][0].walk())
    for exact, copy, text in modules:
        assert print_module(exact, locations=True) == text
        assert print_module(copy, locations=True) == text
        assert is_same(copy, exact.clone())


def _first(module: ModuleOp, name: str) -> Operation:
    return next(op for op in module.walk() if op.name == name)


def test_what_differs_is_not_the_same(modules: list[tuple[ModuleOp, ModuleOp, str]]) -> None:
    module = next(exact for exact, _, text in modules if "edge.aten.relu" in text)
    other = exact_copy(module)
    _first(other, "edge.aten.relu.default").attributes["a"] = StringAttr("b")
    assert not is_same(module, other)
    other = exact_copy(module)
    _first(other, "edge.aten.relu.default").location = UnknownLoc()
    assert not is_same(module, other)
    other = exact_copy(module)
    _first(other, "edge.aten.relu.default").results[0].name_hint = "other"
    assert not is_same(module, other)
    other = exact_copy(module)
    relu = _first(other, "edge.aten.relu.default")
    relu.operands = [*relu.operands]
    assert is_same(module, other)
    used = next(
        v for op in other.walk() for r in op.regions for b in r.blocks for v in b.args if v.uses.get_length() > 1
    )
    last = [*used.uses][-1]
    last.operation.operands = [*last.operation.operands]
    assert not is_same(module, other), "its uses are in another order"


def test_what_comes_from_elsewhere_is_the_same_without_locations(
    modules: list[tuple[ModuleOp, ModuleOp, str]],
) -> None:
    moved = exact_copy(modules[0][0])
    for op in moved.walk():
        op.location = UnknownLoc()
    assert not is_same(moved, modules[0][0])
    assert described(moved, with_locations=False) == described(modules[0][0], with_locations=False)
