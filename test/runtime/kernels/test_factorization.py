"""Factorizations of matrices against torch, or against what they have to satisfy where they are not unique."""

from __future__ import annotations

import math
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


def _eigenvalues(kernels: Kernels, a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    dtype = torch.complex64 if a.dtype in SINGLE else torch.complex128
    results = [torch.empty(a.shape[:-1], dtype=dtype), torch.empty(a.shape, dtype=dtype)]
    values, vectors = kernels.call("aten::linalg_eig.out", [a], results)
    (alone,) = kernels.call("aten::linalg_eigvals.out", [a], [results[0]])
    torch.testing.assert_close(alone, values, rtol=1e-4 if a.dtype in SINGLE else 1e-9, atol=0, equal_nan=True)
    return values, vectors


def _check_eigenvectors(a: torch.Tensor, values: torch.Tensor, vectors: torch.Tensor) -> None:
    """A v = lambda v, norms of 1, and of the complex vectors of a real matrix a largest component that is real."""
    size = max(float(a.abs().max()), 1e-300) if a.numel() else 1.0
    scaled = (a / size).to(vectors.dtype)
    _close(scaled @ vectors, vectors * (values / size).unsqueeze(-2))
    _close(vectors.abs().square().sum(-2), torch.ones(values.shape, dtype=vectors.real.dtype))
    if not a.numel():
        return
    largest = vectors.abs() >= vectors.abs().amax(-2, keepdim=True) * (1 - 1e-6)
    assert ((vectors.imag == 0) & largest).any(-2).all()
    if a.is_complex():
        return
    # Conjugate pairs are neighbors, the eigenvalue with a positive imaginary part first.
    for matrix, columns in zip(values.view(-1, a.shape[-1]), vectors.view(-1, *a.shape[-2:]), strict=True):
        for k in range(len(matrix)):
            if matrix[k].imag > 0:
                assert matrix[k + 1] == matrix[k].conj()
                assert torch.equal(columns[:, k + 1], columns[:, k].conj())
            assert matrix[k].imag >= 0 or matrix[k - 1].imag > 0


def _sorted(values: torch.Tensor) -> torch.Tensor:
    """Eigenvalues, whose order is nobody's promise, by their parts, near ones of which count as equal."""
    size = (float(values.abs().max()) or 1.0) if len(values) else 1.0
    order = sorted(range(len(values)), key=lambda i: (round(float(values[i].real) / size, 3), float(values[i].imag)))
    return values[order]


SINGLE = (torch.float32, torch.complex64)
GENERAL = [*DTYPES, torch.complex64, torch.complex128]


@pytest.mark.parametrize("shape", [*SQUARE, (2, 2), (20, 20), (2, 0, 3, 3)])
@pytest.mark.parametrize("dtype", GENERAL)
def test_eig(kernels: Kernels, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a = _random(shape, dtype)
    values, vectors = _eigenvalues(kernels, a)
    _check_eigenvectors(a, values, vectors)
    wanted = torch.linalg.eigvals(a)
    flat = [math.prod(shape[:-2]), shape[-1]]
    for x, y in zip(values.view(flat), wanted.view(flat), strict=True):
        _close(_sorted(x), _sorted(y))


_GRADES = torch.diag(10.0 ** torch.arange(-12, 12, 4, dtype=torch.float64))
_ROTATION = torch.linalg.qr(_random((8, 8)))[0]
_PAIRS = torch.block_diag(*[torch.tensor([[1.0, 2], [-2, 1]], dtype=torch.float64)] * 4)
SPECIAL = {
    "identity": torch.eye(4),
    "zeros": torch.zeros(3, 3),
    "one chain": torch.diag(torch.ones(4), 1),
    "one chain, transposed": torch.diag(torch.ones(4), -1),
    "lower triangle": _random((6, 6)).tril(),
    "upper triangle": _random((6, 6)).triu(),
    "cyclic": torch.eye(8).roll(1, 0),
    "quarter turn": torch.tensor([[0.0, 1], [-1, 0]]),
    "rank 1": torch.ones(7, 7),
    "integers": torch.arange(1.0, 17).view(4, 4),
    "huge": 1e250 * _random((6, 6)),
    "tiny": 1e-250 * _random((6, 6)),
    "to be balanced": _GRADES @ _random((6, 6)) @ _GRADES.inverse(),
    "graded": _GRADES @ _random((6, 6)) @ _GRADES,
    "orthogonal": _ROTATION,
    "equal pairs": _ROTATION @ _PAIRS @ _ROTATION.mT,
    "antisymmetric": _random((8, 8)) - _random((8, 8)).mT,
    "two rows, equal eigenvalues": torch.tensor([[1.0, 1], [-1, 3]]),
    "two rows, triangle below": torch.tensor([[1.0, 0], [5, 1]]),
}


@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_eig_of_special_matrices(kernels: Kernels, name: str, dtype: torch.dtype) -> None:
    a = SPECIAL[name].to(dtype).contiguous()
    values, vectors = _eigenvalues(kernels, a)
    _check_eigenvectors(a, values, vectors)
    size = float(a.abs().max()) or 1.0
    # A multiple eigenvalue moves by a root of the machine's precision.
    torch.testing.assert_close(values.sum() / size, torch.linalg.eigvals(a).sum() / size, rtol=1e-9, atol=1e-6)


def test_eigenvalues_of_what_is_not_finite_are_nan(kernels: Kernels) -> None:
    for value in (torch.nan, torch.inf):
        values, vectors = _eigenvalues(kernels, torch.tensor([[1.0, value], [2.0, 3.0]]))
        assert values.isnan().all()
        assert vectors.isnan().all()


@pytest.mark.parametrize("shape", [*SQUARE, (2, 2), (3, 3), (20, 20)])
@pytest.mark.parametrize("dtype", GENERAL)
@pytest.mark.parametrize("hermitian", [True, False])
@pytest.mark.parametrize("diagonal", [True, False])
def test_ldl(kernels: Kernels, shape: tuple[int, ...], dtype: torch.dtype, hermitian: bool, diagonal: bool) -> None:
    a = _random(shape, dtype)
    a = a + (a.mH if hermitian else a.mT)
    if not diagonal and shape[-1] > 1:  # then blocks of two rows
        a = a - torch.diag_embed(a.diagonal(dim1=-2, dim2=-1))
    wanted = _plain(torch.linalg.ldl_factor_ex(a.contiguous(), hermitian=hermitian))
    got = kernels.call("aten::linalg_ldl_factor_ex.out", [a.contiguous(), hermitian, False], wanted)
    assert torch.equal(got[1], wanted[1])
    assert torch.equal(got[2], wanted[2])
    torch.testing.assert_close(got[0], wanted[0], rtol=1e-3 if dtype in SINGLE else 1e-9, atol=1e-4)
    side = _random((*shape[:-1], 3), dtype)
    (solved,) = kernels.call("aten::linalg_ldl_solve.out", [*got[:2], side, hermitian], [side])
    _close(a @ solved, side)


def test_ldl_of_singular_matrices(kernels: Kernels) -> None:
    for a in (torch.zeros(3, 3), torch.ones(3, 3), torch.diag(torch.tensor([1.0, 0.0, 2.0]))):
        wanted = _plain(torch.linalg.ldl_factor_ex(a))
        for x, y in zip(kernels.call("aten::linalg_ldl_factor_ex.out", [a, False, False], wanted), wanted, strict=True):
            assert torch.equal(x, y)


def test_ldl_solve_broadcasts(kernels: Kernels) -> None:
    a = _positive((2, 1, 3, 3))
    factors = _plain(torch.linalg.ldl_factor(a))
    side = _random((5, 3, 2))
    # Torch itself reads beyond the pivots here.
    (got,) = kernels.call("aten::linalg_ldl_solve.out", [*factors, side, False], [torch.empty(2, 5, 3, 2).double()])
    _close(a @ got, side.expand(2, -1, -1, -1))


@pytest.mark.parametrize("pivots", [[0, 2], [3, 2], [1, -2], [-3, -3], [-1, 2]])
def test_ldl_pivots_out_of_range(kernels: Kernels, pivots: list[int]) -> None:
    arguments = [torch.eye(2), torch.tensor(pivots, dtype=torch.int32), torch.eye(2), False]
    with pytest.raises(KernelFailure, match="KernelIndex"):
        kernels.call("aten::linalg_ldl_solve.out", arguments, [torch.eye(2)])


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
