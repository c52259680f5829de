"""Operators that view or change each tensor of a list, as one operator for each tensor.

``broadcast_tensors``, ``meshgrid`` and the list forms of ``atleast_1d``, ``atleast_2d`` and ``atleast_3d`` say nothing
of aliases in their schemas, and their results share memory with their operands one by one. The walk over a method
knows views and changes of one tensor only, so these, and the in-place ones of ``_foreach_*``, are decomposed before
it. So is ``einsum`` of one tensor without a sum, which is a permutation, or a diagonal, of that tensor itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from etir.dialects.aten import ops as aten
from etir.dialects.aten.base import aten_op
from etir.dialects.et.layout import dims_of, tensor_type
from etir.dialects.schema_op import SchemaOp
from etir.lowering.build.equations import parse_equation
from etir.lowering.build.foreach import PREFIX, arguments_of_one, single_operator
from etir.lowering.functionalize.emitter import Emitter, SymInt, Tensor, tensor_of
from etir.lowering.functionalize.mutations import mutates


def take_lists_apart(method: FuncOp, emit: Emitter) -> None:
    """Replace the operators of this file in ``method`` by views of single tensors."""
    for op in list(method.walk()):
        if not isinstance(op, SchemaOp):
            continue
        emit.at(op)
        if op.name.startswith(PREFIX) and mutates(op):
            _change_each(op, emit)
        if op.name == EINSUM:
            _permute_one(op, emit)
        if op.name not in LISTS:
            continue
        tensors: Sequence[SSAValue] = op.arg("tensors")
        for index, (tensor, result) in enumerate(zip(tensors, op.results, strict=True)):
            value = LISTS[op.name](emit, op, tensors, tensor, index)
            value.name_hint = result.name_hint
            result.replace_all_uses_with(value)
        Rewriter.erase_op(op)


def _change_each(op: SchemaOp, emit: Emitter) -> None:
    """Replace ``_foreach_add_`` of lists by ``add_`` of their items; one without such an operator stays."""
    one = single_operator(op.SCHEMA)
    if one is None or op.results:
        return
    given: dict[str, Any] = op.args()
    changed = one.arguments[0].name
    for index in range(len(given[op.SCHEMA.arguments[0].name])):
        arguments = arguments_of_one(one, op.SCHEMA, given, index)
        emit.results(aten_op(one.op_name), arguments, [arguments[changed].type])
    Rewriter.erase_op(op)


def _permute_one(op: SchemaOp, emit: Emitter) -> None:
    """Replace ``einsum`` of one tensor by views of it; one that sums, or multiplies, stays."""
    tensors: Sequence[SSAValue] = op.arg("tensors")
    if len(tensors) != 1:
        return
    value, dims = tensors[0], list(dims_of(tensor_of(tensors[0])))
    element = tensor_of(value).element_type
    equation = parse_equation(op.arg("equation"), [len(dims)])
    labels = list(equation.inputs[0])
    if set(labels) != set(equation.output):
        return
    for label in equation.output:
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            kept = [i for i in range(len(labels)) if i not in (first, second)]
            dims, labels = [*(dims[i] for i in kept), dims[first]], [*(labels[i] for i in kept), label]
            given = {"self": value, "offset": 0, "dim1": first, "dim2": second}
            value = emit(aten.diagonal.default, tensor_type(element, dims), given)
    order = [labels.index(label) for label in equation.output]
    type = tensor_type(element, [dims[i] for i in order])
    value = emit(aten.permute.default, type, {"self": value, "dims": order})
    value.name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(value)
    Rewriter.erase_op(op)


def _expanded(emit: Emitter, tensor: SSAValue, type: Tensor, sources: Sequence[SSAValue]) -> SSAValue:
    """``tensor`` expanded to the dims of ``type``; each runtime size is that of a source."""
    sizes: list[SymInt] = []
    for dim in dims_of(type):
        if isinstance(dim, int):
            sizes.append(dim)
        else:
            found = ((s, i) for s in sources for i, d in enumerate(dims_of(tensor_of(s))) if d == dim)
            sizes.append(emit.size(*next(found)))
    plain = tensor_type(type.element_type, dims_of(type))
    return emit(aten.expand.default, plain, {"self": tensor, "size": sizes})


def _broadcast(emit: Emitter, op: SchemaOp, tensors: Sequence[SSAValue], tensor: SSAValue, index: int) -> SSAValue:
    return _expanded(emit, tensor, tensor_of(op.results[index]), tensors)


def _grid(emit: Emitter, op: SchemaOp, tensors: Sequence[SSAValue], tensor: SSAValue, index: int) -> SSAValue:
    """One axis of ``meshgrid``: along dim ``index``, the first two exchanged for ``indexing="xy"``."""
    type, swapped = tensor_of(op.results[index]), "indexing" in op.SCHEMA.index and op.arg("indexing") == "xy"
    place = 1 - index if swapped and index < 2 and len(tensors) > 1 else index
    dims = [d if i == place else 1 for i, d in enumerate(dims_of(type))]
    sizes = [-1 if i == place else 1 for i in range(len(dims))]
    line = emit(aten.view.default, tensor_type(type.element_type, dims), {"self": tensor, "size": sizes})
    return _expanded(emit, line, type, tensors)


def _at_least(emit: Emitter, op: SchemaOp, tensors: Sequence[SSAValue], tensor: SSAValue, index: int) -> SSAValue:
    return emit(aten_op(f"aten.{op.SCHEMA.name}.default"), op.results[index].type, {"self": tensor})


EINSUM = "aten.einsum.default"
"""Of one tensor it may be a view."""

LISTS: dict[str, Callable[[Emitter, SchemaOp, Sequence[SSAValue], SSAValue, int], SSAValue]] = {
    "aten.broadcast_tensors.default": _broadcast,
    "aten.meshgrid.default": _grid,
    "aten.meshgrid.indexing": _grid,
    **{f"aten.atleast_{n}d.Sequence": _at_least for n in (1, 2, 3)},
}
"""Their results share memory with the operands, one by one."""
