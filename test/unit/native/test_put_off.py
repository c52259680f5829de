"""Savings that leave transformed tiles as they are come late in a large function that needs most memory for tiles."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import etir
from etir.backends.native import compile, savings
from etir.backends.native.errors import E1162
from etir.backends.native.functions import DIRECT
from etir.backends.native.savings import QUICK
from etir.backends.native.tried import Key, Tried

# pyright: reportPrivateUsage=false


class Transformed(nn.Module):
    """Convolutions by Winograd's algorithm, whose tiles take more than the images."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = (nn.Conv2d(48, 48, 3, padding=1) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.one(x))
        return self.three(torch.relu(self.two(y))) + y


Found = tuple[list[Key], int, Key]
"""What was made, in order, what code needs at the end, and what it has chosen."""


def searched(monkeypatch: pytest.MonkeyPatch, some_work: int, share: float = 1.0) -> Found:
    """The search where savings may be put off after so much work, for so much of the memory of the kernels."""
    found: list[Found] = []
    made, choose = savings._Choice._made, savings._Choice.choose

    def kept(self: savings._Choice) -> Tried:
        keys.append(self._key())
        return made(self)

    def chosen(self: savings._Choice) -> None:
        self.most = int(share * self.most)
        choose(self)
        found.append((list(keys), self.least, self._key()))

    def shared_objects(*given: object) -> list[bytes]:
        raise E1162.error("not compiled")

    keys: list[Key] = []
    with monkeypatch.context() as patched:
        patched.setattr(savings, "SOME_WORK", some_work)
        patched.setattr(savings._Choice, "_made", kept)
        patched.setattr(savings._Choice, "choose", chosen)
        patched.setattr(compile, "shared_objects", shared_objects)
        torch.manual_seed(0)
        exported = torch.export.export(Transformed().eval(), (torch.randn(1, 48, 16, 16),))
        etir.compile(exported, target="etir", delegates=["native{arena=free}"])
    (row,) = found
    return row


def is_direct(key: Key) -> bool:
    """Whether some images are not transformed."""
    is_large = key[1][(savings.CUT, DIRECT, savings.LATE, savings.ROOM).index(DIRECT)] != "None"
    return is_large or savings.FITTING in key[0]


def test_less_is_tried_for_the_same_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, early = searched(monkeypatch, savings.SOME_WORK), searched(monkeypatch, 0)
    assert usual[1:] == early[1:] and is_direct(early[2])
    assert len(early[0]) < len(usual[0])
    assert all(not key[0] & {*QUICK} for key in early[0])


def test_what_was_put_off_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where images that are not transformed are not enough, everything else has its turn after them."""
    keys, least, _ = searched(monkeypatch, 0, share=0.5)
    first = next(number for number, key in enumerate(keys) if is_direct(key))
    others = [number for number, key in enumerate(keys) if key[0] & {*QUICK}]
    assert others and min(others) > first
    assert least <= searched(monkeypatch, savings.SOME_WORK, share=0.5)[1]
