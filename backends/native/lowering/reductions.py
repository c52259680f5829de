"""Reductions: one number for all elements of some dims.

A reduction along the dims that lie innermost is ``tile.reduce``; one that leaves the innermost dim is a window of
``tile.pool``, whose vectors go along what is left. Where the innermost dim is one of an image's channels, and columns,
rows and images are reduced, as by the norms of a batch or of a group, that is done one dim after another: what is
between them is as many times smaller as the dim is long, while a copy of the image with the dims in another order would
take its memory once more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Operation, Region, SSAValue

from etir.backends.native.body import Body
from etir.backends.native.dialect import GroupOp
from etir.backends.native.folds import Each, folds_of, reduced_dims
from etir.backends.native.kernels.loops import collapsed
from etir.backends.native.lowering.function import Lowering, Outside, lowers, members
from etir.backends.native.lowering.orders import result_in_order, turned
from etir.backends.native.places import Place
from etir.backends.native.sizes import is_known
from etir.backends.native.tile import MapOp, PoolOp, ReduceOp, YieldOp, body_of, identity

MOST_AS_ONE = 1 << 16
"""Elements of one number that one thread combines in less time than several take to begin."""
LANES = 8
"""Elements side by side that are worth vectors; fewer are copied to where more are."""


@lowers("reduce")
def lower_reduce(lowering: Lowering, group: GroupOp, outside: Outside) -> None:
    """One number for all elements of some dims: the walks of ``folds.py``, and what is made of what they find."""
    (op,) = members(group)
    place = lowering.place(outside[op.arg("self")])
    along = reduced_dims(op)
    kept = [d for d in range(len(place.shape)) if d not in along]
    wanted = [place.shape[d] for d in kept]
    order = turned(place.permuted(kept))
    value = group.outputs[0]
    out = lowering.result(value, wanted) if order is None else result_in_order(lowering, value, order, wanted)
    x = place.permuted([*kept, *_as_they_lie(place, along)])
    folds = folds_of(op)
    found: list[Place] = []
    for number, walk in enumerate(folds.walks):
        is_last = number == len(folds.walks) - 1 and (folds.result is None or turned(out) == order)
        to = out if is_last else _in_order(lowering, wanted, order)
        center = found[0] if walk.center else None
        each = identity() if walk.each is None else _body(walk.each, 1 if center is None else 2)
        reduce_to(lowering, walk.kind, x, to, op, each, center)
        if walk.then is not None:
            _made_of(lowering, group, walk.then, [to], to)
        found.append(to)
    if folds.result is not None:
        _made_of(lowering, group, folds.result, found, out)


def _as_they_lie(place: Place, some: Sequence[int]) -> list[int]:
    """Dims that are reduced, in whatever order: the innermost last, so that they are one dim more often. Where threads
    are worth it, each of several dims is one operation that they share.
    """
    if not is_known([n for d in some for n in (place.shape[d], place.strides[d])]):
        return [*some]
    if math.prod(place.shape[d] for d in some) > MOST_AS_ONE:
        return [*some]
    return sorted(some, key=lambda d: -place.strides[d])


def _in_order(lowering: Lowering, shape: Sequence[int], order: Sequence[int] | None) -> Place:
    """New memory whose dims lie in an order, that of what is reduced: vectors go along what lies side by side there."""
    if order is None:
        return lowering.buffer(shape)
    return lowering.dense_buffer(tuple(shape[d] for d in order)).permuted([order.index(d) for d in range(len(order))])


def _body(each: Each, count: int) -> Region:
    """A body of ``count`` numbers."""
    region = body_of(count)
    build = Body(region.block, {})
    region.block.add_op(YieldOp(each(build, region.block.args)))
    return region


def _made_of(lowering: Lowering, group: GroupOp, each: Each, found: Sequence[Place], out: Place) -> None:
    """Numbers of others of the same dims."""
    inputs = [lowering.memref(place) for place in found]
    lowering.add(MapOp(lowering.memref(out), inputs, _body(each, len(inputs))), group)


def square_of_difference() -> Region:
    """The square of the difference of an element from a number."""

    def each(build: Body, values: Sequence[SSAValue]) -> SSAValue:
        off = build.sub(values[0], values[1])
        return build.mul(off, off)

    return _body(each, 2)


def reduce_to(
    lowering: Lowering,
    kind: str,
    x: Place,
    out: Place,
    like: Operation,
    each: Region | None = None,
    center: Place | None = None,
) -> None:
    """Reduce the last dims of ``x``, those that ``out`` does not have: its elements, or what the body ``each`` makes of
    them, and of ``center``, which has the dims of ``out``.
    """
    each = identity() if each is None else each
    kept = len(out.shape)
    if kept and _lies_along(x, out):
        inner = [d for d in range(kept) if x.strides[d] == 1 and x.shape[d] != 1][0]
        _as_windows(lowering, kind, x, out, inner, like, center, each)
        return
    if (dim := _first_of_several(x, kept)) is not None:
        part = _without(lowering, kind, x, dim, kept, like, center, each)
        reduce_to(lowering, kind, part, out, like)
        return
    flat = lowering.viewed(x, (*out.shape, math.prod(x.shape[kept:])), like)
    flat = lowering.side_by_side(flat, like)
    extra: list[SSAValue] = []
    if center is not None:
        extra.append(lowering.memref(Place(center.base, flat.shape, (*center.strides, 0), center.offset)))
    lowering.add(ReduceOp(kind, lowering.memref(flat), lowering.memref(out), extra, each), like)


def _lies_along(x: Place, out: Place) -> bool:
    """Whether elements of a dim that is kept lie side by side, in the result too."""
    kept = len(out.shape)
    found = [d for d in range(kept) if x.strides[d] == 1 and x.shape[d] != 1]
    return bool(found) and out.strides[found[0]] == 1 and len(x.shape) - kept <= 2


def _first_of_several(x: Place, kept: int) -> int | None:
    """The dim that is reduced first where the elements of another one lie side by side, and no view has those of a
    result so; None where one operation does it, or where too few lie side by side.
    """
    if not is_known((*x.shape, *x.strides)):
        return None
    flat = x.viewed((*x.shape[:kept], math.prod(x.shape[kept:])))
    if flat is not None and (flat.strides[-1] in (0, 1) or flat.shape[-1] == 1):
        return None
    lanes = [d for d, n in enumerate(x.shape) if n != 1 and x.strides[d] == 1]
    others = [d for d in range(kept, len(x.shape)) if x.shape[d] != 1 and d not in lanes]
    if len(lanes) != 1 or not others:
        return None
    first = min(others, key=lambda d: (x.strides[d], d))
    order = _by_stride(x, first)
    dims, _ = collapsed([x.shape[d] for d in order], [[x.strides[d] for d in order]])
    return first if dims[-1] >= LANES else None


def _by_stride(x: Place, without: int) -> list[int]:
    """The dims but one, the innermost last."""
    return sorted((d for d in range(len(x.shape)) if d != without), key=lambda d: (-x.strides[d], d))


def _without(
    lowering: Lowering, kind: str, x: Place, dim: int, kept: int, like: Operation, center: Place | None, each: Region
) -> Place:
    """``x`` reduced along one dim, which is gone: new memory in which dims lie in the order that they have in ``x``."""
    order = _by_stride(x, dim)
    shape = [x.shape[d] for d in order]
    made = lowering.buffer(shape)
    rows = [[x.strides[d] for d in order], [*made.strides]]
    if center is not None:
        # With an element for each of those that lie side by side, so that vectors of it are loaded, too.
        inner = [d for d in range(len(x.shape)) if d < kept or x.strides[d] == 1]
        more = [x.shape[d] for d in inner[kept:]]
        center = Place(center.base, (*center.shape, *more), (*center.strides, *[0] * len(more)), center.offset)
        center = lowering.copy(center, like=like) if more else center
        of = dict(zip(inner, center.strides, strict=True))
        rows.append([of.get(d, 0) for d in order])
    dims, steps = collapsed(shape, rows)
    taps, stride = x.shape[dim], x.strides[dim]
    of_x = Place(x.base, (*dims, taps), (*steps[0], stride), x.offset)
    to = Place(made.base, tuple(dims), tuple(steps[1]), made.offset)
    middle = None if center is None else Place(center.base, tuple(dims), tuple(steps[2]), center.offset)
    _as_windows(lowering, kind, of_x, to, len(dims) - 1, like, middle, each)
    left = [d for d in range(len(x.shape)) if d != dim]
    return made.permuted([order.index(d) for d in left])


def _as_windows(
    lowering: Lowering,
    kind: str,
    x: Place,
    out: Place,
    inner: int,
    like: Operation,
    center: Place | None,
    each: Region,
) -> None:
    kept = len(out.shape)
    outer = [d for d in range(kept) if d != inner]
    if center is not None and center.shape[inner] != 1 and center.strides[inner] not in (0, 1):
        order = [*outer, inner]
        dense = _in_order(lowering, center.shape, order)
        center = lowering.copy(center, dense, like)
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
    lowering.add(PoolOp(kind, lowering.memref(a), c, extra, each), like)
