"""``pixel_shuffle`` after convolutions: each pixel is written where it goes, and no image is in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn.functional import pixel_shuffle  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.backends.native import savings  # noqa: E402
from etir.backends.native.blob import VERSION_SPREAD, Constant, read_blob  # noqa: E402
from etir.backends.native.packing import packed, unpacked  # noqa: E402
from etir.backends.native.passes.verify_tile import problems  # noqa: E402
from etir.backends.native.tile import MapOp, TemplateOp, WeightOp, memref  # noqa: E402

from etir_testing.native.blobs import blobs_of  # noqa: E402
from etir_testing.native.functions import functions_of, parsed_function  # noqa: E402
from etir_testing.native.images import here  # noqa: E402
from etir_testing.native.sized import Sized  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(nn.Module):
    """A convolution, what follows it, a shuffle, a convolution of the pixels."""

    def __init__(self, conv: nn.Conv2d, factor: int, after: Callable[..., Any] = lambda y, conv: y) -> None:
        super().__init__()
        self.conv, self.factor, self.after = conv, factor, after
        self.last = nn.Conv2d(conv.out_channels // factor**2, 3, 3, padding=1)

    def forward(self, x: Any) -> Any:
        return self.last(pixel_shuffle(self.after(self.conv(x), self.conv), self.factor))


def twice(y: Any, conv: nn.Conv2d) -> Any:
    """The bias once more, along channels."""
    return torch.relu(y * 0.5) + conv.bias.view(-1, 1, 1)  # type: ignore[union-attr]


def widths(y: Any, conv: nn.Conv2d) -> Any:
    """The bias along columns: no number for each channel."""
    return y + conv.bias[: y.shape[-1]]  # type: ignore[index]


CASES: dict[str, tuple[Callable[[], nn.Module], bool]] = {
    "rows": (lambda: Net(nn.Conv2d(7, 128, 3, padding=1), 2), True),
    "products": (lambda: Net(nn.Conv2d(7, 288, 1, bias=False), 3, lambda y, _: torch.relu(y)), True),
    "steps": (lambda: Net(nn.Conv2d(7, 256, (3, 5), stride=2, padding=(0, 2)), 2, twice), True),
    "dilated": (lambda: Net(nn.Conv2d(7, 128, 3, padding=2, dilation=2), 2), True),
    "few channels": (lambda: Net(nn.Conv2d(7, 20, 3, padding=1), 2), False),
    "groups": (lambda: Net(nn.Conv2d(7, 140, 3, padding=1, groups=7, bias=False), 2), False),
    "widths": (lambda: Net(nn.Conv2d(7, 128, 3, padding=1), 2, widths), False),
}


def copies(exported: Any) -> int:
    """Walks that copy or make pixels, besides that of the input."""
    (tiled,) = functions_of(exported)
    ops = [op for op in tiled.func.body.block.ops if isinstance(op, TemplateOp)]
    return sum(isinstance(op, MapOp) and bool(op.inputs) for op in ops) - 1


@pytest.mark.parametrize("name", CASES)
def test_pixels_are_written_where_they_go(name: str) -> None:
    """What eager gives, by code on every processor, by kernels, and the same bits on two threads. All of it is code,
    whatever memory that takes.
    """
    make, is_direct = CASES[name]
    torch.manual_seed(len(name))
    module, x = make().eval(), torch.randn(2, 7, 9, 11)
    exported = torch.export.export(module, (x,))
    with torch.no_grad():
        wanted = module(x)
    for cpu in here():
        program = etir.compile(exported, target="etir", delegates=[f"native{{cpus={cpu} arena=free}}"])
        assert program.warnings == ()
        results = [
            etir.runtime.load(program, native=native, threads=threads).forward(x)[0]
            for native, threads in (("trusted", 1), ("trusted", 2), ("refuse", 1))
        ]
        assert torch.equal(results[0], results[1])
        assert all((got - wanted).abs().max() <= 1e-5 * wanted.abs().max() for got in results)
    (blob,) = map(read_blob, blobs_of(program.buffer))
    assert any(c.spread for c in blob.constants) == is_direct
    version = int.from_bytes(blobs_of(program.buffer)[0][4:8], "little")
    assert (version == VERSION_SPREAD) == is_direct


def test_no_image_is_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single copy: that of the result. Where the convolution goes by tiles, one more."""
    monkeypatch.setattr(savings, "choose_savings", lambda *_: None)
    for channels, more in ((7, 0), (64, 4)):
        module = Net(nn.Conv2d(channels, 256, 3, padding=1), 2).eval()
        exported = torch.export.export(module, (torch.randn(1, channels, 32, 32),))
        assert copies(exported) == 1 + more


def test_a_weight_that_others_read_in_their_order() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.last = nn.Conv2d(7, 128, 1), nn.Conv2d(32, 3, 1)

        def forward(self, x: Any) -> Any:
            rows = nn.functional.linear(x.permute(0, 2, 3, 1), self.conv.weight[:, :, 0, 0], self.conv.bias)
            return self.last(pixel_shuffle(self.conv(x), 2)), self.conv(x), rows

    torch.manual_seed(0)
    module, x = Shared().eval(), torch.randn(1, 7, 4, 5)
    program = etir.compile(torch.export.export(module, (x,)), target="etir", delegates=["native"])
    with torch.no_grad():
        wanted = module(x)
    for native in ("trusted", "refuse"):
        for got, want in zip(etir.runtime.load(program, native=native).forward(x), wanted, strict=True):
            assert (got - want).abs().max() <= 1e-5 * want.abs().max()


def test_sizes_that_are_known_at_run_time_need_no_more_than_the_kernels() -> None:
    torch.manual_seed(0)
    module = Net(nn.Conv2d(64, 256, 3, padding=1), 2).eval()
    sized = Sized(module, ((1, 64, "rows", "columns"),), {"rows": (8, 24), "columns": (8, 24)})
    program, kernels = sized.compiled(), etir.compile(sized.exported(), target="etir")
    memory = [sum(plan.planned) + plan.temp for p in (program, kernels) for plan in [p.report().methods[0].runtime]]
    assert memory[0] <= memory[1]
    for point in ((8, 8), (24, 24), (9, 17)):
        (x,) = sized.given(dict(zip(("rows", "columns"), point, strict=True)))
        with torch.no_grad():
            wanted = module(x)
        for native in ("trusted", "refuse"):
            (got,) = etir.runtime.load(program, native=native).forward(x)
            assert (got - wanted).abs().max() <= 1e-5 * wanted.abs().max()


def test_packing_is_undone() -> None:
    numbers = np.random.default_rng(0)
    weight = numbers.standard_normal((4 * 40, 5, 3, 2)).astype(np.float32)
    op = WeightOp("w", memref((4, 3, 2, 10, 32)), 32, True, spread=True)
    data = packed(op, weight)
    # Channel n of group g is number 4 n + g.
    assert data.reshape(4, 3, 2, 10, 32)[3, 1, 1, 5 + 2, 5] == weight[4 * 37 + 3, 2, 1, 1]
    constant = Constant("w", 0, 32, 10, 40, True, 3, 2, 4, spread=True)
    assert unpacked(constant, data.tobytes()) == weight.tobytes()
    bias = numbers.standard_normal(12).astype(np.float32)
    data = packed(WeightOp("b", memref((4, 3)), spread=True), bias)
    np.testing.assert_array_equal(data.reshape(4, 3)[1], bias[1::4])
    assert unpacked(Constant("b", 0, groups=4, spread=True), data.tobytes()) == bias.tobytes()


@pytest.mark.parametrize("type", ["memref<12xf32>", "memref<2x2x3xf32>"])
def test_text_of_a_weight_without_groups_is_refused(type: str) -> None:
    text = f"""func.func private @f(%x: memref<1xf32>) attributes {{native.outputs = 1 : i64}} {{
      %0 = tile.weight "w" spread : {type}
      func.return
    }}"""
    found = [problem.message for problem in problems(parsed_function(text), None)]
    assert any("has channels that go round groups" in message for message in found)
