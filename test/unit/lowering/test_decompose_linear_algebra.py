"""Systems, determinants and the like, against torch; the factorizations under them are torch's own here."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from etir_testing.lowering.one_op import check

A = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 2 * torch.eye(3)
SYMMETRIC = A @ A.mT + torch.eye(3)
B = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
TALL = torch.randn(5, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
LU, PIVOTS = torch.linalg.lu_factor(A)
LU = LU.contiguous()
FACTOR = torch.linalg.cholesky(SYMMETRIC).contiguous()
REFLECTIONS, TAU = (t.contiguous() for t in torch.geqrf(TALL))
LOW_RANK = TALL[:, :2] @ TALL[:2, :]
NUMBER = torch.tensor(0.1, dtype=torch.float64)

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    *(("aten.linalg_lu_solve.default", (LU, PIVOTS, B), {"adjoint": adjoint}) for adjoint in (False, True)),
    *(
        ("aten.linalg_lu_solve.default", (LU, PIVOTS, B.mT.contiguous()), {"left": False, "adjoint": adjoint})
        for adjoint in (False, True)
    ),
    ("aten.linalg_lu.default", (A,), {}),
    ("aten._linalg_det.default", (A,), {}),
    ("aten._linalg_det.default", (torch.eye(3)[[1, 0, 2]],), {}),
    ("aten._linalg_slogdet.default", (A,), {}),
    ("aten._linalg_slogdet.default", (-A,), {}),
    ("aten._linalg_solve_ex.default", (A, B), {}),
    ("aten._linalg_solve_ex.default", (A, B[..., 0].contiguous()), {}),
    ("aten._linalg_solve_ex.default", (A, B.mT.contiguous()), {"left": False}),
    ("aten._linalg_solve_ex.default", (A[0], B[0, :, 0].contiguous()), {}),
    ("aten.linalg_inv_ex.default", (A,), {}),
    ("aten.cholesky.default", (SYMMETRIC,), {}),
    ("aten.cholesky.default", (SYMMETRIC, True), {}),
    ("aten.cholesky_solve.default", (B, FACTOR), {}),
    ("aten.cholesky_solve.default", (B, FACTOR.mT.contiguous(), True), {}),
    ("aten.cholesky_inverse.default", (FACTOR,), {}),
    *(
        ("aten.triangular_solve.default", (B, A, upper, transpose, unit), {})
        for upper in (True, False)
        for transpose in (True, False)
        for unit in (True, False)
    ),
    *(("aten.linalg_qr.default", (t, mode), {}) for t in (TALL, TALL.mT.contiguous()) for mode in ("reduced", "r")),
    ("aten.linalg_qr.default", (TALL, "complete"), {}),
    *(("aten.ormqr.default", (REFLECTIONS, TAU, TALL, True, transpose), {}) for transpose in (True, False)),
    ("aten.ormqr.default", (REFLECTIONS, TAU, TALL.mT.contiguous(), False, False), {}),
    *(("aten.linalg_pinv.atol_rtol_tensor", (t,), {}) for t in (A, TALL, TALL.mT.contiguous(), LOW_RANK)),
    ("aten.linalg_pinv.atol_rtol_tensor", (A,), {"atol": NUMBER, "rtol": NUMBER}),
    ("aten.linalg_pinv.atol_rtol_tensor", (SYMMETRIC,), {"hermitian": True}),
]


@pytest.mark.parametrize(("op_name", "args", "kwargs"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_linear_algebra(op_name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    check(op_name, *args, tolerance=1e-7, **kwargs)


@pytest.mark.parametrize("op_name", ["linalg_inv", "linalg_cholesky", "linalg_tensorinv", "linalg_lu_factor"])
def test_checks_of_data_are_left_out(op_name: str) -> None:
    """What torch composes of a factorization and a check of its ``info``."""
    x = SYMMETRIC.reshape(2, 3, 3)[0].contiguous()
    if op_name == "linalg_tensorinv":
        check(f"aten.{op_name}.default", x, 1, tolerance=1e-7)
    else:
        names = check(f"aten.{op_name}.default", x, tolerance=1e-7)
        assert not any("check_errors" in name for name in names)
