"""LU, Cholesky and QR factorizations and triangular systems as loops over columns, for targets without kernels.

Unblocked textbook forms (Golub and Van Loan, "Matrix Computations", 4th edition, algorithms 3.4.1, 4.2.1, 5.2.1): each
step of a loop rewrites a whole matrix with masks in the place of ranges, so that O(n³) becomes n passes over n²
elements. Conventions of results (pivots from 1, packed factors, ``info``) are LAPACK's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import i32, i64
from etir.lowering.build.builder import Builder, dims, element, rank
from etir.lowering.build.dims import broadcast
from etir.lowering.build.promotion import FLOATING, category_of
from etir.lowering.decompose_aten.decomposition import decomposition
from etir.lowering.decompose_aten.loops import scan


def conjugate(b: Builder, x: SSAValue) -> SSAValue:
    """``x`` with imaginary parts negated; of real types ``x`` itself."""
    return b(aten._conj_physical.default, x, types=[x.type]) if category_of(element(x)) > FLOATING else x


class _Matrices:
    """Matrices [..., m, n] as [batch, m, n], with the numbers of rows [m, 1] and of columns [n]."""

    def __init__(self, b: Builder, shape: Sequence[int]):
        self.b = b
        self.batch, (self.height, self.width) = list(shape[:-2]), shape[-2:]
        self.count = math.prod(self.batch)
        self.rows = b.view(b.arange(self.height), [self.height, 1])
        self.columns = b.arange(self.width)

    def flat(self, x: SSAValue, last_dims: int = 2) -> SSAValue:
        """``x`` with one dim for the batch, to whose shape it is expanded."""
        kept = sizes_of(x)[rank(x) - last_dims :]
        return self.b.view(self.b.expand(x, [*self.batch, *kept]), [self.count, *kept])

    def whole(self, x: SSAValue) -> SSAValue:
        """The batch's own dims again."""
        return self.b.view(x, [*self.batch, *sizes_of(x)[1:]])

    def stacked(self, x: SSAValue) -> SSAValue:
        """One number for each step and matrix, [steps, batch], as [..., steps]."""
        return self.whole(self.b.permute(x, [1, 0]))

    def take(self, x: SSAValue, position: int, number: SSAValue) -> SSAValue:
        """One row (dim 1) or column (dim 2), which stays a dim of size 1."""
        return self.b(aten.index_select.default, x, position, self.b.view(number, [1]))

    def first(self, flags: SSAValue) -> SSAValue:
        """``info``: the number, from 1, of the first step [steps, batch] with a flag; 0 without one."""
        b = self.b
        number = b.add(b(aten.argmax.default, b.cast(flags, i32), 0), 1)
        found = b.where(b(aten.any.dim, flags, 0), number, 0)
        return b.view(b.cast(found, i32), self.batch)


def sizes_of(x: SSAValue) -> list[int]:
    """The sizes of a tensor, all of which are known."""
    return [d for d in dims(x) if isinstance(d, int)]


def _static(b: Builder, *tensors: SSAValue) -> bool:
    if all(len(sizes_of(x)) == rank(x) for x in tensors) and all(0 not in dims(x) for x in tensors):
        return True
    b.notify_match_failure("sizes are dynamic, or there are no elements")
    return False


def _exchange(m: _Matrices, number: SSAValue, pivot: SSAValue, size: int) -> SSAValue:
    """[batch, size]: 0, 1, ... with ``number`` and each matrix's ``pivot`` [batch] exchanged."""
    b = m.b
    order, other = b.arange(size), b.unsqueeze(pivot, 1)
    second = b.where(b.eq(order, other), number, order)
    return b.where(b.eq(order, number), other, second)


@decomposition(aten.linalg_lu_factor_ex.default)
def lu_factor(b: Builder, a: SSAValue, pivot: bool, _check: bool) -> Sequence[SSAValue] | None:
    """Outer products, with the largest element of a column exchanged to the diagonal"""
    if not pivot:
        return b.notify_match_failure("it does not exchange rows, which torch has on CUDA only")
    if not _static(b, a):
        return None
    m = _Matrices(b, sizes_of(a))

    def step(carried: list[SSAValue], slices: list[SSAValue]) -> tuple[list[SSAValue], list[SSAValue]]:
        (x,), (k,) = carried, slices
        below = b.gt(m.rows, k)
        sizes = b.where(b.ge(m.rows, k), b.abs(m.take(x, 2, k)), -1.0)
        chosen = b(aten.argmax.default, b.squeeze(sizes, 2), 1)
        order = b.expand(b.unsqueeze(_exchange(m, k, chosen, m.height), 2), [m.count, m.height, m.width])
        x = b(aten.gather.default, x, 1, order)
        row = m.take(x, 1, k)
        diagonal = m.take(row, 2, k)
        is_zero = b.eq(diagonal, 0.0)
        factors = b.where(below, b.div(m.take(x, 2, k), b.where(is_zero, 1.0, diagonal)), 0.0)
        x = b.sub(x, b.mul(factors, b.where(b.gt(m.columns, k), row, 0.0)))
        stored = b.logical_and(below, b.eq(m.columns, k))
        return [b.where(stored, factors, x)], [b.add(chosen, 1), b.view(is_zero, [m.count])]

    (packed,), (pivots, zeros) = scan(b, [m.flat(a)], [b.arange(min(m.height, m.width))], step)
    return [m.whole(packed), b.cast(m.stacked(pivots), i32), m.first(zeros)]


@decomposition(aten.lu_unpack.default)
def lu_unpack(
    b: Builder, packed: SSAValue, pivots: SSAValue, data: bool, with_pivots: bool
) -> Sequence[SSAValue | None] | None:
    """The triangles, and the exchanges of rows one after the other"""
    if not _static(b, packed, pivots):
        return None
    m = _Matrices(b, sizes_of(packed))
    shorter, type = min(m.height, m.width), element(packed)
    empty = b.full([0], 0.0, type)
    lower = upper = permutation = empty
    if data:
        below = b.slice(b(aten.tril.default, packed, -1), -1, 0, shorter)
        ones = b.cast(b.eq(m.rows, b.arange(shorter)), type)
        lower = b.add(below, ones)
        upper = b(aten.triu.default, b.slice(packed, -2, 0, shorter))
    if with_pivots:
        order = b.expand(b.arange(m.height), [m.count, m.height])
        exchanges = b.permute(b.sub(b.cast(m.flat(pivots, 1), i64), 1), [1, 0])

        def step(carried: list[SSAValue], slices: list[SSAValue]) -> tuple[list[SSAValue], list[SSAValue]]:
            (x,), (k, pivot) = carried, slices
            return [b(aten.gather.default, x, 1, _exchange(m, k, pivot, m.height))], []

        (order,), _ = scan(b, [order], [b.arange(shorter), exchanges], step)
        permutation = m.whole(b.cast(b.eq(b.unsqueeze(order, 1), m.rows), type))
    return [permutation, lower, upper]


@decomposition(aten.linalg_solve_triangular.default)
def solve_triangular(b: Builder, a: SSAValue, x: SSAValue, upper: bool, left: bool, unit: bool) -> SSAValue | None:
    """Substitution, row by row"""
    if not _static(b, a, x):
        return None
    if not left:
        transposed = solve_triangular(b, b.transpose(a, -2, -1), b.transpose(x, -2, -1), not upper, True, unit)
        return None if transposed is None else b.transpose(transposed, -2, -1)
    batch = [d for d in broadcast(dims(a)[:-2], dims(x)[:-2]) if isinstance(d, int)]
    m = _Matrices(b, [*batch, *sizes_of(a)[-2:]])
    matrix, right = m.flat(a), m.flat(x)
    order = b(aten.flip.default, m.columns, [0]) if upper else m.columns

    def step(carried: list[SSAValue], slices: list[SSAValue]) -> tuple[list[SSAValue], list[SSAValue]]:
        (solved,), (k,) = carried, slices
        row = m.take(matrix, 1, k)
        known = b.where(b.compare("gt" if upper else "lt", m.columns, k), row, 0.0)
        value = b.sub(m.take(right, 1, k), b.bmm(known, solved))
        value = value if unit else b.div(value, m.take(row, 2, k))
        return [b.where(b.eq(m.rows, k), value, solved)], []

    zeros = b.full(sizes_of(right), 0.0, element(x))
    return m.whole(scan(b, [zeros], [order], step)[0][0])


@decomposition(aten.linalg_cholesky_ex.default)
def cholesky_factor(b: Builder, a: SSAValue, upper: bool, _check: bool) -> Sequence[SSAValue] | None:
    """Column by column, from the products of the columns before; of the transposed matrix for the upper factor"""
    if not _static(b, a):
        return None
    m = _Matrices(b, sizes_of(a))
    matrix = m.flat(b.transpose(a, -2, -1) if upper else a)

    def step(carried: list[SSAValue], slices: list[SSAValue]) -> tuple[list[SSAValue], list[SSAValue]]:
        (factor,), (k,) = carried, slices
        rest = b.sub(m.take(matrix, 2, k), b.bmm(factor, b.permute(m.take(factor, 1, k), [0, 2, 1])))
        square = m.take(rest, 1, k)
        diagonal = b.sqrt(square)
        below = b.where(b.gt(m.rows, k), b.div(rest, diagonal), 0.0)
        column = b.where(b.eq(m.rows, k), diagonal, below)
        failed = b.logical_not(b.gt(square, 0.0))
        return [b.where(b.eq(m.columns, k), column, factor)], [b.view(failed, [m.count])]

    zeros = b.full(sizes_of(matrix), 0.0, element(a))
    (factor,), (failed,) = scan(b, [zeros], [m.columns], step)
    result = m.whole(factor)
    return [b.transpose(result, -2, -1) if upper else result, m.first(failed)]


@decomposition(aten.geqrf.default)
def reflections(b: Builder, a: SSAValue) -> Sequence[SSAValue] | None:
    """A reflection for each column, packed below the triangle as in LAPACK"""
    if not _static(b, a):
        return None
    m = _Matrices(b, sizes_of(a))

    def step(carried: list[SSAValue], slices: list[SSAValue]) -> tuple[list[SSAValue], list[SSAValue]]:
        (x,), (k,) = carried, slices
        column = m.take(x, 2, k)
        below, on = b.gt(m.rows, k), b.eq(m.rows, k)
        alpha, rest = m.take(column, 1, k), b.where(below, column, 0.0)
        norm = b(aten.linalg_vector_norm.default, rest, 2, [1], True)
        nothing = b.eq(norm, 0.0)
        length = b(aten.hypot.default, alpha, norm, types=[alpha.type])
        beta = b.where(nothing, alpha, b.where(b.ge(alpha, 0.0), b.neg(length), length))
        tau = b.where(nothing, 0.0, b.div(b.sub(beta, alpha), b.where(nothing, 1.0, beta)))
        scaled = b.div(rest, b.where(nothing, 1.0, b.sub(alpha, beta)))
        mirror = b.where(on, 1.0, scaled)
        right = b.where(b.gt(m.columns, k), x, 0.0)
        x = b.sub(x, b.mul(b.mul(tau, mirror), b.bmm(b.permute(mirror, [0, 2, 1]), right)))
        stored = b.where(on, beta, b.where(below, scaled, column))
        return [b.where(b.eq(m.columns, k), stored, x)], [b.view(tau, [m.count])]

    (packed,), (factors,) = scan(b, [m.flat(a)], [b.arange(min(m.height, m.width))], step)
    return [m.whole(packed), m.stacked(factors)]


@decomposition(aten.linalg_householder_product.default)
def householder_product(b: Builder, a: SSAValue, factors: SSAValue) -> SSAValue | None:
    """The reflections, the last one first, of the first columns of the identity"""
    if not _static(b, a, factors):
        return None
    m = _Matrices(b, sizes_of(a))
    packed, count = m.flat(a), sizes_of(factors)[-1]
    scales = b.permute(m.flat(factors, 1), [1, 0])

    def step(carried: list[SSAValue], slices: list[SSAValue]) -> tuple[list[SSAValue], list[SSAValue]]:
        (q,), (k, tau) = carried, slices
        below = b.where(b.gt(m.rows, k), m.take(packed, 2, k), 0.0)
        mirror = b.where(b.eq(m.rows, k), 1.0, below)
        product = b.bmm(conjugate(b, b.permute(mirror, [0, 2, 1])), q)
        return [b.sub(q, b.mul(b.mul(b.view(tau, [m.count, 1, 1]), mirror), product))], []

    identity = b.cast(b.eq(m.rows, m.columns), element(a))
    identity = b.expand(identity, [m.count, m.height, m.width])
    backwards = [b(aten.flip.default, v, [0]) for v in (b.arange(count), scales)]
    return m.whole(scan(b, [identity], backwards, step)[0][0])
