"""Factorizations of matrices against torch, or against what they have to satisfy where they are not unique."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from etir_testing.runtime.kernels import KernelFailure, Kernels, build_kernels

DTYPES = [torch.float32, torch.float64]
SHAPES = [(0, 0), (1, 1), (4, 4), (5, 3), (3, 5), (2, 3, 6, 4), (2, 0, 3, 3)]
SQUARE = [(0, 0), (1, 1), (5, 5), (2, 3, 4, 4)]


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    """The kernels of the family."""
    return build_kernels("factorization")


def _random(shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=dtype)


def _positive(shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> torch.Tensor:
    a = _random(shape, dtype)
    return a @ a.mT + torch.eye(shape[-1], dtype=dtype)


def _plain(values: Any) -> list[torch.Tensor]:
    return [v.contiguous() for v in values]


def _close(got: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(got, wanted, rtol=1e-4 if wanted.dtype == torch.float32 else 1e-9, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_lu(kernels: Kernels, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a = _random(shape, dtype)
    for pivot in (True, False):
        wanted = torch.linalg.lu_factor_ex(a) if pivot else torch.ops.aten.linalg_lu_factor_ex(a + 0, pivot=True)
        got = kernels.call("aten::linalg_lu_factor_ex.out", [a, pivot, False], _plain(wanted))
        unpacked = _plain(torch.lu_unpack(*wanted[:2]))
        parts = kernels.call("aten::lu_unpack.out", [*got[:2], True, True], unpacked)
        _close(parts[0] @ parts[1] @ parts[2], a)
        if pivot:
            for x, y in zip([*got, *parts], [*wanted, *unpacked], strict=True):
                _close(x, y)


def test_zero_pivots_are_counted(kernels: Kernels) -> None:
    a = torch.zeros(3, 3)
    wanted = torch.linalg.lu_factor_ex(a)
    got = kernels.call("aten::linalg_lu_factor_ex.out", [a, True, False], _plain(wanted))
    assert got[2] == wanted[2] == 1
    wanted = torch.linalg.cholesky_ex(-torch.eye(3))
    got = kernels.call("aten::linalg_cholesky_ex.L", [-torch.eye(3), False, False], _plain(wanted))
    assert got[1] == wanted[1] == 1


def test_pivots_out_of_range(kernels: Kernels) -> None:
    parts = [torch.empty(2, 2)] * 3
    with pytest.raises(KernelFailure, match="KernelIndex"):
        kernels.call("aten::lu_unpack.out", [torch.eye(2), torch.tensor([1, 7], dtype=torch.int32), True, True], parts)


@pytest.mark.parametrize("shape", SQUARE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_cholesky(kernels: Kernels, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a = _positive(shape, dtype)
    for upper in (False, True):
        wanted = torch.linalg.cholesky_ex(a, upper=upper)
        got = kernels.call("aten::linalg_cholesky_ex.L", [a, upper, False], _plain(wanted))
        for x, y in zip(got, wanted, strict=True):
            _close(x, y)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_solve_triangular(kernels: Kernels, left: bool, upper: bool, unit: bool) -> None:
    for a_shape, b_shape in [((4, 4), (4, 4)), ((2, 1, 3, 3), (5, 3, 3)), ((0, 0), (0, 0)), ((3, 3), (2, 3, 3))]:
        a = _random(a_shape) + 3 * torch.eye(a_shape[-1])
        b = _random(b_shape)
        wanted = torch.linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit).contiguous()
        (got,) = kernels.call("aten::linalg_solve_triangular.out", [a, b, upper, left, unit], [wanted])
        _close(got, wanted)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_qr(kernels: Kernels, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a = _random(shape, dtype)
    wanted = _plain(torch.geqrf(a))
    got = kernels.call("aten::geqrf.a", [a], wanted)
    for x, y in zip(got, wanted, strict=True):
        _close(x, y)
    if shape[-1] <= shape[-2]:
        product = torch.linalg.householder_product(*wanted).contiguous()
        (q,) = kernels.call("aten::linalg_householder_product.out", wanted, [product])
        _close(q, product)


@pytest.mark.parametrize("shape", SQUARE)
@pytest.mark.parametrize("side", ["L", "U"])
def test_eigh(kernels: Kernels, shape: tuple[int, ...], side: str) -> None:
    a = _random(shape)
    wanted = _plain(torch.linalg.eigh(a, side))
    values, vectors = kernels.call("aten::_linalg_eigh.eigenvalues", [a, side, True], wanted)
    _close(values, wanted[0])
    _close(vectors.abs(), wanted[1].abs())
    values, none = kernels.call("aten::_linalg_eigh.eigenvalues", [a, side, False], [wanted[0], torch.empty(0)])
    _close(values, wanted[0])
    assert none.numel() == 0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("low_rank", [True, False])
def test_svd(kernels: Kernels, shape: tuple[int, ...], full: bool, low_rank: bool) -> None:
    a = _random(shape)
    if low_rank and a.numel():
        a = a[..., :1] @ a[..., :1, :]
    wanted = _plain(torch.linalg.svd(a, full_matrices=full))
    u, s, vh = kernels.call("aten::_linalg_svd.U", [a, full, True, None], wanted)
    _close(s, wanted[1])
    _close(u.mT @ u, torch.eye(u.shape[-1], dtype=a.dtype).expand(*shape[:-2], -1, -1))
    _close(vh @ vh.mT, torch.eye(vh.shape[-2], dtype=a.dtype).expand(*shape[:-2], -1, -1))
    k = s.shape[-1]
    _close(u[..., :k] * s[..., None, :] @ vh[..., :k, :], a)
    none = torch.empty(0, dtype=a.dtype)
    s = kernels.call("aten::_linalg_svd.U", [a, full, False, None], [none, wanted[1], none])[1]
    _close(s, wanted[1])


@pytest.mark.parametrize("shape", SQUARE)
@pytest.mark.parametrize("scale", [0.1, 3.0])
def test_matrix_exp(kernels: Kernels, shape: tuple[int, ...], scale: float) -> None:
    a = scale * _random(shape)
    wanted = torch.linalg.matrix_exp(a).contiguous()
    (got,) = kernels.call("aten::linalg_matrix_exp.out", [a], [wanted])
    torch.testing.assert_close(got, wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 1e300])
def test_numbers_that_do_not_converge(kernels: Kernels, value: float) -> None:
    a = torch.full((4, 4), value, dtype=torch.float64)
    wanted = [torch.empty(4, 4, dtype=a.dtype), torch.empty(4, dtype=a.dtype), torch.empty(4, 4, dtype=a.dtype)]
    kernels.call("aten::_linalg_svd.U", [a, True, True, None], wanted)
    kernels.call("aten::_linalg_eigh.eigenvalues", [a, "L", True], [wanted[1], wanted[0]])
    kernels.call("aten::linalg_matrix_exp.out", [a], [a])


def test_refusals(kernels: Kernels) -> None:
    with pytest.raises(KernelFailure, match="KernelRank"):
        kernels.call("aten::linalg_matrix_exp.out", [torch.ones(3)], [torch.ones(3)])
    with pytest.raises(KernelFailure, match="KernelShape"):
        kernels.call("aten::linalg_matrix_exp.out", [torch.ones(3, 2)], [torch.ones(3, 2)])
    with pytest.raises(KernelFailure, match="KernelDtype"):
        kernels.call("aten::linalg_matrix_exp.out", [torch.ones(2, 2).int()], [torch.ones(2, 2).int()])
