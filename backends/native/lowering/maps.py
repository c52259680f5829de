"""Elementwise operators."""

from __future__ import annotations

from etir.backends.native.asked import saves
from etir.backends.native.body import Body
from etir.backends.native.dialect import GroupOp
from etir.backends.native.lowering.function import Lowering, Outside, body, lowers, members, moves, shape
from etir.backends.native.lowering.orders import reordered, result_in_order, turned
from etir.backends.native.memory import is_image
from etir.backends.native.tile import MapOp, YieldOp, body_of
from etir.dialects.schema_op import SchemaOp


@lowers("map")
def lower_map(lowering: Lowering, group: GroupOp, outside: Outside) -> None:
    """One walk over all elements.

    The result is an image where an input of the same shape is. Where the first such input is all of a buffer, in which
    its dims lie in another order, they do so in the result (``orders.py``); where elements of the last dim lie side by
    side in both orders, as in heads of attention, if memory is to be saved.
    """
    some = members(group)
    extras = lowering.extras(group, [], some)
    result = group.outputs[0]
    places = [lowering.place(outside[v]) for v in extras]
    images = [p for p in places if is_image(p) and p.shape == shape(result)]
    like = next((p for p in places if p.shape == shape(result)), None)
    order = None if like is None else turned(like)
    if images:
        target = lowering.image(result)
    elif like is not None and order is not None and like.permuted(order).is_dense:
        target = result_in_order(lowering, result, order, shape(result))
    elif like is not None and (rows := reordered(like)) is not None and saves(lowering.func, "heads"):
        target = result_in_order(lowering, result, rows, shape(result))
    else:
        target = lowering.result(result)
    inputs = [lowering.memref(p.broadcast(target.shape)) for p in places]
    region = body({v: i for i, v in enumerate(extras)}, len(extras), some)
    lowering.add(MapOp(lowering.memref(target), inputs, region), group)


@moves("aten.glu.default")
def lower_glu(lowering: Lowering, op: SchemaOp) -> None:
    """The first half times the sigmoid of the second one."""
    place = lowering.place(op.arg("self"))
    dim = op.arg("dim") % len(place.shape)
    half = shape(op.results[0])[dim]
    values = [lowering.memref(place.sliced(dim, start, half)) for start in (0, half)]
    region = body_of(2)
    made = Body(region.block, {})
    first, second = region.block.args
    region.block.add_op(YieldOp(made.mul(first, made.sigmoid(second))))
    result = op.results[0]
    target = lowering.image(result) if is_image(place) else lowering.result(result)
    lowering.add(MapOp(lowering.memref(target), values, region), op)
