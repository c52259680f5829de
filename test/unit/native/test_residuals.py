"""Residual blocks whose images are given back: sums over planes (saving ``residuals``)."""

from __future__ import annotations

from collections.abc import Sequence
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
NATIVE = f"native{{cpus={here()[-1]}}}"
FREE = NATIVE.replace("}", " arena=free}")


class Block(nn.Module):
    """A bottleneck: a window between two products, and what it begins with added, perhaps by a product of its own."""

    def __init__(self, channels: int, out: int, middle: int, stride: int = 1, **window: Any) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, middle, 1)
        self.second = nn.Conv2d(middle, middle, 3, stride, 1, **window)
        self.third = nn.Conv2d(middle, out, 1)
        self.beside = nn.Conv2d(channels, out, 1, stride) if (channels, 1) != (out, stride) else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = torch.relu(self.second(torch.relu(self.first(x))))
        return torch.relu(self.third(made) + self.beside(x))


class Backbone(nn.Module):
    """Blocks in stages, each of whose last images is given back."""

    def __init__(self, stages: Sequence[Sequence[nn.Module]], *, is_pooled: bool = False) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU())
        self.stages = nn.ModuleList(nn.Sequential(*stage) for stage in stages)
        self.is_pooled = is_pooled

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        given, x = [], self.stem(x)
        for stage in self.stages:
            x = stage(x)
            given.append(x)
        return [*given, x.mean((2, 3))] if self.is_pooled else given


def bottlenecks() -> list[list[nn.Module]]:
    """Stages of blocks, as in a ResNet-50."""
    first = [Block(16, 64, 16), Block(64, 64, 16), Block(64, 64, 16)]
    return [first, [Block(64, 128, 32, 2), Block(128, 128, 32)]]


def groups() -> list[list[nn.Module]]:
    """Blocks whose windows are of groups of channels, as in a ResNeXt."""
    return [[Block(16, 64, 32, groups=4), Block(64, 64, 32, groups=4)]]


def one_block() -> list[list[nn.Module]]:
    """The image that is added is the stem's, whose windows have steps."""
    return [[Block(16, 16, 8)]]


def joined() -> list[list[nn.Module]]:
    """An image that is added is joined with what is made of it, too."""

    class Joined(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block, self.after = Block(16, 16, 8), nn.Conv2d(32, 16, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.block(x)
            return torch.relu(self.after(torch.cat([y, torch.tanh(y)], 1)) + y)

    return [[Block(16, 16, 8), Joined()], [Block(16, 32, 8, 2)]]


def after_a_pool() -> list[list[nn.Module]]:
    """The image that is added is a pool's, of an image that is given back."""
    return [[nn.Identity()], [nn.MaxPool2d(3, 2, 1), Block(16, 16, 8), Block(16, 16, 8)], [Block(16, 64, 16)]]


STAGES = (bottlenecks, groups, one_block, joined, after_a_pool)


def results(program: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """What one thread gets, and two with the same bits."""
    one, two = ([torch.as_tensor(y) for y in etir.runtime.load(program, threads=n).forward(x)] for n in (1, 2))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    return one


@pytest.mark.parametrize("made", STAGES)
@pytest.mark.parametrize("examples", [1, 2])
@pytest.mark.parametrize("is_pooled", [False, True])
def test_sums_over_planes_are_eager_s(
    made: Any, examples: int, is_pooled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one thread and two; ``residuals`` alone changes nothing."""
    torch.manual_seed(0)
    module, x = Backbone(made(), is_pooled=is_pooled).eval(), torch.randn(examples, 3, 30, 41)

    def compiled(*names: str) -> Any:
        def choose(outlined: Outlined, _: object) -> None:
            outlined.func.attributes[SAVES] = ArrayAttr([*map(StringAttr, names)])

        monkeypatch.setattr(savings, "choose_savings", choose)
        return etir.compile(torch.export.export(module, (x,)), target="etir", delegates=[FREE])

    with torch.no_grad():
        expected = module(x)
    for names in (("planes", "residuals"), ("residuals",), ("planes", "residuals", "rows", "order")):
        program = compiled(*names)
        assert program.warnings == ()
        for result, want in zip(results(program, x), expected, strict=True):
            assert (result - want).abs().max() <= 2e-6 * want.abs().max(), names


def test_two_images_of_a_stage_are_not_there_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sums of a stage lie over each other, where the image that is given back is the last of them."""
    torch.manual_seed(0)
    module, x = Backbone(bottlenecks()).eval(), torch.randn(1, 3, 48, 48)
    sizes = []
    for names in (("planes",), ("planes", "residuals")):

        def choose(outlined: Outlined, _: object, names: Sequence[str] = names) -> None:
            outlined.func.attributes[SAVES] = ArrayAttr([*map(StringAttr, names)])

        monkeypatch.setattr(savings, "choose_savings", choose)
        program = etir.compile(torch.export.export(module, (x,)), target="etir", delegates=[FREE])
        sizes.append(read_blob(blobs_of(program.buffer)[0]).arena_bytes)
    two = 2 * 4 * 64 * 24 * 24
    assert sizes[0] >= two > sizes[1]


@pytest.mark.parametrize("made", STAGES)
def test_features_take_no_more_than_those_of_the_kernels(made: Any) -> None:
    """By default, with at most one operator left to the kernels."""
    torch.manual_seed(0)
    exported = torch.export.export(Backbone(made(), is_pooled=True).eval(), (torch.randn(1, 3, 48, 48),))
    kernels = etir.compile(exported, target="etir")
    program = etir.compile(exported, target="etir", delegates=[NATIVE])
    assert bytes_of(program) <= bytes_of(kernels)
    assert sum(len(backend.rejected) for backend in program.delegation.backends) <= 1
