"""Ends of products that one register tile has a choice of.

What networks do with the sums of a product is mostly one of a few things: nothing, as after Winograd's transform; a
bias is added, or an image, or both; what is below or above a bound becomes that. A tile for each of them is the same
three hundred lines of multiply-adds with a few other ones after them. So a tile may have the ends of several products
(``ends`` in a schedule), and is told which one to do, with the bounds::

    if (end == 5) {
      s0_0 += vload(e0 + 0);
      s0_0 = vmax_bound(vset(low), s0_0);
      vstore(c + 0, s0_0);
      return;
    }

What it does, and in which order, is what the bodies say, and so are the bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.arith import AddfOp, MaximumfOp, MinimumfOp
from xdsl.ir import Operation, SSAValue

from etir.backends.native.kernels.apart import column_step
from etir.backends.native.kernels.template import integers, number_of
from etir.backends.native.tile import BrgemmOp, YieldOp, strides_of

BIAS, ADDED, LOW, HIGH = 1, 2, 4, 8
"""Parts of an end, in their order: a row is added to all rows, one to each; sums are at least, at most a bound. An end
is a mask of them.
"""
BOUNDS = {LOW: "low", HIGH: "high"}
MASKS = 16
"""How many ends there are. Several are a number with a bit for each."""
BEGINS = 1 << MASKS
"""Besides, what is added to each row may be added before the first slice of depth."""


@dataclass(frozen=True)
class Ends:
    """What the body of a product does, where that is an end: its parts, the numbers of the extra operands that are
    added, and the bounds.
    """

    mask: int
    bias: int | None
    added: int | None
    low: float
    high: float

    def last(self, begins: int | None) -> int:
        """The mask where sums begin with the operand ``begins``."""
        return self.mask if begins is None else self.mask & ~ADDED

    def asked(self, begins: int | None) -> int:
        """The same as a set of ends."""
        return 1 << self.last(begins) | (0 if begins is None else BEGINS)


def masks_in(ends: int) -> list[int]:
    """The ends of a set."""
    return [mask for mask in range(MASKS) if ends >> mask & 1]


def has_part(ends: int, part: int) -> bool:
    """Whether an end of a set has a part, or it is added before."""
    return any(mask & part for mask in masks_in(ends)) or (part == ADDED and bool(ends & BEGINS))


def ends_of(op: BrgemmOp) -> Ends | None:
    """The end that a product has; None where its body is another one."""
    values: list[SSAValue] = [*op.body.block.args]
    value = values.pop(0)
    found: dict[int, SSAValue | float] = {}
    while not isinstance(user := _only_user(value), YieldOp):
        part = None if user is None else _part(op, user, value, values)
        if user is None or part is None or any(part[0] <= before for before in found):
            return None
        found[part[0]] = part[1]
        value = user.results[0]
    numbers = {part: values.index(read) for part, read in found.items() if isinstance(read, SSAValue)}
    if len(numbers) != len(values) or any(len(list(one.uses)) != 1 for one in values):
        return None
    bounds = {part: bound for part, bound in found.items() if isinstance(bound, float)}
    return Ends(
        sum(found),
        numbers.get(BIAS),
        numbers.get(ADDED),
        bounds.get(LOW, float("-inf")),
        bounds.get(HIGH, float("inf")),
    )


def _only_user(value: SSAValue) -> Operation | None:
    uses = list(value.uses)
    return uses[0].operation if len(uses) == 1 else None


def _part(
    op: BrgemmOp, user: Operation, value: SSAValue, values: Sequence[SSAValue]
) -> tuple[int, SSAValue | float] | None:
    """The part that one operation of a body is, and what it reads."""
    if isinstance(user, AddfOp):
        other = user.rhs if user.lhs is value else user.lhs
        (lines,) = integers(op, "lines", (1,))
        kind = _kind(op.extra[values.index(other)], lines) if other in values else None
        return None if kind is None else (kind, other)
    if isinstance(user, (MaximumfOp, MinimumfOp)) and user.lhs is value:
        bound = number_of(user.rhs)
        kind = LOW if isinstance(user, MaximumfOp) else HIGH
        return (kind, bound) if bound is not None and bound == bound else None
    return None


def _kind(operand: SSAValue, lines: int) -> int | None:
    """Whether an operand has a row for all rows of a tile, or one for each; None for one of another form."""
    if column_step(operand) != 1:
        return None
    rows = strides_of(operand.type)[-3:-1] if lines > 1 else strides_of(operand.type)[-2:-1]
    return ADDED if rows[-1] else None if any(rows) else BIAS


def can_choose(op: BrgemmOp, ends: int, begins: int | None) -> bool:
    """Whether a tile that has a choice of ``ends`` does for a product whose sums begin with operand ``begins``."""
    own = ends_of(op)
    if own is None or not 0 <= ends < 2 * BEGINS or begins not in (None, own.added):
        return False
    return not own.asked(begins) & ~ends
