"""Running sums: along any dim, of long rows, of what is not finite."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402
from xdsl.dialects.test import TestOp  # noqa: E402
from xdsl.utils.exceptions import VerifyException  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.backends.native.scan import ScanOp  # noqa: E402
from etir.backends.native.tile import memref  # noqa: E402
from etir.memory_bound import bytes_of  # noqa: E402

from etir_testing.native.images import ends  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
inf, nan = float("inf"), float("nan")


class Between(nn.Module):
    """Between convolutions."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.first, self.last, self.dim = nn.Conv2d(3, 19, 3), nn.Conv2d(19, 4, 3), dim

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.cumsum(self.first(x), self.dim)
        return self.last(y * 0.1), y


class Rows(nn.Module):
    """Of rows of any length that a product makes."""

    def __init__(self, columns: int, dim: int) -> None:
        super().__init__()
        self.linear, self.dim = nn.Linear(8, columns), dim

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(torch.cumsum(self.linear(x), self.dim))


def check(model: nn.Module, x: Tensor, name: str) -> None:
    exported = torch.export.export(model.eval(), (x,))
    made = etir.compile(exported, target="etir", delegates=[f"native{{cpus={name}}}"])
    assert made.warnings == () and not made.delegation.fallback
    assert bytes_of(made) <= bytes_of(etir.compile(exported, target="etir"))
    with torch.no_grad():
        found = model(x)
    wanted = found if isinstance(found, tuple) else (found,)
    for policy, threads in (("trusted", 1), ("trusted", 2), ("refuse", 1)):
        results = etir.runtime.load(made, native=policy, threads=threads).forward(x)
        for got, want in zip(results, wanted, strict=True):
            torch.testing.assert_close(torch.as_tensor(got), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ends())
@pytest.mark.parametrize("dim", [0, 1, 2, 3, -1, -3])
def test_of_images(dim: int, name: str) -> None:
    torch.manual_seed(0)
    check(Between(dim), torch.randn(2, 3, 9, 8), name)


@pytest.mark.parametrize("name", ends())
@pytest.mark.parametrize(("columns", "dim"), [(1, -1), (33, 1), (16, 2), (50, 2), (7, 0)])
def test_of_rows(columns: int, dim: int, name: str) -> None:
    torch.manual_seed(0)
    check(Rows(columns, dim), torch.randn(3, 6, 8), name)


@pytest.mark.parametrize("dim", [0, 1])
def test_long_sums_and_what_is_not_finite(dim: int) -> None:
    """Nothing is lost in long sums: torch's are of float64; after an infinity or a NaN, sums are that."""
    torch.manual_seed(0)
    rows = torch.rand(12, 20_000) + 1.0
    rows[1, 100], rows[2, 50], rows[3, 7], rows[3, 9], rows[4, -1] = inf, nan, inf, -inf, nan
    rows[5], rows[6] = 1e-8, torch.rand(20_000) - 0.5
    rows[5, 0] = 1.0

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(rows.shape[1], 3)

        def forward(self, x: Tensor) -> Tensor:
            x = torch.cat([self.linear(x), x], 1)[:, 3:]
            return torch.cumsum(x.t() if dim == 0 else x, dim)

    made = etir.compile(torch.export.export(Model(), (rows,)), target="etir", delegates=["native{arena=free}"])
    assert not made.delegation.fallback
    got = torch.as_tensor(etir.runtime.load(made).forward(rows)[0])
    want = torch.cumsum(rows.double(), 1).float()
    torch.testing.assert_close(got, want.t() if dim == 0 else want, rtol=2e-7, atol=2e-6, equal_nan=True)


@pytest.mark.parametrize(("one", "other"), [((3, 4), (4, 3)), ((4,), (4,)), ((0, 4), (0, 4))])
def test_what_is_no_running_sum(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    values = TestOp(result_types=[memref(one), memref(other)]).results
    with pytest.raises(VerifyException):
        ScanOp(*values).verify_()


def test_dims_of_the_call() -> None:
    """They stay with the kernels."""
    count = torch.export.Dim("count", min=2, max=40)
    exported = torch.export.export(Rows(5, 1), (torch.randn(2, 9, 8),), dynamic_shapes=({1: count},))
    made = etir.compile(exported, target="etir", delegates=["native{cpus=x86-64}"])
    assert any("run time" in item.reason for item in made.delegation.backends[0].rejected)
