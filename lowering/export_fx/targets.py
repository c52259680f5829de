"""What a graph calls: torch's operators, or those of another dialect of torch's graphs.

One object for each dialect says which function an operator of the text is, with which arguments. :class:`AtenTargets`
is the ATen dialect that ``torch.export`` itself writes; backends/bridge has ExecuTorch's edge dialect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from etir.dialects.schema import OpSchema
from etir.dialects.schema_op import SchemaOp
from etir.interpret.torch_evaluator import register_namespace
from etir.lowering.errors import E0407

Scalar = int | float | bool

_DIM_ORDER_OPS = {
    "dim_order_ops._to_dim_order_copy.default": "aten._to_copy.default",
    "dim_order_ops._clone_dim_order.default": "aten.clone.default",
    "dim_order_ops._empty_dim_order.default": "aten.empty.memory_format",
}


class AtenTargets:
    """Operators as ``torch.ops`` has them; dim orders are memory formats."""

    def find(self, schema: OpSchema) -> Any:
        """The function for an operator. Raises E0407 for one that torch does not have."""
        return torch_operator(_DIM_ORDER_OPS.get(schema.op_name, schema.op_name))

    def keywords(self, schema: OpSchema, keywords: dict[str, Any]) -> dict[str, Any]:
        """The keyword arguments of a call, as the function that :meth:`find` gives takes them."""
        if schema.op_name not in _DIM_ORDER_OPS or keywords.get("dim_order") is None:
            return keywords
        keywords = dict(keywords)
        keywords["memory_format"] = memory_format(keywords.pop("dim_order"))
        return keywords

    def as_tensor(self, op: SchemaOp) -> tuple[OpSchema, str, Scalar] | None:
        """For a call with a number that the dialect writes with a constant tensor: the overload for tensors, the
        argument that the tensor stands for, and the number. None for every other call.
        """
        return None

    def in_default_order(self, rank: int) -> tuple[Any, dict[str, Any]]:
        """A function, and keywords for it, that copies a tensor into the default dim order."""
        return torch.ops.aten.clone.default, {"memory_format": torch.contiguous_format}


def torch_operator(op_name: str) -> Any:
    """The overload ``aten.add.Tensor`` of ``torch.ops``. Raises E0407 for one that torch does not have."""
    namespace, name, overload = op_name.split(".", 2)
    register_namespace(namespace)
    try:
        return getattr(getattr(getattr(torch.ops, namespace), name), overload)
    except AttributeError:
        raise E0407.error(
            f"torch has no operator '{op_name}'", help="import the library that registers it, then export"
        ) from None


def memory_format(order: Sequence[int]) -> torch.memory_format:
    """The memory format that is a dim order. Raises E0407 for an order that torch has no name for."""
    rank = len(order)
    if list(order) == list(range(rank)):
        return torch.contiguous_format
    if rank in (4, 5) and list(order) == [0, *range(2, rank), 1]:
        return torch.channels_last if rank == 4 else torch.channels_last_3d
    raise E0407.error(f"torch has no memory format for dim order {list(order)}")
