"""Views: another type at a place of the same memory where that is known, a call of ``et_view`` where it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute, SSAValue

from etir.dialects.backend.ops import ViewOp
from etir.dialects.dtypes import dtype_of
from etir.dialects.et.arguments import OPERAND
from etir.dialects.et.layout import dims_of, is_static, tensor_type
from etir.dialects.et.values import SIZES, BufferOp
from etir.dialects.et.values import ViewOp as ValueViewOp
from etir.lowering.to_out_variant.calls import ArgumentList, copy_call, view_call
from etir.lowering.to_out_variant.places import elements, is_dynamic, is_unplanned, start_in

if TYPE_CHECKING:
    from etir.lowering.to_out_variant.method import MethodLowering


def lower_view(lowering: MethodLowering, op: ViewOp) -> SSAValue:
    """The value of a view; a call stands for it where the place or the sizes are not known."""
    base = lowering.lower(op.base)
    type, dynamic = lowering.bounded(op.result.type, op.result)
    assert isinstance(type, TensorType)
    dynamic = "bound" if dynamic is not None else None  # Its memory is that of its base, however that is made.
    offset = op.byte_offset
    owner = base.owner
    placed = isinstance(owner, (BufferOp, ValueViewOp)) and not is_unplanned(owner)
    if op.reinterprets and not (placed and start_in(base) % dtype_of(type.element_type).itemsize == 0):
        # et_view keeps the element type, and an element starts at a multiple of its size: the bytes get a place.
        placed, whole = True, lowering.define(BufferOp(base.type), op)
        lowering.emit(copy_call(whole, base, dynamic=False), op)
        base = whole
    if placed and dynamic is None and not is_dynamic(base):
        return lowering.define(ValueViewOp(base, type, offset), op.result)
    if offset or (is_static(cast(Any, op.base.type)) and elements(op.base.type) != elements(type)):
        return _copied_part(lowering, op, base, type)
    late = ValueViewOp(base, type, dynamic=dynamic, late=True)
    if dynamic is not None:
        late.attributes[SIZES] = sizes_text(op.result.type)
    view = lowering.define(late, op.result)
    named = iter([lowering.literal_or_value(v) for v in op.sizes])
    sizes: list[object] = [d if isinstance(d, int) else next(named, -1) for d in dims_of(cast(Any, op.result.type))]
    lowering.emit(view_call(base, sizes, view), op)
    return view


def _copied_part(lowering: MethodLowering, op: ViewOp, base: SSAValue, type: TensorType[Attribute]) -> SSAValue:
    """Part of a tensor whose offset is dynamic: ``et_view`` shows everything or nothing, so that the
    part is copied out of the flat tensor.
    """
    count, total = elements(type), elements(base.type)
    flat = lowering.define(ValueViewOp(base, tensor_type(type.element_type, [total]), late=True), op)
    lowering.emit(view_call(base, [total], flat), op)
    part = lowering.define(BufferOp(tensor_type(type.element_type, [count])), op)
    arguments = ArgumentList.empty()
    for item in (flat, 0, op.element_offset, op.element_offset + count, 1, part):
        arguments.add(item)
    lowering.emit(arguments.call("aten::slice_copy.Tensor_out", (OPERAND,), [part]), op)
    return lowering.define(ValueViewOp(part, type), op.result)


def sizes_text(type: Attribute) -> StringAttr:
    """The dims of a tensor type as text."""
    return StringAttr(", ".join(map(str, dims_of(cast("TensorType[Attribute]", type)))))
