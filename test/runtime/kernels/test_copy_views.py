"""Kernels that copy a view: of every dtype, from and to tensors in every layout."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from etir_testing.runtime.copy_cases import ALL_DTYPES, check_moves, in_order, kernels, layouts, make, same
from etir_testing.runtime.kernels import DTYPES, KernelFailure

aten: Any = torch.ops.aten


def expand(x: torch.Tensor, size: list[int], implicit: bool) -> torch.Tensor:
    return aten.expand_copy(x, size, implicit=implicit)


VIEWS: list[tuple[str, Any, tuple[int, ...], tuple[Any, ...]]] = [
    ("alias_copy.out", aten.alias_copy, (2, 3, 4, 5), ()),
    ("detach_copy.out", aten.detach_copy, (3, 4), ()),
    ("lift_fresh_copy.out", aten.lift_fresh_copy, (2, 3), ()),
    ("lift.out", aten.lift, (2, 3), ()),
    ("view_copy.out", aten.view_copy, (2, 3, 4, 5), ([6, -1, 10],)),
    ("view_copy.out", aten.view_copy, (4, 6), ([3, 8],)),
    ("view_copy.out", aten.view_copy, (4, 9), ([6, 6],)),
    ("view_copy.out", aten.view_copy, (5, 1, 3, 7), ([7, 15],)),
    ("view_copy.out", aten.view_copy, (1, 1), ([],)),
    ("view_copy.out", aten.view_copy, (), ([1, 1, 1],)),
    ("view_copy.out", aten.view_copy, (0, 4), ([2, 0, 3],)),
    ("_unsafe_view.out", aten._unsafe_view, (2, 3, 4), ([4, 6],)),
    ("expand_copy.out", expand, (3, 1, 4), ([2, -1, 5, 4], False)),
    ("expand_copy.out", expand, (1,), ([3, 0], False)),
    ("expand_copy.out", expand, (4, 1), ([4, 33], False)),
    ("expand_copy.out", expand, (), ([2, 3], False)),
    ("permute_copy.out", aten.permute_copy, (2, 3, 4, 5), ([0, 2, 3, 1],)),
    ("permute_copy.out", aten.permute_copy, (2, 3, 4, 5), ([-1, 0, -2, 1],)),
    ("permute_copy.out", aten.permute_copy, (37, 53), ([1, 0],)),
    ("permute_copy.out", aten.permute_copy, (2, 48, 33), ([0, 2, 1],)),
    ("permute_copy.out", aten.permute_copy, (), ([],)),
    ("permute_copy.out", aten.permute_copy, (2, 0, 3), ([2, 1, 0],)),
    ("transpose_copy.int_out", aten.transpose_copy.int, (3, 64, 48), (-1, 1)),
    ("transpose_copy.int_out", aten.transpose_copy.int, (300, 3), (0, 1)),
    ("transpose_copy.int_out", aten.transpose_copy.int, (), (0, -1)),
    ("t_copy.out", aten.t_copy, (5, 7), ()),
    ("t_copy.out", aten.t_copy, (5,), ()),
    ("t_copy.out", aten.t_copy, (), ()),
    ("squeeze_copy.out", aten.squeeze_copy, (1, 3, 1, 4, 1), ()),
    ("squeeze_copy.out", aten.squeeze_copy, (1, 1), ()),
    ("squeeze_copy.dim_out", aten.squeeze_copy.dim, (1, 3, 1, 4), (-2,)),
    ("squeeze_copy.dim_out", aten.squeeze_copy.dim, (1, 3), (1,)),
    ("squeeze_copy.dim_out", aten.squeeze_copy.dim, (), (-1,)),
    ("squeeze_copy.dims_out", aten.squeeze_copy.dims, (1, 3, 1, 4), ([0, -1, 2],)),
    ("unsqueeze_copy.out", aten.unsqueeze_copy, (3, 4), (-1,)),
    ("unsqueeze_copy.out", aten.unsqueeze_copy, (3, 4, 5), (1,)),
    ("unsqueeze_copy.out", aten.unsqueeze_copy, (), (0,)),
    ("select_copy.int_out", aten.select_copy.int, (3, 4, 5), (1, -2)),
    ("select_copy.int_out", aten.select_copy.int, (3,), (0, 2)),
    ("slice_copy.Tensor_out", aten.slice_copy.Tensor, (3, 10, 5), (1, 1, -1, 3)),
    ("slice_copy.Tensor_out", aten.slice_copy.Tensor, (3, 10), (-1, None, None, 1)),
    ("slice_copy.Tensor_out", aten.slice_copy.Tensor, (3, 10), (1, 8, 2, 1)),
    ("slice_copy.Tensor_out", aten.slice_copy.Tensor, (3, 10), (0, -100, 2**63 - 1, 2**58)),
    ("narrow_copy.out", aten.narrow_copy, (3, 10), (1, -4, 3)),
    ("narrow_copy.out", aten.narrow_copy, (3, 10), (0, 3, 0)),
    ("split_copy.Tensor_out", aten.split_copy.Tensor, (3, 10, 2), (4, 1)),
    ("split_copy.Tensor_out", aten.split_copy.Tensor, (0, 2), (0, 0)),
    ("split_with_sizes_copy.out", aten.split_with_sizes_copy, (3, 10, 2), ([4, 0, 6], -2)),
    ("unbind_copy.int_out", aten.unbind_copy.int, (3, 4, 5), (1,)),
    ("diagonal_copy.out", aten.diagonal_copy, (3, 4, 5), (1, 2, 0)),
    ("diagonal_copy.out", aten.diagonal_copy, (4, 4), (-2, 0, 1)),
    ("diagonal_copy.out", aten.diagonal_copy, (4, 4), (-9, 0, 1)),
    ("unfold_copy.out", aten.unfold_copy, (3, 11, 2), (1, 4, 3)),
    ("unfold_copy.out", aten.unfold_copy, (5,), (0, 0, 2)),
    ("unfold_copy.out", aten.unfold_copy, (), (0, 1, 1)),
    ("flip.out", aten.flip, (3, 4, 5), ([0, -1],)),
    ("flip.out", aten.flip, (3, 35), ([1],)),
    ("flip.out", aten.flip, (), ([],)),
    ("rot90.out", aten.rot90, (3, 4, 5), (1, [0, 2])),
    ("rot90.out", aten.rot90, (3, 4), (-2, [1, 0])),
    ("rot90.out", aten.rot90, (3, 4), (7, [0, 1])),
    ("repeat.out", aten.repeat, (3, 4), ([2, 1, 3],)),
    ("repeat.out", aten.repeat, (3,), ([0, 2],)),
    ("repeat.out", aten.repeat, (), ([],)),
    ("roll.out", aten.roll, (3, 4, 5), ([2, -1], [0, 2])),
    ("roll.out", aten.roll, (3, 4, 5), ([7, 1, 1], [1, 1, -1])),
    ("roll.out", aten.roll, (3, 4, 5), ([-13], [])),
    ("roll.out", aten.roll, (0, 4), ([1], [1])),
    ("roll.out", aten.roll, (3, 4), ([2**63 - 1], [0])),
    ("tril.out", aten.tril, (2, 4, 6), (1,)),
    ("triu.out", aten.triu, (6, 4), (-2,)),
    ("triu.out", aten.triu, (3, 5, 5), (0,)),
    ("tril.out", aten.tril, (3, 3), (-(2**63),)),
    ("pixel_shuffle.out", aten.pixel_shuffle, (2, 18, 3, 4), (3,)),
    ("pixel_unshuffle.out", aten.pixel_unshuffle, (2, 3, 4, 6), (2,)),
    ("channel_shuffle.out", aten.channel_shuffle, (2, 6, 3, 4), (3,)),
]


@pytest.mark.parametrize("case", range(len(VIEWS)), ids=[f"{v[0]}-{i}" for i, v in enumerate(VIEWS)])
def test_moves_what_torch_moves(case: int) -> None:
    name, function, shape, rest = VIEWS[case]
    check_moves(name, function, [make(shape)], *rest)


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_every_dtype(dtype: torch.dtype) -> None:
    seen: set[str] = set()
    for name, function, shape, rest in VIEWS:
        if name in seen:
            continue
        seen.add(name)
        check_moves(name, function, [make(shape, dtype)], *rest, rows_only=len(seen) % 3 != 0)


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (7,), (), (0, 3)])
def test_clone(shape: tuple[int, ...]) -> None:
    x = make(shape)
    for source in layouts(x):
        for like in layouts(x):
            same(kernels().call("aten::clone.out", [source, None], [like])[0], x)


@pytest.mark.parametrize("dtype", [torch.complex32, torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("shape", [(3, 4, 5), (), (2, 0)])
def test_complex_numbers_as_pairs(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = make(shape, dtype)
    pairs = torch.view_as_real(x)
    for source in layouts(x):
        for like in layouts(pairs):
            same(kernels().call("aten::view_as_real_copy.out", [source], [like])[0], pairs)
            same(kernels().call("aten::view_as_complex_copy.out", [like], [source])[0], x)


@pytest.mark.parametrize("to", ALL_DTYPES, ids=str)
def test_bytes_as_another_dtype(to: torch.dtype) -> None:
    for of in ALL_DTYPES:
        narrow = of.itemsize <= to.itemsize
        shape = (2, 3, 4, 16 // of.itemsize if narrow else 3)
        # Not every byte is a bool.
        x = make(shape, of) if to != torch.bool else make((*shape, of.itemsize), torch.bool).view(of).squeeze(-1)
        expected = x.view(to)
        for source in layouts(x):
            for like in layouts(expected):
                same(kernels().call("aten::view_copy.dtype_out", [source, DTYPES[to]], [like])[0], expected)
    point = make((), to)
    same(kernels().call("aten::view_copy.dtype_out", [point, DTYPES[to]], [point])[0], point)
    empty = make((0, 4), torch.int32)
    same(kernels().call("aten::view_copy.dtype_out", [empty.view(torch.uint8), DTYPES[torch.int32]], [empty])[0], empty)


@pytest.mark.parametrize(
    "size, stride, offset", [([2, 3], [1, 2], 5), ([3, 3], [0, 4], None), ([0, 9], [99, 99], 77), ([], [], 59)]
)
def test_as_strided(size: list[int], stride: list[int], offset: int | None) -> None:
    for x in layouts(make((3, 4, 5))):
        expected = torch.as_strided_copy(x, size, stride, offset)
        for like in layouts(expected):
            same(kernels().call("aten::as_strided_copy.out", [x, size, stride, offset], [like])[0], expected)
    if offset is None:
        same(kernels().call("aten::_reshape_alias_copy.out", [make((3, 4, 5)), size, stride], [expected])[0],
             make((3, 4, 5)).as_strided(size, stride))  # fmt: skip


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(16, 16), (33, 50), (64, 3), (3, 64), (2, 3, 17, 19), (1, 130, 31, 2)])
def test_transposes_of_all_sizes(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    rank = len(shape)
    dims = [0, *range(2, rank), 1] if rank > 2 else [1, 0]
    check_moves("permute_copy.out", aten.permute_copy, [make(shape, dtype)], dims)


def test_misaligned_data() -> None:
    """Bytes at odd addresses are no tensor of torch's, but may be in a damaged file; 3 bytes in, as 4-byte elements."""
    storage = make((2 * 17 * 19 * 4 + 8,), torch.uint8)
    x = storage[: 17 * 19 * 4].view(torch.float32).reshape(17, 19)

    class Shifted(torch.Tensor):
        def data_ptr(self) -> int:
            return super().data_ptr() + 3

    wanted = storage[3 : 3 + 17 * 19 * 4].clone().view(torch.float32).reshape(17, 19).t()
    same(kernels().call("aten::t_copy.out", [x.as_subclass(Shifted)], [wanted])[0], wanted)


X = make((3, 4))

REFUSED: list[tuple[str, list[Any], list[torch.Tensor], str]] = [
    ("clone.out", [X, None], [X.int()], "KernelDtypeMismatch"),
    ("view_copy.dtype_out", [make((3, 3)), DTYPES[torch.int64]], [make((3, 1), torch.int64)], "KernelShape"),
    ("view_copy.dtype_out", [make(()), DTYPES[torch.uint8]], [make((), torch.uint8)], "KernelRank"),
    ("view_copy.dtype_out", [X, DTYPES[torch.int64]], [X.int()], "KernelDtypeMismatch"),
    ("view_copy.out", [X, [5, -1]], [make((5, 2))], "KernelArgument"),
    ("view_copy.out", [X, [5, 2]], [make((5, 2))], "KernelShape"),
    ("view_copy.out", [X, [2**40, 2**40]], [make((5, 2))], "KernelArgument"),
    ("view_copy.out", [X, [-1, -1]], [make((5, 2))], "KernelArgument"),
    ("view_copy.out", [X, [12]], [make((3, 4))], "KernelResizeRank"),
    ("expand_copy.out", [X, [3, 5], False], [make((3, 5))], "KernelArgument"),
    ("expand_copy.out", [X, [-1, 3, 4], False], [make((1, 3, 4))], "KernelArgument"),
    ("permute_copy.out", [X, [0, 0]], [X], "KernelArgument"),
    ("permute_copy.out", [X, [0, 2]], [X], "KernelDim"),
    ("permute_copy.out", [X, [0]], [X], "KernelArgument"),
    ("transpose_copy.int_out", [X, 0, 2], [X.t()], "KernelDim"),
    ("t_copy.out", [make((2, 3, 4))], [make((2, 3, 4))], "KernelRank"),
    ("select_copy.int_out", [X, 1, 4], [make((3,))], "KernelIndex"),
    ("select_copy.int_out", [X, 1, -5], [make((3,))], "KernelIndex"),
    ("select_copy.int_out", [make(()), 0, 0], [make(())], "KernelRank"),
    ("slice_copy.Tensor_out", [X, 1, 0, 2, 0], [X], "KernelArgument"),
    ("slice_copy.Tensor_out", [X, 1, 0, 2, -1], [X], "KernelArgument"),
    ("narrow_copy.out", [X, 1, 3, 2], [make((3, 2))], "KernelArgument"),
    ("narrow_copy.out", [X, 1, 5, 0], [make((3, 0))], "KernelIndex"),
    ("diagonal_copy.out", [X, 0, 1, -1], [make((3,))], "KernelArgument"),
    ("unfold_copy.out", [X, 1, 5, 1], [make((3, 1, 5))], "KernelArgument"),
    ("unfold_copy.out", [X, 1, 2, 0], [make((3, 1, 5))], "KernelArgument"),
    ("flip.out", [X, [0, -2]], [X], "KernelArgument"),
    ("roll.out", [X, [1, 2], []], [X], "KernelArgument"),
    ("roll.out", [X, [1], [2]], [X], "KernelDim"),
    ("repeat.out", [X, [-1, 2]], [X], "KernelArgument"),
    ("repeat.out", [X, [2**62, 2**62]], [X], "KernelArgument"),
    ("repeat.out", [X, [2**20, 2**20]], [X], "KernelResize"),
    ("as_strided_copy.out", [X, [3, 4], [4, 1], 1], [X], "KernelIndex"),
    ("as_strided_copy.out", [X, [3, 4], [4, 1], -1], [X], "KernelIndex"),
    ("as_strided_copy.out", [X, [2**40, 2**40], [2**40, 1], 0], [X], "KernelIndex"),
    ("as_strided_copy.out", [X, [3, 4], [-4, 1], 8], [X], "KernelArgument"),
    ("as_strided_copy.out", [X, [3], [4, 1], 8], [X], "KernelArgument"),
    ("tril.out", [make((3,)), 0], [make((3,))], "KernelRank"),
    ("pixel_shuffle.out", [make((1, 6, 2, 2)), 2], [make((1, 1, 4, 4))], "KernelShape"),
    ("pixel_shuffle.out", [make((1, 6, 2, 2)), 2**40], [make((1, 1, 4, 4))], "KernelArgument"),
    ("pixel_unshuffle.out", [make((1, 1, 3, 2)), 2], [make((1, 4, 1, 1))], "KernelShape"),
    ("channel_shuffle.out", [make((1, 6, 2, 2)), 4], [make((1, 6, 2, 2))], "KernelArgument"),
    ("view_as_real_copy.out", [X], [make((3, 4, 2))], "KernelDtype"),
    ("view_as_complex_copy.out", [X], [make((3,), torch.complex64)], "KernelShape"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(REFUSED)), ids=[f"{r[0]}-{i}" for i, r in enumerate(REFUSED)])
def test_refuses(case: int) -> None:
    name, arguments, outs, check = REFUSED[case]
    with pytest.raises(KernelFailure) as failure:
        kernels().call(f"aten::{name}", arguments, outs)
    assert failure.value.check == check


def test_refuses_lists_of_the_wrong_length() -> None:
    for name, arguments in [
        ("split_copy.Tensor_out", [X, 2, 0]),
        ("split_with_sizes_copy.out", [X, [1, 2], 0]),
        ("unbind_copy.int_out", [X, 0]),
    ]:
        with pytest.raises(KernelFailure) as failure:
            kernels().call(f"aten::{name}", arguments, [[make((1, 4))]])
        assert failure.value.check == "KernelArgument"


def test_sixteen_dims() -> None:
    x = make((2,) * 16)
    order = list(range(15, -1, -1))
    same(kernels().call("aten::permute_copy.out", [x, order], [x])[0], x.permute(order))
    same(kernels().call("aten::repeat.out", [make((1,) * 16), [2] * 16], [x])[0], make((1,) * 16).repeat([2] * 16))
    same(
        kernels().call("aten::view_copy.out", [in_order(x, order), [256, 256]], [x.view(256, 256)])[0], x.view(256, 256)
    )
