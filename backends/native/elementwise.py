"""Edge operators that compute each element from the elements at the same place: what they are in a body.

One function for an operator, which builds ``arith`` and ``math`` operations on numbers of f32. What is in this table is
what ``epilogue`` and ``map`` take.
"""

from __future__ import annotations

import math as m
from collections.abc import Callable
from typing import Any

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from etir.backends.native.body import Body, Expand, rounded
from etir.backends.native.truth import TRUTH
from etir.dialects.schema_op import SchemaOp


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


def _softshrink(b: Body, op: Any) -> SSAValue:
    """Towards 0 by ``lambd``; what is nearer to it is 0, and NaN is NaN."""
    x, distance = b.of(op.arg("self")), float(op.arg("lambd"))
    below = b.select("olt", x, -distance, b.add(x, distance), b.mul(x, 0.0))
    return b.select("ogt", x, distance, b.sub(x, distance), below)


def _sign(b: Body, x: SSAValue) -> SSAValue:
    """1, 0 or -1; of NaN 0."""
    return b.sub(b.truth("ogt", x, 0.0), b.truth("olt", x, 0.0))


def _nan_to_num(b: Body, op: Any) -> SSAValue:
    x = b.of(op.arg("self"))
    number, largest, least = (op.arg(n) for n in ("nan", "posinf", "neginf"))
    found = b.select("oeq", x, m.inf, _LARGEST if largest is None else largest, x)
    found = b.select("oeq", x, -m.inf, -_LARGEST if least is None else least, found)
    return b.select("une", x, x, 0.0 if number is None else number, found)


def _logit(b: Body, op: Any) -> SSAValue:
    """log(x / (1 - x)), of what is ``eps`` from 0 and 1 at least."""
    x, distance = b.of(op.arg("self")), op.arg("eps")
    if distance is not None:
        low = rounded(float(distance))
        x = b.select("olt", x, low, low, b.select("ogt", x, 1.0 - low, 1.0 - low, x))
    return b.make(math.LogOp, b.div(x, b.sub(1.0, x)))


def _bounds(b: Body, op: Any) -> SSAValue:
    x, low, high = (op.arg(n) for n in ("self", "min", "max"))
    x = b.of(x) if low is None else b.at_least(x, low)
    return x if high is None else b.at_most(x, high)


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


_LARGEST = float.fromhex("0x1.fffffep127")

POWERS: dict[float, Callable[[Body, SSAValue], SSAValue]] = {
    1.0: lambda b, x: x,
    2.0: _power(2),
    3.0: _power(3),
    4.0: lambda b, x: _power(2)(b, _power(2)(b, x)),
    0.5: lambda b, x: b.make(math.SqrtOp, x),
    0.75: lambda b, x: b.mul(b.make(math.SqrtOp, x), b.make(math.SqrtOp, b.make(math.SqrtOp, x))),
    -0.5: lambda b, x: b.div(1.0, b.make(math.SqrtOp, x)),
    -1.0: lambda b, x: b.div(1.0, x),
    -2.0: lambda b, x: b.div(1.0, b.mul(x, x)),
}
"""Exponents that are a few operations, to what they are."""


def power_of(b: Body, x: SSAValue, exponent: float) -> SSAValue:
    """x^exponent, by products and roots where these are few."""
    return POWERS[exponent](b, x) if exponent in POWERS else b.make(math.PowFOp, x, exponent)


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
    "aten.log2.default": _unary(lambda b, x: b.mul(b.make(math.LogOp, x), 1 / m.log(2))),
    "aten.log10.default": _unary(lambda b, x: b.mul(b.make(math.LogOp, x), 1 / m.log(10))),
    "aten.logit.default": _logit,
    "aten.floor.default": _unary(lambda b, x: b.make(math.FloorOp, x)),
    "aten.ceil.default": _unary(lambda b, x: b.make(math.CeilOp, x)),
    "aten.trunc.default": _unary(lambda b, x: b.make(math.TruncOp, x)),
    "aten.round.default": _unary(lambda b, x: b.make(math.RoundEvenOp, x)),
    "aten.sign.default": _unary(_sign),
    "aten.nan_to_num.default": _nan_to_num,
    "aten.pow.Tensor_Scalar": lambda b, op: power_of(b, b.of(op.arg("self")), float(op.arg("exponent"))),
    "aten.pow.Tensor_Tensor": lambda b, op: b.make(math.PowFOp, op.arg("self"), op.arg("exponent")),
    "aten.pow.Scalar": lambda b, op: b.make(math.PowFOp, float(op.arg("self")), op.arg("exponent")),
    "aten.exp2.default": _unary(lambda b, x: b.make(math.PowFOp, 2.0, x)),
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
    "aten.clamp.Tensor": _bounds,
    "aten.hardshrink.default": lambda b, op: b.select(
        "ole", b.make(math.AbsFOp, op.arg("self")), float(op.arg("lambd")), 0.0, op.arg("self")
    ),
    "aten.softshrink.default": _softshrink,
    "aten.threshold.default": lambda b, op: b.select(
        "ole", op.arg("self"), float(op.arg("threshold")), float(op.arg("value")), op.arg("self")
    ),
    "aten.clamp.default": lambda b, op: b.clamp(op.arg("self"), op.arg("min"), op.arg("max")),
    "aten.hardsigmoid.default": _unary(lambda b, x: b.mul(b.clamp(b.add(x, 3.0), 0.0, 6.0), 1 / 6)),
    "aten.hardswish.default": _unary(lambda b, x: b.mul(b.mul(x, b.clamp(b.add(x, 3.0), 0.0, 6.0)), 1 / 6)),
    "aten.where.self": lambda b, op: b.choose(op.arg("condition"), op.arg("self"), op.arg("other")),
    "aten.masked_fill.Scalar": lambda b, op: b.choose(op.arg("mask"), op.arg("value"), op.arg("self")),
    "aten.leaky_relu.default": lambda b, op: b.select(
        "ogt", op.arg("self"), 0.0, op.arg("self"), b.mul(op.arg("self"), op.arg("negative_slope"))
    ),
    **TRUTH,
}
"""Operator, without its level, to what builds its element."""


def tensors(op: SchemaOp) -> list[SSAValue]:
    """The tensor operands of an operator, each once."""
    return list(dict.fromkeys(v for v in op.operands if isinstance(v.type, TensorType)))
