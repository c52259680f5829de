"""Sorting, selecting, running and counting operators, and gradients of embeddings, against torch."""

from __future__ import annotations

import pytest
import torch

from etir_testing.runtime.indexing_cases import FLOATS, KERNELS, REAL, TOLERANCES, refused, same

LONG = torch.int64


def make(shape, dtype=torch.float32, seed=0, special=True):
    generator = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=dtype)
    if dtype.is_floating_point:
        x = (torch.randn(shape, generator=generator) * 4).round().div(4).to(dtype)
        flat = x.view(-1)
        for i, value in enumerate((float("nan"), float("inf"), -float("inf"), -0.0, 0.0, float("nan"))):
            if special and flat.numel() > 12:
                flat[(i * 7 + 3) % flat.numel()] = value
        return x
    info = torch.iinfo(dtype)
    x = torch.randint(max(info.min, -20), 20, shape, generator=generator).to(dtype)
    if x.numel() > 12 and special:
        x.view(-1)[5], x.view(-1)[6] = info.min, info.max
    return x


SHAPES = [((), -1), ((1,), 0), ((30,), 0), ((4, 40), 1), ((40, 3), 0), ((3, 30, 2), 1), ((0, 3), 1), ((3, 0), 1)]


@pytest.mark.parametrize("dtype", [*REAL, torch.bool, torch.uint16])
@pytest.mark.parametrize("descending", [False, True])
def test_sort(dtype, descending):
    for shape, dim in SHAPES:
        x = make(shape, torch.int32).abs().to(dtype) if dtype is torch.uint16 else make(shape, dtype)
        expected = torch.sort(x, dim=dim, descending=descending, stable=True)
        actual = KERNELS.call("aten::sort.values_stable", [x, True, dim, descending], [x, expected[1]])
        same(actual[0], expected[0])
        same(actual[1], expected[1])
        actual = KERNELS.call("aten::sort.values", [x, dim, descending], [x, expected[1]])
        same(actual[1], expected[1])
        (actual,) = KERNELS.call("aten::argsort.stable_out", [x, True, dim, descending], [expected[1]])
        same(actual, expected[1])


@pytest.mark.parametrize("kind", ["random", "sorted", "reversed", "equal", "organ", "two"])
def test_sort_long(kind):
    n = 5000
    x = {
        "random": torch.randn(n, generator=torch.Generator().manual_seed(0)),
        "sorted": torch.arange(n).float(),
        "reversed": -torch.arange(n).float(),
        "equal": torch.ones(n),
        "organ": torch.cat([torch.arange(n // 2), -torch.arange(n // 2)]).float(),
        "two": (torch.arange(n) % 2).float(),
    }[kind]
    expected = torch.sort(x, stable=True)
    actual = KERNELS.call("aten::sort.values", [x, -1, False], list(expected))
    same(actual[0], expected[0])
    same(actual[1], expected[1])
    expected = torch.sort(x, stable=True, descending=True)
    actual = KERNELS.call("aten::topk.values", [x, 100, -1, True, True], [expected[0][:100], expected[1][:100]])
    same(actual[0], expected[0][:100])
    same(actual[1], expected[1][:100])


def test_sort_channels_last():
    x = make((2, 3, 4, 5)).to(memory_format=torch.channels_last)
    for dim in range(4):
        expected = torch.sort(x, dim=dim, stable=True)
        for like in (x, x.contiguous()):
            actual = KERNELS.call("aten::sort.values_stable", [x, True, dim, False], [like, expected[1].contiguous()])
            same(actual[0], expected[0])
            same(actual[1], expected[1])


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("largest", [False, True])
def test_topk(dtype, largest):
    for shape, dim in SHAPES:
        x = make(shape, dtype)
        size = shape[dim] if shape else 1
        for k in {0 if shape else 1, min(1, size), min(5, size), size // 2 if shape else 1, size}:
            values, indices = torch.sort(x, dim=dim, descending=largest, stable=True)
            if shape:
                values, indices = values.narrow(dim, 0, k).contiguous(), indices.narrow(dim, 0, k).contiguous()
            same(torch.topk(x, k, dim, largest, True)[0], values)
            actual = KERNELS.call("aten::topk.values", [x, k, dim, largest, True], [values, indices])
            same(actual[0], values)
            same(actual[1], indices)


def test_sort_refuses():
    x, i = make((3, 4)), torch.empty(3, 4, dtype=LONG)
    refused("KernelArgument", "aten::topk.values", [x, 5, -1, True, True], [x, i])
    refused("KernelArgument", "aten::topk.values", [x, -1, -1, True, True], [x, i])
    refused("KernelDim", "aten::topk.values", [x, 2, 2, True, True], [x, i])
    refused("KernelDtype", "aten::topk.values", [x > 0, 2, 1, True, True], [x > 0, i])
    refused("KernelDtype", "aten::sort.values", [x.cfloat(), 1, True], [x.cfloat(), i])
    refused("KernelDtype", "aten::sort.values", [x, 1, True], [x, i.int()])
    refused("KernelDtypeMismatch", "aten::sort.values", [x, 1, True], [x.half(), i])
    nothing = x[:, :0].contiguous()
    refused("KernelShape", "aten::mode.values", [nothing, 1, False], [torch.empty(3), i[:, 0].contiguous()])


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("keepdim", [False, True])
def test_mode(dtype, keepdim):
    for shape, dim in SHAPES[:-2]:
        # Lines with NaNs are left out: torch sorts them as if NaNs had an order.
        x = make(shape, dtype, special=False)
        expected = torch.mode(x, dim, keepdim)
        values, indices = KERNELS.call("aten::mode.values", [x, dim, keepdim], list(expected))
        same(values, expected[0])
        assert indices.shape == expected[1].shape
        if shape:
            places = indices if keepdim else indices.unsqueeze(dim)
            same(torch.gather(x, dim, places), values if keepdim else values.unsqueeze(dim))


@pytest.mark.parametrize("dtype", [*REAL, torch.bool])
def test_running_extremes(dtype):
    for shape, dim in SHAPES:
        x = make(shape, dtype)
        for name in ("cummax", "cummin"):
            expected = getattr(torch, name)(x, dim)
            values, indices = KERNELS.call(f"aten::{name}.out", [x, dim], list(expected))
            same(values, expected[0])
            same(indices, expected[1])


@pytest.mark.parametrize("dtype", [*REAL, torch.bool, torch.complex64])
@pytest.mark.parametrize("out", [torch.int8, LONG, *FLOATS, torch.complex64])
def test_cumulate(dtype, out):
    if dtype.is_complex and not out.is_complex:
        x = make((3,), dtype)
        return refused("KernelDtypeMismatch", "aten::cumsum.out", [x, 0, None], [x.real.contiguous().to(out)])
    for shape, dim in SHAPES:
        x = make(shape, dtype, special=out.is_floating_point and dtype.is_floating_point)
        if not out.is_floating_point:
            x = x * 3 if dtype is not torch.bool else x
        tolerance = TOLERANCES.get(out, 1e-6) * (4 if dtype is torch.complex64 else 1)
        expected = torch.cumsum(x, dim, dtype=out)
        for asked in (None, out):
            same(KERNELS.call("aten::cumsum.out", [x, dim, asked], [expected])[0], expected, tolerance)
        x = x / 4 if dtype.is_floating_point or dtype.is_complex else x.clamp(max=2)
        expected = torch.cumprod(x, dim, dtype=out)
        same(KERNELS.call("aten::cumprod.out", [x, dim, None], [expected])[0], expected, tolerance)
    refused("KernelDtypeMismatch", "aten::cumsum.out", [x, 0, torch.int16], [expected])
    refused("KernelDim", "aten::cumsum.out", [x, 2, None], [expected])
    return None


@pytest.mark.parametrize("dtype", FLOATS)
def test_logcumsumexp(dtype):
    for shape, dim in SHAPES:
        for special in (False, True):
            x = make(shape, dtype, special=special) * 5
            expected = torch.logcumsumexp(x, dim)
            same(KERNELS.call("aten::logcumsumexp.out", [x, dim], [x])[0], expected, TOLERANCES.get(dtype, 1e-6))


def test_cumsum_channels_last_and_precision():
    x = make((2, 3, 4, 5), special=False).to(memory_format=torch.channels_last)
    for dim in range(4):
        expected = torch.cumsum(x, dim)
        same(KERNELS.call("aten::cumsum.out", [x, dim, None], [x])[0], expected, 1e-6)
        same(KERNELS.call("aten::cumsum.out", [x, dim, None], [x.contiguous()])[0], expected, 1e-6)
    x = torch.full((100000,), 0.1)
    (actual,) = KERNELS.call("aten::cumsum.out", [x, 0, None], [x])
    same(actual, torch.cumsum(x.double(), 0).float(), 1e-6)


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("int32", [False, True])
def test_searchsorted(dtype, right, int32):
    out = torch.int32 if int32 else LONG
    shapes = [((7,), (3, 4)), ((7,), ()), ((3, 9), (3, 4)), ((2, 3, 5), (2, 3, 6)), ((0,), (3,)), ((4,), (0,))]
    for shape, many in shapes:
        x, values = make(shape, dtype, special=False), make(many, dtype, 2)
        line, sorter = torch.sort(x, dim=-1)
        expected = torch.searchsorted(line, values, out_int32=int32, right=right)
        arguments = [line, values, int32, right, None, None]
        same(KERNELS.call("aten::searchsorted.Tensor_out", arguments, [expected])[0], expected)
        arguments = [x, values, int32, False, "right" if right else "left", sorter]
        same(KERNELS.call("aten::searchsorted.Tensor_out", arguments, [expected])[0], expected)
        if len(shape) == 1:
            same(KERNELS.call("aten::bucketize.Tensor_out", [values, line, int32, right], [expected])[0], expected)
            for number in (3, 2.5, -100.0):
                expected = torch.as_tensor(torch.searchsorted(line, number, right=right), dtype=out)
                arguments = [line, number, int32, right, None, None]
                same(KERNELS.call("aten::searchsorted.Scalar_out", arguments, [expected])[0], expected)
                same(KERNELS.call("aten::bucketize.Scalar_out", [number, line, int32, right], [expected])[0], expected)


def test_searchsorted_refuses():
    line, values, out = torch.arange(4.0), torch.tensor([1.0]), torch.empty(1, dtype=LONG)
    name = "aten::searchsorted.Tensor_out"
    refused("KernelArgument", name, [line, values, False, True, "left", None], [out])
    refused("KernelArgument", name, [line, values, False, False, "middle", None], [out])
    refused("KernelDtype", name, [line, values, True, False, None, None], [out])
    refused("KernelShape", name, [line, values, False, False, None, torch.arange(3)], [out])
    refused("KernelIndex", name, [line, values, False, False, None, torch.tensor([0, 1, 4, 3])], [out])
    refused("KernelRank", name, [line.view(2, 2), values, False, False, None, None], [out])
    refused("KernelRank", "aten::bucketize.Tensor_out", [values, line.view(2, 2), False, False], [out])


def test_searchsorted_mixed_types():
    large = torch.tensor([2**53, 2**53 + 1, 2**53 + 2])
    for line, values in ((torch.tensor([1, 3, 5]), torch.tensor([0.5, 1.0, 3.5, 5.0, 9.0])), (large, large)):
        expected = torch.searchsorted(line, values)
        arguments = [line, values, False, False, None, None]
        same(KERNELS.call("aten::searchsorted.Tensor_out", arguments, [expected])[0], expected)


def test_counting():
    x = torch.tensor([3, 0, 3, 7, 1])
    for kind in (torch.uint8, torch.int8, torch.int32, LONG):
        for weights in (None, torch.rand(5), torch.rand(5).double(), torch.arange(5), torch.rand(5).half()):
            for least in (0, 12):
                expected = torch.bincount(x.to(kind), weights, least)
                same(KERNELS.call("aten::bincount.out", [x.to(kind), weights, least], [expected])[0], expected, 1e-6)
    refused("KernelIndex", "aten::bincount.out", [torch.tensor([-1]), None, 0], [x])
    refused("KernelResize", "aten::bincount.out", [torch.tensor([2**40]), None, 0], [x])
    refused("KernelResize", "aten::bincount.out", [torch.tensor([2**62]), None, 0], [x])
    refused("KernelArgument", "aten::bincount.out", [x, None, -1], [x])
    for dtype in (torch.float32, torch.float64, torch.float16):
        values = make((4, 25), dtype, special=False)
        for bins, low, high in ((10, 0, 0), (7, -1.0, 2.0), (1, 3, 3), (16, -2, 1)):
            expected = torch.histc(values, bins, low, high)
            same(KERNELS.call("aten::histc.out", [values, bins, low, high], [expected])[0], expected)
    refused("KernelArgument", "aten::histc.out", [torch.tensor([float("nan")]), 4, 0, 0], [torch.empty(4)])
    refused("KernelArgument", "aten::histc.out", [torch.rand(3), 0, 0, 0], [torch.empty(4)])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("padding", [-1, 2])
def test_embedding_dense_backward(dtype, scaled, padding):
    for shape in ((9,), (3, 4), (), (0,)):
        indices = torch.randint(0, 6, shape, generator=torch.Generator().manual_seed(1))
        grad = make((*shape, 5), dtype, special=False)
        expected = torch.ops.aten.embedding_dense_backward(grad, indices, 6, padding, scaled)
        for kind in (LONG, torch.int32):
            arguments = [grad, indices.to(kind), 6, padding, scaled]
            (actual,) = KERNELS.call("aten::embedding_dense_backward.out", arguments, [expected])
            same(actual, expected, TOLERANCES.get(dtype, 1e-6))
    arguments = [torch.ones(1, 5), torch.tensor([6]), 6, -1, False]
    refused("KernelIndex", "aten::embedding_dense_backward.out", arguments, [torch.empty(6, 5)])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("last", [None, 7, 6])
@pytest.mark.parametrize("padding", [-1, 4])
def test_embedding_bag(dtype, mode, last, padding):
    weight = make((6, 70), dtype, special=False)
    indices = torch.tensor([1, 2, 4, 0, 5, 1, 4])
    offsets = torch.tensor([0, 3, 3, 5, last] if last else [0, 3, 3, 5])
    for name in ("_embedding_bag", "_embedding_bag_forward_only"):
        for scales in (None, make((7,), dtype, special=False)):
            if scales is not None and mode != 0:
                continue
            arguments = [weight, indices, offsets, False, mode, False, scales, last is not None, padding]
            expected = getattr(torch.ops.aten, name)(*arguments)
            actual = KERNELS.call(f"aten::{name}.out", arguments, list(expected))
            same(actual[0], expected[0], TOLERANCES.get(dtype, 1e-6))
            for a, e in zip(actual[1:], expected[1:], strict=True):
                same(a, e)


def test_embedding_bag_refuses():
    weight, likes = make((6, 4)), [torch.empty(2, 4), *(torch.empty(n, dtype=LONG) for n in (0, 2, 2))]

    def attempt(check, indices, offsets, mode=0, last=False):
        refused(check, "aten::_embedding_bag.out",
                [weight, torch.tensor(indices), torch.tensor(offsets), False, mode, False, None, last, -1],
                likes)  # fmt: skip

    attempt("KernelIndex", [0, 6], [0, 1])
    attempt("KernelIndex", [0, -1], [0, 1])
    attempt("KernelIndex", [0, 1], [1, 2])
    attempt("KernelIndex", [0, 1], [0, 3])
    attempt("KernelIndex", [0, 1, 2], [0, 2, 1], last=True)
    attempt("KernelArgument", [0, 1], [0, 1], mode=3)


def test_more_lines_without_elements_than_can_be_counted_through():
    """A tensor without elements may have 2^50 lines; calls end at once."""
    x = torch.empty(2**30, 2**20, 0)
    places = torch.empty(x.shape, dtype=torch.int64)
    for name in ("aten::cumsum.out", "aten::cumprod.out"):
        assert KERNELS.call(name, [x, 2, None], [x])[0].shape == x.shape
    assert KERNELS.call("aten::logcumsumexp.out", [x, 2], [x])[0].shape == x.shape
    assert KERNELS.call("aten::cummax.out", [x, 2], [x, places])[1].shape == x.shape
    assert KERNELS.call("aten::sort.values", [x, 2, False], [x, places])[1].shape == x.shape
    assert KERNELS.call("aten::scatter_reduce.two_out", [x, 2, places, x, "sum", True], [x])[0].shape == x.shape
