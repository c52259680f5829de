"""``gather`` along the last dim by constants: ``tile.gather``, and what follows it element by element.

Elements that are taken by more indices than a table of the code should have are gathered as well, by a weight, as those
of relative positions, of which each has a number for each head. What is gathered lies with the dims of the indices
last, as attention reads it.
"""

from __future__ import annotations

import math

from etir.backends.native.dialect import GroupOp
from etir.backends.native.gather import GatherOp
from etir.backends.native.lowering.function import Lowering, Outside, body, lowers, members, shape
from etir.backends.native.taken import indices_of, source_of
from etir.dialects.et.program import GetWeightOp
from etir.dialects.schema_op import SchemaOp


@lowers("gather")
def lower_gather(lowering: Lowering, group: GroupOp, outside: Outside) -> None:
    """One operation; the numbers are a weight of floats for code."""
    some = members(group)
    root, result = some[0], group.outputs[0]
    values = lowering.extras(group, [root.arg("index")], some[1:])
    region = body({v: i for i, v in enumerate(values, 1)}, 1 + len(values), some[1:], root.results[0])
    given, numbers = (lowering.memref(lowering.place(outside[root.arg(name)])) for name in ("self", "index"))
    extra = [lowering.memref(lowering.place(outside[v]).broadcast(shape(result))) for v in values]
    target = lowering.memref(lowering.result(result))
    lowering.add(GatherOp(given, numbers, target, extra, region), group)


def gathers(op: SchemaOp) -> bool:
    """Whether an operator takes elements by indices that are a weight."""
    found = indices_of(op)
    return found is not None and isinstance(found[1].owner, GetWeightOp)


def gather(lowering: Lowering, op: SchemaOp) -> None:
    """Elements of one dim, which is the last one while they are gathered."""
    found = indices_of(op)
    assert found is not None
    dim, index = found
    given, indices, result = lowering.place(source_of(op)), lowering.place(index), op.results[0]
    rank, count = len(given.shape), math.prod(indices.shape)
    order = [*(d for d in range(rank) if d != dim), dim]
    rows = tuple(given.shape[d] for d in order[:-1])
    made = None
    if lowering.has_place(result):
        whole = lowering.result(result, (*rows[:dim], count, *rows[dim:])).permuted(order)
        made = whole if whole.strides[-1] == 1 else None
    if made is None:  # What is gathered has to lie side by side.
        made = lowering.dense_buffer((*rows, count))
        back = made.permuted([*range(dim), rank - 1, *range(dim, rank - 1)])
        lowering.places[result] = lowering.viewed(back, shape(result), op)
    numbers = lowering.viewed(indices, (count,)).broadcast((*rows, count))
    table, at, to = (lowering.memref(place) for place in (given.permuted(order), numbers, made))
    lowering.add(GatherOp(table, at, to, [], body({}, 1, [])), op)
