"""Reductions that are walks over elements: variances, norms, products, sums of exponentials, what is largest."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402
from xdsl.dialects.test import TestOp  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.backends.native.cpu import cpu  # noqa: E402
from etir.backends.native.kernels import template_of  # noqa: E402
from etir.backends.native.tile import MapOp, PoolOp, YieldOp, body_of, memref  # noqa: E402
from etir.memory_bound import bytes_of  # noqa: E402

from etir_testing.native.functions import functions_of  # noqa: E402
from etir_testing.native.images import ends, here  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
inf, nan = float("inf"), float("nan")
Reduction = Callable[[Tensor, list[int], bool], Any]


def norm_of(order: float) -> Reduction:
    return lambda y, dims, keep: torch.linalg.vector_norm(y, order, dims, keep)


def mean_and_deviation(y: Tensor, dims: list[int], keep: bool) -> Tensor:
    variance, mean = torch.var_mean(y, dims, keepdim=keep)
    return mean + variance.sqrt()


REDUCTIONS: dict[str, Reduction] = {
    "var": lambda y, dims, keep: y.var(dims, keepdim=keep),
    "var0": lambda y, dims, keep: y.var(dims, correction=0, keepdim=keep),
    "var2.5": lambda y, dims, keep: y.var(dims, correction=2.5, keepdim=keep),
    "std": lambda y, dims, keep: y.std(dims, keepdim=keep),
    "var_mean": mean_and_deviation,
    "var of var_mean": lambda y, dims, keep: torch.var_mean(y, dims, keepdim=keep)[0],
    "logsumexp": lambda y, dims, keep: torch.logsumexp(y, dims, keep),
    "prod": lambda y, dims, keep: y.prod(dims[0], keepdim=keep),
    "prod of all": lambda y, dims, keep: y.prod(),
    "mean of all": lambda y, dims, keep: y.mean(),
    "max": lambda y, dims, keep: y.max(dims[0], keep)[0],
    "min": lambda y, dims, keep: y.min(dims[0], keep)[0],
    "max of all": lambda y, dims, keep: y.abs().max(),
    **{f"norm {order}": norm_of(order) for order in (0, 1, 2, 3, 4, 0.5, 1.5, -1, -2.5, inf, -inf)},
}


class Reduced(nn.Module):
    """What a layer makes, reduced; numbers are above 0.3, so that a product and a norm below 1 say something."""

    def __init__(self, layer: nn.Module, *reductions: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.reductions = layer, reductions

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.layer(x)
        return tuple(reduction(y) for reduction in self.reductions)


def drawn(reduction: Reduction, seed: int, *, several: int = 4) -> tuple[nn.Module, Tensor]:
    """Along some dims of images or rows of odd and even sizes."""
    chance = random.Random(seed)
    torch.manual_seed(seed)
    is_image = chance.random() < 0.6
    if is_image:
        x = torch.randn(2, 5, chance.choice([1, 6, 9]), 9)
        layer: nn.Module = nn.Conv2d(5, chance.choice([3, 16, 35]), 1)
    else:
        x, layer = torch.randn(3, 6, 20), nn.Linear(20, chance.choice([8, 33]))

    def reduced() -> Callable[[Tensor], Tensor]:
        dims = chance.sample(range(x.dim()), chance.randint(1, x.dim()))
        dims = [d - x.dim() if chance.random() < 0.3 else d for d in dims]
        keep = chance.random() < 0.5
        return lambda y: reduction(y.sigmoid() + 0.3, dims, keep)

    return Reduced(layer, *(reduced() for _ in range(several))).eval(), x


def close(got: Any, want: Tensor) -> None:
    torch.testing.assert_close(torch.as_tensor(got), want, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("name", ends())
@pytest.mark.parametrize("which", list(REDUCTIONS))
def test_results_are_eager_s(which: str, name: str) -> None:
    """Of code, and of the kernels in its place; all of it is one delegate."""
    model, x = drawn(REDUCTIONS[which], 2 * [*REDUCTIONS].index(which) + here().index(name))
    exported = torch.export.export(model, (x,))
    made = etir.compile(exported, target="etir", delegates=[f"native{{cpus={name} arena=free}}"])
    assert made.warnings == () and not made.delegation.fallback
    assert len(made.delegation.backends[0].partitions) == 1
    with torch.no_grad():
        wanted = model(x)
    for policy in ("trusted", "refuse"):
        results = etir.runtime.load(made, native=policy).forward(x)
        for got, want in zip(results, wanted, strict=True):
            close(got, want)


SPECIAL = {
    "infinite": [inf, 1.0, 2.0, -3.0],
    "below": [-inf, 1.0, 2.0, -3.0],
    "both": [-inf, inf, 2.0, -3.0],
    "none": [-inf, -inf, -inf, -inf],
    "NaN": [nan, 1.0, -inf, 2.0],
    "last": [1.0, 0.0, 2.0, nan],
    "zeros": [0.0, -0.0, 0.0, 0.0],
    "large": [1e18, -3e18, 2e18, 1e17],
    "small": [1e-30, 0.0, -2e-30, 1e-42],
    "equal": [7.3, 7.3, 7.3, 7.3],
}


@pytest.mark.parametrize("which", list(REDUCTIONS))
def test_numbers_at_the_ends(which: str) -> None:
    """Rows and columns of what is not finite, is equal or is at the ends of the range give what torch gives."""
    reduction = REDUCTIONS[which]
    rows = torch.tensor([[*numbers] * 5 for numbers in SPECIAL.values()])

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(20, 20)

        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            x = torch.cat([self.linear(x), -x])[len(x) :]
            return reduction(x, [1], True), reduction(x.t(), [0], False)

    model = Model().eval()
    made = etir.compile(torch.export.export(model, (rows,)), target="etir", delegates=["native{arena=free}"])
    assert not made.delegation.fallback
    with torch.no_grad():
        wanted = model(rows)
    for got, want in zip(etir.runtime.load(made).forward(rows), wanted, strict=True):
        close(got, want)


@pytest.mark.parametrize("along_rows", [True, False])
def test_variance_of_large_numbers_that_differ_little(along_rows: bool) -> None:
    """A mean of a million is rounded to a sixteenth, as is the deviation from it."""
    torch.manual_seed(0)
    noise = torch.randint(-2, 3, (12, 700)) / 16
    offsets = torch.tensor([0.0, 1.0, 1e2, 1e4, 1e5, 1e6] * 2)[:, None]
    rows = (offsets + noise) if along_rows else (offsets + noise).t().contiguous()

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(rows.shape[1], 3)

        def forward(self, x: Tensor) -> Tensor:
            rows = torch.cat([self.linear(x), -x], 1)[:, 3:]
            return rows.var(1 if along_rows else 0)

    model = Model().eval()
    made = etir.compile(torch.export.export(model, (rows,)), target="etir", delegates=["native{arena=free}"])
    assert not made.delegation.fallback
    got = torch.as_tensor(etir.runtime.load(made).forward(rows)[0])
    torch.testing.assert_close(got, rows.double().var(1 if along_rows else 0).float(), rtol=1e-5, atol=0)


def test_dims_of_the_call() -> None:
    """Rows, and the length of what is reduced, are known at run time only; what would need their number is left."""
    torch.manual_seed(0)
    linear = nn.Linear(8, 12)
    model = Reduced(
        linear,
        lambda y: y.var(-1),
        lambda y: y.var(1, correction=0),
        lambda y: torch.logsumexp(y, 2),
        lambda y: y.norm(p=1, dim=1),
        lambda y: y.prod(1),
        lambda y: y.max(2)[0],
        lambda y: y.mean(),
    ).eval()
    count = torch.export.Dim("count", min=2, max=40)
    exported = torch.export.export(model, (torch.randn(2, 9, 8),), dynamic_shapes=({1: count},))
    made = etir.compile(exported, target="etir", delegates=["native{arena=free}"])
    assert not made.delegation.fallback
    loaded = etir.runtime.load(made)
    for n in (2, 9, 40):
        x = torch.randn(2, n, 8)
        with torch.no_grad():
            wanted = model(x)
        for got, want in zip(loaded.forward(x), wanted, strict=True):
            close(got, want)
    left = Reduced(linear, lambda y: y.var(1), lambda y: torch.logsumexp(y, 1), lambda y: y.norm(p=inf, dim=1))
    exported = torch.export.export(left.eval(), (torch.randn(2, 9, 8),), dynamic_shapes=({1: count},))
    made = etir.compile(exported, target="etir", delegates=["native{arena=free}"])
    reasons = [item.reason for item in made.delegation.backends[0].rejected]
    assert len(reasons) == 3 and all("known at run time" in r or "may be empty" in r for r in reasons)


def test_indices_that_are_read() -> None:
    """The places of the largest elements are the kernels'."""
    model = Reduced(nn.Linear(8, 12), lambda y: y.max(1)[0], lambda y: y.max(1)[1] + 1).eval()
    made = etir.compile(torch.export.export(model, (torch.randn(2, 8),)), target="etir", delegates=["native"])
    assert any("places of the largest" in item.reason for item in made.delegation.backends[0].rejected)


class Between(nn.Module):
    """Convolutions around what divides an image by a number of its channels, or of its pixels."""

    def __init__(self, reduction: Reduction, dims: list[int]) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 8, 3, padding=1)
        self.reduction, self.dims = reduction, dims

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        return self.last(y / (self.reduction(y, self.dims, True).abs() + 1.0))


@pytest.mark.parametrize("dims", [[1], [2, 3], [1, 2, 3]], ids=str)
@pytest.mark.parametrize("which", ["var", "std", "var_mean", "logsumexp", "prod", "max", "norm 1", "norm 3"])
def test_memory_is_that_of_the_kernels(which: str, dims: list[int]) -> None:
    """No walk has a tensor of its own beside an image, whose channels lie side by side."""
    torch.manual_seed(0)
    model, x = Between(REDUCTIONS[which], dims).eval(), torch.randn(1, 3, 16, 16)
    exported = torch.export.export(model, (x,))
    made = etir.compile(exported, target="etir", delegates=["native{cpus=x86-64}"])
    assert not made.delegation.fallback and len(made.delegation.backends[0].partitions) == 1
    assert bytes_of(made) <= bytes_of(etir.compile(exported, target="etir"))
    with torch.no_grad():
        close(etir.runtime.load(made).forward(x)[0], model(x))


def test_walks_have_no_maps_of_all_elements() -> None:
    """Exponentials are made as they are summed: what is left are numbers of rows."""
    model = Reduced(nn.Linear(8, 64), lambda y: torch.logsumexp(y, 1)).eval()
    (tiled,) = functions_of(torch.export.export(model, (torch.randn(5, 8),)))
    maps = [op for op in tiled.func.walk() if isinstance(op, MapOp)]
    assert maps and all(op.out.type.get_shape() == (5,) for op in maps)


@pytest.mark.parametrize("which", ["var", "logsumexp"])
@pytest.mark.parametrize("dims", [[0], [2], [0, 2], [0, 3], [1, 2], [0, 2, 3]], ids=str)
def test_results_in_another_order_than_images(which: str, dims: list[int]) -> None:
    """Results are planes, while channels of the image lie side by side: the walks go as the image lies."""
    torch.manual_seed(0)
    model = Reduced(nn.Conv2d(3, 19, 1), lambda y: REDUCTIONS[which](y, dims, True)).eval()
    x = torch.randn(2, 3, 5, 6)
    made = etir.compile(torch.export.export(model, (x,)), target="etir", delegates=["native{arena=free}"])
    assert not made.delegation.fallback
    with torch.no_grad():
        close(etir.runtime.load(made).forward(x)[0], model(x)[0])


def test_numbers_beside_a_walk_lie_as_its_vectors() -> None:
    """Operands that are given to every element are one number, or side by side."""
    body = body_of(2)
    body.block.add_op(YieldOp(body.block.args[1]))
    a, c, extra = TestOp(
        result_types=[memref((1, 4, 1, 2, 8)), memref((1, 4, 8)), memref((1, 4, 8), (0, 1, 4))]
    ).results
    op = PoolOp("sum", a, c, [extra], body)
    assert "side by side" in (template_of(op).illegal(op, cpu("x86-64")) or "")
