"""gather, scatter, take, put, masked_select, masked_scatter and nonzero, against torch."""

from __future__ import annotations

import pytest
import torch

from etir_testing.runtime.indexing_cases import DTYPES, KERNELS, REAL, TOLERANCES, make, refused, same
from etir_testing.runtime.kernels import KernelFailure


def index(shape, size, dtype=torch.int64, seed=1):
    return torch.randint(0, size, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


CASES = [
    ((4, 5, 6), 0, (7, 5, 6)),
    ((4, 5, 6), 1, (4, 3, 6)),
    ((4, 5, 6), 2, (4, 5, 9)),
    ((4, 5, 6), -1, (2, 4, 3)),
    ((4, 5, 6), 0, (3, 2, 5)),
    ((9,), 0, (4,)),
    ((9,), 0, ()),
    ((), 0, (1,)),
    ((), -1, ()),
    ((4, 5), 1, (4, 0)),
    ((0, 5), 1, (0, 3)),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "dim", "index_shape"), CASES)
def test_gather(shape, dim, index_shape, dtype):
    x = make(shape, dtype)
    for kind in (torch.int64, torch.int32):
        i = index(index_shape, shape[dim] if shape else 1, kind)
        expected = torch.gather(x, dim, i)
        same(KERNELS.call("aten::gather.out", [x, dim, i, False], [expected])[0], expected)


def unique_index(shape, dim, index_shape):
    """Every place is named once in each line, so that the order of writes does not matter."""
    size = shape[dim] if shape else 1
    full = torch.argsort(torch.rand(*index_shape[:dim], size, *index_shape[dim:][1:],
                                    generator=torch.Generator().manual_seed(2)), dim)  # fmt: skip
    return full.narrow(dim, 0, index_shape[dim]).contiguous()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "dim", "index_shape"),
    [((4, 5, 6), 0, (3, 5, 6)), ((4, 5, 6), 1, (2, 4, 5)), ((4, 5, 6), 2, (4, 5, 6)), ((9,), 0, (4,))],  # fmt: skip
)
def test_scatter(shape, dim, index_shape, dtype):
    x, source = make(shape, dtype), make((7, 7, 7)[: len(shape)], dtype, 4)
    i = unique_index(shape, dim, index_shape)
    for given in (i, i.to(torch.int32)):
        same(KERNELS.call("aten::scatter.src_out", [x, dim, given, source], [x])[0], torch.scatter(x, dim, i, source))
    value = True if dtype is torch.bool else 2.5 if dtype.is_floating_point else 3
    same(KERNELS.call("aten::scatter.value_out", [x, dim, i, value], [x])[0], torch.scatter(x, dim, i, value))
    for reduce in ("add", "multiply"):
        tolerance = TOLERANCES.get(dtype, 1e-6)
        expected = torch.scatter(x, dim, i, source, reduce=reduce)
        same(KERNELS.call("aten::scatter.reduce_out", [x, dim, i, source, reduce], [x])[0], expected, tolerance)
        expected = torch.scatter(x, dim, i, value, reduce=reduce)
        same(KERNELS.call("aten::scatter.value_reduce_out", [x, dim, i, value, reduce], [x])[0], expected, tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "dim", "index_shape"), CASES)
def test_scatter_add(shape, dim, index_shape, dtype):
    x, i = make(shape, dtype), index(index_shape, shape[dim] if shape else 1)
    source = make(index_shape, dtype, 3)
    expected = torch.scatter_add(x, dim, i, source)
    same(KERNELS.call("aten::scatter_add.out", [x, dim, i, source], [x])[0], expected, TOLERANCES.get(dtype, 1e-6))


@pytest.mark.parametrize("dtype", [*REAL, torch.bool])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_scatter_reduce(dtype, reduce, include_self, dim):
    if dtype is torch.bool and reduce == "mean":
        x = make((2, 2), dtype)
        arguments = [x, 0, torch.zeros(1, 1, dtype=torch.int64), x, reduce, include_self]
        refused("KernelDtype", "aten::scatter_reduce.two_out", arguments, [x])
        return
    x, i = make((4, 5, 3), dtype), index((3, 4, 3)[:dim] + (6,) + (3, 4, 3)[dim + 1 :], (4, 5, 3)[dim])
    source = make((6, 6, 6), dtype, 3)
    if dtype.is_floating_point:
        source[1, 1, 1] = float("nan")
    expected = torch.scatter_reduce(x, dim, i, source, reduce, include_self=include_self)
    arguments = [x, dim, i, source, reduce, include_self]
    (actual,) = KERNELS.call("aten::scatter_reduce.two_out", arguments, [x])
    same(actual, expected, TOLERANCES.get(dtype, 1e-6))


def test_scatter_many_halves():
    x, source = torch.zeros(3, dtype=torch.float16), torch.full((6000,), 0.1, dtype=torch.float16)
    i = torch.arange(6000) % 3
    (actual,) = KERNELS.call("aten::scatter_add.out", [x, 0, i, source], [x])
    same(actual, torch.full((3,), 2000 * float(source[0]), dtype=torch.float16), 1e-3)


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (3, 1, 0, 2)])
def test_gather_scatter_dim_orders(order):
    inverse = [order.index(d) for d in range(4)]
    shape = (2, 3, 4, 5)

    def ordered(tensor):
        return tensor.permute(order).contiguous().permute(inverse)

    x, source = ordered(make(shape)), make(shape, seed=5)
    for dim in range(4):
        i = ordered(torch.argsort(make(shape, seed=8), dim))
        same(KERNELS.call("aten::gather.out", [x, dim, i, False], [source])[0], torch.gather(x, dim, i))
        same(KERNELS.call("aten::scatter.src_out", [source, dim, i, x], [x])[0], torch.scatter(source, dim, i, x))
        same(KERNELS.call("aten::scatter_add.out", [x, dim, i, source], [source])[0],
             torch.scatter_add(x, dim, i, source), 1e-6)  # fmt: skip
        expected = torch.scatter_reduce(x, dim, i, source, "mean")
        same(KERNELS.call("aten::scatter_reduce.two_out", [x, dim, i, source, "mean", True], [x])[0], expected, 1e-6)


def test_gather_scatter_refuse():
    x = make((4, 5))
    for bad in (-1, 5, 2**40):
        i = torch.tensor([[0, bad]])
        refused("KernelIndex", "aten::gather.out", [x, 1, i, False], [torch.empty(1, 2)])
        refused("KernelIndex", "aten::scatter.src_out", [x, 1, i, x], [x])
        refused("KernelIndex", "aten::scatter.value_out", [x, 1, i, 1.0], [x])
        refused("KernelIndex", "aten::scatter_add.out", [x, 1, i, x], [x])
        refused("KernelIndex", "aten::scatter_reduce.two_out", [x, 1, i, x, "mean", False], [x])
    good = torch.tensor([[0, 1]])
    refused("KernelShape", "aten::gather.out", [x, 1, good.expand(5, 2).contiguous(), False], [torch.empty(5, 2)])
    refused("KernelRank", "aten::gather.out", [x, 1, good[0], False], [torch.empty(2)])
    refused("KernelDim", "aten::gather.out", [x, 2, good, False], [torch.empty(1, 2)])
    refused("KernelDtype", "aten::gather.out", [x, 1, good.to(torch.int16), False], [torch.empty(1, 2)])
    refused("KernelShape", "aten::scatter.src_out", [x, 1, good, x[:, :1].contiguous()], [x])
    refused("KernelDtypeMismatch", "aten::scatter.src_out", [x, 1, good, x.int()], [x])
    refused("KernelArgument", "aten::scatter_reduce.two_out", [x, 1, good, x, "add", True], [x])
    refused("KernelArgument", "aten::scatter.reduce_out", [x, 1, good, x, "sum"], [x])
    refused("KernelOverflow", "aten::scatter.value_out", [x.to(torch.int8), 1, good, 200], [x.to(torch.int8)])
    refused("KernelOverflow", "aten::scatter.value_out", [x.half(), 1, good, 1e6], [x.half()])


@pytest.mark.parametrize("dtype", DTYPES)
def test_take_and_put(dtype):
    x = make((4, 5), dtype)
    channels_last = make((2, 3, 2, 2), dtype).to(memory_format=torch.channels_last)
    i = torch.tensor([[3, -1, 0], [7, 19, -20]])
    for tensor in (x, channels_last):
        expected = torch.take(tensor, i)
        same(KERNELS.call("aten::take.out", [tensor, i], [expected])[0], expected)
        for accumulate in (False, True):
            source = make((3, 2), dtype, 2)
            unique = i if accumulate else torch.tensor([[3, 4, 0], [7, 19, 8]])
            expected = torch.ops.aten.put(tensor, unique, source, accumulate)
            actual = KERNELS.call("aten::put.out", [tensor, unique, source, accumulate], [tensor])[0]
            same(actual, expected, TOLERANCES.get(dtype, 1e-6))
    refused("KernelIndex", "aten::take.out", [x, torch.tensor([20])], [x.reshape(-1)[:1]])
    refused("KernelIndex", "aten::put.out", [x, torch.tensor([-21]), x.reshape(-1)[:1].clone(), False], [x])
    refused("KernelShape", "aten::put.out", [x, torch.tensor([1, 2]), x.reshape(-1)[:1].clone(), False], [x])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "mask_shape"),
    [
        ((4, 5), (4, 5)),
        ((4, 5), (5,)),
        ((5,), (4, 5)),
        ((4, 1), (1, 5)),
        ((), ()),
        ((), (3,)),
        ((0, 3), (0, 3)),
        ((3,), ()),
    ],
)
def test_masked(shape, mask_shape, dtype):
    x, mask, source = make(shape, dtype), make(mask_shape, torch.bool, 3), make((6, 7), dtype, 5)
    expected = torch.masked_select(x, mask)
    same(KERNELS.call("aten::masked_select.out", [x, mask], [expected])[0], expected)
    expected = torch.masked_scatter(x, mask, source)
    same(KERNELS.call("aten::masked_scatter.out", [x, mask, source], [expected])[0], expected)


def test_masked_dim_orders():
    x = make((2, 3, 4, 5)).to(memory_format=torch.channels_last)
    mask = make((2, 3, 4, 5), torch.bool, 2).permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)
    expected = torch.masked_select(x, mask)
    same(KERNELS.call("aten::masked_select.out", [x, mask], [expected])[0], expected)
    expected = torch.masked_scatter(x, mask, x)
    same(KERNELS.call("aten::masked_scatter.out", [x, mask, x], [x])[0], expected)
    same(KERNELS.call("aten::masked_scatter.out", [x, mask, x], [x.contiguous()])[0], expected)
    expected = torch.nonzero(mask)
    same(KERNELS.call("aten::nonzero.out", [mask], [expected])[0], expected)
    same(KERNELS.call("aten::nonzero.out", [mask], [expected.contiguous()])[0], expected)


def test_masked_refuse():
    x, ones = make((4, 5)), torch.ones(4, 5, dtype=torch.bool)
    refused("KernelResize", "aten::masked_select.out", [x, ones], [torch.empty(9)])
    refused("KernelShape", "aten::masked_select.out", [x, ones[:3]], [torch.empty(20)])
    refused("KernelDtype", "aten::masked_select.out", [x, ones.to(torch.uint8)], [torch.empty(20)])
    refused("KernelResizeRank", "aten::masked_select.out", [x, ones], [torch.empty(4, 5)])
    refused("KernelShape", "aten::masked_scatter.out", [x, ones, torch.ones(19)], [x])
    refused("KernelDtypeMismatch", "aten::masked_scatter.out", [x, ones, x.int()], [x])
    refused("KernelResize", "aten::nonzero.out", [ones], [torch.empty(4, 2, dtype=torch.int64)])
    refused("KernelDtype", "aten::nonzero.out", [ones], [torch.empty(20, 2, dtype=torch.int32)])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 4), (2, 3, 4), (0, 2)])
def test_nonzero(shape, dtype):
    x = make(shape, dtype)
    if dtype.is_complex:
        x = torch.where(torch.rand(shape) > 0.5, x, torch.zeros((), dtype=dtype))
    elif dtype.is_floating_point and x.numel() > 1:
        x.view(-1)[0], x.view(-1)[1] = -0.0, float("nan")
    expected = torch.nonzero(x)
    like = torch.empty(max(x.numel(), 1), x.dim(), dtype=torch.int64)
    same(KERNELS.call("aten::nonzero.out", [x], [like])[0], expected)
    for size in (0, 2, 9):
        expected = torch.nonzero_static(x, size=size, fill_value=-7)
        same(KERNELS.call("aten::nonzero_static.out", [x, size, -7], [expected])[0], expected)


def test_gather_by_bytes():
    """As torch does, gather takes indices of 8 bits."""
    x, at = make((300, 4)), index((6, 4), 256, torch.uint8)
    (found,) = KERNELS.call("aten::gather.out", [x, 0, at, False], [torch.empty(6, 4)])
    assert torch.equal(found, x.gather(0, at.long()))
    with pytest.raises(KernelFailure, match="KernelIndex"):
        KERNELS.call("aten::gather.out", [x[:200].contiguous(), 0, torch.full_like(at, 200), False], [found])
