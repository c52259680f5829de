"""Pointwise operators: shapes broadcast, and one of four rules gives the element type."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from etir.dialects.aten.table import load_table
from etir.dialects.dtypes import i1
from etir.dialects.et.layout import dims_of, is_contiguous, order_of, tensor_type
from etir.lowering.build.dims import broadcast
from etir.lowering.build.inference import Call, rule, tensor_type_of
from etir.lowering.build.promotion import real_of, result_type, to_floating

_SAME = [
    "aten.neg",
    "aten.relu",
    "aten.floor",
    "aten.ceil",
    "aten.round",
    "aten.trunc",
    "aten.sign",
    "aten.sgn",
    "aten.hardtanh",
    "aten.leaky_relu",
    "aten.elu",
    "aten.gelu",
    "aten.silu",
    "aten.bitwise_not",
    "aten.fill",
    "aten.masked_fill",
    "aten.hardswish",
    "aten.hardsigmoid",
    "aten.positive",
    "aten.conj_physical",
    "aten.fmod",
    "aten.remainder",
    "aten.clamp",
    "aten.clamp_min",
    "aten.clamp_max",
    "aten.add",
    "aten.sub",
    "aten.mul",
    "aten.rsub",
    "aten.maximum",
    "aten.minimum",
    "aten.pow",
    "aten.floor_divide",
    "aten.where",
    "aten.bitwise_and",
    "aten.bitwise_or",
    "aten.bitwise_xor",
    "aten.bitwise_left_shift",
    "aten.bitwise_right_shift",
    "aten.fmax",
    "aten.fmin",
    "aten.square",
]
_FLOATING = [
    "aten.exp",
    "aten.exp2",
    "aten.expm1",
    "aten.log",
    "aten.log2",
    "aten.log10",
    "aten.log1p",
    "aten.sqrt",
    "aten.rsqrt",
    "aten.reciprocal",
    "aten.sin",
    "aten.cos",
    "aten.tan",
    "aten.asin",
    "aten.acos",
    "aten.atan",
    "aten.sinh",
    "aten.cosh",
    "aten.tanh",
    "aten.asinh",
    "aten.acosh",
    "aten.atanh",
    "aten.atan2",
    "aten.erf",
    "aten.erfc",
    "aten.sigmoid",
    "aten.logit",
]
_BOOL = [
    "aten.eq",
    "aten.ne",
    "aten.lt",
    "aten.le",
    "aten.gt",
    "aten.ge",
    "aten.logical_and",
    "aten.logical_or",
    "aten.logical_xor",
    "aten.logical_not",
    "aten.isnan",
    "aten.isinf",
]

_NOT_PROMOTED = {"alpha", "beta", "value", "negative_slope", "scale", "input_scale", "min_val", "max_val", "eps"}
"""Numbers that do not take part in promotion."""


def result_dims(call: Call) -> TensorType[Attribute]:
    """A type with the broadcast dims of all tensors and the dim order that they share."""
    types = [tensor_type_of(t) for t in call.tensors()]
    first = types[0]
    if all(t is first or (t.shape == first.shape and t.encoding == first.encoding) for t in types):
        return first
    dims = broadcast(*map(dims_of, types))
    orders = [order_of(t) for t in types if t.get_num_dims() == len(dims) and dims_of(t) == dims]
    ordered = orders and not all(is_contiguous(t) for t in types) and all(o == orders[0] for o in orders)
    return tensor_type(first.element_type, dims, orders[0] if ordered else None)


def _promoted(call: Call, skip: Sequence[str] = ()) -> Attribute:
    operands = []
    for argument in call.schema.arguments:
        value = call.given.get(argument.name)
        if value is None or argument.name in skip or argument.name in _NOT_PROMOTED:
            continue
        if argument.kind.value in ("Tensor", "Scalar"):
            operands.append(value)
    return result_type(operands)


def _with_element(call: Call, element: Attribute) -> TensorType[Attribute]:
    shape = result_dims(call)
    return shape if shape.element_type == element else TensorType(element, shape.shape, shape.encoding)


def _overloads(packets: Sequence[str]) -> list[str]:
    table = load_table()
    names = [name for packet in packets for name in table.overloads(packet)]
    return [n for n in names if not n.endswith("out") and not n.rsplit(".", 1)[0].endswith("_")]


_MODES = ("aten.div.Tensor_mode", "aten.div.Scalar_mode")


@rule(*_overloads([p for p in _SAME if p not in ("aten.where", "aten.masked_fill", "aten.fill")]), *_MODES)
def promoted(call: Call) -> TensorType[Attribute]:
    """The common type of all operands; a true ``rounding_mode`` of none is not an integer division."""
    element = _promoted(call)
    if call.schema.name == "div" and call["rounding_mode"] is None:
        element = to_floating(element)
    return _with_element(call, element)


@rule("aten.fill.Scalar", "aten.fill.Tensor", "aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def first(call: Call) -> TensorType[Attribute]:
    """The type of the first operand."""
    return _with_element(call, call.element())


@rule(
    *_overloads(_FLOATING), "aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor", "aten.true_divide.Scalar"
)
def floating(call: Call) -> TensorType[Attribute]:
    """The common type, or f32 for integers."""
    return _with_element(call, to_floating(_promoted(call)))


@rule(*_overloads(_BOOL))
def boolean(call: Call) -> TensorType[Attribute]:
    """A bool for each element."""
    return _with_element(call, i1)


@rule("aten.abs.default")
def magnitude(call: Call) -> TensorType[Attribute]:
    """The real type of a complex one."""
    return _with_element(call, real_of(call.element()))


@rule(*[n for n in load_table().overloads("aten.where") if n not in ("aten.where.default", "aten.where.self_out")])
def where(call: Call) -> TensorType[Attribute]:
    """The common type of the two alternatives."""
    return _with_element(call, _promoted(call, skip=("condition",)))


@rule("aten.native_dropout.default")
def native_dropout(call: Call) -> list[Attribute]:
    """The input's type and a mask."""
    type = call.type("input")
    return [type, TensorType(i1, type.shape, type.encoding)]
