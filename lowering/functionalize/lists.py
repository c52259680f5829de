"""Operators that view or change each tensor of a list, as one operator for each tensor.

``broadcast_tensors``, ``meshgrid`` and the list forms of ``atleast_1d``, ``atleast_2d`` and ``atleast_3d`` say nothing
of aliases in their schemas, and their results share memory with their operands one by one. The walk over a method
knows views and changes of one tensor only, so these, and the in-place ones of ``_foreach_*``, are decomposed before
it. So are other operators that give views of a tensor only for some of their arguments: ``einsum`` of one tensor
without a sum, which is a permutation, or a diagonal, of that tensor itself, and ``cartesian_prod`` of one tensor.
The last of them see parts of one tensor, like ``unflatten_dense_tensors``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from etir.dialects.aten import ops as aten
from etir.dialects.aten.base import aten_op
from etir.dialects.dtypes import i64
from etir.dialects.et.layout import dims_of, tensor_type
from etir.dialects.schema_op import SchemaOp
from etir.lowering.build.dims import as_int_if_const, product
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
        if op.name in SINGLE:
            SINGLE[op.name][1](op, emit)
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
    _replace(op, emit(aten.permute.default, type, {"self": value, "dims": order}))


def _replace(op: SchemaOp, value: SSAValue) -> None:
    value.name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(value)
    Rewriter.erase_op(op)


def _alias(emit: Emitter, tensor: SSAValue, like: SSAValue) -> SSAValue:
    return emit(aten.alias.default, like.type, {"self": tensor})


def _product_of_one(op: SchemaOp, emit: Emitter) -> None:
    """Replace ``cartesian_prod`` of one tensor, which is that tensor."""
    tensors: Sequence[SSAValue] = op.arg("tensors")
    if len(tensors) == 1:
        _replace(op, _alias(emit, tensors[0], op.results[0]))


def _flat_one(op: SchemaOp, emit: Emitter) -> None:
    """Replace ``flatten_dense_tensors`` of one tensor by a view of it where it is contiguous, else of its copy."""
    tensors: Sequence[SSAValue] = op.arg("tensors")
    if len(tensors) == 1:
        type = tensor_of(tensors[0])
        plain = emit(aten.contiguous.default, tensor_type(type.element_type, dims_of(type)), {"self": tensors[0]})
        _replace(op, emit(aten.view.default, op.results[0].type, {"self": plain, "size": [-1]}))


def _parts_of_flat(op: SchemaOp, emit: Emitter) -> None:
    """Replace ``unflatten_dense_tensors`` by views of parts of the flat tensor."""
    flat, start = op.arg("flat"), 0
    element = tensor_of(flat).element_type
    for tensor, result in zip(op.arg("tensors"), op.results, strict=True):
        count = as_int_if_const(product(dims_of(tensor_of(tensor))))
        length = count if isinstance(count, int) else emit(aten.sym_numel.default, i64, {"self": tensor})
        given = {"self": flat, "dim": 0, "start": start, "length": length}
        part = emit(aten.narrow.default, tensor_type(element, [count]), given)
        sizes = [emit.size(tensor, dim) for dim in range(len(dims_of(tensor_of(tensor))))]
        value = emit(aten.view.default, result.type, {"self": part, "size": sizes})
        value.name_hint = result.name_hint
        result.replace_all_uses_with(value)
        start = emit.add(start, length)
    Rewriter.erase_op(op)


def _given_bins(op: SchemaOp, emit: Emitter) -> None:
    """Replace the bins among the results of ``histogramdd``, which are those that it was given."""
    for bins, result in zip(op.arg("bins"), op.results[1:], strict=True):
        result.replace_all_uses_with(_alias(emit, bins, result))


def _source(op: SchemaOp, emit: Emitter) -> None:
    """Replace ``set`` without a change of its tensor by what it gives, the source."""
    _replace(op, _alias(emit, op.arg("source"), op.results[0]))


def _expanded_batch(op: SchemaOp, emit: Emitter) -> None:
    """Replace ``_remove_batch_dim``, which outside of ``vmap`` expands its tensor."""
    dims = dims_of(tensor_of(op.results[0]))
    sizes = [d for d in dims if isinstance(d, int)]
    if len(sizes) == len(dims):
        _replace(op, emit(aten.expand.default, op.results[0].type, {"self": op.arg("self"), "size": sizes}))


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


SINGLE: dict[str, tuple[str, Callable[[SchemaOp, Emitter], None]]] = {
    "aten.einsum.default": ("tensors", _permute_one),
    "aten.cartesian_prod.default": ("tensors", _product_of_one),
    "aten.flatten_dense_tensors.default": ("tensors", _flat_one),
    "aten.unflatten_dense_tensors.default": ("flat", _parts_of_flat),
    "aten.histogramdd.TensorList_bins": ("bins", _given_bins),
    "aten.set.source_Tensor": ("source", _source),
    "aten._remove_batch_dim.default": ("self", _expanded_batch),
}
"""For some arguments, or for some results, views of one tensor: the argument that is viewed, and the replacement."""

LISTS: dict[str, Callable[[Emitter, SchemaOp, Sequence[SSAValue], SSAValue, int], SSAValue]] = {
    "aten.broadcast_tensors.default": _broadcast,
    "aten.meshgrid.default": _grid,
    "aten.meshgrid.indexing": _grid,
    "aten._to_cpu.default": lambda emit, op, _, tensor, index: _alias(emit, tensor, op.results[index]),
    **{f"aten.atleast_{n}d.Sequence": _at_least for n in (1, 2, 3)},
}
"""Their results share memory with the operands, one by one."""
