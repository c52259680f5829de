"""What a backend computes on int8, as data: the only source of what is quantized.

A :class:`QuantizedRow` is an operator that the backend computes on integers, under conditions with reasons like
those of what it claims. Its ``activations`` and its result are stored as int8 with one scale each; operators that only
move or choose elements, and clamps after it, need no row: integers go through them.
"""

from __future__ import annotations

from dataclasses import dataclass

from etir.backends.api.patterns import Condition, Match
from etir.dialects.schema_op import SchemaOp

CLAMPS = ("aten.relu.default", "aten.relu6.default", "aten.hardtanh.default", "aten.clamp.default")
"""Operators that become the range of the node that computes their operand."""

MOVES = frozenset(
    {
        "aten.view_copy.default",
        "aten.permute_copy.default",
        "aten.transpose_copy.int",
        "aten.t_copy.default",
        "aten.unsqueeze_copy.default",
        "aten.squeeze_copy.default",
        "aten.squeeze_copy.dim",
        "aten.squeeze_copy.dims",
        "aten.expand_copy.default",
        "aten.clone.default",
        "aten.alias_copy.default",
        "aten.slice_copy.Tensor",
        "aten.select_copy.int",
        "aten.split_copy.Tensor",
        "aten.split_with_sizes_copy.default",
        "dim_order_ops._to_dim_order_copy.default",
        "dim_order_ops._clone_dim_order.default",
    }
)
"""Operators with one operand whose elements are some of the operand's."""

CHOOSES = frozenset({"aten.relu.default", "aten.max_pool2d.default", "aten.max_pool2d_with_indices.default"})
"""Operators that give elements of their operand, or 0, which integers stand for exactly."""


@dataclass(frozen=True)
class QuantizedRow:
    """``activations`` are the arguments that are int8, ``weight`` the argument (if any) that is a constant of int8 with
    a scale for each index of dim ``axis``.
    """

    operator: str
    activations: tuple[str, ...]
    weight: str = ""
    axis: int = 0
    conditions: tuple[Condition, ...] = ()

    def refusal(self, op: SchemaOp) -> str | None:
        """Why the row does not hold for an operation, None where it does."""
        match = Match(op, (op,), {})
        return next((reason for c in self.conditions if (reason := c.failure(match)) is not None), None)
