"""What builds a body: ``arith`` and ``math`` operations on numbers of f32, one element of a tensor each."""

from __future__ import annotations

import math as m
import struct
from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Block, Operation, SSAValue

from etir.backends.native.tile import f32

Number = SSAValue | float


def rounded(value: float) -> float:
    """The float32 that a number is: an infinity where it is larger than all others, as in torch."""
    try:
        (found,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return m.copysign(m.inf, value)
    return found


class Body:
    """Builds operations at the end of a body; numbers are f32 values or Python floats."""

    def __init__(self, block: Block, values: Mapping[SSAValue, SSAValue]):
        self.block = block
        self.values: dict[SSAValue, SSAValue] = dict(values)
        self.lowered: Operation | None = None
        """The operator that is built: what it becomes is where it is."""
        self._constants: dict[str, SSAValue] = {}

    def constant(self, value: float) -> SSAValue:
        """A number, once."""
        number = rounded(value)
        key = number.hex()
        if key not in self._constants:
            self._constants[key] = self._add(arith.ConstantOp(FloatAttr(number, f32)))
        return self._constants[key]

    def of(self, value: Any) -> SSAValue:
        """The number that stands for a tensor of the group, or for a literal."""
        if isinstance(value, SSAValue):
            return self.values.get(value, value)
        return self.constant(float(value))

    def _add(self, op: Operation) -> SSAValue:
        if self.lowered is not None:
            op.location = self.lowered.location
        self.block.add_op(op)
        return op.results[0]

    def make(self, op: type[Operation], *operands: Number) -> SSAValue:
        """The result of an operation."""
        return self._add(op(*(self.of(v) for v in operands)))

    def add(self, x: Number, y: Number) -> SSAValue:
        """x + y"""
        return self.make(arith.AddfOp, x, y)

    def sub(self, x: Number, y: Number) -> SSAValue:
        """x - y"""
        return self.make(arith.SubfOp, x, y)

    def mul(self, x: Number, y: Number) -> SSAValue:
        """x * y"""
        return self.make(arith.MulfOp, x, y)

    def div(self, x: Number, y: Number) -> SSAValue:
        """x / y"""
        return self.make(arith.DivfOp, x, y)

    def at_least(self, x: Number, bound: Number) -> SSAValue:
        """The larger of two; NaN if one is."""
        return self.make(arith.MaximumfOp, x, bound)

    def at_most(self, x: Number, bound: Number) -> SSAValue:
        """The smaller of two; NaN if one is."""
        return self.make(arith.MinimumfOp, x, bound)

    def clamp(self, x: Number, low: float | None, high: float | None) -> SSAValue:
        """``x`` between two bounds, of which either may be missing."""
        x = self.of(x)
        if low is not None and low != -m.inf:
            x = self.at_least(x, low)
        return self.at_most(x, high) if high is not None and high != m.inf else x

    def sigmoid(self, x: Number) -> SSAValue:
        """1 / (1 + e^-x)"""
        return self.div(1.0, self.add(self.make(math.ExpOp, self.make(arith.NegfOp, x)), 1.0))

    def select(self, comparison: str, x: Number, y: Number, then: Number, otherwise: Number) -> SSAValue:
        """``then`` where the comparison holds."""
        holds = self._add(arith.CmpfOp(self.of(x), self.of(y), comparison))
        return self._add(arith.SelectOp(holds, self.of(then), self.of(otherwise)))

    def truth(self, comparison: str, x: Number, y: Number) -> SSAValue:
        """1 where the comparison holds, 0 elsewhere."""
        return self.select(comparison, x, y, 1.0, 0.0)

    def choose(self, flag: Number, then: Number, otherwise: Number) -> SSAValue:
        """``then`` where a truth value holds, by the comparison that made it where this body has that."""
        made = self.of(flag).owner
        if isinstance(made, arith.SelectOp) and [_constant(v) for v in (made.lhs, made.rhs)] == [1.0, 0.0]:
            return self._add(arith.SelectOp(made.cond, self.of(then), self.of(otherwise)))
        return self.select("une", flag, 0.0, then, otherwise)


def _constant(value: SSAValue) -> float | None:
    """The number that a value of a body is."""
    found = value.owner.value if isinstance(value.owner, arith.ConstantOp) else None
    return found.value.data if isinstance(found, FloatAttr) else None


Expand = Callable[[Body, Any], SSAValue]
"""What an operator is of: the body that it is built in, and the operator."""
