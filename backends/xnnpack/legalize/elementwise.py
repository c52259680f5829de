"""Operators that work element by element: they take the layout in which their operands are."""

from __future__ import annotations

from math import inf, pi, sqrt
from typing import cast

from xdsl.ir import SSAValue

from etir.backends.xnnpack.legalize.emitter import Emitter
from etir.backends.xnnpack.legalize.layouts import Layout, aligned
from etir.backends.xnnpack.legalize.legalizer import legalizes, legalizes_as, number
from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import EdgeOp
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


@legalizes()
def relu(emitter: Emitter, op: edge.aten.relu.default) -> None:
    """``clamp(self, 0, inf)``"""
    _clamp(emitter, op, 0.0, inf)


@legalizes()
def relu6(emitter: Emitter, op: edge.aten.relu6.default) -> None:
    """``clamp(self, 0, 6)``"""
    _clamp(emitter, op, 0.0, 6.0)


@legalizes()
def hardtanh(emitter: Emitter, op: edge.aten.hardtanh.default) -> None:
    """``clamp(self, min_val, max_val)``"""
    _clamp(emitter, op, number(op.min_val), number(op.max_val))


@legalizes()
def clamp(emitter: Emitter, op: edge.aten.clamp.default) -> None:
    """``clamp(self, min, max)``, one of which may be missing."""
    low, high = op.min, op.max
    high = inf if high is None else number(high)
    low = -inf if low is None else number(low)
    _clamp(emitter, op, min(low, high), high)


@legalizes()
def clamp_min(emitter: Emitter, op: edge.aten.clamp_min.default) -> None:
    """``clamp(self, min)``"""
    _clamp(emitter, op, number(op.min), inf)


@legalizes()
def clamp_max(emitter: Emitter, op: edge.aten.clamp_max.default) -> None:
    """``clamp(self, max = max)``"""
    _clamp(emitter, op, -inf, number(op.max))


@legalizes()
def sloped(emitter: Emitter, op: edge.aten.leaky_relu.default | edge.aten.elu.default) -> None:
    """``leaky_relu`` and ``elu`` (with its scales at 1)."""
    value = op.operands[0]
    layout = emitter.cheapest_for(value)
    operands = [emitter.get(value, layout)]
    if isinstance(op, edge.aten.leaky_relu.default):
        form = emitter.node("leaky_relu", operands, {"negative_slope": number(op.negative_slope)})
    else:
        form = emitter.node("elu", operands, {"alpha": number(op.alpha)})
    emitter.hold(op.results[0], form, layout)


@legalizes()
def power(emitter: Emitter, op: edge.aten.pow.Tensor_Scalar) -> None:
    """``self ** exponent`` for the exponents that have a node."""
    node = {2: "square", 0.5: "square_root", -0.5: "reciprocal_square_root"}[number(op.exponent)]
    unary(emitter, op, node)


@legalizes()
def gelu(emitter: Emitter, op: edge.aten.gelu.default) -> None:
    """The node is the exact function; the approximation by ``tanh`` is decomposed, except on integers, whose steps are
    far larger than the difference.
    """
    if op.approximate == "none" or emitter.scale_out is not None:
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


@legalizes()
def hardsigmoid(emitter: Emitter, op: edge.aten.hardsigmoid.default) -> None:
    """``clamp(self + 3, 0, 6) / 6``"""
    value = op.operands[0]
    layout = emitter.cheapest_for(value)
    x = emitter.get(value, layout)
    clamped = emitter.node("add", [x, emitter.scalar(3.0, value)], clamp=(0.0, 6.0))
    emitter.hold(op.results[0], emitter.node("multiply", [clamped, emitter.scalar(1 / 6, value)]), layout)


@legalizes()
def silu(emitter: Emitter, op: edge.aten.silu.default) -> None:
    """``self * sigmoid(self)``"""
    value = op.operands[0]
    layout = emitter.cheapest_for(value)
    x = emitter.get(value, layout)
    emitter.hold(op.results[0], emitter.node("multiply", [x, emitter.node("sigmoid", [x])]), layout)


@legalizes()
def prelu(emitter: Emitter, op: edge.aten.prelu.default) -> None:
    """The slope is one number, or one for each channel, which then come last."""
    value, weight = op.self_, op.weight
    rank = len(emitter.dims(value))
    layout = emitter.cheapest_for(value)
    if rank > 2 and emitter.dims(weight) != (1,):
        layout = cast(Layout, (0, *range(2, rank), 1))
    form = emitter.node("prelu", [emitter.get(value, layout), emitter.get(weight)])
    emitter.hold(op.results[0], form, layout)


@legalizes()
def batch_norm(emitter: Emitter, op: edge.aten._native_batch_norm_legit_no_training.default) -> None:
    """``(input - mean) / sqrt(var + eps) * weight + bias`` with one number for each channel."""
    import numpy as np

    value = op.input
    mean, var = (emitter.constants.array(v).astype(np.float64) for v in (op.running_mean, op.running_var))
    scale = 1.0 / np.sqrt(var + op.eps)
    if op.weight is not None:
        scale = scale * emitter.constants.array(op.weight)
    shift = -mean * scale
    if op.bias is not None:
        shift = shift + emitter.constants.array(op.bias)
    layout = emitter.cheapest_for(value)
    shape = [-1 if d == 1 else 1 for d in layout]
    while shape and shape[0] == 1 and len(shape) > 1:
        shape.pop(0)
    factors = [emitter.float_constant(array.reshape(shape), value) for array in (scale, shift)]
    product = emitter.node("multiply", [emitter.get(value, layout), factors[0]])
    emitter.hold(op.results[0], emitter.node("add", [product, factors[1]]), layout)


UNARY: dict[type[EdgeOp], str] = {
    edge.aten.abs.default: "abs",
    edge.aten.ceil.default: "ceiling",
    edge.aten.cos.default: "cos",
    edge.aten.exp.default: "exp",
    edge.aten.floor.default: "floor",
    edge.aten.hardswish.default: "hardswish",
    edge.aten.log.default: "log",
    edge.aten.neg.default: "negate",
    edge.aten.rsqrt.default: "reciprocal_square_root",
    edge.aten.sigmoid.default: "sigmoid",
    edge.aten.sin.default: "sin",
    edge.aten.sqrt.default: "square_root",
    edge.aten.square.default: "square",
    edge.aten.tanh.default: "tanh",
}
"""Operators that are one node with one operand."""

BINARY: dict[type[EdgeOp], str] = {
    edge.aten.add.Tensor: "add",
    edge.aten.add.Scalar: "add",
    edge.aten.sub.Tensor: "subtract",
    edge.aten.sub.Scalar: "subtract",
    edge.aten.mul.Tensor: "multiply",
    edge.aten.mul.Scalar: "multiply",
    edge.aten.div.Tensor: "div",
    edge.aten.div.Scalar: "div",
    edge.aten.maximum.default: "maximum",
    edge.aten.minimum.default: "minimum",
}
"""Operators that are one node with two operands."""

legalizes_as(unary, UNARY)
legalizes_as(binary, BINARY)
