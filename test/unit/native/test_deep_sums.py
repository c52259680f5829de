"""Products of many steps of depth, in the memory of what their body adds: the sums begin with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as f  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.backends.native.kernels.sums import added_operand, begins_with  # noqa: E402
from etir.backends.native.tile import BrgemmOp, shape_of  # noqa: E402

from etir_testing.native.functions import functions_of  # noqa: E402
from etir_testing.native.images import here  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

DEEP = 1280
"""More than any product takes at once, and than ``deep`` would."""


class Block(nn.Module):
    """A layer of a transformer without its attention: ``last`` is what follows its sum."""

    def __init__(self, last: Callable[[torch.Tensor], torch.Tensor], wide: int = 72, bias: bool = True) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(wide, DEEP), nn.Linear(DEEP, wide, bias=bias)
        self.norm, self.out, self.last = nn.LayerNorm(wide), nn.Linear(wide, 40), last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x)
        return self.out(self.last(x + self.second(torch.relu(self.first(x)))) * 0.5)


class Images(nn.Module):
    """The same on images, by windows of nine taps."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(24, 320, 1), nn.Conv2d(320, 24, 3, padding=1)
        self.start, self.out = nn.Conv2d(24, 24, 1), nn.Conv2d(24, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.start(x))
        return self.out(torch.relu(self.second(torch.relu(self.first(x))) + x))


class Between(Block):
    """What is added is no part of the sum."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x)
        return self.out(torch.relu(self.second(torch.relu(self.first(x)))) * x)


CASES: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "a sum": (Block(nn.Identity()), (50, 72)),
    "a rectified sum": (Block(torch.relu), (50, 72)),
    "without a bias": (Block(torch.relu, bias=False), (50, 72)),
    "a long function of a sum": (Block(f.gelu), (50, 72)),
    "few columns": (Block(torch.relu, wide=19), (33, 19)),
    "few rows": (Block(f.silu), (2, 72)),
    "images": (Images(), (2, 24, 14, 14)),
}


def planned(program: etir.Program) -> int:
    memory = program.report().methods[0].runtime
    return sum(memory.planned) + memory.temp


def seeded(module: nn.Module) -> nn.Module:
    torch.manual_seed(3)
    with torch.no_grad():
        for value in module.parameters():
            value.copy_(torch.randn(value.shape) / value.shape[-1] ** 0.5)
    return module.eval()


@pytest.mark.parametrize("name", CASES)
def test_sums_begin_with_what_is_added(name: str) -> None:
    """No more memory than the kernels', which add in place; eager's results on each processor, and with two threads the
    bits of one, also in the second run.
    """
    module, shape = seeded(CASES[name][0]), CASES[name][1]
    x = torch.randn(shape)
    program = torch.export.export(module, (x,))
    with torch.no_grad():
        wanted = module(x)
    most = planned(etir.compile(program, target="etir"))
    for cpu in here():
        made = etir.compile(program, target="etir", delegates=[f"native{{cpus={cpu}}}"])
        assert not made.warnings and planned(made) <= most
        found = []
        for threads in (1, 2):
            method = etir.runtime.load(made, native="trusted", threads=threads).forward
            found += [torch.as_tensor(method(x)[0]).clone() for _ in range(2)]
        assert all(torch.equal(found[0], other) for other in found)
        assert (found[0].view_as(wanted) - wanted).abs().max() <= 1e-5 * wanted.abs().max()


def test_sizes_that_change() -> None:
    """Rows that are known at run time only."""
    module = seeded(Block(torch.relu))
    rows = torch.export.Dim("rows", min=2, max=60)
    program = torch.export.export(module, (torch.randn(50, 72),), dynamic_shapes=({0: rows},))
    made = etir.compile(program, target="etir", delegates=["native"])
    assert planned(made) <= planned(etir.compile(program, target="etir"))
    method = etir.runtime.load(made, native="trusted").forward
    for count in (2, 15, 59, 60, 3):
        x = torch.randn(count, 72)
        with torch.no_grad():
            wanted = module(x)
        assert (torch.as_tensor(method(x)[0]) - wanted).abs().max() <= 1e-5 * wanted.abs().max()


def deep_product(module: nn.Module, shape: tuple[int, ...]) -> BrgemmOp:
    (tiled,) = functions_of(torch.export.export(module.eval(), (torch.randn(shape),)))
    return next(op for op in tiled.func.body.block.ops if isinstance(op, BrgemmOp) and shape_of(op.a)[-1] == DEEP)


def test_only_a_term_of_the_sum() -> None:
    """A factor, or a term of what is made of the sum, is read when the sum is there."""
    for case in ("a sum", "a rectified sum", "without a bias", "a long function of a sum"):
        op = deep_product(*CASES[case])
        number = added_operand(op)
        assert number is not None and shape_of(op.extra[number]) == shape_of(op.c), case
        assert op.over is not None and begins_with(op) == number
    assert added_operand(deep_product(Between(nn.Identity()), (50, 72))) is None
