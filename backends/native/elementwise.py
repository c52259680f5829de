"""Edge operators that compute each element from the elements at the same place: what they are in a body.

One function for an operator, which builds ``arith`` and ``math`` operations on numbers of f32. What is in this table is
what ``epilogue`` and ``map`` take.
"""

from __future__ import annotations

import math as m
import struct
from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, TensorType
from xdsl.ir import Block, Operation, SSAValue

from etir.backends.native.tile import f32
from etir.dialects.schema_op import SchemaOp

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


Expand = Callable[[Body, Any], SSAValue]


def _scaled(b: Body, other: Any, alpha: float) -> SSAValue:
    return b.of(other) if alpha == 1 else b.mul(other, alpha)


def _gelu(b: Body, op: Any) -> SSAValue:
    x = b.of(op.arg("self"))
    if op.arg("approximate") == "tanh":
        cube = b.mul(b.mul(b.mul(x, x), x), 0.044715)
        inner = b.mul(b.add(x, cube), m.sqrt(2 / m.pi))
        return b.mul(b.mul(x, 0.5), b.add(b.make(math.TanhOp, inner), 1.0))
    return b.mul(b.mul(x, 0.5), b.add(b.make(math.ErfOp, b.mul(x, m.sqrt(0.5))), 1.0))


def _elu(b: Body, op: Any) -> SSAValue:
    x = b.of(op.arg("self"))
    scale, alpha, inner = (float(op.arg(n)) for n in ("scale", "alpha", "input_scale"))
    negative = b.mul(b.make(math.ExpM1Op, b.mul(x, inner)), alpha * scale)
    return b.select("ogt", x, 0.0, b.mul(x, scale), negative)


def _softplus(b: Body, op: Any) -> SSAValue:
    x, beta = b.of(op.arg("self")), float(op.arg("beta"))
    scaled = x if beta == 1.0 else b.mul(x, beta)
    found = b.make(math.Log1pOp, b.make(math.ExpOp, scaled))
    return b.select("ogt", scaled, float(op.arg("threshold")), x, found if beta == 1.0 else b.div(found, beta))


def _binary(combine: Callable[[Body, Any, Any], SSAValue]) -> Expand:
    return lambda b, op: combine(b, op.arg("self"), op.arg("other"))


def _unary(make: Callable[[Body, SSAValue], SSAValue]) -> Expand:
    return lambda b, op: make(b, b.of(op.arg("self")))


def _power(count: int) -> Callable[[Body, SSAValue], SSAValue]:
    """x^count by products."""

    def build(b: Body, x: SSAValue) -> SSAValue:
        result = x
        for _ in range(count - 1):
            result = b.mul(result, x)
        return result

    return build


POWERS: dict[float, Callable[[Body, SSAValue], SSAValue]] = {
    1.0: lambda b, x: x,
    2.0: _power(2),
    3.0: _power(3),
    4.0: lambda b, x: _power(2)(b, _power(2)(b, x)),
    0.5: lambda b, x: b.make(math.SqrtOp, x),
    -0.5: lambda b, x: b.div(1.0, b.make(math.SqrtOp, x)),
    -1.0: lambda b, x: b.div(1.0, x),
    -2.0: lambda b, x: b.div(1.0, b.mul(x, x)),
}
"""Exponents that are a few operations, to what they are."""

ELEMENTWISE: dict[str, Expand] = {
    "aten.add.Tensor": lambda b, op: b.add(op.arg("self"), _scaled(b, op.arg("other"), op.arg("alpha"))),
    "aten.add.Scalar": lambda b, op: b.add(op.arg("self"), op.arg("other") * op.arg("alpha")),
    "aten.sub.Tensor": lambda b, op: b.sub(op.arg("self"), _scaled(b, op.arg("other"), op.arg("alpha"))),
    "aten.sub.Scalar": lambda b, op: b.sub(op.arg("self"), op.arg("other") * op.arg("alpha")),
    "aten.rsub.Scalar": lambda b, op: b.sub(op.arg("other"), _scaled(b, op.arg("self"), op.arg("alpha"))),
    "aten.mul.Tensor": _binary(Body.mul),
    "aten.mul.Scalar": _binary(Body.mul),
    "aten.div.Tensor": _binary(Body.div),
    "aten.div.Scalar": _binary(Body.div),
    "aten.maximum.default": _binary(Body.at_least),
    "aten.minimum.default": _binary(Body.at_most),
    "aten.relu.default": _unary(lambda b, x: b.at_least(x, 0.0)),
    "aten.neg.default": _unary(lambda b, x: b.make(arith.NegfOp, x)),
    "aten.abs.default": _unary(lambda b, x: b.make(math.AbsFOp, x)),
    "aten.exp.default": _unary(lambda b, x: b.make(math.ExpOp, x)),
    "aten.expm1.default": _unary(lambda b, x: b.make(math.ExpM1Op, x)),
    "aten.sin.default": _unary(lambda b, x: b.make(math.SinOp, x)),
    "aten.cos.default": _unary(lambda b, x: b.make(math.CosOp, x)),
    "aten.erf.default": _unary(lambda b, x: b.make(math.ErfOp, x)),
    "aten.tanh.default": _unary(lambda b, x: b.make(math.TanhOp, x)),
    "aten.sqrt.default": _unary(lambda b, x: b.make(math.SqrtOp, x)),
    "aten.log.default": _unary(lambda b, x: b.make(math.LogOp, x)),
    "aten.log1p.default": _unary(lambda b, x: b.make(math.Log1pOp, x)),
    "aten.pow.Tensor_Scalar": lambda b, op: POWERS[float(op.arg("exponent"))](b, b.of(op.arg("self"))),
    "aten.tanh_backward.default": lambda b, op: b.mul(
        op.arg("grad_output"), b.sub(1.0, b.mul(op.arg("output"), op.arg("output")))
    ),
    "aten.rsqrt.default": _unary(lambda b, x: b.div(1.0, b.make(math.SqrtOp, x))),
    "aten.reciprocal.default": _unary(lambda b, x: b.div(1.0, x)),
    "aten.sigmoid.default": _unary(Body.sigmoid),
    "aten.silu.default": _unary(lambda b, x: b.mul(x, b.sigmoid(x))),
    "aten.gelu.default": _gelu,
    "aten.elu.default": _elu,
    "aten.softplus.default": _softplus,
    "aten.hardtanh.default": lambda b, op: b.clamp(op.arg("self"), op.arg("min_val"), op.arg("max_val")),
    "aten.clamp.default": lambda b, op: b.clamp(op.arg("self"), op.arg("min"), op.arg("max")),
    "aten.hardsigmoid.default": _unary(lambda b, x: b.div(b.clamp(b.add(x, 3.0), 0.0, 6.0), 6.0)),
    "aten.hardswish.default": _unary(lambda b, x: b.div(b.mul(x, b.clamp(b.add(x, 3.0), 0.0, 6.0)), 6.0)),
    "aten.where.self": lambda b, op: b.select("une", op.arg("condition"), 0.0, op.arg("self"), op.arg("other")),
    "aten.masked_fill.Scalar": lambda b, op: b.select("une", op.arg("mask"), 0.0, op.arg("value"), op.arg("self")),
    "aten.leaky_relu.default": lambda b, op: b.select(
        "ogt", op.arg("self"), 0.0, op.arg("self"), b.mul(op.arg("self"), op.arg("negative_slope"))
    ),
}
"""Operator, without its level, to what builds its element."""


def tensors(op: SchemaOp) -> list[SSAValue]:
    """The tensor operands of an operator, each once."""
    return list(dict.fromkeys(v for v in op.operands if isinstance(v.type, TensorType)))
