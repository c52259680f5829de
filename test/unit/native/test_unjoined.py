"""Convolutions of what is joined as sums of those of the parts (saving ``unjoined``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import nn
from xdsl.dialects.builtin import ArrayAttr, StringAttr

import etir
import etir.runtime
from etir.backends.api.interface import Outlined
from etir.backends.native import savings
from etir.backends.native.blob import read_blob
from etir.backends.native.functions import SAVES
from etir.memory_bound import bytes_of

from etir_testing.native.blobs import blobs_of
from etir_testing.native.images import here

pytestmark = pytest.mark.filterwarnings("ignore")
FREE = [f"native{{cpus={here()[-1]} arena=free}}"]


class Joined(nn.Module):
    """Two images or more are joined for a convolution, with what follows it; ``kept``: a part is read besides."""

    def __init__(self, parts: int = 2, channels: int = 16, kept: bool = False, **window: Any) -> None:
        super().__init__()
        self.first = nn.ModuleList(nn.Conv2d(8, channels + 3 * n, 1) for n in range(parts))
        size = sum(channels + 3 * n for n in range(parts))
        self.last = nn.Conv2d(size, 12, **window)
        self.beside = nn.Conv2d(channels, 12, **window) if kept else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        images = [torch.relu(one(x)) for one in self.first]
        made = self.last(torch.cat(images, 1)) * 0.5
        return torch.nn.functional.silu(made if self.beside is None else made + self.beside(images[0]))


class Signals(nn.Module):
    """The same of one dim."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv1d(8, 24, 3, padding=1), nn.Conv1d(8, 24, 1)
        self.last = nn.Conv1d(48, 16, 5, padding=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.last(torch.cat([torch.tanh(self.one(x)), torch.tanh(self.two(x))], 1)))


CASES: Mapping[str, tuple[Any, tuple[int, ...]]] = {
    "pixels": (lambda: Joined(kernel_size=1), (2, 8, 9, 11)),
    "steps of pixels": (lambda: Joined(kernel_size=1, stride=2), (1, 8, 9, 11)),
    "windows with steps": (lambda: Joined(kernel_size=3, stride=2, padding=1), (2, 8, 12, 13)),
    "windows without a border": (lambda: Joined(kernel_size=(2, 3)), (1, 8, 9, 11)),
    "windows with gaps": (lambda: Joined(kernel_size=3, padding=2, dilation=2), (1, 8, 9, 11)),
    "four parts": (lambda: Joined(4, 5, kernel_size=(1, 5), padding=(0, 2)), (1, 8, 6, 9)),
    "eight parts": (lambda: Joined(8, 3, kernel_size=3, padding=1), (1, 8, 6, 9)),
    "a part that is kept": (lambda: Joined(kept=True, kernel_size=2, stride=2), (1, 8, 8, 10)),
    "signals": (Signals, (2, 8, 21)),
}


def compiled(module: nn.Module, x: torch.Tensor, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program with some savings."""

    def choose(outlined: Outlined, _: object) -> None:
        outlined.func.attributes[SAVES] = ArrayAttr([*map(StringAttr, names)])

    monkeypatch.setattr(savings, "choose_savings", choose)
    return etir.compile(torch.export.export(module, (x,)), target="etir", delegates=FREE)


@pytest.mark.parametrize("name", CASES)
def test_results_are_eager_s(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one thread and two, whatever the windows; the same program without the saving has another code."""
    torch.manual_seed(0)
    made, shape = CASES[name]
    module, x = made().eval(), torch.randn(shape)
    plain, program = (compiled(module, x, names, monkeypatch) for names in ((), ("unjoined",)))
    assert program.warnings == () and plain.buffer != program.buffer
    with torch.no_grad():
        want = module(x)
    one, two = (etir.runtime.load(program, threads=n).forward(x)[0] for n in (1, 2))
    assert torch.equal(torch.as_tensor(one), torch.as_tensor(two))
    assert (torch.as_tensor(one) - want).abs().max() <= 2e-6 * want.abs().max()


@pytest.mark.parametrize(
    "module",
    [
        Joined(9, 4, kernel_size=1),  # more parts than are worth it
        Joined(2, 8, kernel_size=1),  # a result that is not much smaller
    ],
    ids=["many parts", "a large result"],
)
def test_what_stays_joined(module: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(1, 8, 9, 11)
    plain, program = (compiled(module.eval(), x, names, monkeypatch) for names in ((), ("unjoined",)))
    assert plain.buffer == program.buffer


class Stem(nn.Module):
    """The first layers of HGNet v2: an image and its largest neighbors are joined to what is made of it."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 32, 3, 2, 1), nn.Conv2d(32, 16, 2)
        self.three, self.last = nn.Conv2d(16, 32, 2), nn.Conv2d(64, 32, 3, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pad = torch.nn.functional.pad
        x = pad(torch.relu(self.one(x)), (0, 1, 0, 1))
        made = torch.relu(self.three(pad(torch.relu(self.two(x)), (0, 1, 0, 1))))
        return torch.relu(self.last(torch.cat([nn.functional.max_pool2d(x, 2, 1), made], 1)))


def test_the_whole_is_never_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The join begins while the image is there that both of its parts are made of: code needs more than the kernels
    with it, and no more without.
    """
    torch.manual_seed(0)
    module, x = Stem().eval(), torch.randn(1, 3, 64, 64)
    exported = torch.export.export(module, (x,))
    program = etir.compile(exported, target="etir", delegates=["native"])
    assert bytes_of(program) <= bytes_of(etir.compile(exported, target="etir"))
    with torch.no_grad():
        want = module(x)
    (got,) = etir.runtime.load(program).forward(x)
    assert (torch.as_tensor(got) - want).abs().max() <= 1e-6 * want.abs().max()
    plain, saved = (compiled(module, x, names, monkeypatch) for names in ((), ("unjoined",)))
    arenas = [read_blob(data).arena_bytes for made in (plain, saved) for data in blobs_of(made.buffer)]
    assert arenas[1] < arenas[0]
