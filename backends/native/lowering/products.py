"""Products of matrices, with what follows them in the tile."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from etir.backends.api.patterns import operator_of
from etir.backends.native.body import Body
from etir.backends.native.dialect import GroupOp
from etir.backends.native.kernels.brgemm import panel_for
from etir.backends.native.lowering.function import Lowering, Outside, body, lowers, members, shape
from etir.backends.native.places import Place
from etir.backends.native.tile import BrgemmOp, PackOp, memref


@lowers("product")
def lower_product(lowering: Lowering, group: GroupOp, outside: Outside) -> None:
    """A product of a matrix of rows and one of columns in panels."""
    some = members(group)
    root = some[0]
    name = operator_of(root).split(".")[1]
    bias: SSAValue | None = None
    match name:
        case "linear":
            left, right, bias = root.arg("input"), root.arg("weight"), root.arg("bias")
        case "addmm":
            left, right, bias = root.arg("mat1"), root.arg("mat2"), root.arg("self")
        case _:
            left, right = root.arg("self"), root.arg("mat2")
    extras = lowering.extras(group, [], some[1:])
    if bias is not None:
        extras = list(dict.fromkeys([bias, *extras]))
    dims = shape(group.outputs[0])
    places = [lowering.place(outside[v]).broadcast(dims) for v in extras]
    if name == "bmm":
        lead = _lead(lowering, outside[left], outside[right])
        a, columns = (_batch(lowering, outside[v], lead) for v in (left, right))
        dims = (*lead, *dims[-2:])
        places = [lowering.viewed(p, dims, root) for p in places]
    else:
        a, columns = lowering.place(outside[left]), None
    a = lowering.side_by_side(a, root)
    if name != "bmm":
        # Leading dims become rows.
        dims = (math.prod(dims[:-1]), dims[-1])
        a, *places = [lowering.viewed(p, (dims[0], p.shape[-1]), root) for p in (a, *places)]
    target = lowering.result(group.outputs[0], dims)
    places = [p if p.strides[-1] in (0, 1) else lowering.copy(p, like=root) for p in places]
    b = _panels(lowering, outside[right], columns, transposed=name == "linear", like=root)

    def after(made: Body, args: Sequence[SSAValue]) -> SSAValue:
        return args[0] if bias is None else made.add(args[0], made.values[bias])

    values = {v: i + 1 for i, v in enumerate(extras)}
    region = body(values, 1 + len(extras), some[1:], root.results[0], after)
    operands = [lowering.memref(p) for p in places]
    lowering.add(BrgemmOp(lowering.memref(a), b, lowering.memref(target), operands, region), group)


def _lead(lowering: Lowering, left: SSAValue, right: SSAValue) -> tuple[int, ...]:
    """The dims of the batch: those that it is made of where an operand cannot be viewed under one, as heads of several
    examples that lie side by side in each row.
    """
    known = [lowering.batches[v] for v in (left, right) if v in lowering.batches and v not in lowering.places]
    for place in known:
        lead = place.shape[:-2]
        if all(other.viewed((*lead, *other.shape[-2:])) is not None for other in known):
            return lead
    return shape(left)[:-2]


def _batch(lowering: Lowering, value: SSAValue, lead: tuple[int, ...]) -> Place:
    """An operand with these dims of the batch."""
    dims = (*lead, *shape(value)[-2:])
    place = lowering.batches.get(value)
    seen = None if place is None or value in lowering.places else place.viewed(dims)
    return seen or lowering.viewed(lowering.place(value), dims)


def _panels(lowering: Lowering, value: SSAValue, batch_of: Place | None, transposed: bool, like: Operation) -> SSAValue:
    """A right operand in panels: packed ahead of time if it is a weight, else by an operation, once."""
    panel = lowering.panel
    if value in lowering.weights and len(shape(value)) == 2:
        n, k = shape(value) if transposed else shape(value)[::-1]
        return lowering.weight(lowering.weights[value], memref((-(-n // panel), k, panel)), panel, transposed)
    place = batch_of or lowering.place(value)
    rank = len(place.shape)
    if transposed:
        place = place.permuted([*range(rank - 2), rank - 1, rank - 2])
    key = (place.base, place.shape, place.strides, place.offset)
    if key not in lowering.packed:
        *batch, k, n = place.shape
        panel = panel_for(lowering.target, n)
        to = lowering.buffer((*batch, -(-n // panel), k, panel))
        lowering.packed[key] = lowering.memref(to)
        lowering.add(PackOp(lowering.memref(place), lowering.packed[key]), like)
    return lowering.packed[key]
