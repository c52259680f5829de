"""What random arguments rarely are: operands that are one tensor, numbers at the ends of their range, few dims."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402

Case = tuple[Callable[..., Any], tuple[Any, ...], list[nn.Module]]


class Function(nn.Module):
    """A function of some layers as a module."""

    def __init__(self, function: Callable[..., Any], layers: list[nn.Module]) -> None:
        super().__init__()
        self.function, self.layers = function, nn.ModuleList(layers)

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def shared_operands() -> Case:
    """A bias that is an operand along another dim, too; one tensor as both factors; weights in two orders."""
    image, signal, rows = nn.Conv2d(3, 8, 3, padding=1), nn.Conv1d(8, 8, 3, padding=1), nn.Linear(8, 8)

    def function(x: Any) -> Any:
        y = image(x) + image.bias
        z = signal(y[:, :, 0]) * signal.bias - signal.bias.view(8, 1)
        both = (z @ rows.weight) + (z @ rows.weight.t()) + rows(z) + rows.weight
        return y, z, torch.bmm(both, both) + both, torch.addmm(both[0], both[0], both[0]) + both[0]

    return function, (torch.randn(1, 3, 4, 8),), [image, signal, rows]


def joined_images() -> Case:
    """Images along a dim of their own, and pixels from channels, with every number of dims before them."""
    first, second = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(4, 8, 1)

    def function(x: Any) -> Any:
        stacks = [torch.stack([first(x), second(x) + d], d) for d in range(5)]
        return *stacks, F.pixel_shuffle(first(x)[0] * 2.0, 2), F.pixel_shuffle(torch.stack([first(x)] * 2) + 1.0, 2)

    return function, (torch.randn(2, 4, 3, 5),), [first, second]


def few_dims() -> Case:
    """Sums of numbers, rows of one, products with one column that lie apart."""
    rows, column = nn.Linear(8, 1), nn.Linear(1, 5)

    def function(x: Any) -> Any:
        y = rows(x)
        total = y.sum()
        numbers = (
            total.sum(0),
            total.mean(-1) * 2.0,
            total.amax().amax(0),
            total.amin(0) + 1.0,
            y.amin((0, 1), True).permute(1, 0),
        )
        return *numbers, torch.stack([y, rows(x + 1.0)], -1), column(y).softmax(0), y.squeeze(-1).sum(-1), rows(x[0])

    return function, (torch.randn(3, 8),), [rows, column]


def one_wide() -> Case:
    """Heads of one number, whose panels have one row; a norm of images of one column, which lie apart."""
    rows, image = nn.Linear(8, 1), nn.Conv2d(2, 5, 1)

    def function(x: Any) -> Any:
        y = rows(x).unsqueeze(1)
        columns = image(x.view(2, 2, 24, 1)[:, :, ::2])
        return F.scaled_dot_product_attention(y, y, y), F.layer_norm(columns, (12, 1))

    return function, (torch.randn(2, 6, 8),), [rows, image]


def large_numbers() -> Case:
    """Bounds that are NaN, numbers beyond float32, logarithms beside large numbers, sums that overflow unscaled."""
    rows = nn.Linear(8, 8)

    def function(x: Any, large: Any) -> Any:
        y = rows(x)
        return (
            torch.clamp(y, min=float("nan"), max=1.0), torch.clamp(y, max=float("nan")), y * 1e39, y + 1e300, y - 1e300,
            torch.clamp(y, min=1.0, max=-1.0), F.log_softmax(y + 1e4, -1), F.log_softmax(y * 0.0 + 1e8, -1),
            torch.bmm(large * 1e-30, large), F.pad(y, [1, 1], value=float("-inf")), F.softmax(y - float("inf"), -1),
        )  # fmt: skip

    return function, (torch.randn(3, 8), torch.full((1, 4, 4), 1e30)), [rows]


def small_numbers() -> Case:
    """Differences from 1 and from a mean, where they are near 0."""
    rows, norm = nn.Linear(8, 7), nn.LayerNorm(7)

    def function(x: Any) -> Any:
        y = rows(x)
        return F.elu(y * 1e-5), F.layer_norm(y[:, :1].expand(3, 7) + 10.0, (7,)), norm(y * 1e-4 + 10.0)

    return function, (torch.randn(3, 8),), [rows, norm]


CASES = [shared_operands, joined_images, few_dims, one_wide, large_numbers, small_numbers]


def tensors(found: Any) -> Iterator[Any]:
    return iter([found] if isinstance(found, torch.Tensor) else found)


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_unusual_operands(make: Callable[[], Case]) -> None:
    """Each result within 1e-5 of its largest number from float64, or within what eager is."""
    torch.manual_seed(0)
    function, inputs, layers = make()
    module = Function(function, layers).eval()
    with torch.no_grad():
        eager = [*tensors(module(*inputs))]
    program = etir.compile(torch.export.export(module, inputs), target="etir", delegates=["native"])
    with torch.no_grad():
        wide = [*tensors(module.double()(*(x.double() for x in inputs)))]
    assert not program.warnings and program.delegation is not None and program.delegation.backends[0].partitions
    results = etir.runtime.load(program, native="trusted").forward(*inputs)
    for number, (got, want, exact) in enumerate(zip(results, eager, wide, strict=True)):
        assert got.shape == want.shape
        assert torch.equal(got.isnan(), want.isnan()) and torch.equal(got.isinf(), want.isinf()), number
        assert torch.equal(got[got.isinf()], want[got.isinf()]), number
        there = want.isfinite()
        if there.any():
            off, allowed = ((x[there] - exact[there]).abs().max() for x in (got.double(), want.double()))
            assert off <= max(1e-5 * exact[there].abs().max(), 2 * allowed), number
