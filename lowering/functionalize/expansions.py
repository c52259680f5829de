"""Putting a part of an expanded tensor back: one copy of each element was changed, the others follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from etir.dialects.dtypes import BY_TYPE, i1
from etir.dialects.et.layout import dims_of, tensor_type
from etir.lowering.functionalize.emitter import tensor_of, with_element

if TYPE_CHECKING:
    from etir.lowering.functionalize.views import Step


def of_changed_copies(step: Step, expanded: list[int]) -> SSAValue:
    """Each element of the parent as the one copy of it that changed, if one did.

    What is written has no element twice, so that there is at most one: copies are compared with what they were, and
    summed up over the ``expanded`` dims with 0 for those that did not change.
    """
    emit, element, base = step.emit, step.type.element_type, step.base()
    flags, dims = with_element(tensor_of(step.new), i1), dims_of(tensor_of(step.new))
    old = emit.expand(base, dims, lambda: step.new)
    changed = emit("aten.ne.Tensor", flags, {"self": step.new, "other": old})
    if BY_TYPE[element].is_float:
        hidden = [emit("aten.isnan.default", flags, {"self": v}) for v in (step.new, old)]
        same = emit("aten.logical_and.default", flags, {"self": hidden[0], "other": hidden[1]})
        visible = emit("aten.logical_not.default", flags, {"self": same})
        changed = emit("aten.logical_and.default", flags, {"self": changed, "other": visible})
    kept = [d for i, d in enumerate(dims) if i not in expanded]
    flag_type, type = tensor_type(i1, kept), tensor_type(element, kept)
    any_changed = emit("aten.any.dims", flag_type, {"self": changed, "dim": expanded, "keepdim": False})
    if element == i1:
        true = emit("aten.logical_and.default", flags, {"self": changed, "other": step.new})
        picked = emit("aten.any.dims", flag_type, {"self": true, "dim": expanded, "keepdim": False})
    else:
        zeros = emit("aten.zeros_like.default", tensor_of(step.new), {"self": step.new})
        only = {"condition": changed, "self": step.new, "other": zeros}
        copies = emit("aten.where.self", tensor_of(step.new), only)
        total = {"self": copies, "dim": expanded, "keepdim": False, "dtype": element}
        picked = emit("aten.sum.dim_IntList", type, total)
    parent = tensor_type(i1, step.dims)
    condition, values = emit.reshape(any_changed, parent, step.base), emit.reshape(picked, step.type, step.base)
    return step.make("aten.where.self", condition=condition, self=values, other=base)
