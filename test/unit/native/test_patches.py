"""Convolutions without a border read an image as a program is given one, with its columns side by side."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.backends.native import savings  # noqa: E402
from etir.backends.native.tile import BrgemmOp, MapOp, shape_of  # noqa: E402

from etir_testing.native.functions import functions_of  # noqa: E402
from etir_testing.native.images import here  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

LAYERS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "patches": (nn.Conv2d(3, 40, 8, 8), (2, 3, 24, 40)),
    "patches, and some is not read": (nn.Conv2d(3, 33, 4, 4, bias=False), (1, 3, 14, 19)),
    "gaps": (nn.Conv2d(3, 16, 4, 6), (1, 3, 22, 23)),
    "over each other": (nn.Conv2d(5, 16, (3, 5), (1, 2)), (2, 5, 9, 12)),
    "dilated rows": (nn.Conv2d(3, 16, (2, 4), dilation=(3, 1)), (1, 3, 9, 9)),
    "one patch": (nn.Conv2d(3, 70, 16, 16), (3, 3, 16, 16)),
    "signal": (nn.Conv1d(6, 40, 10, 5), (2, 6, 64)),
    "after": (nn.Sequential(nn.Conv2d(3, 24, 4, 4), nn.GELU()), (1, 3, 16, 16)),
    "inside": (nn.Conv2d(3, 16, 9, 9, padding=4), (1, 3, 1, 1)),
    "few columns": (nn.Conv2d(3, 16, 2, 2), (1, 3, 8, 8)),
}


class Beside(nn.Module):
    """Each layer of an image that is given and of what an elementwise operator makes of it; tokens of the first."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer for layer, _ in LAYERS.values())

    def forward(self, *images: Any) -> Any:
        parts = zip(self.layers, images, strict=True)
        return tuple(v for layer, x in parts for v in (layer(x).flatten(2).transpose(1, 2), layer(x.sin())))


@pytest.mark.parametrize("name", here())
def test_results_are_eager_s(name: str) -> None:
    """By code, on one thread and on two, and by the kernels."""
    torch.manual_seed(0)
    module, images = Beside().eval(), tuple(torch.randn(shape) for _, shape in LAYERS.values())
    with torch.no_grad():
        wanted = module(*images)
    program = etir.compile(torch.export.export(module, images), target="etir", delegates=[f"native{{cpus={name}}}"])
    assert program.warnings == ()
    results = [
        etir.runtime.load(program, native=native, threads=threads).forward(*images)
        for native, threads in (("trusted", 1), ("trusted", 2), ("refuse", 1))
    ]
    names = [f"{layer}, {which}" for layer in LAYERS for which in ("as it is given", "as it is made")]
    for layer, want, one, two, kernels in zip(names, wanted, *results, strict=True):
        assert torch.equal(one, two), layer
        for got in (one, kernels):
            assert (got - want).abs().max() <= 1e-5 * want.abs().max(), layer


def test_sizes_of_the_call() -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(3, 24, 8, 8).eval()
    height, width = (torch.export.Dim(name, min=2, max=6) for name in ("height", "width"))
    given = ({2: 8 * height, 3: 8 * width},)
    exported = torch.export.export(layer, (torch.randn(1, 3, 16, 24),), dynamic_shapes=given)
    program = etir.compile(exported, target="etir", delegates=[f"native{{cpus={here()[-1]}}}"])
    assert program.warnings == ()
    loaded = etir.runtime.load(program)
    for size in ((16, 16), (48, 48), (16, 40)):
        x = torch.randn(1, 3, *size)
        with torch.no_grad():
            want = layer(x)
        assert (loaded.forward(x)[0] - want).abs().max() <= 1e-5 * want.abs().max(), size


def _ops(name: str) -> list[Any]:
    layer, shape = LAYERS[name]
    (tiled,) = functions_of(torch.export.export(layer.eval(), (torch.randn(shape),)))
    return [*tiled.func.body.block.ops]


def test_patches_are_read_where_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tap is a channel and a row of the window, its columns are the depth; few columns are worth a copy, where memory
    is not to be saved.
    """
    monkeypatch.setattr(savings, "choose_savings", lambda *_: None)
    ops = _ops("patches")
    (product,) = (op for op in ops if isinstance(op, BrgemmOp))
    assert shape_of(product.a) == (2, 3, 3, 8, 5, 8) and product.tap_counts == (3, 8)
    assert product.a.owner.operands[0] in tuple(product.parent_block().args)
    (product,) = (op for op in _ops("few columns") if isinstance(op, BrgemmOp))
    assert product.tap_counts == (2,) and any(isinstance(op, MapOp) for op in _ops("few columns"))


def test_memory_is_that_of_the_kernels() -> None:
    """An image that is larger than all that is made of it has no copy."""
    layer = nn.Sequential(nn.Conv2d(3, 32, 16, 16), nn.ReLU(), nn.Conv2d(32, 8, 1)).eval()
    exported = torch.export.export(layer, (torch.randn(1, 3, 64, 64),))
    planned = [
        sum(method.runtime.planned) + method.runtime.temp
        for delegates in ([], [f"native{{cpus={here()[-1]}}}"])
        for method in etir.compile(exported, target="etir", delegates=delegates).report().methods
    ]
    assert planned[1] <= planned[0]
