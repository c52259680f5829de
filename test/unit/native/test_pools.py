"""Pools: adaptive ones whose windows have several sizes, divisors of their own, images without a border."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.backends.native.lowering.function import Lowering  # noqa: E402
from etir.backends.native.tile import PoolOp  # noqa: E402
from etir.backends.native.uneven import MOST_POOLS, runs_of  # noqa: E402
from etir.backends.native.windows import can_be_cut  # noqa: E402
from etir.memory_bound import bytes_of  # noqa: E402

from etir_testing.native.functions import functions_of  # noqa: E402
from etir_testing.native.images import ends  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
Pool = Callable[[Tensor], Tensor]


@pytest.mark.parametrize("given", range(1, 40))
def test_runs_are_the_windows_of_torch(given: int) -> None:
    """Every element is in one run, with the window that torch's kernel computes."""
    for count in range(1, 24):
        found = {
            run.first + i * run.step: (run.start + i * run.stride, run.taps)
            for run in runs_of(given, count)
            for i in range(run.count)
        }
        assert sum(run.count for run in runs_of(given, count)) == count
        for i in range(count):
            start, end = i * given // count, -(-(i + 1) * given // count)
            assert found[i] == (start, end - start)


def test_few_runs() -> None:
    """Sizes that images and pools have."""
    assert {pair: len(runs_of(*pair)) for pair in ((8, 5), (7, 6), (10, 7), (32, 7), (13, 5), (1, 7), (6, 3))} == {
        (8, 5): 2, (7, 6): 1, (10, 7): 3, (32, 7): 2, (13, 5): 2, (1, 7): 1, (6, 3): 1,
    }  # fmt: skip


class Between(nn.Module):
    """A pool between convolutions, or before what is not one."""

    def __init__(self, pool: Pool, channels: int = 8, *, alone: bool = False) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.last = nn.Identity() if alone else nn.Conv2d(channels, 8, 3, padding=1)
        self.pool = pool

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.pool(self.first(x)))


def drawn(seed: int) -> tuple[Pool, tuple[int, int]]:
    """A pool, and the sides of an image that it fits."""
    chance = random.Random(seed)
    sides = chance.randint(5, 17), chance.randint(5, 17)
    wanted = chance.choice([(5, 5), (3, 4), (7, 7), (1, 3), (6, 2), (20, 3), (sides[0], 4), (5, 1)])
    size, stride = chance.randint(2, 4), chance.randint(1, 3)
    padding, ceil = chance.randint(0, size // 2), chance.random() < 0.5
    inside, divisor = chance.random() < 0.5, chance.choice([1, 3, 7])
    pools: list[Pool] = [
        lambda y: F.adaptive_avg_pool2d(y, wanted),
        lambda y: F.adaptive_max_pool2d(y, wanted),
        lambda y: F.adaptive_avg_pool1d(y.flatten(2), 7)[..., None],
        lambda y: F.avg_pool1d(y.flatten(2), size, stride, padding, ceil and not padding, inside)[..., None],
        lambda y: F.avg_pool2d(y, size, stride, padding),
        lambda y: F.avg_pool2d(y, size, stride, padding, ceil, inside, divisor),
    ]
    return pools[seed % len(pools)], sides


@pytest.mark.parametrize("name", ends())
@pytest.mark.parametrize("seed", range(18))
def test_results_are_eager_s(seed: int, name: str) -> None:
    """Of code, and of the kernels in its place: one delegate, with a convolution after it or with none."""
    torch.manual_seed(seed)
    pool, sides = drawn(seed)
    model = Between(pool, 8 if seed % 2 else 19, alone=seed % 3 == 0).eval()
    x = torch.randn(1 + seed % 2, 3, *sides)
    made = etir.compile(
        torch.export.export(model, (x,)), target="etir", delegates=[f"native{{cpus={name} arena=free}}"]
    )
    assert made.warnings == () and not made.delegation.fallback
    assert len(made.delegation.backends[0].partitions) == 1
    with torch.no_grad():
        wanted = model(x)
    for policy in ("trusted", "refuse"):
        (got,) = etir.runtime.load(made, native=policy).forward(x)
        torch.testing.assert_close(torch.as_tensor(got), wanted, rtol=1e-5, atol=1e-5)


MEMORY: dict[str, Pool] = {
    "uneven means": lambda y: F.adaptive_avg_pool2d(y, 5),
    "uneven maxima": lambda y: F.adaptive_max_pool2d(y, (5, 3)),
    "even maxima": lambda y: F.adaptive_max_pool2d(y, 4),
    "means with a border": lambda y: F.avg_pool2d(y, 3, 2, 1),
    "means without steps": lambda y: F.avg_pool2d(y, 3, 1, 1),
    "sums": lambda y: F.avg_pool2d(y, 3, 2, 1, divisor_override=1),
}


@pytest.mark.parametrize("which", list(MEMORY))
def test_memory_is_that_of_the_kernels(which: str) -> None:
    torch.manual_seed(0)
    model, x = Between(MEMORY[which]).eval(), torch.randn(1, 3, 8, 8)
    exported = torch.export.export(model, (x,))
    made = etir.compile(exported, target="etir", delegates=["native{cpus=x86-64}"])
    assert not made.delegation.fallback and len(made.delegation.backends[0].partitions) == 1
    assert bytes_of(made) <= bytes_of(etir.compile(exported, target="etir"))
    with torch.no_grad():
        wanted = model(x)
    torch.testing.assert_close(torch.as_tensor(etir.runtime.load(made).forward(x)[0]), wanted, rtol=1e-5, atol=1e-5)


def test_means_of_an_image_without_a_border(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of the result, each with the taps that are in the image; what is left out counts as 0."""
    model = Between(MEMORY["means with a border"], alone=True).eval()
    exported = torch.export.export(model, (torch.randn(1, 3, 9, 9),))
    for is_cut, wanted in ((False, ["mean"]), (True, ["mean", *["sum"] * 8])):
        monkeypatch.setattr(Lowering, "is_cut", lambda self, op, is_cut=is_cut: is_cut and can_be_cut(op))
        (tiled,) = functions_of(exported)
        assert sorted(op.kind.data for op in tiled.func.walk() if isinstance(op, PoolOp)) == wanted


@pytest.mark.parametrize("pool", [F.adaptive_max_pool2d, F.max_pool2d])
def test_places_that_are_read(pool: Callable[..., tuple[Tensor, Tensor]]) -> None:
    """They are the kernels'."""

    def function(y: Tensor) -> Tensor:
        values, places = pool(y, 3, return_indices=True)
        return values + places

    model = Between(function, alone=True).eval()
    exported = torch.export.export(model, (torch.randn(1, 3, 9, 8),))
    made = etir.compile(exported, target="etir", delegates=["native{cpus=x86-64}"])
    assert any("places of the largest" in item.reason for item in made.delegation.backends[0].rejected)


def test_too_many_runs() -> None:
    """More operations than are worth it are the kernels'."""
    given, count = next((n, k) for n in range(20, 90) for k in range(5, n) if len(runs_of(n, k)) ** 2 > MOST_POOLS)
    model = Between(lambda y: F.adaptive_avg_pool2d(y, count), alone=True).eval()
    exported = torch.export.export(model, (torch.randn(1, 3, given, given),))
    made = etir.compile(exported, target="etir", delegates=["native{cpus=x86-64}"])
    assert any("several sizes" in item.reason for item in made.delegation.backends[0].rejected)


NEIGHBORS: dict[str, Pool] = {
    **{f"response {size}": nn.LocalResponseNorm(size, alpha=0.3) for size in (2, 3, 5)},
    "rows and columns": lambda y: F.avg_pool3d(y[:, None], (1, 3, 2), 1)[:, 0],
    "channels and rows": lambda y: F.avg_pool3d(y[:, None], (2, 3, 1), 1)[:, 0],
    "one": lambda y: F.avg_pool3d(y[:, None], 1)[:, 0] * 2.0,
}


@pytest.mark.parametrize("name", ends())
@pytest.mark.parametrize("which", list(NEIGHBORS))
def test_means_of_neighbors(which: str, name: str) -> None:
    """Along any dims of an image whose channels lie side by side, between convolutions, and as the program's result."""
    torch.manual_seed(0)
    pool, x = NEIGHBORS[which], torch.randn(2, 3, 9, 7)

    def both(y: Tensor) -> Tensor:
        return pool(y)[:, :7, :6, :5]

    for alone in (False, True):
        model = Between(both, 7 if not alone else 18, alone=alone).eval()
        if not alone:
            model.last = nn.Conv2d(model.pool(model.first(x)).shape[1], 8, 3)
        exported = torch.export.export(model, (x,))
        made = etir.compile(exported, target="etir", delegates=[f"native{{cpus={name}}}"])
        assert not made.delegation.fallback and len(made.delegation.backends[0].partitions) == 1
        assert alone or bytes_of(made) <= bytes_of(etir.compile(exported, target="etir"))
        with torch.no_grad():
            wanted = model(x)
        for policy in ("trusted", "refuse"):
            (got,) = etir.runtime.load(made, native=policy).forward(x)
            torch.testing.assert_close(torch.as_tensor(got), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("given", "why"), [((2, 2, 2), "three dims"), ((1, 1, 2), "steps")])
def test_neighbors_that_are_left(given: tuple[int, int, int], why: str) -> None:
    stride = 1 if "dims" in why else 2
    model = Between(lambda y: F.avg_pool3d(y[:, None], given, stride)[:, 0], alone=True).eval()
    exported = torch.export.export(model, (torch.randn(1, 3, 9, 8),))
    made = etir.compile(exported, target="etir", delegates=["native{cpus=x86-64}"])
    assert any(why in item.reason for item in made.delegation.backends[0].rejected)
