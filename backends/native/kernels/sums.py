"""What the sums of ``tile.brgemm`` may begin with: an operand that its body adds to them.

Sums of a product of many steps of depth rest in the result between slices. Where the result lies over an operand of the
body, the slices before the last one would write over what the last one reads; but if the body does nothing but add that
operand to the sums before anything else, they can begin with it: it lies where they rest, and the first slice goes on
from there as the others do. So no product has to be computed as a whole to save the memory of its result.
"""

from __future__ import annotations

from xdsl.dialects.arith import AddfOp

from etir.backends.native.tile import BrgemmOp, WeightOp
from etir.backends.native.users import base_of


def added_operand(op: BrgemmOp) -> int | None:
    """The number of the extra operand that the sums may begin with, if no other one can lie in the result's memory.

    All others are weights, and the body adds it to the sums, or to what they and other values add up to.
    """
    others = [number for number, value in enumerate(op.extra) if not isinstance(base_of(value).owner, WeightOp)]
    if len(others) != 1:
        return None
    (number,) = others
    sums, *values = op.body.block.args
    value = values[number]
    while len(uses := list(sums.uses)) == 1 and isinstance(add := uses[0].operation, AddfOp):
        if value in add.operands:
            return number if len(list(value.uses)) == 1 else None
        sums = add.result
    return None


def begins_with(op: BrgemmOp) -> int | None:
    """The number of the extra operand that the sums do begin with: the one in whose memory the result lies."""
    return None if op.over is None else added_operand(op)
