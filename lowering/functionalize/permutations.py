"""Views that only move dims, or leave out dims of size 1, in one form each: the order of dims, the removed dims."""

from __future__ import annotations

from collections.abc import Sequence

from etir.dialects.aten import ops as aten
from etir.dialects.et.layout import Dim
from etir.dialects.schema_op import SchemaOp
from etir.lowering.build.dims import wrap, wrap_all

Order = list[int]


def _swap(rank: int, first: int, second: int) -> Order:
    order = list(range(rank))
    if rank:
        first, second = wrap(first, rank), wrap(second, rank)
        order[first], order[second] = order[second], order[first]
    return order


def _move(rank: int, source: Sequence[int], destination: Sequence[int]) -> Order:
    sources, destinations = wrap_all(source, rank), wrap_all(destination, rank)
    rest = iter(d for d in range(rank) if d not in sources)
    placed = dict(zip(destinations, sources, strict=True))
    return [placed[d] if d in placed else next(rest) for d in range(rank)]


def permutation(op: SchemaOp, rank: int) -> Order | None:
    """The order in which a view takes the dims of its operand, the source of each; None for a view that does more."""
    match op:
        case aten.permute.default():
            return list(wrap_all(op.dims, rank))
        case aten.transpose.int() | aten.swapdims.default():
            return _swap(rank, op.dim0, op.dim1)
        case aten.swapaxes.default():
            return _swap(rank, op.axis0, op.axis1)
        case aten.t.default() | aten.numpy_T.default():
            return list(reversed(range(rank)))
        case aten.mT.default() | aten.mH.default() | aten.adjoint.default():
            return _swap(rank, -2, -1)
        case aten.matrix_H.default():
            return _swap(rank, 0, -1)
        case aten.movedim.int() | aten.moveaxis.int():
            return _move(rank, [op.source], [op.destination])
        case aten.movedim.intlist() | aten.moveaxis.intlist():
            return _move(rank, op.source, op.destination)
        case _:
            return None


def squeezed(op: SchemaOp, dims: Sequence[Dim]) -> list[int] | None:
    """The dims of size 1 that ``squeeze`` removes, ascending; None for any other view."""
    match op:
        case aten.squeeze.default():
            positions: Sequence[int] = range(len(dims))
        case aten.squeeze.dim():
            positions = [wrap(op.dim, len(dims))]
        case aten.squeeze.dims():
            positions = sorted(wrap_all(op.dim, len(dims)))
        case _:
            return None
    return [p for p in positions if p < len(dims) and dims[p] == 1]
