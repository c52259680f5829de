"""What lives beside a group, and blocks of tiles that are as large as there is room for beside it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import etir
import etir.runtime
from etir import memory_bound
from etir.backends.api.memory import DelegateNeeds
from etir.backends.native import savings
from etir.backends.native.functions import saved
from etir.backends.native.live import live_bytes_at
from etir.backends.native.lowering.winograd import AT_ONCE, LEAST_AT_ONCE, REASON
from etir.backends.native.winograd import WinogradInputOp, WinogradOp

from etir_testing.native.functions import functions_of
from etir_testing.native.images import here

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(nn.Module):
    """Two bottlenecks: the image that the first one keeps leaves little room beside it, that of the second one much."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Conv2d(8, 352, 1), nn.Conv2d(352, 256, 1)
        self.down = nn.Conv2d(256, 64, 1)
        self.window = nn.Conv2d(64, 64, 3, padding=1)
        self.up = nn.Conv2d(64, 256, 1)
        self.pool = nn.AvgPool2d(2)
        self.later = nn.Conv2d(256, 128, 1)
        self.windows = nn.Conv2d(128, 128, 3, padding=1)
        self.last = nn.Conv2d(128, 256, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.narrow(self.wide(x).relu()).relu()
        x = x + self.up(self.window(self.down(x).relu()).relu())
        x = self.pool(x)
        return x + self.last(self.windows(self.later(x).relu()).relu())


def test_what_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window is computed while its image, its result and what is added later live."""
    found: list[int] = []

    def look(outlined: object, *_: object) -> None:
        func = outlined.func  # type: ignore[attr-defined]
        found.extend(live_bytes_at(func).values())

    monkeypatch.setattr(savings, "choose_savings", look)
    functions_of(torch.export.export(Net().eval(), (torch.randn(1, 8, 56, 56),)), here()[-1])
    pixels = 4 * 56 * 56
    kept, image, window = 256 * pixels, 64 * pixels, 64 * pixels
    assert kept + image + window in found
    assert max(found) == 352 * pixels + kept


def test_blocks_are_as_large_as_there_is_room_for() -> None:
    """Tiles of small weights are as many at a time as are quick where there is room; others are blocks of rows."""
    exported = torch.export.export(Net().eval(), (torch.randn(1, 8, 56, 56),))
    (tiled,) = functions_of(exported, here()[-1])
    ops = [*tiled.func.body.block.ops]
    (window,) = (op for op in ops if isinstance(op, WinogradOp))
    assert window.at_once == AT_ONCE
    assert 14 > len([op for op in ops if isinstance(op, WinogradInputOp)]) > 0

    def memory(*delegates: str) -> int:
        made = etir.compile(exported, target="etir", delegates=delegates)
        return sum(sum(m.planned) + m.temp for m in made.runtime_memory().values())

    assert memory(f"native{{cpus={here()[-1]}}}") <= memory()


def check(module: nn.Module, exported: torch.export.ExportedProgram, x: torch.Tensor) -> None:
    """All of it is code that takes no more memory than the kernels, and computes what float64 gives."""
    program = etir.compile(exported, target="etir", delegates=[f"native{{cpus={here()[-1]}}}"])
    assert not any(found.rejected for found in program.delegation.backends)
    plain = etir.compile(exported, target="etir")
    needs = [sum(sum(m.planned) + m.temp for m in made.runtime_memory().values()) for made in (program, plain)]
    assert needs[0] <= needs[1]
    got = torch.as_tensor(etir.runtime.load(program).forward(x)[0])
    with torch.no_grad():
        wanted = module.double()(x.double())
    assert (got.double() - wanted).abs().max() <= 2e-6 * wanted.abs().max()


class Upsampler(nn.Module):
    """EDSR in small: the result of its last but one window is four times as large as images are before."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.tail = nn.Conv2d(3, 64, 3, padding=1), nn.Conv2d(64, 3, 3, padding=1)
        self.first, self.second = nn.Conv2d(64, 64, 3, padding=1), nn.Conv2d(64, 64, 3, padding=1)
        self.up = nn.Sequential(nn.Conv2d(64, 256, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.head(x)
        y = x + self.second(self.first(x).relu())
        return self.tail(self.up(x + y))


def test_images_without_room_for_tiles_leave_others_theirs() -> None:
    """One large window is multiplied as it is, and says why; the others, of images as large, are by tiles."""
    torch.manual_seed(0)
    module, x = Upsampler().eval(), torch.randn(1, 3, 24, 32)
    exported = torch.export.export(module, (x,))
    (tiled,) = functions_of(exported, here()[-1])
    ops = [*tiled.func.body.block.ops]
    windows = [op for op in ops if isinstance(op, WinogradOp)]
    assert len(windows) == 2 and all(LEAST_AT_ONCE <= op.at_once < AT_ONCE for op in windows)
    reasons = {str(op.attributes[REASON]) for op in ops if REASON in op.attributes}
    assert any("no room for its tiles" in reason for reason in reasons)
    check(module, exported, x)


class Skip(nn.Module):
    """A level of a U-Net: what is joined is the largest that lives, with the result of the window that reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1)
        self.below, self.up = nn.Conv2d(32, 64, 3, padding=1), nn.ConvTranspose2d(64, 32, 2, 2)
        self.joined, self.last = nn.Conv2d(64, 32, 3, padding=1), nn.Conv2d(32, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.second(self.first(x).relu()).relu()
        y = self.up(self.below(nn.functional.max_pool2d(x, 2)).relu())
        return self.last(self.joined(torch.cat([y, x], 1)).relu())


def test_windows_of_what_is_joined_leave_others_their_tiles() -> None:
    """The window after the join has no room for tiles, and is found together with savings for the join."""
    torch.manual_seed(0)
    module, x = Skip().eval(), torch.randn(1, 3, 64, 64)
    exported = torch.export.export(module, (x,))
    (tiled,) = functions_of(exported, here()[-1])
    ops = [*tiled.func.body.block.ops]
    assert any(isinstance(op, WinogradOp) for op in ops)
    assert any("no room for its tiles" in str(op.attributes.get(REASON)) for op in ops)
    check(module, exported, x)


class Levels(nn.Module):
    """A U-Net of two levels and its bottom, with two windows each."""

    def __init__(self) -> None:
        super().__init__()

        def two(c: int, k: int) -> nn.Sequential:
            first, second = nn.Conv2d(c, k, 3, padding=1), nn.Conv2d(k, k, 3, padding=1)
            return nn.Sequential(first, nn.ReLU(), second, nn.ReLU())

        self.down = nn.ModuleList([two(3, 64), two(64, 128), two(128, 256)])
        self.raised = nn.ModuleList([nn.ConvTranspose2d(256, 128, 2, 2), nn.ConvTranspose2d(128, 64, 2, 2)])
        self.up = nn.ModuleList([two(256, 128), two(128, 64)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        high = self.down[0](x)
        middle = self.down[1](nn.functional.max_pool2d(high, 2))
        low = self.down[2](nn.functional.max_pool2d(middle, 2))
        middle = self.up[0](torch.cat([self.raised[0](low), middle], 1))
        return self.up[1](torch.cat([self.raised[1](middle), high], 1))


def test_savings_for_joins_that_leave_room_for_tiles_are_kept() -> None:
    """What is joined part by part leaves room for tiles; memory of the whole from its first part on leaves none."""
    exported = torch.export.export(Levels().eval(), (torch.randn(1, 3, 128, 128),))
    (tiled,) = functions_of(exported, here()[-1])
    assert {"tiles", "fitting", "unjoined"} <= set(saved(tiled.func)) and "shared" not in saved(tiled.func)
    assert sum(isinstance(op, WinogradInputOp | WinogradOp) for op in tiled.func.body.block.ops) > 6


def test_windows_by_tiles_are_as_much_work_as_their_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """By work it is decided what may be left to the kernels."""
    needs: list[DelegateNeeds] = []

    def noted(need: DelegateNeeds, room: int) -> list[int]:
        needs.append(need)
        return []

    monkeypatch.setattr(memory_bound, "cuts_of", noted)
    monkeypatch.setattr(savings, "choose_savings", lambda *_: None)
    exported = torch.export.export(nn.Conv2d(64, 64, 3, padding=1).eval(), (torch.randn(1, 64, 32, 32),))
    etir.compile(exported, target="etir", delegates=[f"native{{cpus={here()[-1]}}}"])
    assert max(step.work for step in needs[0].steps) == 16 * 256 * 64 * 64
