"""Resizing by linear filters (``aten.upsample_bilinear2d``): images with channels side by side, and planes."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.backends.native.kernels.resize import are_planes  # noqa: E402
from etir.backends.native.resize import ResizeOp  # noqa: E402
from etir.backends.native.tile import MapOp  # noqa: E402
from etir.backends.native.users import place_of  # noqa: E402

from etir_testing.native.functions import functions_of  # noqa: E402
from etir_testing.native.images import here  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

Asked = dict[str, Any]
SIZES: dict[str, tuple[tuple[int, ...], Asked]] = {
    "twice": ((2, 20, 7, 7), {"scale_factor": 2.0}),
    "8 times": ((1, 21, 6, 5), {"scale_factor": 8.0}),
    "sizes": ((1, 16, 11, 9), {"size": (29, 31)}),
    "factors": ((1, 5, 33, 40), {"scale_factor": (1.7, 2.3)}),
    "factors of large images": ((1, 3, 150, 200), {"scale_factor": (1.3, 1.1)}),
    "smaller": ((2, 33, 23, 31), {"size": (10, 7)}),
    "smaller and larger": ((1, 8, 23, 9), {"size": (10, 40)}),
    "as it is in a dim": ((1, 9, 6, 5), {"size": (6, 10)}),
    "of one pixel": ((1, 32, 1, 1), {"size": (9, 12)}),
    "to one pixel": ((1, 24, 9, 12), {"size": (1, 1)}),
    "of one channel": ((2, 1, 9, 12), {"size": (20, 20)}),
    "wide": ((1, 3, 4, 100), {"size": (7, 613)}),
}


class Resized(nn.Module):
    """Each image from planes to planes, and with channels side by side before and after, with what follows."""

    def __init__(self, align_corners: bool) -> None:
        super().__init__()
        self.align_corners = align_corners

    def forward(self, *images: Any) -> Any:
        found: list[Any] = []
        for x, (_, asked) in zip(images, SIZES.values(), strict=True):
            resized = lambda y, asked=asked: F.interpolate(  # noqa: E731
                y, mode="bilinear", align_corners=self.align_corners, **asked
            )
            made = resized(F.max_pool2d(x, 1))
            found += [resized(x), F.max_pool2d(torch.relu(made * 0.5 + x.mean((2, 3), True)), 1)]
        return tuple(found)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("name", here())
def test_results_are_eager_s(name: str, align_corners: bool) -> None:
    """By code, on one thread and on two."""
    torch.manual_seed(0)
    module, images = Resized(align_corners).eval(), tuple(torch.randn(shape) for shape, _ in SIZES.values())
    with torch.no_grad():
        wanted = module(*images)
    program = etir.compile(
        torch.export.export(module, images), target="etir", delegates=[f"native{{cpus={name} arena=free}}"]
    )
    assert program.warnings == ()
    (backend,) = program.delegation.backends
    assert backend.claimed["aten.upsample_bilinear2d.vec"] == 2 * len(SIZES)
    one, two = (etir.runtime.load(program, native="trusted", threads=threads).forward(*images) for threads in (1, 2))
    names = [f"{size}, {which}" for size in SIZES for which in ("planes", "channels side by side")]
    for which, want, got, other in zip(names, wanted, one, two, strict=True):
        assert torch.equal(got, other), which
        assert (got - want).abs().max() <= 1e-6 * max(1.0, want.abs().max()), which


def test_neighbors_with_a_share_of_0_are_read() -> None:
    """What is infinite or no number makes NaN where it does in torch: times 0, beside an element and in its own row."""

    class Larger(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            sizes = ((4, 8), (8, 8), (7, 4), (3, 9))
            images = [
                F.interpolate(x, size, mode="bilinear", align_corners=align)
                for size in sizes
                for align in (True, False)
            ]
            return (*images, *(F.max_pool2d(image + image.mean(1, True) * 0.0 + y, 1) for image in images[:1]))

    x = torch.zeros(1, 5, 4, 4)
    x[0, 0, 0, 0], x[0, 1, 3, 3], x[0, 2, 1, 2], x[0, 3, 2, 1] = torch.inf, torch.inf, torch.nan, -torch.inf
    module, y = Larger(), torch.zeros(1, 1, 1, 1)
    program = etir.compile(
        torch.export.export(module, (x, y)), target="etir", delegates=[f"native{{cpus={here()[-1]}}}"]
    )
    for got, want in zip(etir.runtime.load(program).forward(x, y), module(x, y), strict=True):
        assert torch.equal(got.isnan(), want.isnan()) and torch.equal(got.isinf(), want.isinf())
        assert torch.equal(got.nan_to_num(), want.nan_to_num())


@pytest.mark.parametrize("delegates", [[], [f"native{{cpus={here()[-1]}}}"]], ids=["kernels", "code"])
def test_an_image_that_stays_as_large(delegates: list[str]) -> None:
    """It is not resized, whatever factors say, and what is infinite becomes no number, as in torch; zeros keep their
    sign.
    """

    class Same(nn.Module):
        def forward(self, x: Any) -> Any:
            asked: list[Asked] = [{"size": (4, 6)}, {"size": (4, 6), "align_corners": True}, {"scale_factor": 1.0}]
            images = [F.interpolate(torch.relu(x), mode="bilinear", **how) for how in (*asked, {"scale_factor": 1.1})]
            rows = torch.tanh(x).flatten(2).transpose(1, 2)
            back = rows.transpose(1, 2).reshape(x.shape)
            return (*images, F.interpolate(-back, (4, 6)), F.interpolate(back * 2, (4, 6), mode="bilinear"))

    torch.manual_seed(0)
    x = torch.randn(1, 5, 4, 6)
    x[0, 0, 0, 0], x[0, 1, 3, 5], x[0, 2, 1, 2], x[0, 3] = torch.inf, -torch.inf, torch.nan, 0.0
    program = etir.compile(torch.export.export(Same(), (x,)), target="etir", delegates=delegates)
    assert "aten::upsample" not in str(program.module)
    for got, want in zip(etir.runtime.load(program).forward(x), Same()(x), strict=True):
        assert torch.equal(got.isnan(), want.isnan())
        assert torch.equal(got.nan_to_num().signbit(), want.nan_to_num().signbit())
        assert (got.nan_to_num() - want.nan_to_num()).abs().max() <= 1e-6


class Head(nn.Module):
    """The end of a network for segmentation: a scale is added to another, joined to it, and the image is given back."""

    def __init__(self) -> None:
        super().__init__()
        self.low, self.high = nn.Conv2d(16, 24, 1), nn.Conv2d(16, 24, 1)
        self.last = nn.Conv2d(72, 21, 1)

    def forward(self, x: Any) -> Any:
        high, low = self.high(x), self.low(F.avg_pool2d(x, 2))
        both = [F.interpolate(low, scale_factor=2.0, mode="bilinear") + high, high]
        both.append(F.interpolate(low.mean((2, 3), True), high.shape[2:], mode="bilinear"))
        return F.interpolate(self.last(torch.cat(both, 1)), scale_factor=4.0, mode="bilinear")


def test_where_results_are() -> None:
    """An output is written as its planes, a part of what is joined where it is; what follows element by element is part
    of the operation, and nothing is copied but the image that is given.
    """
    exported = torch.export.export(Head().eval(), (torch.randn(1, 16, 12, 16),))
    (tiled,) = functions_of(exported)
    ops = [*tiled.func.body.block.ops]
    found = [op for op in ops if isinstance(op, ResizeOp)]
    assert [(are_planes(op), len(op.extra)) for op in found] == [(False, 1), (False, 0), (True, 0)]
    assert {place_of(op.c).base for op in found[:2]} == {place_of(found[0].c).base}
    copied = [place_of(op.inputs[0]).base for op in ops if isinstance(op, MapOp)]
    assert copied and set(copied[:-1]) <= {tiled.func.body.block.args[0]}  # the last one is that of ``high``


def test_one_channel_of_an_image() -> None:
    """Its columns lie as far apart as the pixels of what it is joined to."""
    torch.manual_seed(0)

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Conv2d(8, 12, 1), nn.Conv2d(13, 16, 3, padding=1)

        def forward(self, x: Any, mask: Any) -> Any:
            mask = F.interpolate(mask, x.shape[2:], mode="bilinear").sigmoid()
            return self.last(torch.cat([self.first(x), mask], 1))

    module, given = Masked().eval(), (torch.randn(2, 8, 10, 12), torch.randn(2, 1, 4, 5))
    program = etir.compile(
        torch.export.export(module, given), target="etir", delegates=[f"native{{cpus={here()[-1]}}}"]
    )
    assert program.warnings == ()
    with torch.no_grad():
        want = module(*given)
    assert (etir.runtime.load(program).forward(*given)[0] - want).abs().max() <= 5e-6


def test_sizes_with_factors() -> None:
    """The factors say where elements are, whatever the sizes (the operator's overload without ``vec``)."""
    torch.manual_seed(0)
    resize = torch.ops.aten.upsample_bilinear2d.default

    class Larger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(6, 6, 1)

        def forward(self, x: Any) -> Any:
            y = self.layer(x)
            asked = ((False, 1.9, 2.0), (True, None, None), (False, 2.5, None))
            return tuple(resize(y, [9, 14], *some) for some in asked)

    module, x = Larger().eval(), torch.randn(1, 6, 5, 7)
    program = etir.compile(torch.export.export(module, (x,)), target="etir", delegates=["native{arena=free}"])
    (backend,) = program.delegation.backends
    assert backend.claimed["aten.upsample_bilinear2d.default"] == 3
    with torch.no_grad():
        wanted = module(x)
    for got, want in zip(etir.runtime.load(program).forward(x), wanted, strict=True):
        assert (got - want).abs().max() <= 2e-6


def test_sizes_of_the_call_stay_with_the_kernels() -> None:
    exported = torch.export.export(
        nn.Sequential(nn.Conv2d(3, 8, 1), nn.Upsample(scale_factor=2, mode="bilinear")).eval(),
        (torch.randn(1, 3, 9, 9),),
        dynamic_shapes=({2: torch.export.Dim("height", min=3, max=40)},),
    )
    program = etir.compile(exported, target="etir", delegates=[f"native{{cpus={here()[-1]}}}"])
    assert "sizes that are known at run time only" in str(program.report())
