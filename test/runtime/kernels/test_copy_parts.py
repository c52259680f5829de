"""Kernels that put tensors together, replace or pad parts, and slide windows."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from etir_testing.runtime.copy_cases import ALL_DTYPES, check_moves, in_order, kernels, layouts, make, same
from etir_testing.runtime.kernels import KernelFailure

aten: Any = torch.ops.aten
KNOWN = tuple(d for d in ALL_DTYPES if d not in (torch.uint16, torch.uint32, torch.uint64, torch.complex32))


def refused(name: str, arguments: list[Any], outs: list[Any]) -> str:
    with pytest.raises(KernelFailure) as failure:
        kernels().call(f"aten::{name}", arguments, outs)
    return failure.value.check


# --- cat, stack, block_diag ---


@pytest.mark.parametrize("dim", [0, 1, -1, -3])
def test_cat(dim: int) -> None:
    shapes = [[3, 4, 5] for _ in range(3)]
    for i, size in enumerate((2, 0, 7)):
        shapes[i][dim] = size
    tensors = [make(shape, seed=i) for i, shape in enumerate(shapes)]
    mixed = [in_order(tensors[0], (2, 0, 1)), tensors[1], in_order(tensors[2], (1, 0, 2))]
    expected = torch.cat(tensors, dim)
    for name, items, like in itertools.product(("cat", "concat", "concatenate"), (tensors, mixed), layouts(expected)):
        same(kernels().call(f"aten::{name}.out", [items, dim], [like])[0], expected)


def test_cat_skips_empty_vectors() -> None:
    x, empty = make((2, 3)), make((0,))
    same(kernels().call("aten::cat.out", [[empty, x, empty, x], 1], [make((2, 6))])[0], torch.cat([x, x], 1))
    same(kernels().call("aten::cat.out", [[empty, empty], 0], [empty])[0], empty)
    same(kernels().call("aten::cat.out", [[make((0, 3)), x], 0], [x])[0], x)


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_cat_and_stack_take_every_dtype(dtype: torch.dtype) -> None:
    a, b = make((2, 3), dtype), make((2, 3), dtype, seed=1)
    same(kernels().call("aten::cat.out", [[a, b], 1], [make((2, 6), dtype)])[0], torch.cat([a, b], 1))
    same(kernels().call("aten::stack.out", [[a, b], 1], [make((2, 2, 3), dtype)])[0], torch.stack([a, b], 1))


@pytest.mark.parametrize("out", KNOWN, ids=str)
@pytest.mark.parametrize("dtype", KNOWN, ids=str)
def test_cat_and_stack_convert_as_torch(dtype: torch.dtype, out: torch.dtype) -> None:
    a, b = make((3, 70), dtype), make((3, 70), out, seed=1)
    for name, function, like in (("cat", torch.cat, make((6, 70), out)), ("stack", torch.stack, make((2, 3, 70), out))):
        try:
            expected = function([a, b], 0, out=torch.empty_like(like))
        except (RuntimeError, TypeError):
            assert refused(f"{name}.out", [[a, b], 0], [like]) == "KernelDtypeMismatch"
            continue
        for item, target in itertools.product(layouts(a), layouts(like)):
            same(kernels().call(f"aten::{name}.out", [[item, b], 0], [target])[0], expected)


def test_cat_keeps_large_unsigned_numbers() -> None:
    x = torch.tensor([2**64 - 1, 2**63, 5], dtype=torch.uint64)
    expected = torch.tensor([2.0**64, 2.0**63, 5.0])
    same(kernels().call("aten::cat.out", [[x], 0], [expected])[0], expected)
    small = torch.tensor([65535, 1], dtype=torch.uint16)
    same(kernels().call("aten::cat.out", [[small], 0], [torch.tensor([1, 2])])[0], torch.tensor([65535, 1]))


@pytest.mark.parametrize("dim", [0, 2, -1, -3])
def test_stack(dim: int) -> None:
    tensors = [make((3, 4), seed=i) for i in range(3)]
    mixed = [tensors[0], tensors[1].t().contiguous().t(), tensors[2]]
    expected = torch.stack(tensors, dim)
    for like in layouts(expected):
        same(kernels().call("aten::stack.out", [mixed, dim], [like])[0], expected)
    numbers = [make((), seed=i) for i in range(3)]
    same(kernels().call("aten::stack.out", [numbers, 0], [make((3,))])[0], torch.stack(numbers))


def test_block_diag() -> None:
    tensors = [make((2, 3)), make(()), make((4,), torch.int32), make((0,)), make((3, 1))]
    expected = torch.block_diag(*tensors)
    for like in layouts(expected):
        same(kernels().call("aten::block_diag.out", [tensors], [like])[0], expected)


def test_joins_refuse() -> None:
    x, y = make((2, 3)), make((2, 4))
    assert refused("cat.out", [[], 0], [x]) == "KernelArgument"
    assert refused("cat.out", [[x, y], 0], [x]) == "KernelShape"
    assert refused("cat.out", [[x, make((2, 3, 1))], 0], [x]) == "KernelRank"
    assert refused("cat.out", [[x, x], 2], [x]) == "KernelDim"
    assert refused("cat.out", [[make(()), make(())], 0], [make((2,))]) == "KernelRank"
    assert refused("stack.out", [[x, y], 0], [make((2, 2, 3))]) == "KernelShape"
    assert refused("stack.out", [[x], 3], [make((1, 2, 3))]) == "KernelDim"
    assert refused("cat.out", [[x, x], 0], [make((4, 4, 3))]) == "KernelResizeRank"


# --- scatters and their gradients ---

SCATTERS: list[tuple[str, Any, tuple[int, ...], tuple[int, ...], tuple[Any, ...]]] = [
    ("slice_scatter.out", aten.slice_scatter, (3, 10, 4), (3, 3, 4), (1, 1, -1, 3)),
    ("slice_scatter.out", aten.slice_scatter, (3, 10), (3, 10), (-1, None, None, 1)),
    ("slice_scatter.out", aten.slice_scatter, (3, 10), (3, 0), (1, 7, 2, 1)),
    ("select_scatter.out", aten.select_scatter, (3, 4, 5), (3, 5), (1, -1)),
    ("select_scatter.out", aten.select_scatter, (3,), (), (0, 1)),
    ("diagonal_scatter.out", aten.diagonal_scatter, (3, 4, 5), (4, 2), (1, 2, 0)),
    ("diagonal_scatter.out", aten.diagonal_scatter, (4, 4), (3,), (-1, 0, 1)),
]


@pytest.mark.parametrize("case", range(len(SCATTERS)))
def test_scatters(case: int) -> None:
    name, function, shape, part, rest = SCATTERS[case]
    for dtype in ALL_DTYPES:
        check_moves(name, function, [make(shape, dtype), make(part, dtype, seed=1)], *rest)
    source = in_order(make(part, seed=1), range(len(part) - 1, -1, -1))
    check_moves(name, function, [make(shape), source], *rest)


@pytest.mark.parametrize("dtype", KNOWN, ids=str)
@pytest.mark.parametrize("source", KNOWN, ids=str)
@pytest.mark.filterwarnings("ignore:Casting complex")
def test_scatters_convert_as_copy_does(dtype: torch.dtype, source: torch.dtype) -> None:
    x = make((4, 70), dtype)
    # Numbers that every integer type holds: beyond, the results of conversions differ between machines.
    src = (
        make((70,), source, seed=1)
        if dtype.is_floating_point or dtype.is_complex
        else make((70,), torch.int8).abs().to(source)
    )
    if source.is_complex and dtype == torch.bool:
        assert refused("select_scatter.out", [x, src, 0, 2], [x]) == "KernelDtypeMismatch"
        return
    expected = torch.select_scatter(x, src, 0, 2)
    for like in layouts(x):
        same(kernels().call("aten::select_scatter.out", [x, src, 0, 2], [like])[0], expected)


def test_conversions_of_what_is_out_of_range_are_defined() -> None:
    src = torch.tensor([float("nan"), float("inf"), -float("inf"), 1e30])
    result = kernels().call(
        "aten::select_scatter.out", [make((2, 4), torch.int64), src, 0, 0], [make((2, 4), torch.int64)]
    )
    assert result[0][0].tolist() == [-(2**63)] * 4


def test_as_strided_scatter() -> None:
    x, src = make((4, 6)), make((2, 3), seed=1)
    for source in (x, x.t().contiguous().t()):
        expected = torch.as_strided_scatter(source, src, [2, 3], [7, 2], 1)
        same(kernels().call("aten::as_strided_scatter.out", [source, src, [2, 3], [7, 2], 1], [source])[0], expected)
    arguments = [x, src, [2, 3], [7, 2]]
    assert refused("as_strided_scatter.out", [*arguments, 1], [x.t().contiguous().t()]) == "KernelDimOrder"
    assert refused("as_strided_scatter.out", [*arguments, 13], [x]) == "KernelIndex"
    assert refused("as_strided_scatter.out", [x, src, [2, 3], [0, 2], 0], [x]) == "KernelArgument"


def test_gradients_of_parts() -> None:
    cases: list[tuple[str, tuple[int, ...], tuple[Any, ...]]] = [
        ("slice_backward", (3, 3, 4), ([3, 10, 4], 1, 1, 9, 3)),
        ("select_backward", (3, 4), ([3, 10, 4], -2, 5)),
        ("diagonal_backward", (4, 2), ([3, 4, 5], 1, 2, 0)),
    ]
    for name, shape, rest in cases:
        check_moves(f"{name}.out", getattr(aten, name), [make(shape)], *rest)
        assert refused(f"{name}.out", [make((1, *shape[1:])), *rest], [make(rest[0])]) == "KernelShape"


def test_scatters_refuse() -> None:
    x = make((3, 4))
    assert refused("slice_scatter.out", [x, make((3, 3)), 1, 0, 2, 1], [x]) == "KernelShape"
    assert refused("slice_scatter.out", [x, make((3, 4)), 1, 0, 4, 0], [x]) == "KernelArgument"
    assert refused("select_scatter.out", [x, make((4,)), 0, 3], [x]) == "KernelIndex"
    assert refused("select_scatter.out", [x, make((1, 4)), 0, 0], [x]) == "KernelRank"
    assert refused("select_scatter.out", [x, make((4,)), 0, 0], [x.double()]) == "KernelDtypeMismatch"


# --- padding ---


@pytest.mark.parametrize(
    "shape, pad",
    [
        ((2, 3, 4), [1, 2]),
        ((2, 3, 4, 5), [1, 0, 2, 3, 0, 1]),
        ((2, 3, 4), [-1, 2, 3, -2]),
        ((2, 3, 4), [-2, -2]),
        ((3, 4), []),
        ((0, 4), [1, 1, 2, 1]),
        ((), []),
    ],
)
def test_constant_pad(shape: tuple[int, ...], pad: list[int]) -> None:
    check_moves("constant_pad_nd.out", aten.constant_pad_nd, [make(shape)], pad, 1.5)
    for dtype in KNOWN:
        check_moves("constant_pad_nd.out", aten.constant_pad_nd, [make(shape, dtype)], pad, 3, rows_only=True)


@pytest.mark.parametrize(
    "dtype, value",
    [
        (torch.int32, 2.7), (torch.int32, -2.7), (torch.uint8, 255), (torch.uint8, -1), (torch.bool, 2),
        (torch.float16, 65504.0), (torch.float32, float("nan")), (torch.bfloat16, -float("inf")), (torch.int64, True),
        (torch.bool, 0.0),
        (torch.int64, -(2**63)), (torch.complex64, 2.5), (torch.uint16, 65535), (torch.float64, 2**53 + 1),
    ],
)  # fmt: skip
def test_pads_with_numbers_of_other_kinds(dtype: torch.dtype, value: float) -> None:
    x = make((2, 3), dtype)
    expected = torch.cat([x, torch.full((2, 1), value).to(dtype) if dtype == torch.uint16 else
                          torch.empty((2, 1), dtype=dtype).fill_(value)], 1)  # fmt: skip
    same(kernels().call("aten::constant_pad_nd.out", [x, [0, 1], value], [expected])[0], expected)


@pytest.mark.parametrize(
    "dtype, value",
    [(torch.int8, 128), (torch.uint8, 256), (torch.uint8, -256), (torch.float16, 65520.0), (torch.float32, 1e39),
     (torch.int32, 2.0**31), (torch.int64, 2.0**63), (torch.int64, float("nan"))],
)  # fmt: skip
def test_refuses_numbers_that_do_not_fit(dtype: torch.dtype, value: float) -> None:
    x = make((2, 3), dtype)
    assert refused("constant_pad_nd.out", [x, [0, 1], value], [make((2, 4), dtype)]) == "KernelOverflow"


PADS: list[tuple[int, tuple[int, ...], list[int]]] = [
    (1, (2, 5), [4, 3]),
    (1, (2, 3, 5), [0, 2]),
    (1, (2, 3, 5), [-1, 3]),
    (1, (2, 3, 5), [3, -2]),
    (1, (0, 3, 5), [1, 1]),
    (2, (3, 5, 6), [1, 2, 3, 4]),
    (2, (2, 3, 5, 6), [5, 0, -1, 2]),
    (3, (2, 3, 4, 5), [1, 2, 2, 1, 1, 1]),
    (3, (2, 2, 3, 4, 5), [0, 2, -1, 1, 2, 0]),
]


@pytest.mark.parametrize("mode", ["reflection", "replication"])
@pytest.mark.parametrize("case", range(len(PADS)))
def test_border_pads(mode: str, case: int) -> None:
    dims, shape, pad = PADS[case]
    name = f"{mode}_pad{dims}d"
    check_moves(f"{name}.out", getattr(aten, name), [make(shape, torch.float64)], pad)
    for dtype in ALL_DTYPES:
        if dtype.is_floating_point:
            check_moves(f"{name}.out", getattr(aten, name), [make(shape, dtype)], pad, rows_only=True)


def test_border_pads_of_integers() -> None:
    x = make((2, 3, 5), torch.int16)
    expected = aten.reflection_pad1d(x.double(), [2, 4]).short()
    same(kernels().call("aten::reflection_pad1d.out", [x, [2, 4]], [expected])[0], expected)


def test_pads_refuse() -> None:
    x = make((2, 3, 5))
    assert refused("reflection_pad1d.out", [x, [5, 0]], [x]) == "KernelArgument"
    assert refused("reflection_pad1d.out", [x, [1]], [x]) == "KernelArgument"
    assert refused("reflection_pad1d.out", [make((2, 3, 0)), [1, 1]], [x]) == "KernelShape"
    assert refused("reflection_pad2d.out", [make((3, 5)), [1, 1, 1, 1]], [x]) == "KernelRank"
    assert refused("replication_pad1d.out", [x, [-3, -2]], [x]) == "KernelArgument"
    assert refused("replication_pad1d.out", [x, [-(2**62), 2**62]], [x]) == "KernelArgument"
    assert refused("replication_pad1d.out", [x, [2**63 - 1, 2**63 - 1]], [x]) == "KernelArgument"
    assert refused("constant_pad_nd.out", [x, [-3, -3], 0], [x]) == "KernelArgument"
    assert refused("constant_pad_nd.out", [x, [1], 0], [x]) == "KernelArgument"
    assert refused("constant_pad_nd.out", [x, [0] * 8, 0], [x]) == "KernelArgument"
    assert refused("constant_pad_nd.out", [x, [-(2**63), 2**63 - 1], 0], [x]) == "KernelArgument"
    assert refused("constant_pad_nd.out", [x, [2**40, 0], 0], [x]) == "KernelResize"


# --- repeat_interleave ---


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_repeat_interleave(dtype: torch.dtype) -> None:
    repeats = torch.tensor([2, 0, 3, 1], dtype=dtype)
    expected = torch.repeat_interleave(repeats)
    for size in (None, 6):
        same(kernels().call("aten::repeat_interleave.Tensor_out", [repeats, size], [expected])[0], expected)
    none = torch.empty(0, dtype=dtype)
    same(kernels().call("aten::repeat_interleave.Tensor_out", [none, None], [none])[0], none)
    assert refused("repeat_interleave.Tensor_out", [repeats, 7], [expected]) == "KernelArgument"
    assert refused("repeat_interleave.Tensor_out", [repeats - 1, None], [expected]) == "KernelArgument"
    assert refused("repeat_interleave.Tensor_out", [repeats[:, None], None], [expected]) == "KernelRank"
    assert refused("repeat_interleave.Tensor_out", [repeats.char(), None], [expected.char()]) == "KernelDtype"


# --- im2col, col2im ---

WINDOWS: list[tuple[tuple[int, ...], list[list[int]]]] = [
    ((2, 3, 6, 7), [[2, 3], [1, 1], [0, 0], [1, 1]]),
    ((2, 3, 6, 7), [[3, 2], [2, 1], [2, 1], [2, 3]]),
    ((3, 6, 7), [[3, 3], [1, 2], [4, 0], [1, 1]]),
    ((1, 1, 3, 2), [[1, 1], [1, 1], [5, 5], [3, 4]]),
    ((0, 3, 6, 7), [[2, 3], [1, 1], [0, 0], [1, 1]]),
    ((1, 2, 3, 150), [[3, 5], [1, 1], [1, 2], [1, 2]]),
]


@pytest.mark.parametrize("case", range(len(WINDOWS)))
def test_windows(case: int) -> None:
    shape, rest = WINDOWS[case]
    check_moves("im2col.out", aten.im2col, [make(shape)], *rest)
    columns = make(aten.im2col(make(shape), *rest).shape, seed=3)
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128):
        check_moves("im2col.out", aten.im2col, [make(shape, dtype)], *rest, rows_only=True)
        x = columns.to(dtype)
        wide = torch.complex128 if dtype.is_complex else torch.float64
        expected = aten.col2im(x.to(wide), list(shape[-2:]), *rest).to(dtype)
        for source, like in itertools.product(layouts(x), layouts(expected)):
            actual = kernels().call("aten::col2im.out", [source, list(shape[-2:]), *rest], [like])[0]
            torch.testing.assert_close(actual, expected)


def test_windows_refuse() -> None:
    x, good = make((2, 3, 6, 7)), [[2, 3], [1, 1], [0, 0], [1, 1]]
    out = make((2, 18, 25))
    for i, bad in ((0, [0, 3]), (1, [1, 0]), (2, [-1, 0]), (3, [1, 0]), (0, [2]), (0, [2**33, 1])):
        rest = [*good[:i], bad, *good[i + 1 :]]
        assert refused("im2col.out", [x, *rest], [out]) == "KernelArgument"
    assert refused("im2col.out", [x, [7, 1], *good[1:]], [out]) == "KernelShape"
    assert refused("col2im.out", [out, [6, 8], *good], [x]) == "KernelShape"
    assert refused("col2im.out", [make((2, 17, 25)), [6, 7], *good], [x]) == "KernelShape"
    assert refused("col2im.out", [make((2, 18, 25), torch.int32), [6, 7], *good], [x.int()]) == "KernelDtype"
