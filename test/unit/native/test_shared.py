"""Joins of images that share memory where it is short, and readers of images that lie in what they are joined to."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, i64

import etir
import etir.runtime
from etir.backends.api.interface import Outlined
from etir.backends.native import savings
from etir.backends.native.blob import read_blob
from etir.backends.native.functions import CUT, SAVES
from etir.backends.native.shared import SHARED
from etir.memory_bound import bytes_of

from etir_testing.native.blobs import blobs_of

FREE = ["native{cpus=x86-64 arena=free}"]


class Dense(nn.Module):
    """Layers that join what all layers before them have made."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 8, 1), nn.Conv2d(24, 4, 1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(8 + 4 * n) for n in range(4))
        self.layers = nn.ModuleList(nn.Conv2d(8 + 4 * n, 4, 3, padding=1) for n in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = [torch.relu(self.first(x))]
        for norm, layer in zip(self.norms, self.layers, strict=True):
            made.append(layer(torch.relu(norm(torch.cat(made, 1)))))
        return self.last(torch.cat(made, 1))


class Read(nn.Module):
    """What is joined is read before by a layer that makes the other part."""

    def __init__(self, layer: nn.Module, wide: int = 24) -> None:
        super().__init__()
        self.first, self.layer, self.last = nn.Conv2d(3, 12, 1), layer, nn.Conv2d(wide, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        part = torch.relu(self.first(x))
        return self.last(torch.cat([part, self.layer(part)], 1))


class Joins(nn.Module):
    """Four images, joined in some way."""

    def __init__(self, join: Callable[..., tuple[torch.Tensor, ...]]) -> None:
        super().__init__()
        self.join = join
        self.layers = nn.ModuleList(nn.Conv2d(n, 8, 3, padding=1) for n in (3, 8, 8, 8))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        made = []
        for layer in self.layers:
            x = torch.relu(layer(x))
            made.append(x)
        return self.join(*made)


def read() -> dict[str, nn.Module]:
    """Models whose images are read where they are joined."""
    torch.manual_seed(0)
    return {
        "dense": Dense(),
        "depthwise": Read(nn.Conv2d(12, 12, 3, padding=1, groups=12)),
        "windows": Read(nn.Conv2d(12, 12, 3, padding=1)),
        "pixels": Read(nn.Conv2d(12, 12, 1)),
        "grouped": Read(nn.Conv2d(12, 24, 3, padding=1, groups=2), 36),
        "small groups": Read(nn.Conv2d(12, 12, 3, padding=1, groups=6)),
        "transposed": Read(nn.ConvTranspose2d(12, 12, 3, padding=1)),
        "dilated": Read(nn.Conv2d(12, 12, 3, padding=2, dilation=2)),
        "pool": Read(nn.MaxPool2d(3, 1, 1)),
        "mean": Read(nn.AvgPool2d(3, 1, 1)),
    }


def joined() -> dict[str, Callable[..., tuple[torch.Tensor, ...]]]:
    """Joins of four images."""
    return {
        "ends alike": lambda a, b, c, d: (torch.cat([b, c, d], 1).tanh(), torch.cat([a, b, c, d], 1).sigmoid()),
        "crossed": lambda a, b, c, d: (torch.cat([b, a], 1).tanh(), torch.cat([a, b, c], 1) + 1, d.tanh()),
        "twice": lambda a, b, c, d: (torch.cat([a, a, b], 1).tanh(), torch.cat([a, b], 1).sigmoid(), c, d.tanh()),
        "rows": lambda a, b, c, d: (torch.cat([a, b], 2).tanh(), torch.cat([a, b, c], 2).sigmoid(), d.tanh()),
        "other dims": lambda a, b, c, d: (torch.cat([a, b], 2).tanh(), torch.cat([a, b, c], 1).sigmoid(), d.tanh()),
        "returned": lambda a, b, c, d: (torch.cat([a, b], 1), torch.cat([a, b, c], 1), d.tanh()),
        "of a join": lambda a, b, c, d: (
            (inner := torch.cat([a, b], 1)).tanh(),
            torch.cat([inner, c], 1).sigmoid(),
            torch.cat([inner, c, d], 1).exp(),
        ),
    }


def compiled(module: nn.Module, x: torch.Tensor, monkeypatch: pytest.MonkeyPatch, cut: int | None, *names: str) -> int:
    """The bytes that code needs which saves in these ways; it computes what eager does."""

    def choose(outlined: Outlined, _: object) -> None:
        outlined.func.attributes[SAVES] = ArrayAttr([*map(StringAttr, names)])
        if cut is not None:
            outlined.func.attributes[CUT] = IntegerAttr(cut, i64)

    monkeypatch.setattr(savings, "choose_savings", choose)
    program = etir.compile(torch.export.export(module.eval(), (x,)), target="etir", delegates=FREE)
    assert program.warnings == ()
    with torch.no_grad():
        wanted = module(x)
    for threads in (1, 2):
        found = etir.runtime.load(program, threads=threads).forward(x)
        for one, other in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            torch.testing.assert_close(torch.as_tensor(one), other, rtol=1e-5, atol=1e-5)
    return sum(read_blob(data).arena_bytes for data in blobs_of(program.buffer))


@pytest.mark.parametrize("cut", [None, 0])
@pytest.mark.parametrize("name", list(read()))
def test_images_are_read_where_they_are_joined(name: str, cut: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code needs less memory where windows need no border, no more where they have one of their own, and computes the
    same.
    """
    module, x = read()[name], torch.randn(2, 3, 14, 14)
    before, after = (compiled(module, x, monkeypatch, cut, *names) for names in ((), (SHARED,)))
    assert after <= before and (after < before or cut is None or name == "mean")


@pytest.mark.parametrize("name", list(joined()))
def test_joins(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Joins that begin or end alike, that have images in another order, twice or along another dim."""
    torch.manual_seed(0)
    compiled(Joins(joined()[name]), torch.randn(2, 3, 9, 9), monkeypatch, None, SHARED)


def test_a_dense_block_takes_what_the_kernels_take() -> None:
    """It is chosen where code would need more memory."""
    torch.manual_seed(0)
    exported = torch.export.export(Dense().eval(), (torch.randn(1, 3, 40, 40),))
    made, plain = (etir.compile(exported, target="etir", **o) for o in ({"delegates": ["native{cpus=x86-64}"]}, {}))
    assert bytes_of(made) <= bytes_of(plain)


def test_a_choice_that_has_not_been_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Savings that others are tried with, as images without borders, may not have been tried by themselves."""
    answers: list[bool] = []

    def choose(choice: savings._Choice) -> None:
        choice.func.attributes[CUT] = IntegerAttr(0, i64)
        answers.append(choice._may_change("over"))
        del choice.func.attributes[CUT]

    monkeypatch.setattr(savings._Choice, "choose", choose)
    etir.compile(torch.export.export(Dense().eval(), (torch.randn(1, 3, 14, 14),)), target="etir", delegates=["native"])
    assert answers
