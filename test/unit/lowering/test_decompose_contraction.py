"""Matrix products, einsum and attention against torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from etir_testing.lowering.one_op import Dynamic, check, compare, decompose, one_op_module

torch.manual_seed(0)
R = torch.randn
HIDDEN_ROW = torch.rand(5, 7) > 0.5
HIDDEN_ROW[2] = False
FLOAT_MASK = torch.where(HIDDEN_ROW, R(5, 7), float("-inf"))

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("aten.linear.default", (R(2, 5, 4), R(3, 4), R(3)), {}),
    ("aten.linear.default", (R(5, 4), R(3, 4)), {}),
    ("aten.linear.default", (R(4), R(3, 4), R(3)), {}),
    ("aten.matmul.default", (R(4), R(4)), {}),
    ("aten.matmul.default", (R(3, 4), R(4)), {}),
    ("aten.matmul.default", (R(4), R(4, 5)), {}),
    ("aten.matmul.default", (R(3, 4), R(4, 5)), {}),
    ("aten.matmul.default", (R(2, 3, 4), R(4)), {}),
    ("aten.matmul.default", (R(2, 3, 4), R(4, 5)), {}),
    ("aten.matmul.default", (R(2, 3, 4), R(1, 4, 5)), {}),
    ("aten.matmul.default", (R(3, 4), R(2, 4, 5)), {}),
    ("aten.matmul.default", (R(4), R(2, 4, 5)), {}),
    ("aten.matmul.default", (R(2, 1, 3, 4), R(6, 4, 5)), {}),
    ("aten.matmul.default", (R(1, 3, 4), R(1, 4, 5)), {}),
    ("aten.matmul.default", (torch.arange(6).reshape(2, 3), torch.arange(3)), {}),
    ("aten.mv.default", (R(3, 4), R(4)), {}),
    ("aten.dot.default", (R(4), R(4)), {}),
    ("aten.inner.default", (R(2, 3, 4), R(5, 4)), {}),
    ("aten.outer.default", (R(3), R(4)), {}),
    ("aten.ger.default", (R(3), R(4)), {}),
    ("aten.addmv.default", (R(3), R(3, 4), R(4)), {"beta": 0.5, "alpha": 2}),
    ("aten.addmv.default", (R(()), R(3, 4), R(4)), {}),
    ("aten.addr.default", (R(3, 4), R(3), R(4)), {"beta": 0.5}),
    ("aten.baddbmm.default", (R(2, 3, 5), R(2, 3, 4), R(2, 4, 5)), {"beta": 0.5, "alpha": 0.1}),
    ("aten.baddbmm.default", (R(1, 5) * float("nan"), R(2, 3, 4), R(2, 4, 5)), {"beta": 0}),
    ("aten.addbmm.default", (R(3, 5), R(2, 3, 4), R(2, 4, 5)), {"alpha": 2}),
    ("aten._addmm_activation.default", (R(5), R(3, 4), R(4, 5)), {"use_gelu": True}),
    ("aten.tensordot.default", (R(2, 3, 4), R(4, 5, 2), [0, 2], [2, 0]), {}),
    ("aten.bilinear.default", (R(2, 5, 3), R(2, 5, 4), R(6, 3, 4), R(6)), {}),
    ("aten.kron.default", (R(2, 3), R(4)), {}),
    ("aten.kron.default", (R(2, 3), R(4, 5)), {}),
    ("aten.linalg_vecdot.default", (R(2, 3), R(3)), {}),
    ("aten.cross.default", (R(3, 4), R(3, 4)), {}),
    ("aten.linalg_cross.default", (R(2, 3), R(1, 3)), {}),
    ("aten.trace.default", (R(3, 5),), {}),
    ("aten.linalg_matmul.default", (R(2, 3, 4), R(4, 5)), {}),
    ("aten.vdot.default", (R(4), R(4)), {}),
    ("aten.pdist.default", (R(4, 3),), {}),
    ("aten._safe_softmax.default", (FLOAT_MASK, -1), {}),
    ("aten.cdist.default", (R(2, 3, 4), R(5, 4), 1.0), {}),
    ("aten.einsum.default", ("bij,bjk->bik", [R(2, 3, 4), R(2, 4, 5)]), {}),
    ("aten.einsum.default", ("bhqd,bhkd->bhqk", [R(2, 3, 4, 5), R(2, 3, 6, 5)]), {}),
    ("aten.einsum.default", ("bqhd,bkhd->bhqk", [R(2, 4, 3, 5), R(2, 6, 3, 5)]), {}),
    ("aten.einsum.default", ("...ij,jk", [R(2, 3, 4), R(4, 5)]), {}),
    ("aten.einsum.default", ("i,j->ij", [R(3), R(4)]), {}),
    ("aten.einsum.default", ("ij->ji", [R(3, 4)]), {}),
    ("aten.einsum.default", ("ii->i", [R(3, 3)]), {}),
    ("aten.einsum.default", ("iji", [R(3, 4, 3)]), {}),
    ("aten.einsum.default", ("ij,ij->", [R(3, 4), R(3, 4)]), {}),
    ("aten.einsum.default", ("ijk,l->j", [R(2, 3, 4), R(5)]), {}),
    ("aten.einsum.default", ("ab,bc,cd,b->da", [R(2, 3), R(3, 4), R(4, 5), R(3)]), {}),
    ("aten.einsum.default", ("...a,...b->...ab", [R(2, 1, 3), R(5, 4)]), {}),
    ("aten.einsum.default", ("ij,jk->ik", [R(3, 1), R(4, 5)]), {}),
    ("aten.einsum.default", ("nchw,nchw->nhw", [R(2, 3, 4, 5), R(2, 3, 4, 5)]), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_static(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    check(name, *args, **kwargs)


DYNAMIC: list[tuple[str, tuple[Any, ...], Dynamic]] = [
    ("aten.linear.default", (R(2, 5, 4), R(3, 4), R(3)), {0: [0, 1]}),
    ("aten.matmul.default", (R(2, 3, 4), R(4, 5)), {0: [0, 1]}),
    ("aten.matmul.default", (R(2, 6, 3, 4), R(2, 6, 4, 5)), {0: [0, 2], 1: [0, 3]}),
    ("aten.matmul.default", (R(3, 4), R(2, 4, 5)), {0: [0], 1: [0, 2]}),
    ("aten.addbmm.default", (R(3, 5), R(2, 3, 4), R(2, 4, 5)), {1: [0], 2: [0]}),
    ("aten.einsum.default", ("bqhd,bkhd->bhqk", [R(2, 4, 3, 5), R(2, 6, 3, 5)]), {0: [0, 1], 1: [0, 1]}),
    ("aten.einsum.default", ("...a,...b->...ab", [R(2, 3), R(2, 4)]), {0: [0], 1: [0]}),
]


@pytest.mark.parametrize(("name", "args", "dynamic"), DYNAMIC, ids=lambda v: v if isinstance(v, str) else "")
def test_dynamic(name: str, args: tuple[Any, ...], dynamic: Dynamic) -> None:
    check(name, *args, dynamic=dynamic)


def test_a_batch_times_one_matrix_is_one_product() -> None:
    names = check("aten.matmul.default", R(2, 3, 4), R(4, 5))
    assert names == ["aten.view.default", "aten.mm.default", "aten.view.default"]


# --- attention --------------------------------------------------------------------------------------------------------

ATTENTION = "aten.scaled_dot_product_attention.default"
Q, K, V = R(2, 4, 5, 8), R(2, 4, 7, 8), R(2, 4, 7, 6)
SHARED_K, SHARED_V = R(2, 2, 7, 8), R(2, 2, 7, 6)
PADDING = (torch.arange(7) < torch.tensor([[7], [3]]))[:, None, None, :]


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((Q, K, V), {}),
        ((Q, K, V), {"scale": 1.0}),
        ((Q, K, V, None, 0.0, True), {}),
        ((Q, Q, Q, None, 0.0, True), {"scale": 0.3}),
        ((Q, K, V, PADDING), {}),
        ((Q, K, V, HIDDEN_ROW), {}),
        ((Q, K, V, FLOAT_MASK), {}),
        ((Q, K, V, R(2, 1, 5, 7)), {}),
        ((Q[0], K[0], V[0]), {}),
        ((Q[0, 0], K[0, 0], V[0, 0]), {}),
        ((Q, K[:, :1], V[:, :1]), {}),
        ((Q, SHARED_K, SHARED_V), {"enable_gqa": True}),
        ((Q, SHARED_K, SHARED_V, None, 0.0, True), {"enable_gqa": True}),
        ((Q, SHARED_K, SHARED_V, HIDDEN_ROW), {"enable_gqa": True}),
        ((Q, SHARED_K, SHARED_V, R(2, 4, 5, 7)), {"enable_gqa": True}),
        ((Q[:1], K[:1], V[:1], PADDING[1:]), {}),
    ],
)
def test_attention(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    check(ATTENTION, *args, **kwargs)


@pytest.mark.parametrize(
    ("args", "dynamic"),
    [
        ((Q, K, V), {0: [0, 2], 1: [0, 2], 2: [0, 2]}),
        ((Q, K, V, PADDING), {0: [0, 2], 1: [0, 2], 2: [0, 2], 3: [0, 3]}),
        ((Q, Q, Q, None, 0.0, True), {0: [0, 2]}),
        ((Q, SHARED_K, SHARED_V, None, 0.0, False, None, True), {0: [0, 2], 1: [0, 2], 2: [0, 2]}),
        ((Q, K, V), {0: [0, 1, 2], 1: [0, 1, 2], 2: [0, 1, 2]}),
        ((Q, K, V, PADDING), {0: [0, 1, 2], 1: [0, 1, 2], 2: [0, 1, 2], 3: [0, 3]}),
        ((Q, K, V, None, 0.0, True), {0: [0, 1, 2], 1: [0, 1, 2], 2: [0, 1, 2]}),
    ],
)
def test_dynamic_attention(args: tuple[Any, ...], dynamic: Dynamic) -> None:
    kwargs = {"scale": args[6], "enable_gqa": args[7]} if len(args) > 6 else {}
    check(ATTENTION, *args[:6], dynamic=dynamic, **kwargs)


@pytest.mark.parametrize("name", ["_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_attention_math"])
def test_attention_by_kernel(name: str) -> None:
    check(f"aten.{name}.default", Q, K, V[..., :1].expand(2, 4, 7, 8).contiguous(), is_causal=False, results=1)


def test_attention_without_mask_is_small() -> None:
    names = [n for n in check(ATTENTION, Q, K, V) if n not in ("aten.view.default", "aten.permute.default")]
    assert names == ["aten.mul.Scalar", "aten.bmm.default", "aten._softmax.default", "aten.bmm.default"]


def test_causal_attention_has_no_guard_against_hidden_rows() -> None:
    names = check(ATTENTION, Q, Q, Q, None, 0.0, True)
    assert names.count("aten.where.self") == 1
    assert "aten.any.dim" not in names


def test_shared_heads_are_not_copied() -> None:
    names = check(ATTENTION, Q, SHARED_K, SHARED_V, enable_gqa=True)
    assert "aten.expand.default" not in names


def test_attention_in_half_precision() -> None:
    module, tensors = one_op_module(ATTENTION, [Q.half(), K.half(), V.half(), HIDDEN_ROW], {})
    decompose(module)
    from etir_testing.lowering.evaluate import evaluate

    wanted = torch.ops.aten.scaled_dot_product_attention(Q, K, V, HIDDEN_ROW).half()
    compare(evaluate(module, tensors)[0], wanted, 5e-3)
