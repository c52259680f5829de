"""Views that only move dims, or leave out dims of size 1, in one form each: the order of dims, the removed dims."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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


_PERMUTATIONS: dict[str, Callable[[SchemaOp, int], Order]] = {
    "aten.permute.default": lambda op, rank: list(wrap_all(op.arg("dims"), rank)),
    "aten.transpose.int": lambda op, rank: _swap(rank, op.arg("dim0"), op.arg("dim1")),
    "aten.swapdims.default": lambda op, rank: _swap(rank, op.arg("dim0"), op.arg("dim1")),
    "aten.swapaxes.default": lambda op, rank: _swap(rank, op.arg("axis0"), op.arg("axis1")),
    "aten.t.default": lambda _, rank: list(reversed(range(rank))),
    "aten.numpy_T.default": lambda _, rank: list(reversed(range(rank))),
    "aten.mT.default": lambda _, rank: _swap(rank, -2, -1),
    "aten.mH.default": lambda _, rank: _swap(rank, -2, -1),
    "aten.adjoint.default": lambda _, rank: _swap(rank, -2, -1),
    "aten.matrix_H.default": lambda _, rank: _swap(rank, 0, -1),
    "aten.movedim.int": lambda op, rank: _move(rank, [op.arg("source")], [op.arg("destination")]),
    "aten.moveaxis.int": lambda op, rank: _move(rank, [op.arg("source")], [op.arg("destination")]),
    "aten.movedim.intlist": lambda op, rank: _move(rank, op.arg("source"), op.arg("destination")),
    "aten.moveaxis.intlist": lambda op, rank: _move(rank, op.arg("source"), op.arg("destination")),
}
"""The source dim of each result dim."""


def permutation(op: SchemaOp, rank: int) -> Order | None:
    """The order in which a view takes the dims of its operand; None for a view that does more."""
    found = _PERMUTATIONS.get(op.name)
    return None if found is None else found(op, rank)


def squeezed(op: SchemaOp, dims: Sequence[Dim]) -> list[int] | None:
    """The dims of size 1 that ``squeeze`` removes, ascending; None for any other view."""
    match op.name:
        case "aten.squeeze.default":
            positions: Sequence[int] = range(len(dims))
        case "aten.squeeze.dim":
            positions = [wrap(op.arg("dim"), len(dims))]
        case "aten.squeeze.dims":
            positions = sorted(wrap_all(op.arg("dim"), len(dims)))
        case _:
            return None
    return [p for p in positions if p < len(dims) and dims[p] == 1]
