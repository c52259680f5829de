"""``cumsum``: ``tile.scan``, with vectors along what lies side by side where that is another dim."""

from __future__ import annotations

from etir.backends.native.dialect import GroupOp
from etir.backends.native.lowering.function import Lowering, Outside, lowers, members, shape
from etir.backends.native.lowering.orders import result_in_order, turned
from etir.backends.native.places import Place
from etir.backends.native.scan import ScanOp


@lowers("scan")
def lower_scan(lowering: Lowering, group: GroupOp, outside: Outside) -> None:
    """Running sums in an image whose channels lie side by side, or in rows."""
    (op,) = members(group)
    x = lowering.place(outside[op.arg("self")])
    value, rank = group.outputs[0], len(x.shape)
    dim, wanted = op.arg("dim") % rank, shape(value)
    order = turned(x)
    out = lowering.result(value, wanted) if order is None else result_in_order(lowering, value, order, wanted)
    beside = [d for d in range(rank) if d != dim and x.shape[d] != 1 and x.strides[d] == 1 and out.strides[d] == 1]
    others = [d for d in range(rank) if d != dim and d not in beside[:1]]

    def turned_to(place: Place) -> Place:
        seen = place.permuted([*others, dim, *beside[:1]])
        return seen if beside else Place(seen.base, (*seen.shape, 1), (*seen.strides, 1), seen.offset)

    lowering.add(ScanOp(lowering.memref(turned_to(x)), lowering.memref(turned_to(out))), group)
