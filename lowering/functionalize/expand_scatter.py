"""Putting a part of an expanded tensor back: some copy of an element was written, the others follow."""

from __future__ import annotations

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import i1, i64, ui8
from etir.dialects.et.layout import dims_of, tensor_type
from etir.lowering.functionalize.emitter import tensor_of
from etir.lowering.functionalize.view_chain import Step


def of_written_copies(step: Step, marks: SSAValue, expanded: list[int]) -> SSAValue:
    """Each element of the parent as the first copy of it that was written, if one was.

    ``marks`` has a bool for each element of the changed view. Elements are picked, not computed with: the sign of a
    zero and the bits of a NaN stay. Where several copies were written, all hold the same value.
    """
    emit, element, value = step.emit, step.type.element_type, step.new
    dims = list(dims_of(tensor_of(value)))
    if 0 in dims:
        return step.base()
    for dim in expanded:
        of = {"dim": dim, "keepdim": True}
        numbers = emit(aten._to_copy.default, tensor_type(ui8, dims), {"self": marks, "dtype": ui8})
        dims[dim] = 1
        first = emit(aten.argmax.default, tensor_type(i64, dims), {"self": numbers, **of})
        value = emit(aten.gather.default, tensor_type(element, dims), {"self": value, "dim": dim, "index": first})
        marks = emit(aten.any.dim, tensor_type(i1, dims), {"self": marks, **of})
    condition = emit.reshape(marks, tensor_type(i1, step.dims), step.base)
    picked = emit.reshape(value, step.type, step.base)
    return step.make(aten.where.self, condition=condition, self=picked, other=step.base())
