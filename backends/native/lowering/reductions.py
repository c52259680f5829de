"""Reductions: one number for all elements of some dims.

A reduction along the dims that lie innermost is ``tile.reduce``; one that leaves the innermost dim is a window of
``tile.pool``, whose vectors go along what is left.
"""

from __future__ import annotations

import math

from xdsl.ir import Operation, Region, SSAValue

from etir.backends.api.patterns import operator_of
from etir.backends.native.dialect import GroupOp
from etir.backends.native.elementwise import Body
from etir.backends.native.lowering.function import Lowering, Outside, lowers, members
from etir.backends.native.lowering.images import identity
from etir.backends.native.places import Place
from etir.backends.native.tile import PoolOp, ReduceOp, YieldOp, body_of

KINDS = {
    "aten.mean.dim": "mean",
    "aten.sum.dim_IntList": "sum",
    "aten.amax.default": "max",
    "aten.amin.default": "min",
}
"""Reductions to how they combine elements."""


@lowers("reduce")
def lower_reduce(lowering: Lowering, group: GroupOp, outside: Outside) -> None:
    """One number for all elements of some dims."""
    (op,) = members(group)
    place = lowering.place(outside[op.arg("self")])
    rank = len(place.shape)
    dims = sorted({d % rank for d in op.arg("dim") or range(rank)}) if rank else []
    kept = [d for d in range(rank) if d not in dims]
    out = lowering.result(group.outputs[0], [place.shape[d] for d in kept])
    reduce_to(lowering, KINDS[operator_of(op)], place.permuted([*kept, *dims]), out, op)


def reduce_to(
    lowering: Lowering, kind: str, x: Place, out: Place, like: Operation, center: Place | None = None
) -> None:
    """Reduce the last dims of ``x``, those that ``out`` does not have; or the squares of the differences from
    ``center``, which has the dims of ``out``.
    """
    kept = len(out.shape)
    if kept and _lies_along(x, out):
        inner = [d for d in range(kept) if x.strides[d] == 1 and x.shape[d] != 1][0]
        _as_windows(lowering, kind, x, out, inner, like, center)
        return
    flat = lowering.viewed(x, (*out.shape, math.prod(x.shape[kept:])), like)
    flat = lowering.side_by_side(flat, like)
    extra: list[SSAValue] = []
    if center is not None:
        extra.append(lowering.memref(Place(center.base, flat.shape, (*center.strides, 0), center.offset)))
    lowering.add(ReduceOp(kind, lowering.memref(flat), lowering.memref(out), extra, _squares(center)), like)


def _squares(center: Place | None) -> Region:
    """The square of the difference of the two arguments, or the only one."""
    if center is None:
        return identity()
    made = body_of(2)
    build = Body(made.block, {})
    off = build.sub(made.block.args[0], made.block.args[1])
    made.block.add_op(YieldOp(build.mul(off, off)))
    return made


def _lies_along(x: Place, out: Place) -> bool:
    """Whether elements of a dim that is kept lie side by side, in the result too."""
    kept = len(out.shape)
    found = [d for d in range(kept) if x.strides[d] == 1 and x.shape[d] != 1]
    return bool(found) and out.strides[found[0]] == 1 and len(x.shape) - kept <= 2


def _as_windows(
    lowering: Lowering, kind: str, x: Place, out: Place, inner: int, like: Operation, center: Place | None
) -> None:
    kept = len(out.shape)
    outer = [d for d in range(kept) if d != inner]
    window = [*range(kept, len(x.shape))]
    taps = [x.shape[d] for d in window]
    steps = [x.strides[d] for d in window]
    while len(taps) < 2:
        taps, steps = [1, *taps], [0, *steps]
    lead = max(0, 2 - len(outer))
    dims = (*[1] * lead, *(x.shape[d] for d in outer), *taps, x.shape[inner])
    strides = (*[0] * lead, *(x.strides[d] for d in outer), *steps, 1)
    a = Place(x.base, dims, strides, x.offset)

    def leading(place: Place) -> Place:
        last = place.permuted([*outer, inner])
        return Place(last.base, (*[1] * lead, *last.shape), (*[0] * lead, *last.strides), last.offset)

    extra = [] if center is None else [lowering.memref(leading(center))]
    c = lowering.memref(leading(out))
    lowering.add(PoolOp(kind, lowering.memref(a), c, extra, _squares(center)), like)
