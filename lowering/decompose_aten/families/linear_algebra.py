"""Solutions of systems, determinants and the like, on the few factorizations that targets have kernels for.

Those are LU (``linalg_lu_factor_ex`` and ``lu_unpack``), Cholesky, QR (``geqrf`` and ``linalg_householder_product``),
triangular systems, eigenvalues of symmetric matrices and singular values. A matrix without an inverse gives infinities
and NaNs, or a number in ``info``: programs do not raise errors on data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import BY_TYPE, i32
from etir.dialects.et.layout import tensor_type
from etir.lowering.build.assertions import assert_factored
from etir.lowering.build.builder import Builder, dims, element, rank
from etir.lowering.build.dims import broadcast
from etir.lowering.build.inference import tensor_type_of
from etir.lowering.build.sizes import SizeLike, dim, maximum, minimum, product
from etir.lowering.decompose_aten.decomposition import decomposition
from etir.lowering.decompose_aten.families.factorizations import conjugate


def _type(b: Builder, index: int) -> TensorType[Attribute]:
    """The type of a result of the operator that is decomposed."""
    return tensor_type_of(b.rewriter.root.results[index])


def _transposed(b: Builder, x: SSAValue) -> SSAValue:
    return b.transpose(x, -2, -1)


def _matmul(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    batch = broadcast(dims(x)[:-2], dims(y)[:-2])
    type = tensor_type(element(x), [*batch, dims(x)[-2], dims(y)[-1]])
    return b(aten.matmul.default, x, y, types=[type])


def _triangular(
    b: Builder, a: SSAValue, x: SSAValue, *, upper: bool, left: bool = True, unit: bool = False
) -> SSAValue:
    """The solution of a triangular system."""
    batch = broadcast(dims(a)[:-2], dims(x)[:-2])
    type = tensor_type(element(x), [*batch, *dims(x)[-2:]])
    return b(aten.linalg_solve_triangular.default, a, x, upper=upper, left=left, unitriangular=unit, types=[type])


def _shorter(b: Builder, a: SSAValue) -> SizeLike:
    """The smaller one of a matrix's sides."""
    return minimum(b.size(a, -2), b.size(a, -1))


def _identity(b: Builder, a: SSAValue) -> SSAValue:
    """Identity matrices in the shape of ``a``."""
    size, type = dims(a)[-1], element(a)
    eye = b(aten.eye.default, b.size(a, -1), dtype=type, types=[tensor_type(type, [size, size])])
    return b.expand(eye, b.sizes(a))


# --- LU ---------------------------------------------------------------------------------------------------------------


def _lu(b: Builder, a: SSAValue, pivot: bool = True) -> tuple[SSAValue, ...]:
    """LU, pivots and info of square or rectangular matrices."""
    batch = dims(a)[:-2]
    pivots = tensor_type(i32, [*batch, dim(_shorter(b, a))])
    types = [tensor_type(element(a), dims(a)), pivots, tensor_type(i32, batch)]
    return b.results(aten.linalg_lu_factor_ex.default, a, pivot=pivot, types=types)


def _lu_parts(b: Builder, lu: SSAValue, pivots: SSAValue) -> tuple[SSAValue, ...]:
    """P, L and U of square matrices."""
    return b.results(aten.lu_unpack.default, lu, pivots, types=[tensor_type(element(lu), dims(lu))] * 3)


def _lu_solve(b: Builder, lu: SSAValue, pivots: SSAValue, x: SSAValue, left: bool, adjoint: bool) -> SSAValue:
    p, lower, upper = _lu_parts(b, lu, pivots)
    if left and not adjoint:
        y = _triangular(b, lower, _matmul(b, _transposed(b, p), x), upper=False, unit=True)
        return _triangular(b, upper, y, upper=True)
    if left:
        y = _triangular(b, _transposed(b, upper), x, upper=False)
        return _matmul(b, p, _triangular(b, _transposed(b, lower), y, upper=True, unit=True))
    if not adjoint:
        y = _triangular(b, upper, x, upper=True, left=False)
        y = _triangular(b, lower, y, upper=False, left=False, unit=True)
        return _matmul(b, y, _transposed(b, p))
    y = _triangular(b, _transposed(b, lower), _matmul(b, x, p), upper=True, left=False, unit=True)
    return _triangular(b, _transposed(b, upper), y, upper=False, left=False)


@decomposition(aten.linalg_lu_solve.default)
def lu_solve(b: Builder, lu: SSAValue, pivots: SSAValue, x: SSAValue, left: bool, adjoint: bool) -> SSAValue:
    """Two triangular systems and a permutation"""
    return _lu_solve(b, lu, pivots, x, left, adjoint)


@decomposition(aten.linalg_lu.default)
def lu(b: Builder, a: SSAValue, pivot: bool) -> Sequence[SSAValue | None] | None:
    """``linalg_lu_factor_ex``, unpacked"""
    if not pivot:
        return b.notify_match_failure("it does not exchange rows, which torch has on CUDA only")
    packed, pivots, _ = _lu(b, a)
    return b.results(aten.lu_unpack.default, packed, pivots, types=[_type(b, i) for i in range(3)])


def _sign_of_permutation(b: Builder, pivots: SSAValue) -> SSAValue:
    """1 or -1, as i32: each pivot that is another row exchanges two rows."""
    rows = b.arange(b.size(pivots, -1))
    exchanged = b.cast(b.ne(pivots, b.add(rows, 1)), i32)
    count = b(aten.sum.dim_IntList, exchanged, [-1], False, dtype=i32)
    return b.rsub(b.mul(b(aten.remainder.Scalar, count, 2), 2), 1)


@decomposition(aten._linalg_det.default)
def det(b: Builder, a: SSAValue) -> Sequence[SSAValue | None]:
    """The product of the diagonal of U, and the sign of the permutation. Like torch, of the transposed matrix."""
    packed, pivots, _ = _lu(b, _transposed(b, a))
    product = b(aten.prod.dim_int, b(aten.diagonal.default, packed, 0, -2, -1), -1)
    sign = b.cast(_sign_of_permutation(b, pivots), element(a))
    return [b.mul(product, sign), packed, pivots]


@decomposition(aten._linalg_slogdet.default)
def slogdet(b: Builder, a: SSAValue) -> Sequence[SSAValue | None]:
    """As the determinant, with the product of signs and the sum of logarithms"""
    packed, pivots, _ = _lu(b, _transposed(b, a))
    diagonal = b(aten.diagonal.default, packed, 0, -2, -1)
    signs = b(aten.prod.dim_int, b.sign(diagonal), -1)
    sign = b.mul(signs, b.cast(_sign_of_permutation(b, pivots), element(a)))
    return [sign, b.sum(b.log(b.abs(diagonal)), [-1]), packed, pivots]


@decomposition(aten._linalg_solve_ex.default)
def solve(b: Builder, a: SSAValue, x: SSAValue, left: bool, _check_errors: bool) -> Sequence[SSAValue | None]:
    """``linalg_lu_factor_ex`` and ``linalg_lu_solve``; a right side with a dim less is a vector"""
    packed, pivots, info = _lu(b, a)
    vector = rank(x) == 1 or (rank(x) == rank(a) - 1 and dims(x) == dims(a)[:-1])
    right = b.unsqueeze(x, rank(x)) if vector else x
    result = _lu_solve(b, packed, pivots, right, left, False)
    return [b.squeeze(result, -1) if vector else result, packed, pivots, info]


@decomposition(aten.linalg_inv_ex.default)
def inverse(b: Builder, a: SSAValue, _check_errors: bool) -> Sequence[SSAValue | None]:
    """The solution for the identity"""
    packed, pivots, info = _lu(b, a)
    return [_lu_solve(b, packed, pivots, _identity(b, a), True, False), info]


# --- Cholesky ---------------------------------------------------------------------------------------------------------


@decomposition(aten.cholesky.default)
def cholesky(b: Builder, a: SSAValue, upper: bool) -> SSAValue:
    """``linalg_cholesky_ex``; what has no elements stays, whatever its sides are"""
    if 0 in dims(a):
        return a
    types = [tensor_type(element(a), dims(a)), tensor_type(i32, dims(a)[:-2])]
    factor, info = b.results(aten.linalg_cholesky_ex.default, a, upper=upper, types=types)
    assert_factored(info, "cholesky", b.insert)
    return factor


def _cholesky_solve(b: Builder, x: SSAValue, factor: SSAValue, upper: bool) -> SSAValue:
    other = _transposed(b, factor)
    lower, above = (other, factor) if upper else (factor, other)
    return _triangular(b, above, _triangular(b, lower, x, upper=False), upper=True)


@decomposition(aten.cholesky_solve.default)
def cholesky_solve(b: Builder, x: SSAValue, factor: SSAValue, upper: bool) -> SSAValue:
    """Two triangular systems"""
    return _cholesky_solve(b, x, factor, upper)


@decomposition(aten.cholesky_inverse.default)
def cholesky_inverse(b: Builder, factor: SSAValue, upper: bool) -> SSAValue:
    """Two triangular systems for the identity"""
    return _cholesky_solve(b, _identity(b, factor), factor, upper)


@decomposition(aten.triangular_solve.default)
def triangular_solve(
    b: Builder, x: SSAValue, a: SSAValue, upper: bool, transpose: bool, unit: bool
) -> Sequence[SSAValue | None]:
    """``linalg_solve_triangular``, of the transposed matrix where that is asked for"""
    matrix = _transposed(b, a) if transpose else a
    solution = _triangular(b, matrix, x, upper=upper != transpose, unit=unit)
    type = _type(b, 1)
    batch = [b.size_for(d, (solution,)) for d in dims(solution)[:-2]]
    clone = b.expand(a, [*batch, *b.sizes(a)[-2:]]) if tuple(dims(a)) != tuple(type.get_shape()) else a
    return [solution, clone]


# --- QR ---------------------------------------------------------------------------------------------------------------


def _pad_columns(b: Builder, a: SSAValue, count: SizeLike) -> SSAValue:
    """The first ``count`` columns, zeros after the last one."""
    columns = b.size(a, -1)
    if dim(minimum(columns, count)) == dim(count):
        return b.slice(a, -1, 0, count)
    missing = maximum(count, columns) - columns
    zeros = b.full([*b.sizes(a)[:-1], missing], 0.0, element(a))
    type = tensor_type(element(a), [*dims(a)[:-1], dim(maximum(count, columns))])
    return b.slice(b(aten.cat.default, [a, zeros], rank(a) - 1, types=[type]), -1, 0, count)


def _householder(b: Builder, a: SSAValue, tau: SSAValue) -> SSAValue:
    return b(aten.linalg_householder_product.default, a, tau, types=[tensor_type(element(a), dims(a))])


@decomposition(aten.linalg_qr.default)
def qr(b: Builder, a: SSAValue, mode: str) -> Sequence[SSAValue | None]:
    """``geqrf``, its upper triangle, and the product of its reflections"""
    shorter = _shorter(b, a)
    types = [tensor_type(element(a), dims(a)), tensor_type(element(a), [*dims(a)[:-2], dim(shorter)])]
    packed, tau = b.results(aten.geqrf.default, a, types=types)
    r = packed if mode == "complete" else b.slice(packed, -2, 0, shorter)
    r = b(aten.triu.default, r)
    if mode == "r":
        return [b.full([0], 0.0, element(a)), r]
    width = b.size(a, -2) if mode == "complete" else shorter
    return [_householder(b, _pad_columns(b, packed, width), tau), r]


@decomposition(aten.ormqr.default)
def ormqr(b: Builder, a: SSAValue, tau: SSAValue, other: SSAValue, left: bool, transpose: bool) -> SSAValue:
    """The product of all reflections, as a matrix, times the other one"""
    q = _householder(b, _pad_columns(b, a, b.size(a, -2)), tau)
    q = conjugate(b, _transposed(b, q)) if transpose else q
    return _matmul(b, q, other) if left else _matmul(b, other, q)


# --- eigenvalues ------------------------------------------------------------------------------------------------------


@decomposition(aten._linalg_eigvals.default)
def eigenvalues(b: Builder, a: SSAValue) -> SSAValue:
    """``linalg_eigvals``"""
    return b(aten.linalg_eigvals.default, a, types=[_type(b, 0)])


# --- singular values --------------------------------------------------------------------------------------------------


def _spectrum(b: Builder, a: SSAValue, hermitian: bool) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Left vectors, singular values or eigenvalues, right vectors, with ``left * values @ right = a``."""
    batch, type = dims(a)[:-2], element(a)
    rows, columns, shorter = dims(a)[-2], dims(a)[-1], dim(_shorter(b, a))
    row = tensor_type(type, [*batch, shorter])
    if hermitian:
        values, vectors = b.results(aten._linalg_eigh.default, a, types=[row, tensor_type(type, dims(a))])
        return vectors, values, _transposed(b, vectors)
    types = [tensor_type(type, [*batch, rows, shorter]), row, tensor_type(type, [*batch, shorter, columns])]
    left, values, right = b.results(aten._linalg_svd.default, a, types=types)
    return left, values, right


def _exceeding(b: Builder, a: SSAValue, size: SSAValue, atol: SSAValue | None, rtol: SSAValue | None) -> SSAValue:
    """Which singular values are above the tolerance, ``max(atol, rtol * largest)``.

    ``rtol`` is the machine epsilon times the longer side by default, and 0 where ``atol`` is positive.
    """
    type = element(a)
    largest = b.amax(size, [-1], True)
    longer = b.scalar(maximum(b.size(a, -2), b.size(a, -1)))
    epsilon = BY_EPSILON[BY_TYPE[type].torch_name]
    limit = b.mul(largest, epsilon * longer if isinstance(longer, int) else epsilon)
    limit = limit if isinstance(longer, int) else b.mul(limit, longer)  # type: ignore[arg-type]
    absolute = None if atol is None else b.unsqueeze(atol, rank(atol))
    if rtol is not None:
        limit = b.mul(largest, b.unsqueeze(rtol, rank(rtol)))
    elif absolute is not None:
        limit = b.where(b.gt(absolute, 0.0), 0.0, limit)
    if absolute is not None:
        limit = b(aten.maximum.default, limit, b.cast(absolute, element(limit)))
    return b.gt(size, b.cast(limit, type))


@decomposition(aten.linalg_pinv.atol_rtol_tensor)
def pinv(b: Builder, a: SSAValue, atol: SSAValue | None, rtol: SSAValue | None, hermitian: bool) -> SSAValue:
    """The inverse of the singular values (or eigenvalues) above the tolerance, between the singular vectors"""
    if 0 in dims(a)[-2:]:
        return _transposed(b, a)
    left, values, right = _spectrum(b, a, hermitian)
    counts = _exceeding(b, a, b.abs(values) if hermitian else values, atol, rtol)
    inverse_values = b.where(counts, b.reciprocal(values), 0.0)
    scaled = b.mul(_transposed(b, right), b.unsqueeze(inverse_values, rank(inverse_values) - 1))
    return _matmul(b, scaled, _transposed(b, left))


@decomposition(aten.linalg_matrix_rank.atol_rtol_tensor)
def matrix_rank(
    b: Builder, a: SSAValue, atol: SSAValue | None, rtol: SSAValue | None, hermitian: bool
) -> SSAValue | None:
    """How many singular values (or magnitudes of eigenvalues) are above the tolerance"""
    if 0 in dims(a)[-2:]:
        return b.notify_match_failure("there are no elements")
    _, values, _ = _spectrum(b, a, hermitian)
    counts = _exceeding(b, a, b.abs(values) if hermitian else values, atol, rtol)
    return b.sum(counts, [-1])


@decomposition(aten.linalg_matrix_norm.default)
def spectral_norm(
    b: Builder, a: SSAValue, order: Any, positions: Sequence[int], keepdim: bool, type: Attribute | None
) -> SSAValue | None:
    """The largest singular value, or for -2 the smallest"""
    if isinstance(order, SSAValue) or abs(order) != 2:
        return b.notify_match_failure("it is no norm of singular values")
    a = b.cast(a, type) if type is not None else a
    pair = [d % rank(a) for d in positions]
    moved = b.permute(a, [*(d for d in range(rank(a)) if d not in pair), *pair])
    row = tensor_type(element(a), [*dims(moved)[:-2], dim(_shorter(b, moved))])
    values = b(aten.linalg_svdvals.default, moved, types=[row])
    norm = b.amax(values, [-1]) if order > 0 else b(aten.amin.default, values, [-1])
    return b.view(norm, [1 if i in pair else size for i, size in enumerate(b.sizes(a))]) if keepdim else norm


@decomposition(aten.linalg_matrix_power.default, aten.matrix_power.default)
def matrix_power(b: Builder, a: SSAValue, n: int) -> SSAValue:
    """Squares, multiplied where the exponent has a bit; of the inverse for a negative one"""
    if n == 0:
        return _identity(b, a)
    if n < 0:
        types = [tensor_type(element(a), dims(a)), tensor_type(i32, dims(a)[:-2])]
        a, info = b.results(aten.linalg_inv_ex.default, a, types=types)
        assert_factored(info, "linalg.matrix_power", b.insert)
    square, result, rest = a, None, abs(n)
    while rest:
        if rest & 1:
            result = square if result is None else _matmul(b, result, square)
        rest >>= 1
        square = _matmul(b, square, square) if rest else square
    assert result is not None
    return result


@decomposition(aten.linalg_tensorsolve.default)
def tensorsolve(b: Builder, a: SSAValue, x: SSAValue, order: Sequence[int] | None) -> SSAValue:
    """``_linalg_solve_ex`` of the leading dims as rows, the others as columns"""
    if order is not None:
        moved = [d % rank(a) for d in order]
        a = b.permute(a, [*(d for d in range(rank(a)) if d not in moved), *moved])
    shape = b.sizes(a)[rank(x) :]
    count = product(b.sizes(x))
    matrix, right = b.view(a, [count, count]), b.view(x, [count])
    square = tensor_type(element(a), [dim(count)] * 2)
    types = [tensor_type(element(a), [dim(count)]), square, tensor_type(i32, [dim(count)]), tensor_type(i32, [])]
    result, _, _, info = b.results(aten._linalg_solve_ex.default, matrix, right, types=types)
    assert_factored(info, "linalg.tensorsolve", b.insert)
    return b.view(result, shape)


@decomposition(aten.linalg_vander.default, symint_args=("N",))
def vander(b: Builder, x: SSAValue, given: Any) -> SSAValue | None:
    """Products of a column of ones and the elements, over and over"""
    count = b.size(x, -1) if given is None else b.as_size(given)
    if count is None or rank(x) == 0:
        return b.notify_match_failure("the number of columns is not known")
    type = element(b.rewriter.root.results[0])
    column = b.unsqueeze(b.cast(x, type), rank(x))
    spread = b.expand(column, [*b.sizes(x), count])
    is_first = b.eq(b.arange(count), 0)
    return b(aten.cumprod.default, b.where(is_first, b.full([], 1, type), spread), rank(x))


BY_EPSILON = {"float32": 2.0**-23, "float64": 2.0**-52}
"""The distance of 1 to the next number."""
