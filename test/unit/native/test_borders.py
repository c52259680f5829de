"""Images without a border: windows that go over the edge are computed in parts, where memory asks for it."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import nn
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.func import FuncOp

import etir
import etir.runtime
from etir.backends.api.interface import Outlined
from etir.backends.native import compile, savings
from etir.backends.native.cpu import Cpu
from etir.backends.native.frame import Frame
from etir.backends.native.functions import CUT
from etir.backends.native.sizes import size, valued
from etir.backends.native.tile import MapOp
from etir.backends.native.windows import edges
from etir.backends.reference.lowered import LoweredFunction
from etir.dialects.sym.expr import parse

from etir_testing.native.sized import Sized

CUT_ALL = {CUT: IntegerAttr(0, i64)}


def layers() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    torch.manual_seed(0)
    x = torch.randn(2, 5, 13, 11)
    return {
        "same": (nn.Conv2d(5, 33, 3, padding=1), x),
        "stride": (nn.Conv2d(5, 8, 7, 2, 3, bias=False), x),
        "wide": (nn.Conv2d(5, 8, (1, 5), padding=(0, 2)), x),
        "rows dilated": (nn.Conv2d(5, 8, 3, padding=(2, 1), dilation=(2, 1)), x),
        "transposed": (nn.ConvTranspose2d(5, 9, 4, 2, 1), x),
        "transposed by 3": (nn.ConvTranspose2d(5, 9, 5, 3, 2, output_padding=1), x),
        "pool": (nn.Sequential(nn.Conv2d(5, 16, 1), nn.MaxPool2d(3, 2, 1)), x),
        "pool, last window cut": (
            nn.Sequential(nn.Conv2d(5, 16, 1), nn.MaxPool2d(3, 2, ceil_mode=True)),
            x[..., :12, :],
        ),
        "residual": (Residual(), x),
        "dilated": (nn.Conv2d(5, 8, 3, padding=2, dilation=2), x),
        "dilated by 5": (nn.Conv2d(5, 8, 3, 2, padding=5, dilation=5), x),
        "signal": (nn.Conv1d(5, 8, 7, padding=3), x[:, :, 0]),
        "signal dilated": (nn.Conv1d(5, 8, 3, padding=4, dilation=4), x[:, :, 0]),
        "signal transposed": (nn.ConvTranspose1d(5, 8, 4, 2, 1), x[:, :, 0]),
        "groups": (nn.Sequential(nn.Conv2d(5, 32, 1), nn.Conv2d(32, 32, 3, padding=1, groups=2)), x),
        "groups dilated": (Grouped(8, nn.Conv2d(8, 12, 3, 2, padding=2, dilation=2, groups=4)), x),
        "channels": (Grouped(37, nn.Conv2d(37, 37, 3, padding=1, groups=37)), x),
        "channels, wide windows": (Grouped(72, nn.Conv2d(72, 72, 9, padding=4, groups=72)), x),
        "channels, windows as wide as the image": (Grouped(8, nn.Conv2d(8, 8, 13, padding=6, groups=8)), x),
        "channels, stride": (Grouped(16, nn.Conv2d(16, 16, (5, 4), (2, 3), (2, 1), groups=16)), x),
        "channels dilated": (Grouped(16, nn.Conv2d(16, 16, 3, padding=(3, 4), dilation=(3, 4), groups=16)), x),
        "channels outside": (Grouped(16, nn.Conv2d(16, 16, 3, padding=4, groups=16)), x),
        "channels of a signal": (nn.Conv1d(5, 5, 7, padding=3, groups=5), x[:, :, 0]),
        # These keep theirs.
        "mean": (nn.Sequential(nn.Conv2d(5, 16, 1), nn.AvgPool2d(3, 2, 1)), x),
        "windows outside": (nn.Conv2d(5, 8, 2, padding=3), x),
    }


IN_THE_GATE = ("same", "transposed", "pool", "mean", "signal dilated", "groups dilated", "channels, wide windows")
BORDERED = ("windows outside",)


class Grouped(nn.Module):
    """A convolution of groups of channels whose image something else reads, too: no ring has its rows."""

    def __init__(self, c: int, conv: nn.Conv2d) -> None:
        super().__init__()
        self.first, self.conv = nn.Conv2d(5, c, 1), conv

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        return torch.relu(self.conv(y)).sum((2, 3)) + y.amax((1, 2, 3))[:, None]


class Mixer(nn.Module):
    """Wide windows for each channel, added to what they read, and a product of channels."""

    def __init__(self, c: int, taps: int) -> None:
        super().__init__()
        self.across, self.mix = nn.Conv2d(c, c, taps, padding=taps // 2, groups=c), nn.Conv2d(c, c, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.mix(torch.relu(self.across(x)) + x))


class Residual(nn.Module):
    """A sum with what is read, after each product."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(5, 5, 3, padding=1), nn.Conv2d(5, 5, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(torch.relu(self.first(x) + x)) + x)


@pytest.mark.parametrize(
    "name", [n if n in IN_THE_GATE else pytest.param(n, marks=pytest.mark.nightly) for n in layers()]
)
def test_parts_are_the_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What eager gives, the same bits with two threads, and no image is filled."""
    fills: list[int] = []
    lower = compile.tile_function

    def lowered(func: FuncOp, target: Cpu) -> FuncOp:
        made = lower(func, target)
        fills.append(sum(isinstance(op, MapOp) and not op.inputs for op in made.body.block.ops))
        return made

    def all_cut(outlined: Outlined, _: object) -> None:
        outlined.func.attributes[CUT] = IntegerAttr(0, i64)

    monkeypatch.setattr(savings, "choose_savings", all_cut)
    monkeypatch.setattr(compile, "tile_function", lowered)
    layer, x = layers()[name]
    exported = torch.export.export(layer.eval(), (x,))
    program = etir.compile(exported, target="etir", delegates=["native{cpus=x86-64}"])
    assert program.warnings == ()
    assert bool(sum(fills)) == (name in BORDERED)
    (got,) = etir.runtime.load(program).forward(x)
    with torch.no_grad():
        torch.testing.assert_close(torch.as_tensor(got), layer(x), rtol=1e-5, atol=1e-5)
    (two,) = etir.runtime.load(program, threads=2).forward(x)
    assert torch.equal(torch.as_tensor(got), torch.as_tensor(two))


def test_edges() -> None:
    """Every index is in one part, whose taps are those of its window that are inside."""
    for count, given, stride, start, taps, step in product((1, 5), (4, 9), (1, 2), (-2, 0), (1, 3), (1, 2, -1)):
        wanted = [[t for t in range(taps) if 0 <= i * stride + start + t * step < given] for i in range(count)]
        found = edges(count, given, stride, start, taps, step)
        if not all(wanted):
            assert found == []
            continue
        seen = [(part, i) for part in found for i in range(part.count)]
        assert [part.first + i for part, i in seen] == [*range(count)]
        assert [[*range(part.tap, part.tap + part.taps)] for part, _ in seen] == wanted
        for part, i in seen:
            assert part.start + i * stride == (part.first + i) * stride + start + part.tap * step


def test_edges_of_sizes() -> None:
    """The parts for a size are those of each number that it may be."""
    for padding, dilation, taps, reach in product((0, 1, 2, 4), (1, 2, 3), (1, 3, 5), (0, 1)):
        ranges = {"n": (25, 32)}
        given = size(parse("n"), ranges)
        count = given + 2 * padding - (taps - 1) * dilation - reach
        found = edges(count, given, 1, -padding, taps, dilation)
        for n in range(25, 33):
            wanted = edges(valued(count, {"n": n}), n, 1, -padding, taps, dilation)
            if not wanted:
                assert not found
                continue
            seen = [
                (valued(part.first, {"n": n}) + i, part.tap, part.taps, valued(part.start, {"n": n}) + i)
                for part in found
                for i in range(valued(part.count, {"n": n}))
            ]
            exact = [(p.first + i, p.tap, p.taps, p.start + i) for p in wanted for i in range(p.count)]
            assert seen == exact, (padding, dilation, taps, n)
    assert edges(given, given, 2, -1, 3, 1) == [], "steps go over the end by a number that is not known"
    few = size(parse("n"), {"n": (2, 20)})
    assert edges(few, few, 1, -2, 5, 1) == [], "there may be nothing between the ends"


def test_images_of_any_size_have_no_border(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(savings, "choose_savings", lambda outlined, _: outlined.func.attributes.update(CUT_ALL))
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(3, 33, 3, padding=1), nn.ReLU(), nn.Conv2d(33, 4, 5, padding=(2, 1)))
    sized = Sized(layers.eval(), ((2, 3, "rows", "columns"),), {"rows": (8, 19), "columns": (8, 21)})
    program = sized.compiled()
    assert program.warnings == ()
    for point in ((8, 8), (19, 21), (8, 21), (13, 9)):
        (x,) = sized.given(dict(zip(("rows", "columns"), point, strict=True)))
        with torch.no_grad():
            wanted = layers(x)
        for threads in (1, 2):
            (got,) = etir.runtime.load(program, threads=threads).forward(x)
            assert (got - wanted).abs().max() <= 1e-5 * wanted.abs().max()


def test_channels_of_images_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three rows and columns, too, where every window is at both ends of the image."""
    monkeypatch.setattr(savings, "choose_savings", lambda outlined, _: outlined.func.attributes.update(CUT_ALL))
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Conv2d(3, 12, 1), nn.Conv2d(12, 12, 5, 2, 2, groups=12), nn.ReLU(), nn.Conv2d(12, 12, 3, 1, 1, groups=12)
    )
    sized = Sized(layers.eval(), ((2, 3, "rows", "columns"),), {"rows": (3, 19), "columns": (3, 21)})
    program = sized.compiled()
    assert program.warnings == ()
    for point in ((3, 3), (19, 21), (3, 21), (13, 4), (4, 9)):
        (x,) = sized.given(dict(zip(("rows", "columns"), point, strict=True)))
        with torch.no_grad():
            wanted = layers(x)
        for threads in (1, 2):
            (got,) = etir.runtime.load(program, threads=threads).forward(x)
            assert (got - wanted).abs().max() <= 1e-5 * wanted.abs().max()


def test_borders_stay_where_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the peak is elsewhere, images keep their borders; where it is between two images, these have none."""
    seen: list[bool] = []
    lower = compile.code_and_kernels

    def lowered(outlined: Outlined, target: Cpu, frame: Frame) -> tuple[FuncOp, LoweredFunction]:
        seen.append(CUT in outlined.func.attributes)
        return lower(outlined, target, frame)

    monkeypatch.setattr(compile, "code_and_kernels", lowered)
    x = torch.randn(1, 4, 24, 24)
    small = nn.Sequential(nn.Conv2d(4, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 1), nn.ReLU())
    large = nn.Sequential(nn.Conv2d(4, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1))
    channels = nn.Sequential(nn.Conv2d(4, 32, 1), nn.ReLU(), *(Mixer(32, 9) for _ in range(3)))
    for module, is_cut in ((small, False), (large, True), (channels, True)):
        exported = torch.export.export(module.eval(), (x,))
        plans = [
            etir.compile(exported, target="etir", delegates=names).report().methods[0].runtime
            for names in ([], ["native{cpus=x86-64}"])
        ]
        kernels, native = (sum(plan.planned) + plan.temp for plan in plans)
        assert native <= kernels
        assert seen[-1] == is_cut
