"""``gather`` along the last dim by constants: ``tile.gather``, and what follows it element by element."""

from __future__ import annotations

from etir.backends.native.dialect import GroupOp
from etir.backends.native.gather import GatherOp
from etir.backends.native.lowering.function import Lowering, Outside, body, lowers, members, shape


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
