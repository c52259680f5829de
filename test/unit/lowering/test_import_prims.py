"""Operators of ``prims``, and operators that give numbers, in exported programs."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._prims  # registers the operators
from torch.export import Dim, export
from torch.nn import functional

import etir
from etir.dialects.text import print_module

aten, prims = torch.ops.aten, torch.ops.prims
X = torch.randn(4, 6)


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def run(function: Callable[..., Any], x: torch.Tensor = X, *, dynamic: bool = False, target: str = "etir") -> None:
    """Export, compile, run on etir's runtime, compare with eager; with a dynamic first dim at three sizes."""
    shapes = ({0: Dim("n", min=2, max=9)},) if dynamic else None
    program = export(Function(function), (x,), dynamic_shapes=shapes, strict=False)
    method = etir.runtime.load(etir.compile(program, target=target).buffer)["forward"]
    for size in (2, 4, 9) if dynamic else (0,):
        given = torch.randn(size, *x.shape[1:]) if dynamic else x
        wanted = torch.utils._pytree.tree_leaves(function(given.clone()))
        got = method(given)
        assert len(got) == len(wanted)
        for actual, value in zip(got, wanted, strict=True):
            if isinstance(value, torch.Tensor):
                torch.testing.assert_close(torch.as_tensor(actual), value, check_stride=False)
            else:
                assert type(actual) is type(value) and actual == pytest.approx(value)


PRIMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "views": lambda x: prims.squeeze(prims.split_dim(prims.collapse_view(prims.view_of(x), 0, 1), 0, 1), [0]),
    "collapse": lambda x: prims.collapse(x, 0, 1),
    "broadcast": lambda x: prims.broadcast_in_dim(prims.sum(x, [0]), [3, 6], [1]),
    "reductions": lambda x: (prims.sum(x, [1]), prims.prod(x, [0]), prims.amax(x, [0, 1])),
    "casts": lambda x: prims.mul(
        prims.convert_element_type(x, torch.float64), prims.convert_element_type(-x, torch.float64)
    ),
    "iota": lambda x: x + prims.iota(6, start=2, step=3, dtype=torch.int64, device="cpu", requires_grad=False),
    "a view that is written": lambda x: prims.view_of(y := x.clone()).add_(1) + y,
    "special functions": lambda x: (prims.erf_inv(x.tanh()), prims.bessel_j0(x), prims.where(x > 0, x, -x)),
}


@pytest.mark.parametrize("name", PRIMS)
def test_prims(name: str) -> None:
    run(PRIMS[name])


def test_prims_with_dynamic_sizes() -> None:
    run(lambda x: prims.collapse(x, 0, 1), dynamic=True)
    run(lambda x: prims.exp(prims.convert_element_type(x, torch.float64)), dynamic=True)


NUMBERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "size": lambda x: (x + 1, aten.sym_size.int(x, 1)),
    "numel": lambda x: (x + 1, aten.sym_numel(x)),
    "lists": lambda x: [x * 2, *aten.sym_size(x)],
    "strides": lambda x: (x * 2, aten.sym_stride.int(x, 0), aten.sym_stride.int(x, 1)),
    "unused": lambda x: (aten.sym_size.int(x, 0), aten.sym_numel(x), aten.sym_stride.int(x, 0)) and x + 1,
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name: str, dynamic: bool) -> None:
    run(NUMBERS[name], dynamic=dynamic)


def test_items() -> None:
    """What nothing uses goes away; a number that is an output is one."""
    run(lambda x: (x.sum().item(), x + 1)[1])
    run(lambda x: (x.sum().item(), x + 1))
    run(lambda x: [x.amax().item(), x.amin().item()])


@pytest.mark.parametrize("value", [True, False])
def test_item_of_a_bool(value: bool) -> None:
    """torch asserts that the number 1 or 0 that it stands for is between 0 and 1, which bounds no size."""
    run(lambda x: x.item(), torch.tensor(value))


def test_a_program_is_the_same_after_its_import() -> None:
    """A definition that resizes its operand must not resize the program's tensor."""

    class Resized(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.prims.resize.default(x.clone(), [2, 3])

    program = torch.export.export(Resized(), (torch.ones(3, 3),))
    assert str(etir.import_program(program)) == str(etir.import_program(program))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("ignored", [-100, 2])
def test_losses_of_layers_in_chunks(reduction: str, ignored: int) -> None:
    """torch's operator works row by row to save memory while training; the numbers are the same."""
    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2)
    matrix, bias, share = torch.randn(5, 6), torch.randn(5), torch.rand(5)
    settings: dict[str, Any] = {"reduction": reduction, "ignore_index": ignored, "options": options}
    run(lambda x: functional.linear_cross_entropy(x, matrix, torch.tensor([3, 2, 0, 2]), **settings))
    settings |= {"linear_bias": bias, "weight": share}
    run(lambda x: functional.linear_cross_entropy(x, matrix, torch.tensor([3, 2, 0, 2]), **settings))


def _edited(edit: Callable[[torch.fx.Graph, torch.fx.Node], Any]) -> str:
    """A program that doubles a matrix of dynamic sizes as text; ``edit`` has put more before its only operator.

    torch traces numbers of shapes to what they are; in a graph that was edited, or comes from elsewhere, they stand.
    """
    dims = {0: Dim("n", max=9), 1: Dim("m", max=9)}
    program = export(Function(lambda x: x * 2), (X,), dynamic_shapes=(dims,))
    x, product, _ = program.graph.nodes
    with program.graph.inserting_before(product):
        product.args = (x, edit(program.graph, x))
    return print_module(etir.import_program(program))


def _call(graph: torch.fx.Graph, value: Any, target: Any, *args: Any) -> torch.fx.Node:
    node = graph.call_function(target, args)
    node.meta["val"] = value
    return node


def test_strides_of_dynamic_sizes_are_products() -> None:
    text = _edited(lambda graph, x: _call(graph, x.meta["val"].stride(0), aten.stride.int, x, 0))
    assert "aten.sym_size.int(%x, dim = 1)" in text and "aten.stride" not in text


def test_what_export_knows_is_a_literal() -> None:
    text = _edited(lambda graph, x: _call(graph, True, aten.is_same_size.default, x, x))
    assert "aten.mul.Tensor(%x, true)" in text and "is_same_size" not in text


def test_that_an_offset_is_not_negative_is_not_asked() -> None:
    def edit(graph: torch.fx.Graph, x: torch.fx.Node) -> Any:
        size = x.meta["val"].shape[0]
        offset = _call(graph, size, aten.sym_storage_offset.default, x)
        _call(graph, None, aten._assert_scalar.default, _call(graph, size >= 0, operator.ge, offset, 0), "offset >= 0")
        least = _call(graph, size, aten.sym_size.int, x, 0)
        _call(graph, None, aten._assert_scalar.default, _call(graph, size >= 3, operator.ge, least, 3), "n >= 3")
        return 2

    text = _edited(edit)
    assert text.count("sym.assert") == 1 and "n >= 3" in text and "offset" not in text
