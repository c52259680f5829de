"""Views, joins and repetitions against torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from etir_testing.lowering.one_op import Dynamic, check

X = torch.arange(24.0).reshape(2, 3, 4)
V = torch.arange(6.0)
M = torch.arange(12.0).reshape(3, 4)
IMAGE = torch.arange(2 * 8 * 6 * 4.0).reshape(2, 8, 6, 4)

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("aten.reshape.default", (X, [4, -1]), {}),
    ("aten.reshape.default", (X, [2, 3, 4]), {}),
    ("aten._unsafe_view.default", (X, [24]), {}),
    ("aten.view_as.default", (X, torch.zeros(6, 4)), {}),
    ("aten.flatten.using_ints", (X, 1), {}),
    ("aten.flatten.using_ints", (torch.tensor(3.0),), {}),
    ("aten.ravel.default", (X,), {}),
    ("aten.unflatten.int", (X, -1, [2, -1]), {}),
    ("aten.squeeze.default", (X[:1, :, :1],), {}),
    ("aten.squeeze.default", (X,), {}),
    ("aten.atleast_1d.default", (torch.tensor(2.0),), {}),
    ("aten.atleast_2d.default", (V,), {}),
    ("aten.atleast_3d.default", (V,), {}),
    ("aten.atleast_3d.default", (M,), {}),
    ("aten.transpose.int", (X, 0, -1), {}),
    ("aten.transpose.int", (X[:1], 0, 1), {}),
    ("aten.swapaxes.default", (X, 1, 2), {}),
    ("aten.t.default", (M,), {}),
    ("aten.t.default", (V,), {}),
    ("aten.numpy_T.default", (X,), {}),
    ("aten.mT.default", (X,), {}),
    ("aten.movedim.int", (X, 0, 2), {}),
    ("aten.movedim.intlist", (X, [0, 2], [1, 0]), {}),
    ("aten.fliplr.default", (M,), {}),
    ("aten.flipud.default", (M,), {}),
    *[("aten.rot90.default", (X, k, [0, 2]), {}) for k in (-1, 0, 1, 2)],
    ("aten.pixel_shuffle.default", (IMAGE, 2), {}),
    ("aten.pixel_unshuffle.default", (IMAGE, 2), {}),
    ("aten.channel_shuffle.default", (IMAGE, 4), {}),
    ("aten.chunk.default", (X, 3, 2), {}),
    ("aten.chunk.default", (X, 1, 2), {}),
    ("aten.split.Tensor", (X, 3, -1), {}),
    ("aten.split.sizes", (X, [1, 3], 2), {}),
    ("aten.unsafe_chunk.default", (X, 2), {}),
    ("aten.tensor_split.sections", (V, 4), {}),
    ("aten.tensor_split.indices", (V, [1, 4, 9], 0), {}),
    ("aten.hsplit.int", (M, 2), {}),
    ("aten.vsplit.array", (M, [1]), {}),
    ("aten.narrow.default", (X, 1, 1, 2), {}),
    ("aten.narrow.default", (X, 2, -2, 1), {}),
    ("aten.linalg_diagonal.default", (X,), {"offset": 1}),
    ("aten.diag.default", (V, 1), {}),
    ("aten.diag.default", (M, -1), {}),
    ("aten.diagflat.default", (M,), {}),
    ("aten.diag_embed.default", (M, -2), {}),
    ("aten.diag_embed.default", (M, 1, 0, 2), {}),
    ("aten.tril.default", (X,), {}),
    ("aten.triu.default", (X, -1), {}),
    ("aten.tril.default", (M > 3, 1), {}),
    ("aten.stack.default", ([M, M + 1], -1), {}),
    ("aten.hstack.default", ([V, V],), {}),
    ("aten.hstack.default", ([M, M],), {}),
    ("aten.hstack.default", ([torch.tensor(1.0), V],), {}),
    ("aten.vstack.default", ([V, V],), {}),
    ("aten.row_stack.default", ([V, V],), {}),
    ("aten.dstack.default", ([M, M],), {}),
    ("aten.column_stack.default", ([V[:3], M],), {}),
    ("aten.concat.default", ([M, M], 1), {}),
    ("aten.cat.default", ([M],), {}),
    ("aten.block_diag.default", ([M, V, torch.tensor(7.0)],), {}),
    ("aten.expand_as.default", (V[:4], X), {}),
    ("aten.broadcast_to.default", (V[:4], [3, 4]), {}),
    ("aten.broadcast_tensors.default", ([V[:4], X[:, :, :1]],), {}),
    ("aten.tile.default", (M, [2]), {}),
    ("aten.tile.default", (M, [2, 1, 3]), {}),
    ("aten.repeat.default", (V[:1], [3, 4]), {}),
    ("aten.repeat_interleave.self_int", (M, 2), {}),
    ("aten.repeat_interleave.self_int", (X, 3, 1), {}),
    ("aten.repeat_interleave.self_Tensor", (M, torch.tensor([1, 0, 2]), 0), {"output_size": 3}),
    ("aten.repeat_interleave.self_Tensor", (M, torch.tensor([2]), 0), {"output_size": 6}),
    ("aten.meshgrid.default", ([V, V[:3], V[:2]],), {}),
    ("aten.meshgrid.indexing", ([V, V[:3], V[:2]],), {"indexing": "xy"}),
    ("aten.cartesian_prod.default", ([V, V[:2]],), {}),
    ("aten.roll.default", (X, [1, -1], [0, 2]), {}),
    ("aten.roll.default", (M, [5]), {}),
    ("aten.diff.default", (X,), {}),
    ("aten.diff.default", (M, 2, 0, M[:1], None), {}),
    ("aten.diff.default", (M > 3,), {}),
    ("aten.trapezoid.dx", (X,), {"dx": 0.5}),
    ("aten.trapezoid.x", (X, torch.tensor([0.0, 1.0, 4.0])), {"dim": 1}),
    ("aten.trapezoid.x", (M, M * M), {}),
    ("aten.sum_to_size.default", (X, [3, 1]), {}),
    ("aten.sum_to_size.default", (torch.tensor(True), []), {}),
    ("aten.take_along_dim.default", (M, torch.tensor([[3, 0]]), 1), {}),
    ("aten.take_along_dim.default", (M, torch.tensor([3, 0])), {}),
    ("aten.unsafe_split_with_sizes.default", (X, [1, 2], 1), {}),
    ("aten.unsafe_split.Tensor", (X, 3, -1), {}),
    ("aten.moveaxis.int", (X, 0, 2), {}),
    ("aten.moveaxis.intlist", (X, [0], [1]), {}),
    ("aten.swapdims.default", (X, 1, 2), {}),
    ("aten.concatenate.default", ([M, M], 1), {}),
    ("aten._stack.default", ([M, M], 1), {}),
    ("aten._reshape_copy.default", (X, [6, 4]), {}),
    ("aten._reshape_alias.default", (X, [6, 4], [4, 1]), {}),
    ("aten.mH.default", (X,), {}),
    ("aten.adjoint.default", (X,), {}),
    ("aten.matrix_H.default", (M,), {}),
    ("aten.native_channel_shuffle.default", (IMAGE, 2), {}),
    ("aten.vsplit.int", (M, 3), {}),
    ("aten.dsplit.int", (X, 2), {}),
    ("aten.hsplit.array", (M, [1, 3]), {}),
    ("aten.dsplit.array", (X, [1]), {}),
    ("aten.narrow_copy.default", (X, 1, 1, 2), {}),
    ("aten.trapz.dx", (X,), {"dx": 0.5}),
    ("aten.trapz.x", (M, M * M), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_static(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    check(name, *args, **kwargs)


DYNAMIC: list[tuple[str, tuple[Any, ...], dict[str, Any], Dynamic]] = [
    ("aten.flatten.using_ints", (X, 1), {}, {0: [0]}),
    ("aten.flatten.using_ints", (X, 1), {}, {0: [0, 1]}),
    ("aten.unflatten.int", (X, -1, [2, 2]), {}, {0: [0, 1]}),
    ("aten.reshape_as.default", (X, torch.zeros(2, 3, 4)), {}, {0: [0, 1], 1: [0, 1]}),
    ("aten.squeeze.default", (X[:, :1],), {}, {0: [0, 2]}),
    ("aten.transpose.int", (X, 0, 2), {}, {0: [0, 1]}),
    ("aten.transpose.int", (X[:1], 0, 1), {}, {0: [1, 2]}),
    ("aten.pixel_shuffle.default", (IMAGE, 2), {}, {0: [0, 2, 3]}),
    ("aten.channel_shuffle.default", (IMAGE, 4), {}, {0: [0, 2]}),
    ("aten.chunk.default", (X, 2, 2), {}, {0: [0, 1]}),
    ("aten.narrow.default", (X, 2, -2, 1), {}, {0: [0, 2]}),
    ("aten.diag.default", (V,), {}, {0: [0]}),
    ("aten.tril.default", (X,), {}, {0: [0, 1, 2]}),
    ("aten.stack.default", ([M, M], 1), {}, {0: [0], 1: [0]}),
    ("aten.expand_as.default", (V[:4], X), {}, {1: [0, 1]}),
    ("aten.broadcast_tensors.default", ([V[:4], X],), {}, {1: [0, 1]}),
    ("aten.repeat_interleave.self_int", (X, 3, 1), {}, {0: [0, 1]}),
    ("aten.repeat_interleave.self_int", (X, 3), {}, {0: [0, 1]}),
    ("aten.meshgrid.default", ([V, V[:3]],), {}, {0: [0], 1: [0]}),
    ("aten.roll.default", (X, [1, -1], [0, 2]), {}, {0: [0, 2]}),
    ("aten.diff.default", (X,), {}, {0: [0, 2]}),
    ("aten.trapezoid.dx", (X,), {}, {0: [0, 2]}),
    ("aten.tile.default", (M, [2, 3]), {}, {0: [0]}),
    ("aten.hstack.default", ([M, M],), {}, {0: [0], 1: [0]}),
    ("aten.take_along_dim.default", (M, torch.tensor([[3, 0]]), 1), {}, {0: [0]}),
    ("aten.unbind.int", (X, 1), {}, {0: [0, 2]}),
    ("aten.tensor_split.sections", (X, 3, 2), {}, {0: [0, 2]}),
    ("aten.tensor_split.sections", (X, 2), {}, {0: [0]}),
]


@pytest.mark.parametrize(("name", "args", "kwargs", "dynamic"), DYNAMIC, ids=lambda v: v if isinstance(v, str) else "")
def test_dynamic(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic) -> None:
    check(name, *args, dynamic=dynamic, **kwargs)


def test_a_flattened_dim_needs_no_arithmetic() -> None:
    assert check("aten.flatten.using_ints", X, 1, dynamic={0: [0]}) == ["aten.view.default"]


def test_dims_of_size_1_move_without_a_permutation() -> None:
    assert check("aten.transpose.int", X[:1], 0, 1) == ["aten.view.default"]
