"""Unique elements, segments, combinations, histograms and windows at random places, against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import etir
from etir.dialects.sym.ops import DimOp
from etir.dialects.text import parse_module

from etir_testing.lowering.evaluate import evaluate
from etir_testing.lowering.one_op import check, compare, decompose

X = torch.tensor([[3.0, 1.0, 3.0], [2.0, 2.0, 1.0], [3.0, 1.0, 3.0], [3.0, 1.0, 2.0]])


HOLES = torch.tensor([[0, 1, 0], [2, 0, 3]])


@pytest.mark.parametrize("size", [0, 2, 5])
@pytest.mark.parametrize("x", [HOLES, HOLES > 0, HOLES[0].float(), torch.tensor(1)])
def test_a_given_number_of_places(x: torch.Tensor, size: int) -> None:
    check("aten.nonzero_static.default", x, size=size, fill_value=-1)
    if x.dim() > 0:
        check("aten.nonzero_static.default", x, size=size, fill_value=-1, dynamic={0: [0]})


class _Call(nn.Module):
    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        """Call the function."""
        return self.function(x)


def _check_exported(function: Callable[..., Any], x: torch.Tensor, *others: torch.Tensor) -> Any:
    """Results with a size that depends on data, which only ``torch.export`` can make types of."""
    module = etir.import_program(torch.export.export(_Call(function), (x,), strict=False))
    names = decompose(module)
    assert not any("unique" in name or "combinations" in name for name in names)
    for values in (x, *others):
        wanted = function(values)
        for got, value in zip(
            evaluate(module, [values]), wanted if isinstance(wanted, tuple) else [wanted], strict=True
        ):
            compare(got, value, 0)
    return module


@pytest.mark.parametrize("x", [X, torch.tensor([5]), X.reshape(-1).int(), torch.tensor(2.0)])
@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("packet", ["unique", "unique_consecutive"])
def test_unique(x: torch.Tensor, more: bool, packet: str) -> None:
    _check_exported(lambda t: getattr(torch, packet)(t, return_inverse=more, return_counts=more), x)


@pytest.mark.parametrize("packet", ["unique", "unique_consecutive"])
@pytest.mark.parametrize("dim", [None, 0])
def test_unique_of_what_is_chosen_at_run_time(dim: int | None, packet: str) -> None:
    """One element, several, and none."""

    def function(t: torch.Tensor) -> Any:
        return getattr(torch, packet)(t[t > 2], return_inverse=True, return_counts=True, dim=dim)

    _check_exported(function, X, torch.tensor([3.0]).expand(4, 3).contiguous(), X.clamp(max=2), X.clamp(max=2.5))


@pytest.mark.parametrize(
    ("packet", "dim"), [("unique", 0), ("unique", -1), *(("unique_consecutive", d) for d in (0, 1))]
)
def test_unique_along_a_dim(dim: int, packet: str) -> None:
    _check_exported(lambda t: getattr(torch, packet)(t, return_inverse=True, return_counts=True, dim=dim), X)


@pytest.mark.parametrize(
    ("x", "limits"),
    [
        (torch.linspace(-1, 2, 50), (-0.5, 1.5)),
        (torch.tensor([0.0, 1.0, 3.0, 3.0, 2.0, 7.0]), (0, 3)),
        (X, (0, 0)),
        (torch.full((5,), 2.0, dtype=torch.float64), (0, 0)),
        (torch.zeros(0), (0, 0)),
        (torch.tensor([float("nan"), 0.5, float("inf")]), (0, 1)),
    ],
)
def test_histc(x: torch.Tensor, limits: tuple[float, float]) -> None:
    check("aten.histc.default", x, 4, *limits)


@pytest.mark.parametrize("x", [X - 1, torch.tensor(2.0), torch.tensor(False)])
def test_nonzero_as_columns(x: torch.Tensor) -> None:
    _check_exported(lambda t: torch.nonzero(t, as_tuple=True), x)


def test_combinations_have_a_size_that_is_known() -> None:
    """torch says that it depends on data: one that nothing bounds."""
    module = _check_exported(lambda t: torch.combinations(t, 1), X.reshape(-1))
    assert [dim.range for dim in module.walk() if isinstance(dim, DimOp)] == [(12, 12)]


@pytest.mark.parametrize(("count", "with_replacement"), [(2, False), (3, True), (5, False)])
def test_combinations(count: int, with_replacement: bool) -> None:
    x = torch.tensor([4.0, 1.0, 3.0, 2.0])
    wanted = torch.combinations(x, count, with_replacement)
    type = f"tensor<{wanted.shape[0]}x{count}xf32>"
    options = f"r = {count}, with_replacement = {str(with_replacement).lower()}"
    module = parse_module(
        f"func.func @forward(%x: tensor<4xf32>) -> {type} {{\n"
        f"  %0 = aten.combinations.default(%x, {options}) : (tensor<4xf32>) -> {type}\n"
        f"  func.return %0 : {type}\n}}\n"
    )
    decompose(module)
    compare(evaluate(module, [x])[0], wanted, 0)


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "max", "min"])
@pytest.mark.parametrize("initial", [None, 2.0])
def test_segments(reduce: str, initial: float | None) -> None:
    x = torch.arange(1.0, 7.0)
    lengths = torch.tensor([1, 0, 3, 2])
    for shaped in (x, torch.stack([x, -x], 1)):
        check("aten.segment_reduce.default", shaped, reduce, lengths=lengths, initial=initial)
    offsets = torch.tensor([0, 1, 1, 4, 6])
    check("aten.segment_reduce.default", x, reduce, offsets=offsets, initial=initial)


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("limits", [None, [1.5, 3.0], [2.0, 2.0]])
def test_histograms(density: bool, limits: list[float] | None) -> None:
    x = torch.randn(40, generator=torch.Generator().manual_seed(4)) + 2
    weight = torch.rand(40, generator=torch.Generator().manual_seed(5))
    check("aten.histogram.bin_ct", x, 7, range=limits, density=density)
    check("aten.histogram.bin_ct", x, 7, range=limits, weight=weight, density=density)
    check("aten.histogram.bins_tensor", x, torch.tensor([0.5, 1.0, 2.5, 3.0]), density=density)
    points = x.reshape(20, 2)
    both = None if limits is None else limits * 2
    check("aten._histogramdd_bin_edges.default", points, [3, 4], range=both)
    check("aten._histogramdd_from_bin_cts.default", points, [3, 4], range=both, density=density)
    edges = [torch.tensor([0.0, 1.0, 2.0]), torch.tensor([1.0, 2.0, 5.0, 6.0])]
    check("aten._histogramdd_from_bin_tensors.default", points, edges, density=density)


@pytest.mark.parametrize("count", [0, 1])
def test_histograms_of_hardly_any_numbers(count: int) -> None:
    """No number has the edges 0 and 1, one those half a step around itself."""
    check("aten.histogram.bin_ct", torch.full([count], 2.75), 4)


def test_fractional_pooling_of_dynamic_sizes() -> None:
    samples = torch.rand(2, 3, 2, generator=torch.Generator().manual_seed(6))
    x = torch.randn(2, 3, 9, 11, generator=torch.Generator().manual_seed(7))
    check("aten.fractional_max_pool2d.default", x, [2, 3], [4, 5], samples, dynamic={0: [2, 3]})


def test_fractional_pooling() -> None:
    samples = torch.rand(2, 3, 2, generator=torch.Generator().manual_seed(6))
    x = torch.randn(2, 3, 9, 7, generator=torch.Generator().manual_seed(7))
    check("aten.fractional_max_pool2d.default", x, [2, 3], [4, 3], samples)
    check("aten.fractional_max_pool2d.default", x, [2, 3], [1, 3], samples)
    check("aten.fractional_max_pool2d.default", x[0], [2, 2], [5, 4], samples[:1])
    samples = torch.rand(2, 3, 3, generator=torch.Generator().manual_seed(8))
    x = torch.randn(2, 3, 6, 7, 5, generator=torch.Generator().manual_seed(9))
    check("aten.fractional_max_pool3d.default", x, [2, 2, 3], [3, 4, 2], samples)


@pytest.mark.parametrize("length", [0, 2, 9])
def test_bins_of_integers(length: int) -> None:
    x = torch.tensor([5, 0, 2, 2])
    module = _check_exported(lambda x: torch.bincount(x, minlength=length), x)
    assert any(op.name == "aten.index_put.default" for op in module.walk())
    _check_exported(lambda x: torch.bincount(x, x * 0.5, minlength=length), x)


def test_there_are_as_many_unique_elements_as_elements_at_most() -> None:
    rows = torch.export.Dim("rows", min=2, max=12)
    for function, most in ((torch.unique, 36), (lambda x: torch.unique(x, dim=0), 12)):
        program = torch.export.export(_Call(function), (X,), dynamic_shapes=[{0: rows}], strict=False)
        dims = [op for op in etir.import_program(program).body.block.ops if isinstance(op, DimOp)]
        assert [op.range for op in dims if op.unbacked is not None] == [(0, most)]
