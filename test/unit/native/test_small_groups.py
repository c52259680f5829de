"""Convolutions of groups of few channels: a window for each group, whose vectors go along channels."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.backends.native.inside import DepthwiseInsideOp  # noqa: E402
from etir.backends.native.tile import shape_of  # noqa: E402

from etir_testing.native.functions import functions_of  # noqa: E402
from etir_testing.native.images import here  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

LAYERS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "four": (nn.Conv2d(32, 32, 3, padding=1, groups=8), (2, 32, 9, 21)),
    "two, a step": (nn.Conv2d(20, 20, 3, 2, 1, groups=10, bias=False), (1, 20, 12, 13)),
    "eight": (nn.Conv2d(24, 24, 3, padding=1, groups=3), (1, 24, 7, 7)),
    "eight of many": (nn.Conv2d(264, 264, 3, 2, 1, groups=33), (1, 264, 9, 9)),
    "no border": (nn.Conv2d(12, 12, (2, 3), groups=3), (2, 12, 5, 6)),
    "dilated": (nn.Conv2d(16, 16, 3, padding=2, dilation=2, groups=4), (1, 16, 8, 9)),
    "one pixel": (nn.Conv2d(16, 16, 3, padding=1, groups=4), (1, 16, 1, 1)),
    "wider than the image": (nn.Conv2d(8, 8, 7, padding=3, groups=2), (2, 8, 2, 3)),
    "a window of one": (nn.Conv2d(40, 40, 1, groups=10), (1, 40, 5, 5)),
    "signal": (nn.Conv1d(20, 20, 5, padding=2, groups=5), (3, 20, 11)),
    "pixels": (nn.Sequential(nn.Conv2d(32, 32, 3, padding=1, groups=8), nn.PixelShuffle(2)), (1, 32, 5, 4)),
    "after": (nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, groups=4), nn.SiLU()), (1, 16, 6, 6)),
}


class Beside(nn.Module):
    """Each layer of its own image, and of the result of a product on it, with what is added to it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer for layer, _ in LAYERS.values())
        self.products = nn.ModuleList(
            (nn.Conv1d if len(shape) == 3 else nn.Conv2d)(shape[1], shape[1], 1) for _, shape in LAYERS.values()
        )

    def forward(self, *images: Any) -> Any:
        found = []
        for layer, one, x in zip(self.layers, self.products, images, strict=True):
            made = layer(torch.relu(one(x)))
            found += [layer(x), made + made.mean()]
        return tuple(found)


def _given() -> tuple[nn.Module, tuple[Any, ...]]:
    torch.manual_seed(0)
    return Beside().eval(), tuple(torch.randn(shape) for _, shape in LAYERS.values())


@pytest.mark.parametrize("name", here())
def test_results_are_eager_s(name: str) -> None:
    """By code, on one thread and on two, and by the kernels."""
    module, images = _given()
    with torch.no_grad():
        wanted = module(*images)
    program = etir.compile(torch.export.export(module, images), target="etir", delegates=[f"native{{cpus={name}}}"])
    assert program.warnings == ()
    results = [
        etir.runtime.load(program, native=native, threads=threads).forward(*images)
        for native, threads in (("trusted", 1), ("trusted", 2), ("refuse", 1))
    ]
    names = [f"{layer}, {which}" for layer in LAYERS for which in ("as it comes", "as it is made")]
    for layer, want, one, two, kernels in zip(names, wanted, *results, strict=True):
        assert torch.equal(one, two), layer
        for got in (one, kernels):
            assert (got - want).abs().max() <= 1e-5 * want.abs().max(), layer


def test_other_groups_see_nothing_of_what_is_not_finite() -> None:
    """What is infinite or no number in a group stays there, as in torch."""
    torch.manual_seed(0)
    layer, x = nn.Conv2d(24, 24, 3, padding=1, groups=6).eval(), torch.randn(1, 24, 8, 9)
    x[0, 5, 3, 3], x[0, 14, 0, 0], x[0, 22, 7, 8] = torch.inf, torch.nan, -torch.inf
    program = etir.compile(torch.export.export(layer, (x,)), target="etir", delegates=[f"native{{cpus={here()[-1]}}}"])
    (found,) = etir.runtime.load(program).forward(x)
    with torch.no_grad():
        want = layer(x)
    assert torch.equal(found.isfinite(), want.isfinite()) and torch.equal(found.isnan(), want.isnan())
    assert 0 < want.isfinite().sum() < want.numel()


def test_sizes_of_the_call() -> None:
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Conv2d(16, 16, 3, 2, 1, groups=4), nn.ReLU(), nn.Conv2d(16, 16, 5, padding=2, groups=2))
    height, width = (torch.export.Dim(name, min=3, max=40) for name in ("height", "width"))
    exported = torch.export.export(layer.eval(), (torch.randn(1, 16, 9, 9),), dynamic_shapes=({2: height, 3: width},))
    program = etir.compile(exported, target="etir", delegates=[f"native{{cpus={here()[-1]}}}"])
    assert program.warnings == ()
    loaded = etir.runtime.load(program)
    for size in ((3, 3), (40, 40), (17, 4), (8, 31)):
        x = torch.randn(1, 16, *size)
        with torch.no_grad():
            want = layer(x)
        assert (loaded.forward(x)[0] - want).abs().max() <= 1e-5 * want.abs().max(), size


@pytest.mark.parametrize(
    ("channels", "result", "groups", "is_taken"), [(32, 32, 8, True), (12, 12, 4, False), (8, 16, 4, False)]
)
def test_which_groups(channels: int, result: int, groups: int, is_taken: bool) -> None:
    """Powers of two, of as many channels of the image as of the result; the kernels have the others."""
    layer = nn.Conv2d(channels, result, 3, padding=1, groups=groups).eval()
    exported = torch.export.export(layer, (torch.randn(1, channels, 8, 8),))
    program = etir.compile(exported, target="etir", delegates=[f"native{{cpus={here()[-1]}}}"])
    assert ("groups of few channels" in str(program.report())) == (not is_taken)
    if is_taken:
        (tiled,) = functions_of(exported)
        (op,) = (op for op in tiled.func.body.block.ops if isinstance(op, DepthwiseInsideOp))
        assert shape_of(op.b) == (3, 3, channels // groups, result) and op.group == channels // groups
