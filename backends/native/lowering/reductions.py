"""Softmax, norms and reductions.

A reduction along the dims that lie innermost is ``tile.reduce``; one that leaves the innermost dim is a window of
``tile.pool``, whose vectors go along what is left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects import math as functions
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Operation, Region, SSAValue

from etir.backends.api.patterns import operator_of
from etir.backends.native.dialect import GroupOp
from etir.backends.native.elementwise import Body
from etir.backends.native.lowering.function import Lowering, Outside, lowers, members, shape
from etir.backends.native.lowering.images import identity
from etir.backends.native.memory import is_image
from etir.backends.native.places import Place
from etir.backends.native.tile import (
    MapOp,
    NormOp,
    PoolOp,
    ReduceOp,
    SoftmaxOp,
    YieldOp,
    body_of,
    f32,
)
from etir.dialects.schema_op import SchemaOp

KINDS = {
    "aten.mean.dim": "mean",
    "aten.sum.dim_IntList": "sum",
    "aten.amax.default": "max",
    "aten.amin.default": "min",
}
"""Reductions to how they combine elements."""


@lowers("softmax")
def lower_softmax(lowering: Lowering, group: GroupOp, outside: Outside) -> None:
    """Rows along the dim, and their logarithm where that is wanted."""
    (op,) = members(group)
    given = lowering.place(outside[op.arg("self")])
    rank = len(given.shape)
    dim = op.arg("dim") % rank
    order = [*(d for d in range(rank) if d != dim), dim]
    x = lowering.side_by_side(given.permuted(order), op)
    log = operator_of(op) == "aten._log_softmax.default"
    target = lowering.result(group.outputs[0])
    out = target.permuted(order)
    if out.strides[-1] != 1 and out.shape[-1] != 1:
        made = lowering.buffer(out.shape)
        lowering.add(SoftmaxOp(lowering.memref(x), lowering.memref(made), log), group)
        lowering.copy(made, out, op)
        return
    lowering.add(SoftmaxOp(lowering.memref(x), lowering.memref(out), log), group)


@lowers("norm")
def lower_norm(lowering: Lowering, group: GroupOp, outside: Outside) -> None:
    """Layer norms along the last dims."""
    op = members(group)[0]
    count = math.prod(op.arg("normalized_shape"))
    outer = shape(group.outputs[0])
    dims = (*outer[: len(outer) - len(op.arg("normalized_shape"))], count)
    out = lowering.result(group.outputs[0], dims)
    x = lowering.viewed(lowering.side_by_side(lowering.place(outside[op.arg("input")]), op), dims, op)
    parameters: list[SSAValue] = []
    for name in ("weight", "bias"):
        if op.arg(name) is not None:
            place = lowering.place(outside[op.arg(name)])
            dense = place if place.is_dense else lowering.copy(place)
            parameters.append(lowering.memref(lowering.viewed(dense, (count,), op)))
    eps = FloatAttr(float(op.arg("eps")), f32)
    lowering.add(NormOp(lowering.memref(x), lowering.memref(out), parameters, eps), group)


# --- reductions -------------------------------------------------------------------------------------------------------


@lowers("reduce")
def lower_reduce(lowering: Lowering, group: GroupOp, outside: Outside) -> None:
    """One number for all elements of some dims."""
    (op,) = members(group)
    place = lowering.place(outside[op.arg("self")])
    rank = len(place.shape)
    dims = sorted({d % rank for d in op.arg("dim") or range(rank)})
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
        inner = [d for d in range(kept) if x.strides[d] == 1 and x.shape[d] > 1][0]
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
    found = [d for d in range(kept) if x.strides[d] == 1 and x.shape[d] > 1]
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


# --- norms of groups of channels --------------------------------------------------------------------------------------


@lowers("group_norm")
def lower_group_norm(lowering: Lowering, group: GroupOp, outside: Outside) -> None:
    """Group norm of [n, c, ...]: the mean, then the mean square of the difference, then a scale and a shift."""
    op = members(group)[0]
    given = lowering.place(outside[op.arg("input")])
    groups = op.arg("group")
    n, c, *rest = given.shape
    parts = given.viewed((n, groups, c // groups, *rest))
    assert parts is not None
    parameters = [op.arg(name) for name in ("weight", "bias")]
    places = [None if v is None else lowering.place(outside[v]) for v in parameters]
    result = group.outputs[0]
    target = lowering.image(result) if is_image(given) else lowering.result(result)
    to = target.viewed(parts.shape)
    assert to is not None
    ones = [1] * len(rest)
    affine = [
        None if p is None else lowering.viewed(p, (groups, c // groups, *ones), op).broadcast(parts.shape)
        for p in places
    ]
    _normalize(lowering, parts, to, 2, affine, float(op.arg("eps")), op)


@lowers("batch_norm")
def lower_batch_norm(lowering: Lowering, group: GroupOp, outside: Outside) -> None:
    """Batch norm with the statistics of the batch."""
    op = members(group)[0]
    given = lowering.place(outside[op.arg("input")])
    result = group.outputs[0]
    target = lowering.image(result) if is_image(given) else lowering.result(result)
    rank = len(given.shape)
    order = [1, 0, *range(2, rank)]
    x, to = given.permuted(order), target.permuted(order)
    ones = [1] * (rank - 1)
    affine: list[Place | None] = []
    for name in ("weight", "bias"):
        value = op.arg(name)
        place = None if value is None else lowering.place(outside[value])
        affine.append(None if place is None else lowering.viewed(place, (x.shape[0], *ones), op).broadcast(x.shape))
    _normalize(lowering, x, to, 1, affine, float(op.arg("eps")), op)


def _normalize(
    lowering: Lowering, x: Place, to: Place, kept: int, affine: Sequence[Place | None], eps: float, like: SchemaOp
) -> None:
    """``to = (x - mean) / sqrt(variance + eps) * scale + shift`` with statistics over all but the first dims."""
    lead, rest = x.shape[:kept], [1] * (len(x.shape) - kept)
    mean, variance = lowering.buffer(lead), lowering.buffer(lead)
    reduce_to(lowering, "mean", x, mean, like)

    def spread(place: Place) -> Place:
        found = place.viewed((*lead, *rest))
        assert found is not None
        return found.broadcast(x.shape)

    reduce_to(lowering, "mean", x, variance, like, mean)
    operands = [x, spread(mean), spread(variance), *(p for p in affine if p is not None)]
    region = body_of(len(operands))
    args = iter(region.block.args)
    build = Body(region.block, {})
    value, center, square = next(args), next(args), next(args)
    result = build.div(build.sub(value, center), build.make(functions.SqrtOp, build.add(square, eps)))
    if affine[0] is not None:
        result = build.mul(result, next(args))
    if affine[1] is not None:
        result = build.add(result, next(args))
    region.block.add_op(YieldOp(result))
    lowering.add(MapOp(lowering.memref(to), [lowering.memref(p) for p in operands], region), like)
