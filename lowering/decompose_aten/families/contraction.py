"""Products of matrices and vectors as ``mm``, ``bmm`` and ``addmm``.

A batch of matrices times one matrix is a single ``mm`` over all rows. Transposed operands are ``permute``, which
constant folding does to weights.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import i32, i64
from etir.lowering.build.builder import Builder, dims, element, rank
from etir.lowering.build.dims import broadcast, wrap, wrap_all
from etir.lowering.build.promotion import FLOATING, category_of, result_type
from etir.lowering.build.sizes import SizeLike, product
from etir.lowering.decompose_aten.decomposition import decomposition, rename

rename(
    [
        (aten.linalg_matmul.default, aten.matmul.default),
        (aten.ger.default, aten.outer.default),
        (aten.pdist.default, aten._pdist_forward.default),
    ]
)


def _rows(b: Builder, x: SSAValue) -> SSAValue:
    """All dims but the last one as one, whose size is given, as -1 says nothing of tensors without elements."""
    *outer, last = b.sizes(x)
    return b.view(x, [product(outer), last])


@decomposition(aten.linear.default)
def linear(b: Builder, x: SSAValue, weight: SSAValue, bias: SSAValue | None) -> SSAValue:
    """``addmm`` or ``mm`` with the transposed weight, over all rows"""
    outer = b.sizes(x)[:-1]
    rows = _rows(b, x)
    transposed = b.permute(weight, [1, 0])
    result = b.mm(rows, transposed) if bias is None else b(aten.addmm.default, bias, rows, transposed)
    return b.view(result, [*outer, b.size(weight, 0)])


@decomposition(aten.matmul.default)
def matmul(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """By rank: ``mm`` where one side is a single matrix or vector, else ``bmm`` over the broadcast batch dims"""
    y_sizes = b.sizes(y)
    if all(size == 1 for size in y_sizes[:-2]) and rank(y) > 2 and rank(x) >= rank(y):
        y = b.view(y, y_sizes[-2:])
    x_sizes, y_sizes = b.sizes(x), b.sizes(y)
    if rank(y) == 1:
        return b.view(b.mm(_rows(b, x), b.unsqueeze(y, 1)), x_sizes[:-1])
    if rank(y) == 2:
        return b.view(b.mm(_rows(b, x), y), [*x_sizes[:-1], y_sizes[-1]])
    if rank(x) == 1:
        return b.squeeze(matmul(b, b.unsqueeze(x, 0), y), -2)
    shape = broadcast(dims(x)[:-2], dims(y)[:-2])
    batch = [b.size_for(d, (x, y)) for d in shape]
    x, y = (_as_batch(b, t, batch) for t in (x, y))
    return b.view(b.bmm(x, y), [*batch, x_sizes[-2], y_sizes[-1]])


def _as_batch(b: Builder, x: SSAValue, batch: Sequence[SizeLike]) -> SSAValue:
    """[..., n, k] expanded to the batch sizes, those as one dim."""
    matrix = b.sizes(x)[-2:]
    return b.view(b.expand(x, [*batch, *matrix]), [product(batch), *matrix])


@decomposition(aten.mv.default)
def mv(b: Builder, x: SSAValue, vector: SSAValue) -> SSAValue:
    """``mm`` with a matrix of one column"""
    return b.squeeze(b.mm(x, b.unsqueeze(vector, 1)), 1)


@decomposition(aten.dot.default, aten.vdot.default)
def dot(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue | None:
    """``mm`` of a row and a column, for real types"""
    if category_of(element(x)) > FLOATING:
        return b.notify_match_failure("it is complex")
    return b.view(b.mm(b.unsqueeze(x, 0), b.unsqueeze(y, 1)), [])


@decomposition(aten.inner.default)
def inner(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """``mm`` over the last dims of both"""
    if rank(x) == 0 or rank(y) == 0:
        return b.mul(x, y)
    x_outer, y_outer = b.sizes(x)[:-1], b.sizes(y)[:-1]
    rows = b.mm(_rows(b, x), b.permute(_rows(b, y), [1, 0]))
    return b.view(rows, [*x_outer, *y_outer])


@decomposition(aten.outer.default)
def outer(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """``x`` as a column times ``y``"""
    return b.mul(b.unsqueeze(x, 1), y)


@decomposition(aten.addmv.default)
def addmv(b: Builder, x: SSAValue, matrix: SSAValue, vector: SSAValue, beta: float, alpha: float) -> SSAValue:
    """``addmm`` with matrices of one column"""
    column = b.unsqueeze(x, 1) if rank(x) == 1 else x
    return b.squeeze(b(aten.addmm.default, column, matrix, b.unsqueeze(vector, 1), beta=beta, alpha=alpha), 1)


@decomposition(aten.addr.default)
def addr(b: Builder, x: SSAValue, first: SSAValue, second: SSAValue, beta: float, alpha: float) -> SSAValue:
    """``beta * x + alpha * outer``"""
    return _scaled_sum(b, x, outer(b, first, second), beta, alpha)


@decomposition(aten.baddbmm.default)
def baddbmm(b: Builder, x: SSAValue, first: SSAValue, second: SSAValue, beta: float, alpha: float) -> SSAValue:
    """``beta * x + alpha * bmm``"""
    return _scaled_sum(b, x, b.bmm(first, second), beta, alpha)


def _scaled_sum(b: Builder, x: SSAValue, y: SSAValue, beta: float, alpha: float) -> SSAValue:
    """``beta * x + alpha * y``; a ``beta`` of 0 ignores ``x``, NaN or not."""
    if alpha != 1:
        y = b.mul(y, alpha)
    if beta == 0:
        return b.expand(b.cast(y, result_type((x, y))), b.sizes(y))
    return b(aten.add.Tensor, y, x, alpha=beta)


@decomposition(aten.addbmm.default)
def addbmm(b: Builder, x: SSAValue, first: SSAValue, second: SSAValue, beta: float, alpha: float) -> SSAValue:
    """``addmm`` over batch and inner dim at once"""
    rows, columns = b.size(first, 1), b.size(second, 2)
    left = b.view(b.permute(first, [1, 0, 2]), [rows, product((b.size(first, 0), b.size(first, 2)))])
    right = b.view(second, [product((b.size(second, 0), b.size(second, 1))), columns])
    return b(aten.addmm.default, x, left, right, beta=beta, alpha=alpha)


@decomposition(aten._addmm_activation.default)
def addmm_activation(
    b: Builder, x: SSAValue, first: SSAValue, second: SSAValue, beta: float, alpha: float, use_gelu: bool
) -> SSAValue:
    """``addmm``, then ``relu`` or ``gelu``"""
    result = b(aten.addmm.default, x, first, second, beta=beta, alpha=alpha)
    return b(aten.gelu.default, result) if use_gelu else b.relu(result)


@decomposition(aten.tensordot.default)
def tensordot(
    b: Builder, x: SSAValue, y: SSAValue, x_contracted: Sequence[int], y_contracted: Sequence[int]
) -> SSAValue | None:
    """``mm`` over the contracted dims, moved after the others of ``x`` and before those of ``y``"""
    ours, theirs = wrap_all(x_contracted, rank(x)), wrap_all(y_contracted, rank(y))
    if any(dims(x)[i] != dims(y)[j] for i, j in zip(ours, theirs, strict=True)):
        return b.notify_match_failure("it broadcasts a contracted dim")
    x_outer = [i for i in range(rank(x)) if i not in ours]
    y_outer = [i for i in range(rank(y)) if i not in theirs]
    inner_size = product([b.size(x, i) for i in ours])
    left = b.view(b.permute(x, [*x_outer, *ours]), [product([b.size(x, i) for i in x_outer]), inner_size])
    right = b.view(b.permute(y, [*theirs, *y_outer]), [inner_size, product([b.size(y, i) for i in y_outer])])
    return b.view(b.mm(left, right), [*(b.size(x, i) for i in x_outer), *(b.size(y, i) for i in y_outer)])


@decomposition(aten.bilinear.default)
def bilinear(b: Builder, x: SSAValue, y: SSAValue, weight: SSAValue, bias: SSAValue | None) -> SSAValue:
    """``x`` times all matrices at once, then ``bmm`` with ``y`` as columns"""
    *outer_sizes, height = b.sizes(x)
    count, width = b.size(weight, 0), b.size(weight, 2)
    side_by_side = b.view(b.permute(weight, [1, 0, 2]), [height, product((count, width))])
    rows = product(outer_sizes)
    products = b.view(b.mm(b.view(x, [rows, height]), side_by_side), [rows, count, width])
    result = b.view(b.bmm(products, b.view(y, [rows, width, 1])), [*outer_sizes, count])
    return result if bias is None else b.add(result, bias)


@decomposition(aten.kron.default)
def kron(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """A product in which the dims of both alternate"""
    count = max(rank(x), rank(y))
    x_sizes = [*[1] * (count - rank(x)), *b.sizes(x)]
    y_sizes = [*[1] * (count - rank(y)), *b.sizes(y)]
    spread_x = b.view(x, [size for own in x_sizes for size in (own, 1)])
    spread_y = b.view(y, [size for own in y_sizes for size in (1, own)])
    return b.view(b.mul(spread_x, spread_y), [product(pair) for pair in zip(x_sizes, y_sizes, strict=True)])


@decomposition(aten.linalg_vecdot.default)
def vecdot(b: Builder, x: SSAValue, y: SSAValue, dim: int) -> SSAValue | None:
    """``sum(x * y)``, for real types"""
    if category_of(element(x)) > FLOATING:
        return b.notify_match_failure("it is complex")
    return b.sum(b.mul(x, y), [dim])


@decomposition(aten.cross.default, aten.linalg_cross.default)
def cross(b: Builder, x: SSAValue, y: SSAValue, dim: int | None) -> SSAValue:
    """``x[1 2 0] * y[2 0 1] - x[2 0 1] * y[1 2 0]``"""
    x, y = b.broadcast(x, y)
    position = dims(x).index(3) if dim is None else wrap(dim, rank(x))
    forward, backward = b.constant([1, 2, 0], i64), b.constant([2, 0, 1], i64)

    def turned(t: SSAValue, index: SSAValue) -> SSAValue:
        return b(aten.index_select.default, t, position, index)

    return b.sub(b.mul(turned(x, forward), turned(y, backward)), b.mul(turned(x, backward), turned(y, forward)))


@decomposition(aten.trace.default)
def trace(b: Builder, x: SSAValue) -> SSAValue:
    """The sum of the ``diagonal``"""
    return b.sum(b(aten.diagonal.default, x), [0])


@decomposition(aten._trilinear.default)
def trilinear(
    b: Builder,
    x: SSAValue,
    y: SSAValue,
    z: SSAValue,
    expand_x: Sequence[int],
    expand_y: Sequence[int],
    expand_z: Sequence[int],
    summed: Sequence[int],
    _unroll: int,
) -> SSAValue:
    """The product of three tensors with new dims, summed over dims"""
    factors = [x, y, z]
    for i, positions in enumerate((expand_x, expand_y, expand_z)):
        total = rank(factors[i]) + len(positions)
        for position in sorted(wrap(p, total) for p in positions):
            factors[i] = b.unsqueeze(factors[i], position)
    products = b.mul(b.mul(factors[0], factors[1]), factors[2])
    return b.sum(products, list(summed)) if summed else products


@decomposition(aten._int_mm.default)
def int_mm(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """``mm`` of 8-bit integers in 32 bits"""
    return b.mm(b.cast(x, i32), b.cast(y, i32))


@decomposition(aten.cdist.default)
def cdist(b: Builder, x: SSAValue, y: SSAValue, p: float, compute_mode: int | None) -> SSAValue:
    """``_cdist_forward`` of a common batch"""
    batch = [b.size_for(d, (x, y)) for d in broadcast(dims(x)[:-2], dims(y)[:-2])]
    x, y = (b.expand(t, [*batch, *b.sizes(t)[-2:]]) for t in (x, y))
    return b(aten._cdist_forward.default, x, y, p, compute_mode)
