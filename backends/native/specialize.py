"""A function of ``tile`` with numbers in the place of its sizes: what it means where a call has these sizes."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Region, SSAValue

from etir.backends.native.flags import flags
from etir.backends.native.loop import LoopOp
from etir.backends.native.memory import cast_of
from etir.backends.native.places import Place
from etir.backends.native.sizes import valued
from etir.backends.native.sizes_attr import SizesAttr
from etir.backends.native.tile import dims_of_type, is_flags, memref, strides_of
from etir.backends.native.view import ViewOp


def specialized(func: FuncOp, values: Mapping[str, int]) -> FuncOp:
    """A copy of ``func`` for symbols with these values. Places and schedules stay; dims of it may be 0."""
    found = func.clone()
    found.location = func.location
    for new, old in zip(found.walk(), func.walk(), strict=True):
        new.location = old.location
    for op in list(found.walk()):
        for value in (*op.results, *(arg for region in op.regions for block in region.blocks for arg in block.args)):
            _retype(value, values)
    found.update_function_type()
    for op in list(found.walk()):
        if isinstance(op, ViewOp):
            _view(op, values)
        elif isinstance(op, LoopOp):
            _loop(op, values)
    return found


def type_at(type: Attribute, values: Mapping[str, int]) -> Attribute:
    """A memref's type with numbers."""
    if not isinstance(type, MemRefType) or not isinstance(type.layout, SizesAttr):
        return type
    shape, strides = ([valued(n, values) for n in row] for row in type.layout.rows)
    return flags(shape) if is_flags(type) else memref(shape, strides)


def _retype(value: SSAValue, values: Mapping[str, int]) -> None:
    type = type_at(value.type, values)
    if type != value.type:
        value._type = type  # pyright: ignore[reportPrivateUsage]


def _view(op: ViewOp, values: Mapping[str, int]) -> None:
    type = op.result.type
    shape, strides = dims_of_type(type), strides_of(type)
    cast = cast_of(Place(op.source, shape, strides, valued(op.start.rows[0][0], values)))
    cast.location = op.location
    parent = op.parent
    assert parent is not None
    parent.insert_op_before(cast, op)
    cast.results[0].name_hint = op.result.name_hint
    op.result.replace_all_uses_with(cast.results[0])
    parent.erase_op(op)


def _loop(op: LoopOp, values: Mapping[str, int]) -> None:
    counts = [valued(n, values) for n in op.extents]
    steps = [[valued(n, values) for n in row] for row in op.rows]
    body = op.body.detach_block(op.body.block)
    made = LoopOp(counts, [*op.inputs], [*op.outputs], [*op.locals], steps, Region(body))
    made.location = op.location
    parent = op.parent
    assert parent is not None
    parent.insert_op_before(made, op)
    parent.erase_op(op)
