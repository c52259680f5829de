"""Dim orders of results in eager PyTorch, for programs that change tensors.

Whether ``reshape``, ``contiguous`` or ``to`` gave a view decides what a change reaches, and only strides say that.
``functionalize`` derives most of them from the program; recorded are those of the operators that may lay out their
results in another way: of operands that are not contiguous, and of some kinds (``lowering/functionalize/strides.py``).
torch's fake tensors have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, UnitAttr, i64
from xdsl.ir import Attribute

from etir.dialects.schema import OpSchema, SchemaKind
from etir.lowering.functionalize.strides import contiguous_strides, dim_order, has_odd_layout, same_layout
from etir.lowering.functionalize.views import viewed_argument
from etir.lowering.import_fx.types import dim_of


def changes_tensors(graph_module: fx.GraphModule) -> bool:
    """Whether an operator of a graph, or of the graphs in it, changes a tensor that exists already."""
    return any(
        isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable
        for module in graph_module.modules()
        if isinstance(module, fx.GraphModule)
        for node in module.graph.nodes
    )


def dim_orders(node: fx.Node, schema: OpSchema, outputs: Sequence[Any]) -> Attribute | None:
    """The attribute ``dim_orders`` of the operation for ``node``; None where it would say nothing new."""
    if schema.kind is not SchemaKind.FUNCTIONAL or viewed_argument(schema) is not None:
        return None
    if not has_odd_layout(schema.op_name) and all(_is_contiguous(tensor) for tensor in _operands(node)):
        return None
    orders = [_order_of(value) for value in outputs]
    if all(order is None for order in orders):
        return None
    return ArrayAttr(UnitAttr() if o is None else DenseArrayBase.from_list(i64, o) for o in orders)


def _operands(node: fx.Node) -> Iterator[torch.Tensor]:
    for operand in node.all_input_nodes:
        value = operand.meta.get("val")
        for one in value if isinstance(value, (list, tuple)) else [value]:
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
