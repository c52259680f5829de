"""index, index_put and the operators that index one dim, against torch."""

from __future__ import annotations

import pytest
import torch

from etir_testing.runtime.indexing_cases import DTYPES, KERNELS, REAL, make, refused, same


def index(*shape, size, dtype=torch.int64, seed=1, low=None):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-size if low is None else low, size, shape, generator=generator).to(dtype)


def masks(*shape, dtype=torch.bool):
    return (make(shape, torch.bool, 7)).to(dtype)


SELF = (4, 5, 6, 3)
N = None
PATTERNS = {
    "first": [index(7, size=4)],
    "scalar": [index(size=4)],
    "matrix": [index(2, 3, size=4)],
    "second": [N, index(7, size=5)],
    "last": [N, N, N, index(7, size=3)],
    "int32": [N, index(4, size=5, dtype=torch.int32)],
    "two": [index(7, size=4), index(7, size=5)],
    "mixed": [index(7, size=4, dtype=torch.int32), index(7, size=5)],
    "broadcast": [N, index(7, 1, size=5), index(1, 4, size=6)],
    "broadcast_ranks": [index(4, size=4), index(3, 1, size=5)],
    "pixels": [N, N, index(8, 1, size=6), index(9, size=3)],
    "apart": [index(7, size=4), N, index(7, size=6)],
    "apart_late": [N, index(7, size=5), N, index(7, size=3)],
    "apart_broadcast": [index(2, 1, size=4), N, N, index(3, size=3)],
    "four": [index(2, size=4), index(2, size=5), index(2, size=6), index(2, size=3)],
    "long": [index(300, size=4), index(300, size=5)],
    "trailing_none": [index(3, size=4), N],
    "mask_first": [masks(4)],
    "mask_two": [masks(4, 5)],
    "mask_all": [masks(*SELF)],
    "mask_middle": [N, masks(5, 6)],
    "mask_byte": [N, N, masks(6, dtype=torch.uint8)],
    "mask_none_set": [torch.zeros(4, dtype=torch.bool)],
    "mask_one_set": [torch.tensor([False, True, False, False]), index(7, size=5)],
    "mask_and_index": [masks(4), index(int(masks(4).sum()), size=5)],
    "mask_and_column": [masks(4), index(3, 1, size=5)],
    "masks_apart": [masks(4), N, N, torch.tensor([True, False, True])[:3]],
    "empty": [torch.zeros(0, dtype=torch.int64)],
    "empty_matrix": [N, torch.zeros(2, 0, dtype=torch.int64)],
}
if int(PATTERNS["masks_apart"][0].sum()) not in (1, 2):
    PATTERNS["masks_apart"][0] = torch.tensor([True, False, False, True])


def torch_index(x, indices):
    return torch.ops.aten.index(x, indices)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_index(pattern):
    x = make(SELF)
    expected = torch_index(x, PATTERNS[pattern])
    (actual,) = KERNELS.call("aten::index.Tensor_out", [x, PATTERNS[pattern]], [torch.empty(expected.shape)])
    same(actual, expected)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(pattern, accumulate):
    x, indices = make(SELF), PATTERNS[pattern]
    shape = torch_index(x, indices).shape
    values = make(shape, seed=3).round() if accumulate else torch.full(shape, 2.5)
    x = x.round()
    expected = torch.ops.aten.index_put(x, indices, values, accumulate)
    (actual,) = KERNELS.call("aten::index_put.out", [x, indices, values, accumulate], [x])
    same(actual, expected)
    inplace = x.clone()
    KERNELS.call("aten::index_put_", [inplace, indices, values, accumulate])
    same(inplace, expected)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.uint16])
def test_index_dtypes(dtype):
    x = make(SELF).to(dtype) if dtype is torch.uint16 else make(SELF, dtype)
    indices = [None, index(7, size=5), index(7, size=6)]
    expected = x[:, indices[1], indices[2]]
    same(KERNELS.call("aten::index.Tensor_out", [x, indices], [expected])[0], expected)
    if dtype is torch.uint16:
        return
    values = make((7, 3), dtype, 5)
    expected = x.index_put((torch.zeros(7, dtype=torch.int64), *indices[1:]), values, accumulate=True)
    args = [x, [torch.zeros(7, dtype=torch.int64), *indices[1:]], values, True]
    actual = KERNELS.call("aten::index_put.out", args, [x])[0]
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (3, 2, 1, 0)])
@pytest.mark.parametrize("pattern", ["pixels", "mask_two", "apart", "second", "mask_middle"])
def test_index_dim_orders(pattern, order):
    inverse = [order.index(d) for d in range(4)]
    x = make([SELF[d] for d in order]).permute(inverse)
    indices = [i if i is None or i.dim() < 2 else i.t().contiguous().t() for i in PATTERNS[pattern]]
    expected = torch_index(x, indices)
    same(KERNELS.call("aten::index.Tensor_out", [x, indices], [expected.contiguous()])[0], expected)
    if expected.dim() == 4:
        like = torch.empty([expected.shape[d] for d in order]).permute(inverse)
        same(KERNELS.call("aten::index.Tensor_out", [x, indices], [like])[0], expected)
    values = torch.full(expected.shape, 1.5)
    result = KERNELS.call("aten::index_put.out", [x, indices, values, False], [torch.empty(SELF)])[0]
    same(
        result,
        x.clone().index_put(tuple(i if i is not None else slice(None) for i in indices), values)
        if all(i is not None for i in indices)
        else torch.ops.aten.index_put(x, indices, values, False),
    )


@pytest.mark.parametrize("shape", [(), (1,), (3,), (7, 1), (1, 3), (7, 5, 3)])
def test_index_put_broadcasts_values(shape):
    x, indices, values = make((5, 7, 3)), [N, torch.arange(7)], make(shape, seed=9)
    if shape == (7, 5, 3):
        x = make((7, 7, 5, 3))
    expected = torch.ops.aten.index_put(x, indices, values, False)
    same(KERNELS.call("aten::index_put.out", [x, indices, values, False], [x])[0], expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 9, 3, 4), (1, 1, 9, 2), (9, 5), (9,), (1, 9, 0)])
@pytest.mark.parametrize("at", [[2, 3, 4], [8], [4, 1, 4, 0], [-1, 0, -9], [], [7, 7]])
def test_rows_of_a_cache(dtype, shape, at):
    """Dims of size 1, then the one that is indexed: rising positions and others, and positions that come twice."""
    dim = shape.index(9)
    indices = [*[None] * dim, torch.tensor(at, dtype=torch.int64)]
    x, values = make(shape, dtype), make((*shape[:dim], len(at), *shape[dim + 1 :]), dtype, 5)
    expected = x.clone()
    for i, position in enumerate(at):
        expected.select(dim, position).copy_(values.select(dim, i))
    inplace = x.clone()
    KERNELS.call("aten::index_put_", [inplace, indices, values, False])
    assert torch.equal(inplace, expected)
    for outside in (9, -10):
        bad = [*[None] * dim, torch.tensor([*at, outside])]
        more = make((*shape[:dim], len(at) + 1, *shape[dim + 1 :]), dtype, 5)
        refused("KernelIndex", "aten::index_put_", [inplace, bad, more, False])
        assert torch.equal(inplace, expected)


def test_index_refuses():
    x, name = make((4, 5)), "aten::index.Tensor_out"
    for bad in (4, -5, 2**40, -(2**63)):
        refused("KernelIndex", name, [x, [torch.tensor([0, bad])]], [torch.empty(2, 5)])
    failure = refused("KernelIndex", name, [x, [None, torch.tensor([0, 5])]], [torch.empty(4, 2)])
    assert (failure.a, failure.b) == (5, 5)
    refused("KernelRank", name, [x, [None, None, torch.tensor([0])]], [torch.empty(1)])
    refused("KernelShape", name, [x, [torch.tensor([0, 1]), torch.tensor([0, 1, 2])]], [torch.empty(2)])
    refused("KernelShape", name, [x, [torch.ones(5, dtype=torch.bool)]], [torch.empty(5, 5)])
    refused("KernelDtype", name, [x, [torch.tensor([0.0])]], [torch.empty(1, 5)])
    refused("KernelDtypeMismatch", name, [x, [torch.tensor([0])]], [torch.empty(1, 5, dtype=torch.int32)])
    refused("KernelResize", name, [x, [torch.zeros(9, dtype=torch.int64)]], [torch.empty(2, 5)])
    refused("KernelIndex", name, [torch.empty(0, 5), [torch.tensor([0])]], [torch.empty(1, 5)])
    put = "aten::index_put.out"
    refused("KernelShape", put, [x, [torch.tensor([0, 1])], torch.ones(3, 5), False], [x])
    refused("KernelDtypeMismatch", put, [x, [torch.tensor([0])], torch.ones(5, dtype=torch.int32), False], [x])
    refused("KernelIndex", put, [x, [torch.tensor([0, 4])], torch.ones(()), True], [x])
    refused("KernelDtype", put,
            [x.to(torch.uint16), [torch.tensor([0])], torch.ones((), dtype=torch.uint16), True],
            [x.to(torch.uint16)])  # fmt: skip


DIM_CASES = [((4, 5, 6), 0), ((4, 5, 6), 1), ((4, 5, 6), -1), ((9,), 0), ((), 0), ((), -1), ((3, 0, 2), 0)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "dim"), DIM_CASES)
def test_index_select(shape, dim, dtype):
    x = make(shape, dtype)
    size = shape[dim] if shape else 1
    for i in (index(6, size=size, low=0), index(size=size, low=0), index(0, size=size, dtype=torch.int32)):
        if shape == () and i.numel() != 1:
            continue
        expected = torch.index_select(x, dim, i)
        same(KERNELS.call("aten::index_select.out", [x, dim, i], [expected])[0], expected)


def test_index_select_channels_last():
    x = make((2, 3, 4, 5)).to(memory_format=torch.channels_last)
    for dim in range(4):
        expected = torch.index_select(x, dim, torch.tensor([1, 0, 1]))
        for layout in (torch.channels_last, torch.contiguous_format):
            like = expected.contiguous(memory_format=layout)
            same(KERNELS.call("aten::index_select.out", [x, dim, torch.tensor([1, 0, 1])], [like])[0], expected)
    refused("KernelIndex", "aten::index_select.out", [x, 0, torch.tensor([-1])], [x[:1]])
    refused("KernelDim", "aten::index_select.out", [x, 4, torch.tensor([0])], [x[:1]])
    refused("KernelRank", "aten::index_select.out", [x, 0, torch.tensor([[0]])], [x[:1]])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2), (2, 2, 2)])
def test_embedding(dtype, shape):
    weight = make((11, 6), dtype)
    for kind in (torch.int32, torch.int64):
        i = index(*shape, size=11, low=0, dtype=kind)
        expected = weight[i.long()]
        same(KERNELS.call("aten::embedding.out", [weight, i, -1, False, False], [expected])[0], expected)
    refused("KernelIndex", "aten::embedding.out", [weight, torch.tensor([-1]), -1, False, False], [weight[:1]])
    refused("KernelIndex", "aten::embedding.out", [weight, torch.tensor([11]), -1, False, False], [weight[:1]])
    refused("KernelRank", "aten::embedding.out", [weight[0], torch.tensor([1]), -1, False, False], [weight[:1]])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "dim"), DIM_CASES)
def test_index_copy_fill_add(shape, dim, dtype):
    x = make(shape, dtype)
    size = shape[dim] if shape else 1
    i = torch.randperm(size, generator=torch.Generator().manual_seed(1))[: max(1, size // 2)]
    source_shape = list(shape)
    if shape:
        source_shape[dim] = i.numel()
    source = make(source_shape, dtype, 4)
    expected = torch.index_copy(x, dim, i, source)
    same(KERNELS.call("aten::index_copy.out", [x, dim, i, source], [x])[0], expected)
    value = True if dtype is torch.bool else 2.5 if dtype.is_floating_point else 3
    expected = torch.index_fill(x, dim, i, value)
    same(KERNELS.call("aten::index_fill.int_Scalar_out", [x, dim, i, value], [x])[0], expected)
    tensor = torch.tensor(value)
    expected = torch.index_fill(x, dim, i, tensor)
    same(KERNELS.call("aten::index_fill.int_Tensor_out", [x, dim, i, tensor], [x])[0], expected)
    alpha = True if dtype is torch.bool else 2
    i = torch.cat([i, i[:1]])
    if shape:
        source_shape[dim] = i.numel()
        source = make(source_shape, dtype, 4)
        expected = torch.index_add(x, dim, i, source, alpha=alpha)
        actual = KERNELS.call("aten::index_add.out", [x, dim, i, source, alpha], [x])[0]
        torch.testing.assert_close(actual, expected)


def test_index_fill_negative_and_overflow():
    x = make((4, 5), torch.uint8)
    expected = torch.index_fill(x, 0, torch.tensor([-1]), 7)
    same(KERNELS.call("aten::index_fill.int_Scalar_out", [x, 0, torch.tensor([-1]), 7], [x])[0], expected)
    refused("KernelOverflow", "aten::index_fill.int_Scalar_out", [x, 0, torch.tensor([0]), 256], [x])
    refused("KernelOverflow", "aten::index_fill.int_Scalar_out", [x, 0, torch.tensor([0]), float("nan")], [x])
    refused("KernelIndex", "aten::index_copy.out", [x, 0, torch.tensor([-1]), x[:1]], [x])
    refused("KernelShape", "aten::index_copy.out", [x, 0, torch.tensor([1]), x[:2]], [x])
    refused("KernelArgument", "aten::index_add.out", [x, 0, torch.tensor([1]), x[:1], 0.5], [x])


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dim", [0, 1])
def test_index_reduce(dtype, reduce, include_self, dim):
    x = make((4, 5), dtype).clamp(-3, 3)
    i = torch.tensor([0, 3, 3, 1, 3])
    source = make((5, 5) if dim == 0 else (4, 5), dtype, 6).clamp(-3, 3)
    expected = torch.index_reduce(x, dim, i, source, reduce, include_self=include_self)
    actual = KERNELS.call("aten::index_reduce.out", [x, dim, i, source, reduce, include_self], [x])[0]
    tolerance = {torch.float16: 4e-3, torch.bfloat16: 3e-2}.get(dtype, 1e-5)
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def test_sums_of_complex_halves():
    """index_put and index_add, which add numbers that C++ has no arithmetic for."""
    x = torch.randn(5, 3, 2).half()
    more = torch.randn(4, 3, 2).half()
    at = torch.tensor([0, 2, 2, 4])
    wanted = x.float().index_add(0, at, more.float()).half()
    tensors = [torch.view_as_complex(t) for t in (x, more)]
    calls = {
        "aten::index_put.out": [tensors[0], [at], tensors[1], True],
        "aten::index_add.out": [tensors[0], 0, at, tensors[1], 1],
    }
    for name, arguments in calls.items():
        (found,) = KERNELS.call(name, arguments, [tensors[0]])
        torch.testing.assert_close(torch.view_as_real(found), wanted)
