"""Operators that move elements: most of them only change under which layout a value is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from xdsl.ir import SSAValue

from etir.backends.xnnpack.legalize.emitter import Emitter
from etir.backends.xnnpack.legalize.layouts import Layout, default_layout
from etir.backends.xnnpack.legalize.legalizer import integer, integers, legalizes, number
from etir.backends.xnnpack.legalize.numbers import rounded
from etir.backends.xnnpack.legalize.quantized import requantized
from etir.backends.xnnpack.types import XnnTensorType
from etir.dialects.dtypes import dtype_of
from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import tensor_of
from etir.dialects.schema_op import SchemaOp

Squeeze: TypeAlias = edge.aten.squeeze_copy.default | edge.aten.squeeze_copy.dim | edge.aten.squeeze_copy.dims

MAX_CONCATENATED = 5
"""Operands that one node joins."""


def _materialized(emitter: Emitter, value: SSAValue) -> None:
    """Make sure that a value is held: a constant becomes one of the graph."""
    if not emitter.layouts(value):
        emitter.hold(value, emitter.get(value))


@legalizes()
def view(emitter: Emitter, op: edge.aten.view_copy.default) -> None:
    """Any operator whose result has the bytes of its operand under other dims."""
    result = op.results[0]
    layout = default_layout(len(emitter.dims(result)))
    form = emitter.reshape(emitter.get(op.operands[0]), emitter.dims(result), emitter.dynamic(result, layout))
    _hold_view(emitter, op, form)


def _hold_view(emitter: Emitter, op: SchemaOp, form: SSAValue) -> None:
    emitter.hold(op.results[0], form)
    if op.operands[0].has_more_than_one_use():
        emitter.shared[form] = None


@legalizes()
def permute(emitter: Emitter, op: edge.aten.permute_copy.default) -> None:
    """Nothing moves: the same form is the result under another layout."""
    rank = len(emitter.dims(op.operands[0]))
    _permuted(emitter, op, [d % rank for d in op.dims])


@legalizes()
def transpose(emitter: Emitter, op: edge.aten.transpose_copy.int) -> None:
    """A permutation of two dims."""
    rank = len(emitter.dims(op.operands[0]))
    perm = list(range(rank))
    first, second = op.dim0 % rank, op.dim1 % rank
    perm[first], perm[second] = perm[second], perm[first]
    _permuted(emitter, op, perm)


@legalizes()
def reverse(emitter: Emitter, op: edge.aten.t_copy.default) -> None:
    """A permutation of all dims, of which there are at most two."""
    _permuted(emitter, op, range(len(emitter.dims(op.self_)))[::-1])


def _permuted(emitter: Emitter, op: SchemaOp, perm: Sequence[int]) -> None:
    value = op.operands[0]
    _materialized(emitter, value)
    place = {old: new for new, old in enumerate(perm)}
    layouts = {layout: tuple(-1 if d < 0 else place[d] for d in layout) for layout in emitter.layouts(value)}
    emitter.alias(op.results[0], value, layouts)


@legalizes()
def same(
    emitter: Emitter,
    op: edge.aten.expand_copy.default
    | edge.aten.clone.default
    | edge.aten.alias_copy.default
    | edge.dim_order_ops._clone_dim_order.default,
) -> None:
    """Copies, and changes of the dim order: the dims stay what they are."""
    _same(emitter, op)


def _same(emitter: Emitter, op: SchemaOp) -> None:
    value = op.operands[0]
    _materialized(emitter, value)
    emitter.alias(op.results[0], value, {layout: layout for layout in emitter.layouts(value)})


@legalizes()
def copy(emitter: Emitter, op: edge.dim_order_ops._to_dim_order_copy.default) -> None:
    """A change of the dim order leaves the dims what they are; one of the dtype is a node."""
    value, result = op.operands[0], op.results[0]
    if value in emitter.constants:
        emitter.constants.arrays[result] = rounded(
            emitter.constants.array(value), dtype_of(tensor_of(result).element_type)
        )
        return
    if tensor_of(value).element_type == tensor_of(result).element_type:
        _same(emitter, op)
        return
    layout = emitter.cheapest_for(value)
    form = emitter.get(value, layout)
    info = emitter.info(result, cast(XnnTensorType, form.type).data.dims)
    emitter.hold(result, emitter.node("convert", [form], info=info), layout)


@legalizes()
def _with_units(
    emitter: Emitter,
    op: edge.aten.unsqueeze_copy.default | Squeeze,
) -> None:
    """``unsqueeze`` and ``squeeze``: the other dims keep their order, so any layout carries over."""
    value, result = op.operands[0], op.results[0]
    _materialized(emitter, value)
    layout = emitter.cheapest_for(value)
    source, target = emitter.dims(value), len(emitter.dims(result))
    if isinstance(op, edge.aten.unsqueeze_copy.default):
        added = op.dim % target
        renamed = tuple(d if d < added else d + 1 for d in layout if d >= 0)
        place = renamed.index(added - 1) + 1 if added and added - 1 in renamed else 0
        new = (*renamed[:place], added, *renamed[place:])
    else:
        removed = _removed_dims(op, len(source))
        rank = {d: i for i, d in enumerate(d for d in range(len(source)) if d not in removed)}
        new = tuple(rank[d] for d in layout if d >= 0 and d not in removed)
    dims = emitter.dims(result)
    stored = tuple(dims[d] for d in new)
    form = emitter.reshape(emitter.get(value, layout), stored, emitter.dynamic(result, new))
    emitter.hold(result, form, new)
    if value.has_more_than_one_use():
        emitter.shared[form] = None


def _removed_dims(op: Squeeze, rank: int) -> frozenset[int]:
    shape = tensor_of(op.self_).get_shape()
    if isinstance(op, edge.aten.squeeze_copy.default):
        return frozenset(i for i, d in enumerate(shape) if d == 1)
    wanted = op.dim if isinstance(op, edge.aten.squeeze_copy.dims) else (op.dim,)
    return frozenset(d % rank for d in wanted if shape[d % rank] == 1)


@legalizes()
def cat(emitter: Emitter, op: edge.aten.cat.default) -> None:
    """Joins five operands at a time."""
    values = list(op.tensors)
    rank = len(emitter.dims(op.results[0]))
    layout = emitter.cheapest(values, rank)
    axis = layout.index(op.dim % rank)
    scale = emitter.scale_out
    forms = [emitter.get(v, layout) if scale is None else requantized(emitter, v, layout, scale) for v in values]
    emitter.hold(op.results[0], joined(emitter, forms, axis), layout)


def joined(emitter: Emitter, forms: list[SSAValue], axis: int) -> SSAValue:
    """The forms one after the other along ``axis``."""
    while len(forms) > 1:
        some, forms = forms[:MAX_CONCATENATED], forms[MAX_CONCATENATED:]
        forms.insert(0, emitter.node(f"concatenate{len(some)}", some, {"axis": axis}))
    return forms[0]


@legalizes()
def stack(emitter: Emitter, op: edge.aten.stack.default) -> None:
    """Joins along a new dim."""
    result = op.results[0]
    rank = len(emitter.dims(result))
    axis = op.dim % rank
    forms: list[SSAValue] = []
    for value in op.tensors:
        dims = list(emitter.dims(value))
        dims.insert(axis, 1)
        dynamic = [d + (d >= axis) for d in emitter.dynamic(value, default_layout(rank - 1))]
        plain = default_layout(rank - 1)
        scale = emitter.scale_out
        form = emitter.get(value) if scale is None else requantized(emitter, value, plain, scale)
        forms.append(emitter.reshape(form, tuple(dims), dynamic))
    emitter.hold(result, joined(emitter, forms, axis))


@legalizes()
def sliced(emitter: Emitter, op: edge.aten.slice_copy.Tensor) -> None:
    """``slice`` with a step of 1."""
    value = op.operands[0]
    dims = emitter.dims(value)
    dim = op.dim % len(dims)
    start = 0 if op.start is None else integer(op.start)
    offset = min(max(start + dims[dim] if start < 0 else start, 0), dims[dim])
    emitter.hold(op.results[0], *_slice(emitter, value, dim, offset, emitter.dims(op.results[0])[dim]))


@legalizes()
def split(emitter: Emitter, op: edge.aten.split_with_sizes_copy.default | edge.aten.split_copy.Tensor) -> None:
    """One slice for each result."""
    value = op.operands[0]
    dim = op.dim % len(emitter.dims(value))
    offset = 0
    for result in op.results:
        size = emitter.dims(result)[dim]
        if result.first_use is not None:
            emitter.hold(result, *_slice(emitter, value, dim, offset, size))
        offset += size


@legalizes()
def select(emitter: Emitter, op: edge.aten.select_copy.int) -> None:
    """A slice of one, whose dim is then dropped."""
    value, result = op.operands[0], op.results[0]
    dims = emitter.dims(value)
    dim = op.dim % len(dims)
    form, layout = _slice(emitter, value, dim, integer(op.index) % dims[dim], 1)
    left = tuple(d - (d > dim) for d in layout if d >= 0 and d != dim)
    stored = tuple(emitter.dims(result)[d] for d in left)
    emitter.hold(result, emitter.reshape(form, stored, emitter.dynamic(result, left)), left)


def _slice(emitter: Emitter, value: SSAValue, dim: int, offset: int, size: int) -> tuple[SSAValue, Layout]:
    layout = emitter.cheapest_for(value)
    dims = emitter.dims(value)
    # A size of 0 takes the rest of the dim, which is right for dims that change at run time.
    dynamic = set(emitter.dynamic(value, layout))
    offsets = [offset if d == dim else 0 for d in layout]
    sizes = [size if d == dim else 0 if i in dynamic else 1 if d < 0 else dims[d] for i, d in enumerate(layout)]
    form = emitter.node("static_slice", [emitter.get(value, layout)], {"offsets": offsets, "sizes": sizes})
    return form, layout


@legalizes()
def pad(emitter: Emitter, op: edge.aten.constant_pad_nd.default) -> None:
    """Padding with a number; pairs come for the last dim first."""
    value = op.operands[0]
    layout = emitter.cheapest_for(value)
    rank = len(emitter.dims(value))
    amounts = integers(op.pad)
    before, after = [0] * rank, [0] * rank
    for i in range(len(amounts) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = amounts[2 * i], amounts[2 * i + 1]
    attributes = {
        "pre_paddings": [0 if d < 0 else before[d] for d in layout],
        "post_paddings": [0 if d < 0 else after[d] for d in layout],
        "padding_value": number(op.value),
    }
    emitter.hold(op.results[0], emitter.node("static_constant_pad", [emitter.get(value, layout)], attributes), layout)


@legalizes()
def softmax(emitter: Emitter, op: edge.aten._softmax.default) -> None:
    """Along the last dim, which has to lie last; the others may lie as they do."""
    value = op.operands[0]
    last = len(emitter.dims(value)) - 1
    layout = emitter.cheapest_for(value)
    if layout[-1] != last:
        layout = default_layout(last + 1)
    emitter.hold(op.results[0], emitter.node("softmax", [emitter.get(value, layout)]), layout)
