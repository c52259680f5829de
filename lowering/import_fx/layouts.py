"""Layouts in eager PyTorch, for programs that change tensors or read their storage.

Whether ``reshape``, ``contiguous`` or ``to`` gave a view decides what a change reaches, and only strides say that; what
``as_strided`` reads depends on strides and offsets. Of inputs and weights that do not lie in memory as their types say
the dim order is recorded, and of the operands of ``as_strided`` what it was at export, to check what is derived.
``functionalize`` derives most of them from the program; recorded are those of the operators that may lay out their
results in another way: of operands that are not contiguous, and of some kinds (``lowering/functionalize/strides.py``).
torch's fake tensors have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, UnitAttr, i64
from xdsl.ir import Attribute

from etir.dialects.aten.recorded_layout import INPUT_OFFSET, INPUT_ORDER
from etir.dialects.schema import OpSchema, SchemaKind
from etir.lowering.build.dims import product
from etir.lowering.functionalize.strides import (
    contiguous_strides,
    dim_order,
    has_odd_layout,
    same_layout,
)
from etir.lowering.functionalize.views import may_copy, viewed_argument
from etir.lowering.import_fx.changed_tensors import is_storage_operator
from etir.lowering.import_fx.types import dim_of


def changes_tensors(graph_module: fx.GraphModule) -> bool:
    """Whether an operator of a graph, or of the graphs in it, changes a tensor that exists already."""
    return any(
        isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable
        for module in graph_module.modules()
        if isinstance(module, fx.GraphModule)
        for node in module.graph.nodes
    )


def reads_storage(graph_module: fx.GraphModule) -> bool:
    """Whether an operator of a graph, or of the graphs in it, is defined on the storage of its tensor."""
    return any(
        is_storage_operator(node.target)
        for module in graph_module.modules()
        if isinstance(module, fx.GraphModule)
        for node in module.graph.nodes
    )


def input_attributes(tensor: Any, order: Sequence[int] | None) -> dict[str, Attribute]:
    """What is to be recorded of an input whose type has the dim order ``order``, None for the plain one."""
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
        return {}
    found: dict[str, Attribute] = {}
    known = recorded_order(tensor, order)
    if known is not None:
        found[INPUT_ORDER] = known
    offset = dim_of(tensor.storage_offset())
    if offset != 0:
        if isinstance(offset, int):
            found[INPUT_OFFSET] = IntegerAttr(offset, i64)
        else:
            found[INPUT_ORDER] = UnitAttr()
    return found


def recorded_order(tensor: torch.Tensor, order: Sequence[int] | None) -> Attribute | None:
    """The dim order of a tensor as an attribute, ``unit`` where it has gaps; None where it is ``order``."""
    dims, strides = _layout(tensor)
    if 0 in dims or same_layout(dims, strides, contiguous_strides(dims, order)):
        return None
    known = dim_order(dims, strides)
    return UnitAttr() if known is None else DenseArrayBase.from_list(i64, known)


def self_layout(tensor: Any) -> Attribute | None:
    """The strides and, last, the storage offset of a tensor; None when a symbol is in one of them."""
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
        return None
    numbers = [dim_of(n) for n in (*tensor.stride(), tensor.storage_offset())]
    return DenseArrayBase.from_list(i64, numbers) if all(isinstance(n, int) for n in numbers) else None  # type: ignore[arg-type]


def is_whole_storage(tensor: torch.Tensor) -> bool:
    """Whether a tensor has all elements of its storage, in row-major order."""
    dims, strides = _layout(tensor)
    bytes = dim_of(tensor.untyped_storage().nbytes())
    return (
        same_layout(dims, strides, contiguous_strides(dims))
        and dim_of(tensor.storage_offset()) == 0
        and bytes == product(dims) * tensor.element_size()
    )


def dim_orders(node: fx.Node, schema: OpSchema, outputs: Sequence[Any]) -> Attribute | None:
    """The attribute ``dim_orders`` of the operation for ``node``; None where it would say nothing new."""
    if schema.kind is not SchemaKind.FUNCTIONAL or (viewed_argument(schema) is not None and not may_copy(schema)):
        return None
    plain = all(_is_contiguous(tensor) for tensor in (*_operands(node), *_strided(outputs)))
    if not has_odd_layout(schema.op_name) and plain:
        return None
    orders = [_order_of(value) for value in outputs]
    if all(order is None for order in orders):
        return None
    return ArrayAttr(UnitAttr() if o is None else DenseArrayBase.from_list(i64, o) for o in orders)


def _operands(node: fx.Node) -> Iterator[torch.Tensor]:
    for operand in node.all_input_nodes:
        value = operand.meta.get("val")
        yield from _strided(value if isinstance(value, (list, tuple)) else [value])


def _strided(values: Sequence[Any]) -> Iterator[torch.Tensor]:
    for one in values:
        if isinstance(one, torch.Tensor) and one.layout is torch.strided:
            yield one


def _is_contiguous(tensor: torch.Tensor) -> bool:
    """As ``Tensor.is_contiguous``, by expressions: asking torch may tie symbols of dynamic sizes to a value."""
    dims, strides = _layout(tensor)
    return same_layout(dims, strides, contiguous_strides(dims))


def _order_of(value: Any) -> tuple[int, ...] | None:
    has_strides = isinstance(value, torch.Tensor) and value.layout is torch.strided
    return dim_order(*_layout(value)) if has_strides else None


def _layout(tensor: torch.Tensor) -> tuple[list[Any], tuple[Any, ...]]:
    return [dim_of(s) for s in tensor.shape], tuple(dim_of(s) for s in tensor.stride())
