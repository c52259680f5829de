"""Indexing, padding and losses against torch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from etir_testing.lowering.one_op import Dynamic, check

torch.manual_seed(0)
X = torch.randn(3, 5, 4)
M = torch.randn(4, 6)
IMAGE = torch.randn(2, 3, 6, 7)
INDEX = torch.tensor([3, 0, 1])
BOUNDARIES = torch.tensor([-1.0, 0.0, 0.5, 2.0])
VALUES = torch.tensor([[-1.0, 0.3, 2.0], [0.0, 5.0, math.nan]])
LABELS = torch.tensor([1, -100, 5, 0])
PROBABILITIES = torch.rand(4, 6)
CLASS_WEIGHTS = torch.rand(6) + 0.1
BINARY = (torch.rand(4, 6) > 0.5).float()

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("aten._unsafe_index.Tensor", (X, [None, INDEX]), {}),
    ("aten._unsafe_index_put.default", (X, [None, INDEX], torch.tensor(2.0)), {}),
    ("aten._index_put_impl.default", (X, [None, INDEX], torch.tensor(2.0), True), {}),
    ("aten.index_fill.int_Scalar", (X, 1, INDEX, 7), {}),
    ("aten.index_fill.int_Tensor", (X, -1, INDEX, torch.tensor(3)), {}),
    ("aten.index_copy.default", (X, 1, INDEX, torch.randn(3, 3, 4)), {}),
    ("aten.index_add.default", (X, 2, torch.tensor([0, 0, 3]), torch.randn(3, 5, 3)), {"alpha": 2}),
    ("aten.take.default", (M, torch.tensor([[3, -1], [10, 0]])), {}),
    ("aten.scatter.reduce", (M, 0, torch.tensor([[0, 0, 1]]), torch.randn(1, 3)), {"reduce": "add"}),
    ("aten.scatter.reduce", (M, 1, torch.tensor([[0, 0, 1]]), torch.randn(1, 3)), {"reduce": "multiply"}),
    ("aten.scatter.value_reduce", (M, 0, torch.tensor([[0, 0, 1]]), 2.5), {"reduce": "add"}),
    ("aten.isin.Tensor_Tensor", (torch.arange(6).reshape(2, 3), torch.tensor([2, 5, 9])), {}),
    ("aten.isin.Tensor_Tensor", (torch.arange(6), torch.tensor([[2, 5]])), {"invert": True}),
    ("aten.isin.Tensor_Scalar", (torch.arange(6), 2), {}),
    ("aten.isin.Scalar_Tensor", (2, torch.arange(6)), {}),
    ("aten.bucketize.Tensor", (VALUES, BOUNDARIES), {}),
    ("aten.bucketize.Tensor", (VALUES, BOUNDARIES), {"right": True, "out_int32": True}),
    ("aten.bucketize.Scalar", (0.5, BOUNDARIES), {}),
    ("aten.searchsorted.Tensor", (BOUNDARIES, VALUES), {}),
    *[("aten.searchsorted.Scalar", (BOUNDARIES, v), {"side": s}) for v in (-9, 0.5, 99) for s in ("left", "right")],
    ("aten.searchsorted.Tensor", (torch.sort(X[0]).values, X[0]), {"side": "right"}),
    ("aten.searchsorted.Tensor", (X[0, :, 0], X[1]), {"sorter": torch.argsort(X[0, :, 0])}),
    ("aten.im2col.default", (IMAGE, [2, 3], [1, 2], [1, 0], [2, 1]), {}),
    ("aten.im2col.default", (IMAGE[0], [2, 2], [1, 1], [0, 0], [1, 1]), {}),
    ("aten.diagonal_scatter.default", (M, torch.randn(4)), {}),
    ("aten.diagonal_scatter.default", (M, torch.randn(3), -1), {}),
    ("aten.diagonal_scatter.default", (X, torch.randn(5, 2), 2, 0, 2), {}),
    ("aten.pad.default", (X, [1, 2]), {}),
    ("aten.pad.default", (X, [0, 0, -1, 2], "constant", 1.5), {}),
    ("aten.pad.default", (X, [0, 0]), {}),
    ("aten.pad.default", (IMAGE, [1, 2, 0, 3], "reflect"), {}),
    ("aten.pad.default", (X, [1, 2], "replicate"), {}),
    ("aten.pad.default", (IMAGE, [2, 1, 0, 3], "circular"), {}),
    ("aten._pad_enum.default", (X, [1, 2], 0), {}),
    ("aten._pad_circular.default", (X, [2, 0]), {}),
    ("aten.constant_pad_nd.default", (X, [0, 0]), {}),
    *[(f"aten.{name}.default", (M, BINARY, r), {}) for name in ("mse_loss", "l1_loss") for r in (0, 1, 2)],
    ("aten.smooth_l1_loss.default", (M, BINARY, 1, 0.7), {}),
    ("aten.smooth_l1_loss.default", (M, BINARY, 0, 0.0), {}),
    ("aten.huber_loss.default", (M, BINARY, 2, 0.7), {}),
    ("aten.binary_cross_entropy.default", (PROBABILITIES, BINARY, CLASS_WEIGHTS), {}),
    ("aten.binary_cross_entropy.default", (BINARY, 1 - BINARY, None, 0), {}),
    ("aten.binary_cross_entropy_with_logits.default", (M * 30, BINARY), {}),
    ("aten.binary_cross_entropy_with_logits.default", (M, BINARY, CLASS_WEIGHTS, CLASS_WEIGHTS, 0), {}),
    ("aten.kl_div.default", (M, BINARY, 0), {}),
    ("aten.kl_div.default", (M, PROBABILITIES.log(), 2), {"log_target": True}),
    *[("aten.nll_loss_nd.default", (M, LABELS, w, r), {}) for w in (None, CLASS_WEIGHTS) for r in (0, 1, 2)],
    ("aten.nll_loss.default", (M[0], torch.tensor(3)), {}),
    ("aten.nll_loss2d.default", (IMAGE, torch.randint(3, (2, 6, 7))), {}),
    ("aten.nll_loss_forward.default", (M, LABELS, CLASS_WEIGHTS, 1, -100), {}),
    ("aten.nll_loss_forward.default", (M, LABELS, None, 0, -100), {}),
    *(
        ("aten.nll_loss_forward.default", (M[0], LABELS[0], w, r, -100), {})
        for w in (None, CLASS_WEIGHTS)
        for r in (0, 2)
    ),
    *[("aten.cross_entropy_loss.default", (M, LABELS, w, r), {}) for w in (None, CLASS_WEIGHTS) for r in (0, 1, 2)],
    ("aten.cross_entropy_loss.default", (M, PROBABILITIES, CLASS_WEIGHTS, 1, -100, 0.1), {}),
    ("aten.cross_entropy_loss.default", (M[0], PROBABILITIES[0]), {}),
    ("aten.cross_entropy_loss.default", (IMAGE, torch.rand(2, 3, 6, 7)), {}),
    ("aten.nll_loss2d_forward.default", (IMAGE, torch.randint(3, (2, 6, 7)), None, 1, -100), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_static(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    check(name, *args, **kwargs)


DYNAMIC: list[tuple[str, tuple[Any, ...], Dynamic]] = [
    ("aten.index_copy.default", (X, 1, INDEX, torch.randn(3, 3, 4)), {0: [0], 2: [0]}),
    ("aten.take.default", (M, torch.tensor([[3, -1], [10, 0]])), {0: [0, 1]}),
    ("aten.bucketize.Tensor", (VALUES, BOUNDARIES), {0: [0, 1], 1: [0]}),
    ("aten.im2col.default", (IMAGE, [2, 3], [1, 2], [1, 0], [2, 1]), {0: [0]}),
    ("aten.im2col.default", (IMAGE, [2, 3], [1, 2], [1, 0], [2, 1]), {0: [0, 1, 2, 3]}),
    ("aten.im2col.default", (IMAGE, [2, 2], [1, 1], [0, 0], [1, 1]), {0: [3]}),
    ("aten.pad.default", (IMAGE, [1, 2, 0, 3], "reflect"), {0: [0, 2, 3]}),
    ("aten.pad.default", (IMAGE, [2, 1, 0, 3], "circular"), {0: [0, 2, 3]}),
    ("aten.cross_entropy_loss.default", (M, LABELS), {0: [0], 1: [0]}),
    ("aten.cross_entropy_loss.default", (M, PROBABILITIES, None, 1, -100, 0.1), {0: [0, 1], 1: [0, 1]}),
]


@pytest.mark.parametrize(("name", "args", "dynamic"), DYNAMIC, ids=lambda v: v if isinstance(v, str) else "")
def test_dynamic(name: str, args: tuple[Any, ...], dynamic: Dynamic) -> None:
    check(name, *args, dynamic=dynamic)


def test_replication_of_one_dim() -> None:
    names = check("aten.replication_pad1d.default", X, [1, 2])
    assert "aten.replication_pad2d.default" in names
    assert check("aten.pad.default", X, [1, 2], "replicate", options={"keep": ("aten.replication_pad1d.default",)}) == [
        "aten.replication_pad1d.default"
    ]


def test_nonzero_by_dim() -> None:
    from etir.dialects.text import parse_module

    from etir_testing.lowering.one_op import decompose

    text = """
sym.dim @u0 in [0, 20]
func.func @forward(%x: tensor<4x5xi1>) -> (tensor<?xi64, #et.layout<dims = [u0]>>, tensor<?xi64, #et.layout<dims = [u0]>>) {
  %0, %1 = aten.NAME.default(%x) : (tensor<4x5xi1>) -> (tensor<?xi64, #et.layout<dims = [u0]>>, tensor<?xi64, #et.layout<dims = [u0]>>)
  func.return %0, %1 : tensor<?xi64, #et.layout<dims = [u0]>>, tensor<?xi64, #et.layout<dims = [u0]>>
}
"""  # noqa: E501
    for name in ("nonzero_numpy", "where"):
        names = decompose(parse_module(text.replace("NAME", name)))
        assert names == ["aten.nonzero.default", "aten.select.int", "aten.select.int"]


@pytest.mark.parametrize("padding", [None, 2, -1])
@pytest.mark.parametrize("end", [None, 5, 3])
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_embedding_bag(mode: int, end: int | None, padding: int | None) -> None:
    """With an empty bag, and with indices after the last offset."""
    weight, indices = torch.randn(7, 3), torch.tensor([4, 2, 2, 0, 6])
    offsets = torch.tensor([0, 2, 2] if end is None else [0, 2, 2, end])
    args = (weight, indices, offsets, False, mode, False, None, end is not None)
    check("aten.embedding_bag.padding_idx", *args, padding, results=1)
    if padding is None:
        check("aten.embedding_bag.default", *args, results=1)
    for name in ("aten._embedding_bag.default", "aten._embedding_bag_forward_only.default"):
        check(name, *args, {None: -1, -1: 6}.get(padding, padding), results=1)


@pytest.mark.parametrize("padding", [None, 2])
def test_weighted_embedding_bag(padding: int | None) -> None:
    args = (torch.randn(7, 3), torch.tensor([4, 2, 6]), torch.tensor([0, 2]), False, 0, False, torch.rand(3), False)
    check("aten.embedding_bag.padding_idx", *args, padding, results=1)


SCATTERED = torch.tensor([[1.0, -2.0, 0.5, 4.0], [2.0, 3.0, -1.5, 0.0], [7.0, 1.0, 2.0, -3.0]])
PLACES = torch.tensor([[0, 2, 2, 0], [1, 2, 0, 0], [2, 2, 1, 1]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "amax", "amin"])
def test_scatter_reduce(reduce: str, include_self: bool, dtype: torch.dtype) -> None:
    x, source = torch.arange(12).view(3, 4).to(dtype), SCATTERED.abs().to(dtype)
    name, rest = "aten.scatter_reduce.two", (source, reduce)
    check(name, x, 0, PLACES, *rest, include_self=include_self)
    check(name, x.t().contiguous(), -1, PLACES.t().contiguous(), source.t().contiguous(), reduce)
    check(name, x[0, 0], 0, torch.tensor(0), source[0, 0], reduce, include_self=include_self)
    more = torch.arange(30).view(6, 5).to(dtype)
    check(name, more, 0, 2 * PLACES, *rest, include_self=include_self)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["mean", "prod", "amax", "amin"])
def test_index_reduce(reduce: str, include_self: bool, dtype: torch.dtype) -> None:
    name, index = "aten.index_reduce.default", torch.tensor([2, 0, 2])
    x, source = torch.arange(12).view(3, 4).to(dtype), SCATTERED.abs().to(dtype)
    check(name, x, 0, index, source, reduce, include_self=include_self)
    check(name, x, -1, index, source[:, :3].contiguous(), reduce, include_self=include_self)
    check(name, x[0, 0], 0, torch.tensor([0]), source[0, 0], reduce, include_self=include_self)


@pytest.mark.parametrize("accumulate", [False, True])
def test_put(accumulate: bool) -> None:
    x, index = torch.arange(12.0).view(3, 4), torch.tensor([[1, -1], [5, 8]])
    check("aten.put.default", x, index, torch.tensor([[7.0, 8.0], [9.0, -1.0]]), accumulate)
    check("aten.put.default", x[0, 0], torch.tensor(0), torch.tensor(3.0), accumulate)


def test_scatter_reduce_of_a_part_and_of_dynamic_sizes() -> None:
    x = torch.arange(20.0).view(4, 5)
    check("aten.scatter_reduce.two", x, 0, PLACES[:2], SCATTERED, "mean", include_self=False)
    dynamic = {0: [0, 1], 1: [0, 1], 2: [0, 1]}
    check("aten.scatter_reduce.two", x[:, :4].contiguous(), 0, PLACES, SCATTERED, "sum", dynamic=dynamic)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int16, torch.uint8])
@pytest.mark.parametrize("count", [3, 64, 65, 200])
def test_elements_among_few_and_many(count: int, dtype: torch.dtype) -> None:
    """Of many tests no table of all pairs is made. NaN is none of them; zeros are equal whatever their sign."""
    generator = torch.Generator().manual_seed(count)
    tests = torch.randint(0, 250, [count], generator=generator).to(dtype)
    x = torch.arange(252).reshape(4, 63).to(dtype)
    names = check("aten.isin.Tensor_Tensor", x, tests)
    assert ("aten.topk.default" in names) == (count > 64)
    check("aten.isin.Tensor_Tensor", x, tests.unsqueeze(0), invert=True, dynamic={0: [0, 1], 1: [1]})
    check("aten.isin.Tensor_Tensor", x[1, 2], tests)
    if dtype.is_floating_point:
        x[0, :3], tests[:2] = torch.tensor([-0.0, torch.nan, torch.inf]), torch.tensor([torch.nan, 0.0])
        check("aten.isin.Tensor_Tensor", x, tests)
        check("aten.isin.Tensor_Tensor", x, torch.full_like(tests, torch.nan))
    check("aten.isin.Tensor_Tensor", x.nan_to_num().long().clamp(0, 300), tests.nan_to_num().reshape(1, -1).float())
