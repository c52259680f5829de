"""Arithmetic on the dims of tensor types: broadcasting, products, the lengths of slices and windows.

A dim is an int or a symbolic expression. Where two different expressions must be equal for the program to be valid
(``torch.export`` has checked that), the first one stands, and a constant wins over an expression.
"""

from __future__ import annotations

from collections.abc import Sequence

from etir.dialects.et.layout import Dim
from etir.dialects.sym.expr import SymExpr, ceildiv, sym_min


class OperandError(ValueError):
    """Operands that no valid program has: sizes that do not go together, whatever the symbols in them are."""


class DimError(OperandError, IndexError):
    """The number of a dim that a tensor does not have."""


def agree(a: Dim, b: Dim, what: str) -> None:
    """Two sizes that have to be equal. Raises :class:`OperandError` for different constants."""
    if isinstance(a, int) and isinstance(b, int) and a != b:
        raise OperandError(f"{what} have the sizes {a} and {b}")


def broadcast_dim(a: Dim, b: Dim) -> Dim:
    """The size of two aligned dims together. Raises :class:`OperandError` for different constants, neither 1."""
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if isinstance(a, int) and isinstance(b, int):
        raise OperandError(f"sizes {a} and {b} do not broadcast")
    return a if isinstance(a, int) or not isinstance(b, int) else b


def broadcast(*shapes: Sequence[Dim]) -> tuple[Dim, ...]:
    """The shape that ``shapes``, aligned at the end, broadcast to. Raises :class:`OperandError`."""
    rank = max(map(len, shapes), default=0)
    result: list[Dim] = [1] * rank
    for shape in shapes:
        offset = rank - len(shape)
        for i, dim in enumerate(shape):
            result[offset + i] = broadcast_dim(result[offset + i], dim)
    return tuple(result)


def product(dims: Sequence[Dim]) -> Dim:
    """The number of elements."""
    total: Dim = 1
    for dim in dims:
        total = total * dim
    return total


def wrap(dim: int, rank: int) -> int:
    """A dim index counted from 0. Raises :class:`DimError` outside of the rank; rank 0 takes 0 and -1."""
    if not -max(rank, 1) <= dim < max(rank, 1):
        raise DimError(f"dim {dim} is out of range for {rank} dims")
    return dim % max(rank, 1)


def wrap_all(dims: Sequence[int], rank: int) -> tuple[int, ...]:
    """Several dim indices counted from 0."""
    return tuple(wrap(d, rank) for d in dims)


def as_int_if_const(dim: Dim) -> Dim:
    """An expression without symbols as an int."""
    return int(dim) if isinstance(dim, SymExpr) and dim.is_const else dim


def exact_quotient(total: Dim, part: Dim) -> Dim:
    """``total / part``, which has no remainder: the ``-1`` of a reshape."""
    total, part = as_int_if_const(total), as_int_if_const(part)
    return 0 if part == 0 else as_int_if_const(total // part)


def slice_length(size: Dim, start: Dim | None, end: Dim | None, step: int) -> Dim:
    """The length of ``[start:end:step]`` with Python's rules, for a positive ``step``.

    Of a symbolic size it is assumed that a negative bound lies inside: ``[1:-1]`` of s0 has the length s0 - 2.
    """

    def bound(position: Dim) -> Dim:
        if not isinstance(position, int):
            return position
        if isinstance(size, int):
            return min(max(position + size if position < 0 else position, 0), size)
        if position < 0:
            return size + position
        return size if position >= 2**62 else sym_min(position, size) if position else 0

    first = bound(0 if start is None else start)
    last = size if end is None else bound(end)
    length = last - first
    if isinstance(length, int):
        return max(-(-length // step), 0)
    return as_int_if_const(length if step == 1 else ceildiv(length, step))


def window_count(size: Dim, kernel: Dim, stride: Dim, padding: Dim, dilation: Dim = 1, ceil_mode: bool = False) -> Dim:
    """How many windows of a convolution or of a pooling fit along one dim.

    With ``ceil_mode`` a last window may hang over the end, if it starts inside the input or its left padding.
    """
    reach = size + (2 * padding - dilation * (kernel - 1) - 1)
    if not ceil_mode:
        return as_int_if_const(reach // stride + 1)
    count = -(-reach // stride) + 1
    if isinstance(count, int) and isinstance(size, int) and isinstance(stride, int) and isinstance(padding, int):
        return count - 1 if (count - 1) * stride >= size + padding else count
    # The last window starts at or after the end exactly when the count by starting points is the smaller one.
    return as_int_if_const(sym_min(count, ceildiv(size + padding, stride)))
