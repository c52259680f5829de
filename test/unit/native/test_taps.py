"""Windows that are larger than what they see of an image: taps that read its border alone are no work."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from xdsl.dialects.builtin import IntegerAttr, i64  # noqa: E402
from xdsl.dialects.func import FuncOp  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.backends.api.interface import Outlined  # noqa: E402
from etir.backends.native import savings  # noqa: E402
from etir.backends.native.functions import CUT  # noqa: E402
from etir.backends.native.tile import BrgemmOp, shape_of  # noqa: E402
from etir.backends.native.windows import Window, _border_of, _without_zeros  # noqa: E402

from etir_testing.native.functions import functions_of  # noqa: E402
from etir_testing.native.images import here  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

LAYERS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "one pixel": (nn.Conv2d(20, 33, 3, padding=1), (3, 20, 1, 1)),
    "two pixels to one": (nn.Conv2d(20, 33, 3, 2, 1, bias=False), (3, 20, 2, 2)),
    "a row": (nn.Conv2d(20, 33, 5, padding=2), (2, 20, 1, 7)),
    "a column": (nn.Conv2d(20, 33, 3, padding=1), (2, 20, 7, 1)),
    "five of seven": (nn.Conv2d(5, 33, 7, 2, 3), (2, 5, 3, 3)),
    "dilated": (nn.Conv2d(5, 33, 3, padding=6, dilation=6), (2, 5, 4, 9)),
    "dilated, with a step": (nn.Conv2d(5, 8, 4, 3, 6, 4), (1, 5, 3, 2)),
    "first tap inside": (nn.Conv2d(5, 8, (3, 1), (9, 1), (3, 0), (2, 1)), (1, 5, 2, 4)),
    "outside": (nn.Conv2d(5, 8, 2, padding=3), (1, 5, 1, 2)),
    "by channel": (nn.Conv2d(20, 20, 5, padding=2, groups=20), (2, 20, 2, 1)),
    "groups": (nn.Conv2d(32, 32, 3, padding=1, groups=2), (2, 32, 1, 1)),
    "signal": (nn.Conv1d(20, 33, 9, padding=4), (2, 20, 3)),
    "signal of one": (nn.Conv1d(20, 33, 3, padding=1), (3, 20, 1)),
    "pixels": (nn.Sequential(nn.Conv2d(20, 128, 3, padding=1), nn.PixelShuffle(2)), (2, 20, 1, 2)),
}


class Beside(nn.Module):
    """Each layer of its own image, and of the result of a product on it: an image that is made in its border."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer for layer, _ in LAYERS.values())
        self.products = nn.ModuleList(
            (nn.Conv1d if len(shape) == 3 else nn.Conv2d)(shape[1], shape[1], 1) for _, shape in LAYERS.values()
        )

    def forward(self, *images: Any) -> Any:
        parts = zip(self.layers, self.products, images, strict=True)
        return tuple(value for layer, one, x in parts for value in (layer(x), layer(torch.relu(one(x)))))


@pytest.mark.parametrize("is_cut", [False, True])
def test_results_are_eager_s(is_cut: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By code, with borders and without, on one thread and on two, and by the kernels."""

    def cut(outlined: Outlined, _: object) -> None:
        if is_cut:
            outlined.func.attributes[CUT] = IntegerAttr(0, i64)

    monkeypatch.setattr(savings, "choose_savings", cut)
    torch.manual_seed(0)
    module, images = Beside().eval(), tuple(torch.randn(shape) for _, shape in LAYERS.values())
    exported = torch.export.export(module, images)
    with torch.no_grad():
        wanted = module(*images)
    program = etir.compile(exported, target="etir", delegates=[f"native{{cpus={here()[-1]}}}"])
    assert program.warnings == ()
    results = [
        etir.runtime.load(program, native=native, threads=threads).forward(*images)
        for native, threads in (("trusted", 1), ("trusted", 2), ("refuse", 1))
    ]
    names = [f"{name}, {which}" for name in LAYERS for which in ("as it comes", "as it is made")]
    for name, want, one, two, kernels in zip(names, wanted, *results, strict=True):
        assert torch.equal(one, two), name
        for got in (one, kernels):
            assert (got - want).abs().max() <= 1e-5 * want.abs().max(), name


def _products(layer: nn.Module, shape: tuple[int, ...]) -> list[BrgemmOp]:
    exported = torch.export.export(layer.eval(), (torch.randn(shape),))
    (tiled,) = functions_of(exported)
    func: FuncOp = tiled.func
    return [op for op in func.body.block.ops if isinstance(op, BrgemmOp)]


def test_an_image_of_one_pixel_is_a_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of nine taps; images are its rows, where nothing is saved."""
    monkeypatch.setattr(savings, "choose_savings", lambda *_: None)
    (op,) = _products(*LAYERS["one pixel"])
    assert shape_of(op.a) == (3, 20) and op.taps is None
    (op,) = _products(*LAYERS["two pixels to one"])
    assert shape_of(op.a)[-2:] == (3, 40) and op.tap_counts == (2,)


def test_windows_keep_the_taps_that_are_inside() -> None:
    """Of all taps, those between the first and the last one that some element reads in the image; what they read
    around it is in the border.
    """
    for size, stride, padding, step, given in product(range(1, 6), (1, 2, 3), range(5), (1, 2, 4), range(1, 6)):
        count = (given + 2 * padding - (size - 1) * step - 1) // stride + 1
        if count < 1:
            continue
        whole = Window((size, 1), (stride, 1), (padding, 0), (step, 1), whole=(size, 1))
        found = _without_zeros(whole, (count, 1), (given, 1))
        reads = [(t, i * stride - padding + t * step) for i in range(count) for t in range(size)]
        inside = [t for t, row in reads if 0 <= row < given] or [0, size - 1]
        first, taps = found.skipped[0], found.size[0]
        assert (first, taps) == (min(inside), max(inside) - min(inside) + 1)
        assert found.padding[0] == padding - first * step
        rows = [row for t, row in reads if first <= t < first + taps]
        (border, _) = _border_of(found, (count, 1), (given, 1))
        assert border >= max(-min(rows), max(rows) - given + 1, 0)
        assert border <= max(padding, 0)
