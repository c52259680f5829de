"""Convolutions that read planes and write planes (saving ``planes``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, i64

import etir
import etir.runtime
from etir.backends.api.interface import Outlined
from etir.backends.native import savings
from etir.backends.native.blob import read_blob
from etir.backends.native.functions import CUT, SAVES
from etir.memory_bound import bytes_of

from etir_testing.native.blobs import blobs_of
from etir_testing.native.images import here

pytestmark = pytest.mark.filterwarnings("ignore")
FREE = [f"native{{cpus={here()[-1]} arena=free}}"]


class Residual(nn.Module):
    """A convolution of what is made of an image, and the image added to it."""

    def __init__(self, channels: int = 16, *, is_long: bool = False, **window: Any) -> None:
        super().__init__()
        self.conv, self.is_long = nn.Conv2d(channels, channels, **window), is_long

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.conv(torch.tanh(x)) + x
        return torch.nn.functional.silu(made) if self.is_long else torch.relu(made)


def alone(*sizes: Any, transposed: bool = False, **window: Any) -> nn.Module:
    """A convolution and a batch norm."""
    norm = nn.BatchNorm2d(sizes[1])
    norm.running_mean, norm.running_var = torch.randn(sizes[1]), torch.rand(sizes[1]) + 0.5
    kind = nn.ConvTranspose2d if transposed else nn.Conv2d
    return nn.Sequential(kind(*sizes, **window), norm)


CASES: Mapping[str, tuple[Any, tuple[int, ...]]] = {
    "pixels": (lambda: alone(8, 40, 1), (2, 8, 9, 11)),
    "pixels with steps": (lambda: alone(8, 5, 1, 2), (1, 8, 9, 11)),
    "windows": (lambda: alone(6, 33, (2, 3)), (2, 6, 9, 11)),
    "windows with a border": (lambda: alone(6, 12, 3, padding=1), (1, 6, 9, 11)),
    "windows with gaps": (lambda: alone(6, 12, 3, padding=2, dilation=2), (1, 6, 9, 11)),
    "groups": (lambda: alone(15, 36, 3, padding=1, groups=3), (2, 15, 7, 9)),
    "one channel": (lambda: alone(1, 12, 3), (2, 1, 9, 11)),
    "short lines": (lambda: alone(6, 70, 3, padding=1), (2, 6, 5, 3)),
    "few pixels": (lambda: alone(400, 70, 1), (1, 400, 1, 2)),
    "transposed": (lambda: alone(6, 8, 4, 2, 1, transposed=True), (2, 6, 5, 7)),
    "transposed, with gaps": (lambda: alone(6, 33, 3, 3, 1, 2, transposed=True), (1, 6, 5, 7)),
    "an image is added": (lambda: Residual(kernel_size=3, padding=1), (2, 16, 9, 11)),
    "deep sums": (lambda: Residual(96, kernel_size=3, padding=1, groups=2), (1, 96, 4, 5)),
    "a long function": (lambda: Residual(is_long=True, kernel_size=1), (2, 16, 9, 11)),
}


def compiled(module: nn.Module, x: torch.Tensor, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program with some savings, without borders."""

    def choose(outlined: Outlined, _: object) -> None:
        outlined.func.attributes[SAVES] = ArrayAttr([*map(StringAttr, names)])
        outlined.func.attributes[CUT] = IntegerAttr(1, i64)

    monkeypatch.setattr(savings, "choose_savings", choose)
    return etir.compile(torch.export.export(module, (x,)), target="etir", delegates=FREE)


def check_results(program: Any, module: nn.Module, x: torch.Tensor) -> None:
    """The same bits with one thread and two, and what eager has within 2e-6 of the largest number."""
    with torch.no_grad():
        expected = pytree.tree_leaves(module(x))
    results = [etir.runtime.load(program, threads=n).forward(x) for n in (1, 2)]
    for one, two, want in zip(*results, expected, strict=True):
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(two))
        assert (torch.as_tensor(one) - want).abs().max() <= 2e-6 * want.abs().max()


@pytest.mark.parametrize("name", CASES)
def test_results_are_eager_s(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one thread and two, whatever the windows; the code needs less than without the saving."""
    torch.manual_seed(0)
    made, shape = CASES[name]
    module, x = made().eval(), torch.randn(shape)
    plain, program = (compiled(module, x, names, monkeypatch) for names in ((), ("planes",)))
    assert program.warnings == ()
    arenas = [read_blob(data).arena_bytes for one in (plain, program) for data in blobs_of(one.buffer)]
    assert arenas[1] < arenas[0]
    check_results(program, module, x)


class Feature(nn.Module):
    """An image that is given back, and what a reader makes of it."""

    def __init__(self, reader: nn.Module, producer: nn.Module | None = None) -> None:
        super().__init__()
        self.conv, self.reader = nn.Conv2d(3, 24, 5, 2, 2) if producer is None else producer, reader

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        image = torch.relu(self.conv(x))
        return image, torch.tanh(self.reader(image))


READERS: Mapping[str, Any] = {
    "windows with steps": lambda: nn.Conv2d(24, 12, 3, 2, 1),
    "pixels": lambda: nn.Conv2d(24, 7, 1),
    "windows for each channel": lambda: nn.Conv2d(24, 24, 3, 2, 1, groups=24),
    "largest numbers": lambda: nn.MaxPool2d(3, 2, 1),
    "means": lambda: nn.AvgPool2d(3, 2, 1),
    "means of what is inside": lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False),
    "a resize": lambda: nn.Upsample(scale_factor=0.5),
    "an adaptive pool": lambda: nn.AdaptiveAvgPool2d((3, 5)),
    "the mean of all": lambda: nn.AdaptiveAvgPool2d(1),
    "the largest of all": lambda: nn.Sequential(nn.AdaptiveMaxPool2d(1), nn.Conv2d(24, 5, 1)),
}


PRODUCERS: Mapping[str, Any] = {
    "a convolution": lambda: None,
    "a transposed convolution": lambda: nn.ConvTranspose2d(3, 24, 4, 2),
}


@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("names", [("planes",), ("planes", "rows")])
def test_images_that_are_given_back_are_read_of_planes(
    name: str, producer: str, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    module, x = Feature(READERS[name](), PRODUCERS[producer]()).eval(), torch.randn(2, 3, 37, 50)
    program = compiled(module, x, names, monkeypatch)
    assert program.warnings == ()
    check_results(program, module, x)


@pytest.mark.parametrize("name", ["windows for each channel", "largest numbers", "means"])
def test_rows_are_read_of_planes_and_written_to_planes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No image with its channels side by side is there: rows of it are in a ring."""
    module, x = Feature(READERS[name]()).eval(), torch.randn(1, 3, 66, 60)
    program = compiled(module, x, ("planes", "rows"), monkeypatch)
    (arena,) = (read_blob(data).arena_bytes for data in blobs_of(program.buffer))
    with torch.no_grad():
        given_back = sum(4 * result.numel() for result in module(x))
    assert arena <= given_back + 4 * x.numel()


@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("name", ["windows with steps", "pixels", "largest numbers"])
def test_programs_that_give_them_back_need_less(name: str, producer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = Feature(READERS[name](), PRODUCERS[producer]()).eval(), torch.randn(1, 3, 37, 50)
    programs = (compiled(module, x, names, monkeypatch) for names in (("rows",), ("planes", "rows")))
    before, after = (read_blob(data).arena_bytes for one in programs for data in blobs_of(one.buffer))
    assert after < before


class Resized(nn.Module):
    """A resized image that is given back, and what a convolution makes of it."""

    def __init__(self, **resize: Any) -> None:
        super().__init__()
        self.first, self.resize = nn.Conv2d(3, 12, 3, padding=1), nn.Upsample(**resize)
        self.reader = nn.Conv2d(12, 5, 3, 2, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        image = self.resize(self.first(x))
        return image, torch.tanh(self.reader(image))


RESIZES: Mapping[str, Mapping[str, Any]] = {
    "nearest": {"scale_factor": 2},
    "nearest of rows": {"scale_factor": (3, 1)},
    "bilinear": {"scale_factor": 2, "mode": "bilinear"},
    "bilinear, corners on corners": {"size": (31, 40), "mode": "bilinear", "align_corners": True},
}


@pytest.mark.parametrize("name", RESIZES)
@pytest.mark.parametrize("names", [("planes",), ("planes", "rows")])
def test_resized_images_that_are_given_back_are_planes(
    name: str, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, x = Resized(**RESIZES[name]).eval(), torch.randn(2, 3, 17, 22)
    plain, program = (compiled(module, x, some, monkeypatch) for some in ((), names))
    before, after = (read_blob(data).arena_bytes for one in (plain, program) for data in blobs_of(one.buffer))
    assert after < before
    check_results(program, module, x)


class Gated(nn.Module):
    """Squeeze and excitation, a convolution, and the image added to it."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.last = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1), nn.Conv2d(16, 16, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = torch.sigmoid(self.two(torch.relu(self.one(x.mean((2, 3), keepdim=True)))))
        return self.last(x * gate) + x


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (alone(16, 16, 4, 2, 1, transposed=True), (1, 16, 20, 28)),
        (Gated(), (1, 16, 20, 28)),
        (nn.Sequential(alone(5, 7, 3, 2, 1), alone(7, 3, 3, 2, 1, 1, transposed=True)), (3, 5, 13, 17)),
        (Feature(nn.Conv2d(24, 24, 3, 2, 1)), (1, 3, 96, 96)),
        (Feature(nn.Conv2d(24, 24, 3, 2, 1), nn.ConvTranspose2d(3, 24, 4, 2)), (1, 3, 40, 40)),
        (Feature(nn.Conv2d(24, 24, 3, 2, 1, groups=24)), (1, 3, 40, 40)),
        (Feature(nn.Conv2d(24, 24, 3, 2, 1, groups=24)), (1, 3, 160, 160)),
        (Feature(nn.MaxPool2d(3, 2, 1)), (1, 3, 40, 40)),
        (Feature(nn.AvgPool2d(2)), (1, 3, 40, 40)),
        (Feature(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10))), (1, 3, 40, 40)),
        (Resized(scale_factor=2), (1, 3, 40, 40)),
        (Resized(scale_factor=2, mode="bilinear"), (1, 3, 40, 40)),
    ],
    ids=[
        "transposed",
        "squeeze and excitation",
        "encoder and decoder",
        "a feature that is read on",
        "a transposed feature that is read on",
        "a feature that windows for each channel read",
        "a larger one",
        "a feature whose largest numbers are taken",
        "a feature whose means are taken",
        "features and logits",
        "a feature of pixels that is read on",
        "a resized feature that is read on",
    ],
)
def test_small_programs_need_no_more(module: nn.Module, shape: tuple[int, ...]) -> None:
    """All of their work is code, and no image is there twice."""
    exported = torch.export.export(module.eval(), (torch.randn(shape),))
    program = etir.compile(exported, target="etir", delegates=["native"])
    assert program.delegation is not None
    (backend,) = program.delegation.backends
    assert len(backend.partitions) == 1 and not backend.rejected
    assert bytes_of(program) <= bytes_of(etir.compile(exported, target="etir"))
