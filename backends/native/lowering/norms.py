"""Softmax and norms: of rows, of groups of channels, of the batch."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects import math as functions
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import SSAValue

from etir.backends.api.patterns import operator_of
from etir.backends.native.body import Body, rounded
from etir.backends.native.dialect import GroupOp
from etir.backends.native.lowering.function import Lowering, Outside, body, lowers, members, shape
from etir.backends.native.lowering.reductions import reduce_to, square_of_difference
from etir.backends.native.memory import is_image
from etir.backends.native.places import Place
from etir.backends.native.tile import MapOp, NormOp, SoftmaxOp, YieldOp, body_of, f32
from etir.dialects.schema_op import SchemaOp


@lowers("softmax")
def lower_softmax(lowering: Lowering, group: GroupOp, outside: Outside) -> None:
    """Rows along the dim, and their logarithm where that is wanted, or zeros for rows of minus infinities."""
    (op,) = members(group)
    given = lowering.place(outside[op.arg("self")])
    rank = len(given.shape)
    dim = op.arg("dim") % rank
    order = [*(d for d in range(rank) if d != dim), dim]
    x = lowering.side_by_side(given.permuted(order), op)
    log, safe = (operator_of(op) == name for name in ("aten._log_softmax.default", "aten._safe_softmax.default"))
    target = lowering.result(group.outputs[0])
    out = target.permuted(order)
    if out.strides[-1] != 1 and out.shape[-1] != 1:
        made = lowering.buffer(out.shape)
        lowering.add(SoftmaxOp(lowering.memref(x), lowering.memref(made), log, safe=safe), group)
        lowering.copy(made, out, op)
        return
    lowering.add(SoftmaxOp(lowering.memref(x), lowering.memref(out), log, safe=safe), group)


@lowers("norm")
def lower_norm(lowering: Lowering, group: GroupOp, outside: Outside) -> None:
    """Layer norms along the last dims."""
    op = members(group)[0]
    count = math.prod(op.arg("normalized_shape"))
    outer = shape(group.outputs[0])
    dims = (*outer[: len(outer) - len(op.arg("normalized_shape"))], count)
    out = lowering.result(group.outputs[0], dims)
    x = lowering.side_by_side(lowering.viewed(lowering.place(outside[op.arg("input")]), dims, op), op)
    parameters: list[SSAValue] = []
    for name in ("weight", "bias"):
        if op.arg(name) is not None:
            place = lowering.place(outside[op.arg(name)])
            dense = place if place.is_dense else lowering.copy(place)
            parameters.append(lowering.memref(lowering.viewed(dense, (count,), op)))
    eps = FloatAttr(rounded(op.arg("eps")), f32)
    scale = parameters.pop() if len(parameters) == 1 else None
    to = lowering.memref(out)
    lowering.add(NormOp(lowering.memref(x), to, parameters, eps), group)
    if scale is not None:
        # Without a shift, rows are multiplied where they are.
        region = body_of(2)
        build = Body(region.block, {})
        region.block.add_op(YieldOp(build.mul(*region.block.args)))
        row = Place(scale, out.shape, (*[0] * (len(out.shape) - 1), 1))
        lowering.add(MapOp(to, [to, lowering.memref(row)], region), group)


# --- norms of groups of channels --------------------------------------------------------------------------------------


@lowers("group_norm")
def lower_group_norm(lowering: Lowering, group: GroupOp, outside: Outside) -> None:
    """Group norm of [n, c, ...], and what follows it: the mean, then the mean square of the difference, then one walk.

    The walk has the dims [n, groups, channels of a group, ...], with two numbers for each group; ``kernels/map.py``
    does it along all channels. Where groups are single channels, or all of them, its dims are those of the image.
    """
    some = members(group)
    op = some[0]
    given = lowering.place(outside[op.arg("input")])
    groups = op.arg("group")
    n, c, *rest = given.shape
    each = c // groups
    parts = given.viewed((n, groups, each, *rest))
    assert parts is not None
    mean, variance = _statistics(lowering, parts, 2, op)
    weight, bias = (
        None if op.arg(name) is None else lowering.viewed(lowering.place(outside[op.arg(name)]), (groups, each), op)
        for name in ("weight", "bias")
    )
    factor = lowering.buffer((n, groups))
    is_scaled = each == 1 and weight is not None
    sources = [variance]
    if is_scaled and weight is not None:
        sources.append(weight.selected(1, 0).broadcast((n, groups)))
    region = body_of(len(sources))
    build = Body(region.block, {})
    square, *scale = region.block.args
    root = build.make(functions.SqrtOp, build.add(square, float(op.arg("eps"))))
    region.block.add_op(YieldOp(build.div(scale[0] if scale else build.constant(1.0), root)))
    lowering.add(MapOp(lowering.memref(factor), [lowering.memref(p) for p in sources], region), op)

    dims = (groups, each) if 1 < each < c else (c,)

    def seen(place: Place) -> Place:
        """An image [n, c, ...] with the dims of the walk."""
        found = place.broadcast(given.shape).viewed((n, *dims, *rest))
        assert found is not None
        return found

    result = group.outputs[0]
    target = lowering.image(result) if is_image(given) else lowering.result(result)
    one = (n, groups, *[1] * (len(dims) - 1 + len(rest)))
    whole = (1, *dims, *[1] * len(rest))
    operands = [seen(given)]
    for numbers, wanted in ((mean, one), (factor, one), (None if is_scaled else weight, whole), (bias, whole)):
        if numbers is not None:
            operands.append(lowering.viewed(numbers, wanted, op).broadcast(operands[0].shape))

    def normalized(build: Body, args: Sequence[SSAValue]) -> SSAValue:
        value, center, factor, *more = args[: len(operands)]
        if weight is not None and not is_scaled:
            factor = build.mul(more.pop(0), factor)
        found = build.mul(build.sub(value, center), factor)
        return build.add(found, more[0]) if more else found

    extras = lowering.extras(group, [], some[1:])
    values = {v: i for i, v in enumerate(extras, len(operands))}
    walked = [*operands, *(seen(lowering.place(outside[v])) for v in extras)]
    walk = body(values, len(walked), some[1:], op.results[0], normalized)
    lowering.add(MapOp(lowering.memref(seen(target)), [lowering.memref(p) for p in walked], walk), group)


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


def _statistics(lowering: Lowering, x: Place, kept: int, like: SchemaOp) -> tuple[Place, Place]:
    """Mean and variance of all but the first dims, of which so many are kept."""
    mean, variance = lowering.buffer(x.shape[:kept]), lowering.buffer(x.shape[:kept])
    reduce_to(lowering, "mean", x, mean, like)
    reduce_to(lowering, "mean", x, variance, like, square_of_difference(), mean)
    return mean, variance


def _normalize(
    lowering: Lowering, x: Place, to: Place, kept: int, affine: Sequence[Place | None], eps: float, like: SchemaOp
) -> None:
    """``to = (x - mean) / sqrt(variance + eps) * scale + shift`` with statistics over all but the first dims."""
    lead, rest = x.shape[:kept], [1] * (len(x.shape) - kept)
    mean, variance = _statistics(lowering, x, kept, like)

    def spread(place: Place) -> Place:
        found = place.viewed((*lead, *rest))
        assert found is not None
        return found.broadcast(x.shape)

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
