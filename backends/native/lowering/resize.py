"""Images that become larger or smaller: by linear filters with ``tile.resize``, on an image with its channels side by
side or to planes of an output; to the nearest elements with a map or a table.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from etir.backends.api.patterns import operator_of
from etir.backends.native.asked import saves
from etir.backends.native.dialect import GroupOp
from etir.backends.native.functions import PLANES
from etir.backends.native.lowering.function import RESHAPES, Lowering, Outside, body, lowers, members, moves, shape
from etir.backends.native.lowering.take import take
from etir.backends.native.memory import is_image
from etir.backends.native.places import Place
from etir.backends.native.resize import ResizeOp
from etir.backends.native.taken import is_table, source_of
from etir.backends.native.tile import MapOp, YieldOp, body_of
from etir.dialects.schema_op import SchemaOp


def scales_of(op: SchemaOp) -> tuple[float, float]:
    """How many elements of the image a step of one in the result is, of rows and of columns, as torch has it: from the
    factors that the operator was asked for, else from sizes. All are float32.
    """
    import numpy as np

    if "input" in op.SCHEMA.index:
        factors = op.arg("scale_factors") or (None, None)
    else:
        factors = (op.arg("scales_h"), op.arg("scales_w"))

    def scale(given: int, made: int, factor: float | None) -> float:
        if op.arg("align_corners"):
            return float(np.float32(given - 1) / np.float32(made - 1)) if made > 1 else 0.0
        return float(np.float32(1.0 / factor) if factor else np.float32(given) / np.float32(made))

    sizes = zip(shape(image_of(op))[2:], shape(op.results[0])[2:], factors, strict=True)
    rows, columns = (scale(*size) for size in sizes)
    return rows, columns


def image_of(op: SchemaOp) -> SSAValue:
    """What is resized."""
    return op.arg("input" if "input" in op.SCHEMA.index else "self")


def _is_given_back(lowering: Lowering, value: SSAValue) -> bool:
    """Whether a tensor is an output that nothing else reads, perhaps under other dims. Outputs have planes, and what
    others read has channels side by side; where memory is short, they read it as they read an input of the program.
    """
    if value in lowering.outputs and saves(lowering.func, PLANES):
        return True
    while value not in lowering.outputs and value.has_one_use():
        (use,) = value.uses
        if not isinstance(use.operation, SchemaOp) or operator_of(use.operation) not in RESHAPES:
            return False
        value = use.operation.results[0]
    return value.has_one_use()


@lowers("resize")
def lower_resize(lowering: Lowering, group: GroupOp, outside: Outside) -> None:
    """One operation, and what follows it element by element."""
    some = members(group)
    root, result = some[0], group.outputs[0]
    values = lowering.extras(group, [], some[1:])
    region = body({v: i for i, v in enumerate(values, 1)}, 1 + len(values), some[1:], root.results[0])
    given = lowering.place(outside[image_of(root)])
    to_planes = _is_given_back(lowering, result)
    target = lowering.result(result) if to_planes else lowering.image(result)
    if not to_planes and not is_image(given):
        given = lowering.with_border(given, (0, 0), 0.0, root, apart=True).permuted([0, 3, 1, 2])

    def beside(value: SSAValue) -> Place:
        """An operand whose channels, or columns of planes, lie side by side or are one."""
        place = lowering.place(outside[value]).broadcast(shape(result))
        place = place if to_planes else place.permuted([0, 2, 3, 1])
        place = place if place.strides[-1] in (0, 1) else lowering.copy(place, like=root)
        return place.permuted([0, 2, 3, 1]) if to_planes else place

    extra = [lowering.memref(beside(value)) for value in values]
    a, c = (lowering.memref(place.permuted([0, 2, 3, 1])) for place in (given, target))
    aligned = bool(root.arg("align_corners"))
    lowering.add(ResizeOp(a, c, extra, scales_of(root), region, aligned=aligned), group)


@moves("aten.upsample_nearest2d.vec", "aten.upsample_nearest2d.default")
def upsample(lowering: Lowering, op: SchemaOp) -> None:
    """Every element several times, side by side and below each other; or the nearest ones."""
    if is_table(op):
        take(lowering, op)
        return
    place = lowering.place(source_of(op))
    n, c, h, w = place.shape
    result = op.results[0]
    _, _, rows, columns = shape(result)
    planes = result in lowering.outputs and saves(lowering.func, PLANES)
    target = lowering.result(result) if planes else lowering.image(result)
    dims = (n, c, h, rows // h, w, columns // w)
    to = target.viewed(dims)
    assert to is not None
    step = place.strides
    given = Place(place.base, dims, (step[0], step[1], step[2], 0, step[3], 0), place.offset)
    order = [0, 1, 2, 3, 4, 5] if planes else [0, 2, 3, 4, 5, 1]
    region = body_of(1)
    region.block.add_op(YieldOp(region.block.args[0]))
    lowering.add(MapOp(lowering.memref(to.permuted(order)), [lowering.memref(given.permuted(order))], region), op)
