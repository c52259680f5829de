"""Operators that work element by element: they take the layout in which their operands are."""

from __future__ import annotations

from math import inf, pi, sqrt
from typing import cast

from xdsl.ir import SSAValue

from etir.backends.xnnpack.legalize.emitter import Emitter
from etir.backends.xnnpack.legalize.layouts import Layout, aligned
from etir.backends.xnnpack.legalize.legalizer import Legalizer, table
from etir.dialects.schema_op import SchemaOp


def unary(emitter: Emitter, op: SchemaOp, node: str) -> None:
    """``node(self)``"""
    value = op.operands[0]
    layout = emitter.cheapest_for(value)
    emitter.hold(op.results[0], emitter.node(node, [emitter.get(value, layout)]), layout)


def binary(emitter: Emitter, op: SchemaOp, node: str) -> None:
    """``node(self, other)`` with broadcasting; ``other`` may be a number."""
    left, right = op.arg("self"), op.arg("other")
    result = op.results[0]
    rank = len(emitter.dims(result))
    tensors = [v for v in (left, right) if isinstance(v, SSAValue)]
    layout = emitter.cheapest(tensors, rank)
    forms = [
        emitter.get(v, aligned(layout, rank, len(emitter.dims(v))))
        if isinstance(v, SSAValue)
        else emitter.scalar(float(v), left)
        for v in (left, right)
    ]
    emitter.hold(result, emitter.node(node, forms), layout)


def _clamp(emitter: Emitter, op: SchemaOp, low: float, high: float) -> None:
    value = op.operands[0]
    fused = emitter.clamp(value, low, high)
    if fused is not None:
        layout = emitter.layouts(value)[0]
        emitter.hold(op.results[0], fused, layout)
        return
    layout = emitter.cheapest_for(value)
    form = emitter.node("clamp", [emitter.get(value, layout)], clamp=(low, high))
    emitter.hold(op.results[0], form, layout)


def relu(emitter: Emitter, op: SchemaOp) -> None:
    """``clamp(self, 0, inf)``"""
    _clamp(emitter, op, 0.0, inf)


def relu6(emitter: Emitter, op: SchemaOp) -> None:
    """``clamp(self, 0, 6)``"""
    _clamp(emitter, op, 0.0, 6.0)


def hardtanh(emitter: Emitter, op: SchemaOp) -> None:
    """``clamp(self, min_val, max_val)``"""
    _clamp(emitter, op, float(op.arg("min_val")), float(op.arg("max_val")))


def clamp(emitter: Emitter, op: SchemaOp) -> None:
    """``clamp(self, min, max)``, one of which may be missing."""
    low, high = op.arg("min"), op.arg("max")
    high = inf if high is None else float(high)
    low = -inf if low is None else float(low)
    _clamp(emitter, op, min(low, high), high)


def clamp_min(emitter: Emitter, op: SchemaOp) -> None:
    """``clamp(self, min)``"""
    _clamp(emitter, op, float(op.arg("min")), inf)


def clamp_max(emitter: Emitter, op: SchemaOp) -> None:
    """``clamp(self, max = max)``"""
    _clamp(emitter, op, -inf, float(op.arg("max")))


def sloped(emitter: Emitter, op: SchemaOp) -> None:
    """``leaky_relu`` and ``elu`` (with its scales at 1)."""
    value = op.operands[0]
    layout = emitter.cheapest_for(value)
    leaky = op.SCHEMA.op_name.startswith("aten.leaky_relu")
    name, attribute, argument = (
        ("leaky_relu", "negative_slope", "negative_slope") if leaky else ("elu", "alpha", "alpha")
    )
    form = emitter.node(name, [emitter.get(value, layout)], {attribute: float(op.arg(argument))})
    emitter.hold(op.results[0], form, layout)


def power(emitter: Emitter, op: SchemaOp) -> None:
    """``self ** exponent`` for the exponents that have a node."""
    node = {2: "square", 0.5: "square_root", -0.5: "reciprocal_square_root"}[op.arg("exponent")]
    unary(emitter, op, node)


def gelu(emitter: Emitter, op: SchemaOp) -> None:
    """The node is the exact function; the approximation by ``tanh`` is written out."""
    if op.arg("approximate") == "none":
        unary(emitter, op, "gelu")
        return
    value = op.operands[0]
    layout = emitter.cheapest_for(value)
    x = emitter.get(value, layout)
    cubic = emitter.node("multiply", [emitter.node("square", [x]), emitter.scalar(0.044715, value)])
    inner = emitter.node("multiply", [x, emitter.node("add", [cubic, emitter.scalar(1.0, value)])])
    scaled = emitter.node("multiply", [inner, emitter.scalar(sqrt(2 / pi), value)])
    gate = emitter.node("add", [emitter.node("tanh", [scaled]), emitter.scalar(1.0, value)])
    half = emitter.node("multiply", [x, emitter.scalar(0.5, value)])
    emitter.hold(op.results[0], emitter.node("multiply", [half, gate]), layout)


def hardsigmoid(emitter: Emitter, op: SchemaOp) -> None:
    """``clamp(self + 3, 0, 6) / 6``"""
    value = op.operands[0]
    layout = emitter.cheapest_for(value)
    x = emitter.get(value, layout)
    clamped = emitter.node("add", [x, emitter.scalar(3.0, value)], clamp=(0.0, 6.0))
    emitter.hold(op.results[0], emitter.node("multiply", [clamped, emitter.scalar(1 / 6, value)]), layout)


def silu(emitter: Emitter, op: SchemaOp) -> None:
    """``self * sigmoid(self)``"""
    value = op.operands[0]
    layout = emitter.cheapest_for(value)
    x = emitter.get(value, layout)
    emitter.hold(op.results[0], emitter.node("multiply", [x, emitter.node("sigmoid", [x])]), layout)


def prelu(emitter: Emitter, op: SchemaOp) -> None:
    """The slope is one number, or one for each channel, which then come last."""
    value, weight = op.arg("self"), op.arg("weight")
    rank = len(emitter.dims(value))
    layout = emitter.cheapest_for(value)
    if rank > 2 and emitter.dims(weight) != (1,):
        layout = cast(Layout, (0, *range(2, rank), 1))
    form = emitter.node("prelu", [emitter.get(value, layout), emitter.get(weight)])
    emitter.hold(op.results[0], form, layout)


def batch_norm(emitter: Emitter, op: SchemaOp) -> None:
    """``(input - mean) / sqrt(var + eps) * weight + bias`` with one number for each channel."""
    import numpy as np

    value = op.arg("input")
    mean, var = (emitter.constants.array(op.arg(n)).astype(np.float64) for n in ("running_mean", "running_var"))
    scale = 1.0 / np.sqrt(var + op.arg("eps"))
    if op.arg("weight") is not None:
        scale = scale * emitter.constants.array(op.arg("weight"))
    shift = -mean * scale
    if op.arg("bias") is not None:
        shift = shift + emitter.constants.array(op.arg("bias"))
    layout = emitter.cheapest_for(value)
    shape = [-1 if d == 1 else 1 for d in layout]
    while shape and shape[0] == 1 and len(shape) > 1:
        shape.pop(0)
    factors = [emitter.float_constant(array.reshape(shape), value) for array in (scale, shift)]
    product = emitter.node("multiply", [emitter.get(value, layout), factors[0]])
    emitter.hold(op.results[0], emitter.node("add", [product, factors[1]]), layout)


UNARY: dict[str, str] = {
    "aten.abs.default": "abs",
    "aten.ceil.default": "ceiling",
    "aten.cos.default": "cos",
    "aten.exp.default": "exp",
    "aten.floor.default": "floor",
    "aten.hardswish.default": "hardswish",
    "aten.log.default": "log",
    "aten.neg.default": "negate",
    "aten.rsqrt.default": "reciprocal_square_root",
    "aten.sigmoid.default": "sigmoid",
    "aten.sin.default": "sin",
    "aten.sqrt.default": "square_root",
    "aten.square.default": "square",
    "aten.tanh.default": "tanh",
}
"""Operators that are one node with one operand."""

BINARY: dict[str, str] = {
    "aten.add.Tensor": "add",
    "aten.add.Scalar": "add",
    "aten.sub.Tensor": "subtract",
    "aten.sub.Scalar": "subtract",
    "aten.mul.Tensor": "multiply",
    "aten.mul.Scalar": "multiply",
    "aten.div.Tensor": "div",
    "aten.div.Scalar": "div",
    "aten.maximum.default": "maximum",
    "aten.minimum.default": "minimum",
}
"""Operators that are one node with two operands."""

LEGALIZERS: dict[str, Legalizer] = {
    **table(unary, UNARY),
    **table(binary, BINARY),
    "aten.relu.default": relu,
    "aten.relu6.default": relu6,
    "aten.hardtanh.default": hardtanh,
    "aten.clamp.default": clamp,
    "aten.clamp_min.default": clamp_min,
    "aten.clamp_max.default": clamp_max,
    "aten.leaky_relu.default": sloped,
    "aten.elu.default": sloped,
    "aten.pow.Tensor_Scalar": power,
    "aten.gelu.default": gelu,
    "aten.hardsigmoid.default": hardsigmoid,
    "aten.silu.default": silu,
    "aten.prelu.default": prelu,
    "aten._native_batch_norm_legit_no_training.default": batch_norm,
}
