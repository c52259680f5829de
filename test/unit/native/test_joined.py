"""Joins that are not made: those of a reduction, and of another join (:mod:`etir.backends.native.joined`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import etir
import etir.runtime
from etir.backends.api.interface import Outlined
from etir.backends.native import compile as native
from etir.dialects.edge import ops as edge
from etir.dialects.schema_op import SchemaOp
from etir.memory_bound import bytes_of

from etir_testing.native.functions import functions_of
from etir_testing.native.images import here

pytestmark = pytest.mark.filterwarnings("ignore")
CPU = f"cpus={here()[-1]}"


class Branches(nn.Module):
    """Three branches of one image, and what is made of them, of the same size."""

    def __init__(self, made: Callable[..., Tensor]) -> None:
        super().__init__()
        self.made = made
        self.first, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        image = self.first(x)
        made = self.made(image, torch.relu(image), torch.tanh(image))
        return self.last(made.reshape(x.shape[0], 8, *x.shape[2:]))


ADDED: Mapping[str, Callable[..., Tensor]] = {
    "sum": lambda *parts: torch.stack(parts).sum(0),
    "sum that keeps its dim": lambda *parts: torch.stack(parts, 1).sum(1, keepdim=True),
    "mean along the last dim": lambda *parts: torch.stack(parts, -1).mean(-1),
    "largest": lambda *parts: torch.stack(parts).amax(0),
    "smallest, in the middle": lambda *parts: torch.stack(parts, 2).amin(2, keepdim=True),
    "one example each": lambda *parts: torch.cat(parts).sum(0),
    "one example each, kept": lambda *parts: torch.cat(parts).mean(0, keepdim=True),
    "one of them twice": lambda a, b, c: torch.stack([a, b, a]).sum(-5) + c * 0,
}
OTHERS: Mapping[str, Callable[..., Tensor]] = {
    "more dims than that": lambda *parts: torch.stack(parts).sum((0, 1)),
    "another dim": lambda a, b, _: torch.stack([a, b], 2).sum(1).repeat(1, 4, 1, 1)[:, :8],
    "several of each": lambda a, b, _: torch.cat([a, b], 1).reshape(1, 2, 8, *a.shape[2:]).sum(1),
    "read besides": lambda *parts: (joined := torch.stack(parts)).sum(0) + joined[1],
}


def compiled(made: Callable[..., Tensor]) -> tuple[int, int, float, str]:
    """Bytes that a program of branches needs with machine code and without, how far the code is from eager, and the
    functions of ``tile``.
    """
    torch.manual_seed(0)
    module, x = Branches(made).eval(), torch.randn(1, 3, 12, 17)
    x[0, 0, 0, 0], x[0, 1, 2, 3] = 3e4, -3e4
    exported = torch.export.export(module, (x,))
    program = etir.compile(exported, target="etir", delegates=[f"native{{{CPU}}}"])
    kernels = etir.compile(exported, target="etir")
    with torch.no_grad():
        expected = module(x)
    (found,) = etir.runtime.load(program).forward(x)
    error = float((torch.as_tensor(found) - expected).abs().max() / expected.abs().max())
    text = "\n".join(str(tiled.func) for tiled in functions_of(exported))
    return bytes_of(program), bytes_of(kernels), error, text


def grouped(exported: Any) -> list[SchemaOp]:
    """The joins of a program after ``native-group``'s rewrites."""
    with outlined_functions() as found:
        etir.compile(exported, target="etir", delegates=[f"native{{{CPU} arena=free}}"])
    return [op for one in found for op in one.func.body.block.ops if isinstance(op, edge.aten.cat.default)]


@contextmanager
def outlined_functions() -> Iterator[list[Outlined]]:
    """While it lasts, the functions that code is made of are kept."""
    kept: list[Outlined] = []
    real = native.compile_function

    def keep(outlined: Outlined, *given: Any, **named: Any) -> Any:
        kept.append(outlined)
        return real(outlined, *given, **named)

    native.compile_function = keep
    try:
        yield kept
    finally:
        native.compile_function = real


@pytest.mark.parametrize("name", ADDED)
def test_parts_are_combined_without_a_join(name: str) -> None:
    need, most, error, text = compiled(ADDED[name])
    assert error < 1e-6
    assert need < most
    assert "tile.map" in text and "tile.reduce" not in text and "tile.pool" not in text


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_read_otherwise_stays_joined(name: str) -> None:
    _, _, error, text = compiled(OTHERS[name])
    assert error < 1e-6
    assert "tile.reduce" in text or "tile.pool" in text


class Decoder(nn.Module):
    """Branches that are joined, and joined again to what has more channels, for a convolution."""

    def __init__(self, kept: bool, dim: int = -3) -> None:
        super().__init__()
        self.kept, self.dim = kept, dim
        self.first = nn.ModuleList(nn.Conv2d(8, 16 + n, 3, padding=1) for n in range(5))
        self.last = nn.Conv2d(90, 12, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        a, b, c, d, e = (torch.relu(one(x)) for one in self.first)
        inner = torch.cat([b, torch.cat([c, d], self.dim)], 1)
        made = self.last(torch.cat([a, inner, e], self.dim))
        return made + inner[:, :12] if self.kept else made


@pytest.mark.parametrize("kept", [False, True])
def test_joins_of_joins_are_one(kept: bool) -> None:
    torch.manual_seed(1)
    module, x = Decoder(kept).eval(), torch.randn(1, 8, 24, 40)
    exported = torch.export.export(module, (x,))
    program = etir.compile(exported, target="etir", delegates=[f"native{{{CPU}}}"])
    with torch.no_grad():
        expected = module(x)
    (found,) = etir.runtime.load(program).forward(x)
    assert (torch.as_tensor(found) - expected).abs().max() / expected.abs().max() < 1e-6
    assert bytes_of(program) <= bytes_of(etir.compile(exported, target="etir"))
    assert [len(op.arg("tensors")) for op in grouped(exported)] == ([3, 3] if kept else [5])


def test_not_a_number_is_the_largest_and_the_smallest() -> None:
    class Extremes(nn.Module):
        def forward(self, a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
            parts = [a, b, c]
            return torch.stack(parts).amax(0), torch.stack(parts).amin(0)

    given = [torch.randn(4, 9) for _ in range(3)]
    given[1][0, 0], given[2][1, 3], given[0][2, 2] = torch.nan, torch.inf, -torch.inf
    exported = torch.export.export(Extremes(), (*given,))
    program = etir.compile(exported, target="etir", delegates=[f"native{{{CPU} arena=free}}"])
    for found, expected in zip(etir.runtime.load(program).forward(*given), Extremes()(*given), strict=True):
        assert torch.equal(torch.as_tensor(found).nan_to_num(7.5), expected.nan_to_num(7.5))


def test_sizes_may_be_known_at_run_time() -> None:
    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            y = self.linear(x)
            return torch.stack([y, torch.relu(y), torch.tanh(y)]).sum(0)

    torch.manual_seed(0)
    module = Rows().eval()
    shapes = ({0: torch.export.Dim("rows", min=1, max=6)},)
    exported = torch.export.export(module, (torch.randn(3, 8),), dynamic_shapes=shapes)
    runtime = etir.runtime.load(etir.compile(exported, target="etir", delegates=[f"native{{{CPU}}}"]))
    for rows in (6, 1, 4):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(torch.as_tensor(runtime.forward(x)[0]), module(x).detach(), rtol=0, atol=1e-6)
