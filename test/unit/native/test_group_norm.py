"""Norms of groups of channels, and what follows them in the same walk."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from xdsl.dialects.func import FuncOp  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.backends.native.tile import BrgemmOp, MapOp, shape_of, strides_of  # noqa: E402

from etir_testing.native.functions import functions_of  # noqa: E402
from etir_testing.native.images import here  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

CODE = f"native{{cpus={here()[-1]}}}"
NORMS = {
    "two channels": nn.GroupNorm(32, 64),
    "many channels": nn.GroupNorm(220, 660),
    "whole vectors": nn.GroupNorm(9, 576),
    "long groups": nn.GroupNorm(2, 528),
    "one channel": nn.GroupNorm(40, 40),
    "all channels": nn.GroupNorm(1, 33),
    "no weights": nn.GroupNorm(3, 51, affine=False),
    "instances": nn.InstanceNorm2d(20, affine=True),
}


class Net(nn.Module):
    """A product, the norm, an activation, a residual, a convolution that reads it with a border."""

    def __init__(self, norm: nn.Module, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(5, channels, 1)
        self.norm, self.last = norm, nn.Conv2d(channels, 6, 3, padding=1)

    def forward(self, x: Any) -> Any:
        y = self.first(x)
        return self.last(F.silu(self.norm(y)) + y)


class All(nn.Module):
    """Every norm, on images and, one of them, on signals and on rows of numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList(
            Net(n, n.num_features if isinstance(n, nn.InstanceNorm2d) else n.num_channels) for n in NORMS.values()
        )
        self.beside = nn.GroupNorm(3, 12)

    def forward(self, x: Any, signal: Any, rows: Any) -> Any:
        return (*(net(x) for net in self.nets), torch.relu(self.beside(signal)), self.beside(rows) * 2.0)


def given() -> tuple[Any, ...]:
    torch.manual_seed(0)
    return torch.randn(2, 5, 7, 9) * 3.0 + 1.0, torch.randn(2, 12, 11), torch.randn(3, 12)


def test_norms_are_eager_s() -> None:
    """By code, on one thread and on two, and by the kernels."""
    module, inputs = All().eval(), given()
    with torch.no_grad():
        for net in module.nets:
            for parameter in net.norm.parameters():  # type: ignore[union-attr]
                parameter.add_(torch.randn_like(parameter))
        wanted = module(*inputs)
    program = etir.compile(torch.export.export(module, inputs), target="etir", delegates=[CODE])
    results = [
        etir.runtime.load(program, native=native, threads=threads).forward(*inputs)
        for native, threads in (("trusted", 1), ("trusted", 2), ("refuse", 1))
    ]
    names = [*NORMS, "signal", "rows"]
    for name, want, one, two, kernels in zip(names, wanted, *results, strict=True):
        assert torch.equal(one, two), name
        for got in (one, kernels):
            assert (got - want).abs().max() <= 1e-5 * want.abs().max(), name


def test_a_far_mean_loses_nothing() -> None:
    """The mean is subtracted before anything is scaled."""
    norm, x = nn.GroupNorm(4, 16).eval(), torch.randn(1, 16, 8, 8) + 1000.0
    program = etir.compile(torch.export.export(norm, (x,)), target="etir", delegates=[CODE])
    exact = norm.double()(x.double()).detach()
    (got,) = etir.runtime.load(program).forward(x)
    assert (got.double() - exact).abs().max() <= 2e-4 * exact.abs().max()


def test_what_follows_is_in_the_walk() -> None:
    """One walk of the size of the image, after the product, which goes along all channels."""
    module = Net(NORMS["two channels"], 64).eval()
    (tiled,) = functions_of(torch.export.export(module, given()[:1]))
    func: FuncOp = tiled.func
    ops = [*func.body.block.ops]
    product = next(i for i, op in enumerate(ops) if isinstance(op, BrgemmOp))
    walks = [op for op in ops[product:] if isinstance(op, MapOp) and len(op.inputs) > 1]
    assert [sorted(shape_of(op.out)) for op in walks if len(shape_of(op.out)) > 3] == [[2, 2, 7, 9, 32]]
    (walk,) = (op for op in walks if len(shape_of(op.out)) > 3)
    assert sum(strides_of(v.type)[2] == 0 for v in walk.inputs) == 2, "mean and factor are numbers of groups"


class Numbers(nn.Module):
    """Rows of numbers, for each of which there are few groups: two numbers of each channel would be as many again."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(16, 64), nn.GroupNorm(4, 64), nn.Linear(64, 16)

    def forward(self, x: Any) -> Any:
        return self.down(F.relu(self.norm(self.up(x)))) + x


def test_numbers_of_channels_take_no_memory() -> None:
    """All of a program whose memory is that of the norm stays code where it may need no more than the kernels."""
    module, x = Numbers().eval(), torch.randn(5, 16)
    sizes = ({0: torch.export.Dim("batch", max=8)},)
    exported = torch.export.export(module, (x,), dynamic_shapes=sizes)
    program = etir.compile(exported, target="etir", delegates=[f"native{{cpus={here()[-1]} arena=kernels}}"])
    assert program.delegation is not None
    assert program.delegation.delegated == program.delegation.operators
    (got,) = etir.runtime.load(program).forward(x)
    assert (got - module(x)).abs().max() <= 1e-5 * got.abs().max()
