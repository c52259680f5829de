"""Savings that nobody asks for change nothing (``asked.py``), and other schedules of proven functions are looked at."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp

import etir
from etir import memory_bound
from etir.backends.native import compile, savings
from etir.backends.native.compile import rewritten_function
from etir.backends.native.cpu import cpu
from etir.backends.native.errors import E1162
from etir.backends.native.functions import CUT, SAVES, saved
from etir.backends.native.passes.tile_schedule import choose_schedules
from etir.backends.native.passes.verify_tile import Proven, problems
from etir.backends.native.tile import BrgemmOp
from etir.backends.native.tried import Known
from etir.dialects.text import print_module

from etir_testing.native.functions import functions_of
from etir_testing.native.small import Small


class Joined(nn.Module):
    """Images with borders that are joined, a sum over one of them, and rows that are cut of what is made of them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 1)
        self.last, self.deep = nn.Conv2d(32, 8, 3, padding=1), nn.Conv2d(8, 8, 3, groups=8, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        y = torch.relu(self.last(torch.cat([x, torch.relu(self.second(x)) + x], 1)))
        return torch.relu(self.deep(y)) + torch.sigmoid(y) * y[:, :1]


class Attends(nn.Module):
    """Attention of two examples, with keys, values and queries of one product."""

    def __init__(self) -> None:
        super().__init__()
        self.all, self.after = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.all(x).reshape(2, 40, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        found = nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.after(found.transpose(1, 2).reshape(2, 40, 32))


class Branches(nn.Module):
    """Convolutions of one image that are added up."""

    def __init__(self) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Conv2d(3, 16, 3, padding=1) for _ in range(3))
        self.last = nn.Conv2d(16, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one, two, three = (branch(x) for branch in self.branches)
        return self.last(torch.relu(one + two + three))


CASES = {
    "joined": (Joined, (1, 3, 20, 20)),
    "attends": (Attends, (2, 40, 32)),
    "branches": (Branches, (1, 3, 20, 20)),
}


def text(func: FuncOp) -> str:
    """A function, but for what it is said to save."""
    func.attributes.pop(SAVES, None)
    return print_module(ModuleOp([func]))


def compiled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose the savings of a case; that there is no code is a warning."""

    def shared_objects(*given: object) -> list[bytes]:
        raise E1162.error("not compiled")

    monkeypatch.setattr(compile, "shared_objects", shared_objects)
    torch.manual_seed(0)
    build, shape = CASES[name]
    etir.compile(torch.export.export(build().eval(), (torch.randn(*shape),)), target="etir", delegates=["native"])


@pytest.mark.parametrize("name", list(CASES))
def test_what_nobody_asks_for_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With borders and without, and with some of the other savings."""
    seen: list[str] = []

    def choose(self: savings._Choice) -> None:  # pyright: ignore[reportPrivateUsage]
        names = (*savings.QUICK, "panels")
        for cut in (None, IntegerAttr(1, i64)):
            self.func.attributes.pop(CUT, None)
            if cut is not None:
                self.func.attributes[CUT] = cut
            for first in ((), *((one,) for one in names[::3])):
                self._with(first)
                tried = self._made()
                before = text(rewritten_function(self._lowered(), self.func, self.target))
                for more in names:
                    if more not in (*first, *tried.asked):
                        self._with((*first, more))
                        assert text(rewritten_function(self._lowered(), self.func, self.target)) == before, more
                        seen.append(more)
        self._with(())
        self.func.attributes.pop(CUT, None)

    monkeypatch.setattr(savings._Choice, "choose", choose)  # pyright: ignore[reportPrivateUsage]
    compiled(name, monkeypatch)
    assert len(seen) > 20


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize("share", [0, 0.6, 0.9])
def test_the_choice_is_that_of_all_functions(name: str, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known without making a function is what making it would say. It is less effort, which is not counted
    here: with as many functions tried.
    """
    monkeypatch.setattr(memory_bound, "MOST_EFFORT", sys.maxsize)
    found: list[tuple[object, ...]] = []
    choice, choose = savings._Choice, savings._Choice.choose  # pyright: ignore[reportPrivateUsage]

    def chosen(self: savings._Choice) -> None:  # pyright: ignore[reportPrivateUsage]
        self.most = int(self.least * share)
        choose(self)
        found.append((self.least, saved(self.func), *map(str, self.func.attributes.values())))
        for attribute in savings.CHOSEN:
            self.func.attributes.pop(attribute, None)

    monkeypatch.setattr(choice, "choose", chosen)
    compiled(name, monkeypatch)
    count = len(found)
    monkeypatch.setattr(Known, "_same", lambda self, key: None)
    monkeypatch.setattr(Known, "_planned", lambda self, key: None)
    compiled(name, monkeypatch)
    assert count and found[:count] == found[count:]


def test_another_schedule_is_looked_at() -> None:
    """Of a function of which the rest has been proven."""
    (tiled,) = functions_of(torch.export.export(Small().eval(), (torch.randn(1, 3, 9, 7),)))
    func, target, proven = tiled.func.clone(), cpu("x86-64"), Proven()
    choose_schedules(func, target)
    assert not problems(func, target, tiled.shapes, tiled.arena_bytes, proven) and proven.walk is not None
    assert not problems(func, target, tiled.shapes, tiled.arena_bytes, proven)
    product = next(op for op in func.body.block.ops if isinstance(op, BrgemmOp))
    product.schedule = DictionaryAttr({"tile": ArrayAttr([IntegerAttr(100, i64), IntegerAttr(2, i64)])})
    assert {p.id.id for p in problems(func, target, tiled.shapes, tiled.arena_bytes, proven)} == {"E1164"}
