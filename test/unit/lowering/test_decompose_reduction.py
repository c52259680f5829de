"""Reductions, order statistics, norms and distances against torch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from etir_testing.lowering.one_op import Dynamic, check

torch.manual_seed(0)
X = torch.randn(3, 5, 4)
Y = torch.randn(3, 5, 4)
COUNTS = torch.arange(-6, 6).reshape(3, 4)
HOLES = torch.where(X > 0.5, torch.nan, X)
NANS = torch.full((2, 3, 4), torch.nan)
INFINITE = torch.tensor([[math.inf, 1.0], [-math.inf, -math.inf], [-math.inf, 2.0]])
PERMUTED = torch.randperm(60).reshape(3, 5, 4)

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("aten.sum.default", (X,), {}),
    ("aten.sum.default", (COUNTS,), {"dtype": torch.float32}),
    ("aten.sum.default", (torch.tensor(2.0),), {}),
    ("aten.all.default", (X > -9,), {}),
    ("aten.all.dim", (COUNTS, 1, True), {}),
    ("aten.all.dims", (X > 0, [0, 2]), {}),
    ("aten.max.default", (X,), {}),
    ("aten.min.default", (COUNTS,), {}),
    ("aten.aminmax.default", (X,), {"dim": 1, "keepdim": True}),
    ("aten.aminmax.default", (X,), {}),
    ("aten._aminmax.dim", (X, 0), {}),
    ("aten.count_nonzero.default", (COUNTS,), {}),
    ("aten.count_nonzero.dim_IntList", (X > 0, [0, 1]), {}),
    ("aten.nansum.default", (HOLES, [1]), {}),
    ("aten.nansum.default", (COUNTS,), {}),
    ("aten.nanmean.default", (HOLES, [0], True), {}),
    ("aten.logsumexp.default", (X, [1]), {}),
    ("aten.logsumexp.default", (X * 100, [0, 2], True), {}),
    ("aten.logsumexp.default", (INFINITE, [1]), {}),
    ("aten.logsumexp.default", (COUNTS, [1]), {}),
    ("aten.argsort.default", (PERMUTED, 1, True), {}),
    ("aten.argsort.stable", (PERMUTED,), {"stable": True}),
    ("aten.sort.stable", (PERMUTED,), {"stable": True, "dim": 0}),
    ("aten.msort.default", (PERMUTED,), {}),
    ("aten.sort.stable", (COUNTS // 3,), {"stable": True, "dim": 1, "descending": True}),
    ("aten.sort.default", (X.relu(), 1), {}),
    ("aten.sort.default", (torch.where(X > 0, torch.nan, X), 1), {}),
    ("aten.sort.default", (X > 0, 1), {}),
    ("aten.argsort.default", (X > 0, 0, True), {}),
    ("aten.kthvalue.default", (PERMUTED, 2, 1), {}),
    ("aten.kthvalue.default", (PERMUTED, 3, 0, True), {}),
    ("aten.median.dim", (PERMUTED, 1), {}),
    ("aten.median.dim", (PERMUTED, -1, True), {}),
    ("aten.median.default", (X,), {}),
    *[(f"aten.{name}.dim", (HOLES, dim), {}) for name in ("median", "nanmedian") for dim in (0, 2)],
    *[(f"aten.{name}.default", (x,), {}) for name in ("median", "nanmedian") for x in (HOLES, NANS)],
    ("aten.nanmedian.dim", (PERMUTED, 1, True), {}),
    ("aten.cumprod.default", (X, 1), {}),
    ("aten.cumprod.default", (COUNTS, 0), {}),
    ("aten.cumulative_trapezoid.dx", (X,), {"dim": 1}),
    *[(f"aten.{name}.default", (X,), {}) for name in ("var", "std", "var_mean", "std_mean")],
    *[(f"aten.{name}.dim", (X, [1], False, True), {}) for name in ("var", "std", "var_mean", "std_mean")],
    *[(f"aten.{name}.correction", (X, [0, 1]), {"correction": 0.5}) for name in ("std", "var_mean", "std_mean")],
    ("aten.std.correction", (X,), {}),
    *[("aten.linalg_vector_norm.default", (X, order, [1]), {}) for order in (0, 1, 2, 3.5, math.inf, -math.inf, -1)],
    ("aten.linalg_vector_norm.default", (X.half(),), {"dtype": torch.float32}),
    *[(f"aten.{n}.default", (torch.tensor(2.5), d), {}) for n in ("cumprod", "cummax", "cummin") for d in (0, -1)],
    ("aten.logcumsumexp.default", (torch.tensor(2.5), 0), {}),
    ("aten.kthvalue.default", (torch.tensor(2.5), 1), {}),
    ("aten.sort.default", (torch.tensor(2.5),), {}),
    ("aten.linalg_norm.default", (X,), {}),
    ("aten.linalg_norm.default", (X, 3, [0]), {}),
    ("aten.linalg_norm.default", (X[0], None, [0, 1], True), {}),
    ("aten.norm.Scalar", (X, 1), {}),
    ("aten.norm.ScalarOpt_dim", (X, None, [1], True), {}),
    ("aten.norm.ScalarOpt_dim_dtype", (X, 3, [0, 2], False), {"dtype": torch.float64}),
    ("aten.norm.ScalarOpt_dtype", (X, 2), {"dtype": torch.float64}),
    ("aten.frobenius_norm.dim", (X, [1, 2]), {}),
    ("aten.linalg_matrix_norm.str_ord", (X,), {}),
    ("aten.linalg_norm.ord_str", (X[0], "fro"), {}),
    ("aten.dist.default", (X, Y, 3), {}),
    ("aten.pairwise_distance.default", (X, Y), {}),
    ("aten.cosine_similarity.default", (X, Y[:1], 1), {}),
    ("aten.cosine_similarity.default", (X, X * 0, -1), {}),
    ("aten.special_logsumexp.default", (X, [1]), {}),
    ("aten._aminmax.default", (X,), {}),
    ("aten._is_any_true.default", (X > 0,), {}),
    ("aten._is_all_true.default", (X > 0,), {}),
    ("aten.cummax.default", (HOLES, 2), {}),
    ("aten.cummax.default", (COUNTS // 3, 1), {}),
    ("aten.cummin.default", (torch.tensor(2.0), 0), {}),
    ("aten.cummin.default", (X > 0, 0), {}),
    ("aten.logcumsumexp.default", (X, 1), {}),
    ("aten.logcumsumexp.default", (INFINITE, 0), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_static(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    check(name, *args, **kwargs)


@pytest.mark.parametrize("name", ["linalg_vector_norm", "cosine_similarity"])
def test_half(name: str) -> None:
    check(f"aten.{name}.default", *([X.half(), Y.half()] if "cosine" in name else [X.half()]), tolerance=2e-3)


DYNAMIC: list[tuple[str, tuple[Any, ...], Dynamic]] = [
    ("aten.sum.default", (X,), {0: [0, 1]}),
    ("aten.all.dim", (X > 0, 1), {0: [0, 1]}),
    ("aten.max.default", (X,), {0: [0]}),
    ("aten.logsumexp.default", (X, [1]), {0: [0, 1]}),
    ("aten.std.dim", (X, [1]), {0: [0, 1]}),
    ("aten.var_mean.correction", (X, [1]), {0: [0, 1]}),
    ("aten.linalg_vector_norm.default", (X, 2, [-1], True), {0: [0, 1]}),
    ("aten.cosine_similarity.default", (X, Y, -1), {0: [0, 1], 1: [0, 1]}),
    ("aten.median.dim", (PERMUTED, -1), {0: [0, 1]}),
    ("aten.cumprod.default", (X, 2), {0: [0, 1]}),
    ("aten.cumprod.default", (COUNTS, 0), {0: [0]}),
    ("aten.cummax.default", (HOLES, 1), {0: [1]}),
    ("aten.cummin.default", (COUNTS.to(torch.int8), 1), {0: [0, 1]}),
    ("aten.logcumsumexp.default", (INFINITE, 0), {0: [0]}),
    ("aten.median.dim", (PERMUTED, 1, True), {0: [1]}),
    ("aten.median.default", (X,), {0: [0, 1]}),
    ("aten.nanmedian.dim", (HOLES, 1, True), {0: [1]}),
]


@pytest.mark.parametrize(("name", "args", "dynamic"), DYNAMIC, ids=lambda v: v if isinstance(v, str) else "")
def test_dynamic(name: str, args: tuple[Any, ...], dynamic: Dynamic) -> None:
    check(name, *args, dynamic=dynamic)


@pytest.mark.parametrize("order", [0, 1, 2, 3.5, math.inf])
def test_norms_need_no_tracing(order: float) -> None:
    check("aten.linalg_vector_norm.default", X, order, [1], options={"only": ("vector-norm-of-type",)})
