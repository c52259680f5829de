"""Products of matrices. The last dim has to lie last, the others may lie as they do."""

from __future__ import annotations

from xdsl.ir import SSAValue

from etir.backends.xnnpack.dialect import ConstantOp
from etir.backends.xnnpack.legalize.emitter import Emitter
from etir.backends.xnnpack.legalize.layouts import Layout, default_layout
from etir.backends.xnnpack.legalize.legalizer import legalizes
from etir.backends.xnnpack.legalize.quantized import dynamic_form, integer_bias, integer_weight
from etir.backends.xnnpack.legalize.unpacked import unpacked
from etir.dialects.dtypes import dtype_of
from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import tensor_of
from etir.dialects.schema_op import SchemaOp


def last_stays(emitter: Emitter, value: SSAValue) -> Layout:
    """The cheapest layout of a value that ends with its last dim."""
    last = len(emitter.dims(value)) - 1
    layout = emitter.cheapest([value], last + 1)
    return layout if layout[-1] == last else default_layout(last + 1)


@legalizes()
def linear(emitter: Emitter, op: edge.aten.linear.default) -> None:
    """``input @ weight.T + bias``"""
    value, weight = op.input, op.weight
    if emitter.scale_out is not None:
        quantized, scale = emitter.constants.quantized[weight], emitter.scale_of(value)
        assert scale is not None
        layout = last_stays(emitter, value)
        operands = [
            emitter.get(value, layout),
            integer_weight(emitter, quantized, emitter.constants.array(quantized.value), 0),
            integer_bias(emitter, op.bias, quantized, scale),
        ]
        emitter.hold(op.results[0], emitter.node("fully_connected", operands), layout)
        return
    if value in emitter.dynamic_sources:
        quantized = emitter.constants.quantized[weight]
        layout = last_stays(emitter, emitter.dynamic_sources[value])
        bias = op.bias
        operands = [
            dynamic_form(emitter, value, layout, 1),
            integer_weight(emitter, quantized, emitter.constants.array(quantized.value), 0),
            None if bias is None else emitter.get(bias),
        ]
        info = emitter.info(op.results[0])
        emitter.hold(op.results[0], emitter.node("fully_connected", operands, info=info), layout)
        return
    if stays_integer(emitter, value, weight):
        layout = last_stays(emitter, value)
        emitter.hold(op.results[0], integer_layer(emitter, value, weight, op.bias, layout), layout)
        return
    if _in_groups(emitter, value, weight):
        _fully_connected(emitter, op, value, unpacked(emitter, emitter.constants.quantized[weight], value), op.bias)
        return
    _fully_connected(emitter, op, value, emitter.get(weight), op.bias)


def stays_integer(emitter: Emitter, value: SSAValue, weight: SSAValue) -> bool:
    """Whether a layer that computes in floating point can have the integers of its weight: XNNPACK multiplies them out
    by itself where there is one scale for each output channel, in float32.
    """
    quantized = emitter.constants.quantized.get(weight)
    if quantized is None or dtype_of(tensor_of(value).element_type).torch_name != "float32":
        return False
    return quantized.axis == 0 and quantized.block is None and quantized.zero_points is None


def _in_groups(emitter: Emitter, value: SSAValue, weight: SSAValue) -> bool:
    """Whether a layer that computes in float32 has a weight with a scale for each group of numbers in a row."""
    quantized = emitter.constants.quantized.get(weight)
    if quantized is None or dtype_of(tensor_of(value).element_type).torch_name != "float32":
        return False
    return quantized.axis == 0 and quantized.block is not None and quantized.zero_points is None


def integer_layer(
    emitter: Emitter, value: SSAValue, weight: SSAValue, bias: SSAValue | None, layout: Layout
) -> SSAValue:
    """A layer with a weight of integers and an input in floating point. The bias is a sum of its own: inside of such a
    layer XNNPACK multiplies it by the weight's scales. A filter of one element is the matrix that it is.
    """
    quantized = emitter.constants.quantized[weight]
    array = emitter.constants.array(quantized.value)
    stored = integer_weight(emitter, quantized, array.reshape(array.shape[:2]), 0)
    form = emitter.node("fully_connected", [emitter.get(value, layout), stored, None])
    return form if bias is None else emitter.node("add", [form, emitter.get(bias)])


@legalizes()
def addmm(emitter: Emitter, op: edge.aten.addmm.default) -> None:
    """``self + mat1 @ mat2``: the filter is the transposed second matrix."""
    _fully_connected(emitter, op, op.mat1, emitter.get(op.mat2, (1, 0)), op.self_)


@legalizes()
def mm(emitter: Emitter, op: edge.aten.mm.default) -> None:
    """``self @ mat2``, as the layer that it is with constant ``mat2``."""
    if op.mat2 in emitter.constants:
        _fully_connected(emitter, op, op.self_, emitter.get(op.mat2, (1, 0)), None)
        return
    operands = [emitter.get(op.self_), emitter.get(op.mat2)]
    emitter.hold(op.results[0], emitter.node("batch_matrix_multiply", operands))


def _fully_connected(emitter: Emitter, op: SchemaOp, value: SSAValue, weight: SSAValue, bias: SSAValue | None) -> None:
    """The layer as one node; its bias is a sum of its own where the filter is computed, which a constant bias beside of
    makes XNNPACK read memory that it does not have.
    """
    layout = last_stays(emitter, value)
    given = bias if isinstance(weight.owner, ConstantOp) else None
    form = emitter.node("fully_connected", [emitter.get(value, layout), weight, emitter.bias(given)])
    if bias is not None and given is None:
        form = emitter.node("add", [form, emitter.get(bias)])
    emitter.hold(op.results[0], form, layout)


@legalizes()
def bmm(emitter: Emitter, op: edge.aten.bmm.default) -> None:
    """Both operands in the default layout."""
    operands = [emitter.get(op.self_), emitter.get(op.mat2)]
    emitter.hold(op.results[0], emitter.node("batch_matrix_multiply", operands))
