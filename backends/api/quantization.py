"""What a backend computes on int8, as data: the only source of what is quantized.

A :class:`QuantizedRow` is an operator that the backend computes on integers, under conditions with reasons like
those of what it claims. Its ``activations`` and its result are stored as int8 with one scale each; operators that only
move or choose elements, and clamps after it, need no row: integers go through them. Rows of scheme :data:`DYNAMIC` are
of operators that quantize their input when they run, each row of it with a scale of its own, and give floating point.
"""

from __future__ import annotations

from dataclasses import dataclass

from etir.backends.api.patterns import Condition, Match
from etir.dialects.schema_op import SchemaOp

STATIC, DYNAMIC, WEIGHT = "static", "dynamic", "weight"
"""What a row says: activations are int8 with scales that calibration finds, or with scales that are found when the
program runs, or only the weight is integers.
"""

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
        "aten.unbind_copy.int",
        "dim_order_ops._to_dim_order_copy.default",
        "dim_order_ops._clone_dim_order.default",
    }
)
"""Operators with one operand whose elements are some of the operand's."""

CHOOSES = frozenset({"aten.relu.default", "aten.max_pool2d.default", "aten.max_pool2d_with_indices.default"})
"""Operators that give elements of their operand, or 0, which integers stand for exactly."""


JOINS = frozenset({"aten.cat.default", "aten.stack.default"})
"""Operators whose elements are those of their operands."""

PAD = "aten.constant_pad_nd.default"
"""The operator that puts one number around the elements of its operand."""


@dataclass(frozen=True)
class QuantizedRow:
    """``activations`` are the arguments that are int8, ``weight`` the argument (if any) that is a constant of integers
    of ``bits`` bits with a scale for each index of dim ``axis``, or for each ``block`` numbers in its last dim.
    ``float_result`` says that the result may be float32 as well, at no cost.
    """

    operator: str
    activations: tuple[str, ...]
    weight: str = ""
    axis: int = 0
    conditions: tuple[Condition, ...] = ()
    scheme: str = STATIC
    bits: int = 8
    block: int | None = None
    float_result: bool = False

    def refusal(self, op: SchemaOp) -> tuple[int, str] | None:
        """None where the row holds for an operation; else how many of its conditions do, and why the next does not."""
        match = Match(op, (op,), {})
        for held, wanted in enumerate(self.conditions):
            reason = wanted.failure(match)
            if reason is not None:
                return held, reason
        return None


def in_blocks(size: int) -> Condition:
    """The weight has rows of a multiple of ``size`` numbers."""

    def failure(match: Match) -> str | None:
        shape = match.type("weight")
        columns = 0 if shape is None else shape.get_shape()[-1]
        return None if columns > 0 and columns % size == 0 else f"rows of {columns} numbers, not blocks of {size}"

    return Condition(f"rows in blocks of {size}", failure)


def never(reason: str) -> Condition:
    """What does not hold: for a row that says why an operator is left alone."""
    return Condition(reason, lambda match: reason)
