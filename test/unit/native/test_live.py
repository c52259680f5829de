"""What lives beside a group, and blocks of tiles that are as large as there is room for beside it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import etir
from etir.backends.native import savings
from etir.backends.native.live import live_bytes_at
from etir.backends.native.winograd import WinogradInputOp

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
    """Where an image is kept the tiles are few at a time; they are many where there is."""
    exported = torch.export.export(Net().eval(), (torch.randn(1, 8, 56, 56),))
    (tiled,) = functions_of(exported, here()[-1])
    blocks: dict[int, int] = {}
    for op in tiled.func.body.block.ops:
        if isinstance(op, WinogradInputOp):
            channels = op.result[-1]
            blocks[channels] = blocks.get(channels, 0) + 1
    assert 14 > blocks[64] > blocks[128]

    def memory(*delegates: str) -> int:
        made = etir.compile(exported, target="etir", delegates=delegates)
        return sum(sum(m.planned) + m.temp for m in made.runtime_memory().values())

    assert memory(f"native{{cpus={here()[-1]}}}") <= memory()
