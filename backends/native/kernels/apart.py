"""Columns of a product's operands that lie apart, as the channels of an image in planes do.

Tiles have the columns of a row in vectors. Of what is added to them such columns are gathered; those of the result are
stored from the stack, column by column, so that a product writes planes and the same image with its channels side by
side is never there.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from etir.backends.native.kernels.template import is_light
from etir.backends.native.tile import BrgemmOp, shape_of, strides_of


def column_step(value: SSAValue) -> int:
    """The floats between columns of an operand; 0 for a single one, which is the same for all columns of the result."""
    return 0 if shape_of(value)[-1] == 1 else strides_of(value.type)[-1]


def is_apart(value: SSAValue) -> bool:
    """Whether the columns of an operand lie apart."""
    return column_step(value) not in (0, 1)


def has_apart(op: BrgemmOp) -> bool:
    """Whether columns of the result, or of what is added to it, lie apart."""
    return any(is_apart(value) for value in (op.c, *op.extra))


def is_in_registers(op: BrgemmOp) -> bool:
    """Whether the body is done on the registers of a tile: it is short, and reads and writes whole vectors."""
    return is_light(op.body.block) and not has_apart(op)
