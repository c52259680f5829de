"""Convolutions of images and sequences: channels last, filters packed for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from etir.backends.xnnpack.legalize.constants import blob_of
from etir.backends.xnnpack.legalize.emitter import Emitter
from etir.backends.xnnpack.legalize.layouts import NHWC, SEQUENCE, Layout
from etir.backends.xnnpack.legalize.legalizer import integer, integers, legalizes
from etir.backends.xnnpack.legalize.linear import integer_layer, stays_integer
from etir.backends.xnnpack.legalize.quantized import dynamic_form, integer_bias, integer_weight
from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import tensor_of

if TYPE_CHECKING:
    import numpy as np


def image_layout(rank: int) -> Layout:
    """The layout in which nodes on images take a tensor of ``rank`` dims with its channels at dim 1."""
    return NHWC if rank == 4 else SEQUENCE


def pair(values: Sequence[int], rank: int, unit: int) -> tuple[int, int]:
    """Height and width of a window's numbers; ``unit`` is the width's for sequences. One number stands for both."""
    if rank == 3:
        return values[0], unit
    return (values[0], values[0]) if len(values) == 1 else (values[0], values[1])


@dataclass(frozen=True)
class Filter:
    """A packed filter: the node's kind and channel attributes, the array, and the dim with one scale each."""

    node: str
    array: np.ndarray
    attributes: dict[str, int]
    channel: int


def pack(weight: np.ndarray, groups: int, transposed: bool) -> Filter:
    """The filter of a convolution as XNNPACK takes it; a sequence's gets width 1.

    Convolution ``[O, I/g, H, W]`` → ``[O, H, W, I/g]``; one with a single input channel in each group → depthwise
    ``[1, H, W, O]``; transposed ``[I, O/g, H, W]`` → ``[O, H, W, I/g]``.
    """
    if weight.ndim == 3:
        weight = weight[:, :, :, None]
    height, width = weight.shape[2:]
    sizes = {"kernel_height": height, "kernel_width": width, "groups": groups}
    if transposed:
        inputs, outputs = weight.shape[0] // groups, weight.shape[1]
        grouped = weight.reshape(groups, inputs, outputs, height, width).transpose(0, 2, 3, 4, 1)
        packed = grouped.reshape(groups * outputs, height, width, inputs)
        channels = {"group_input_channels": inputs, "group_output_channels": outputs}
        return Filter("conv_transpose2d", packed, sizes | channels, 0)
    inputs, outputs = weight.shape[1], weight.shape[0] // groups
    channels = {"group_input_channels": inputs, "group_output_channels": outputs}
    if inputs == 1:
        return Filter("depthwise_conv2d", weight.transpose(1, 2, 3, 0), sizes | channels, 3)
    return Filter("conv2d", weight.transpose(0, 2, 3, 1), sizes | channels, 0)


def window(op: edge.aten.convolution.default, rank: int, transposed: bool) -> dict[str, int]:
    """Padding, stride, dilation and output padding of a convolution as attributes of its node."""
    padding = pair(integers(op.padding), rank, 0)
    stride = pair(integers(op.stride), rank, 1)
    dilation = pair(integers(op.dilation), rank, 1)
    attributes = {
        **dict.fromkeys(("padding_top", "padding_bottom"), padding[0]),
        **dict.fromkeys(("padding_left", "padding_right"), padding[1]),
        "subsampling_height": stride[0],
        "subsampling_width": stride[1],
        "dilation_height": dilation[0],
        "dilation_width": dilation[1],
    }
    if transposed:
        adjustment = pair(integers(op.output_padding), rank, 0)
        attributes |= {"adjustment_height": adjustment[0], "adjustment_width": adjustment[1]}
    return attributes


@legalizes()
def convolution(emitter: Emitter, op: edge.aten.convolution.default) -> None:
    """``aten.convolution`` with a constant filter."""
    value, weight, bias = op.input, op.weight, op.bias
    rank = len(emitter.dims(value))
    transposed = bool(op.transposed)
    layout = image_layout(rank)
    operands: list[SSAValue | None]
    info = None
    if value in emitter.dynamic_sources:
        quantized = emitter.constants.quantized[weight]
        packed = pack(emitter.constants.array(quantized.value), integer(op.groups), transposed)
        info = emitter.info(op.results[0])
        operands = [
            dynamic_form(emitter, value, layout, 3),
            integer_weight(emitter, quantized, packed.array, packed.channel),
            None if bias is None else emitter.get(bias),
        ]
    elif emitter.scale_out is not None:
        quantized, scale = emitter.constants.quantized[weight], emitter.scale_of(value)
        assert scale is not None
        packed = pack(emitter.constants.array(quantized.value), integer(op.groups), transposed)
        operands = [
            emitter.get(value, layout),
            integer_weight(emitter, quantized, packed.array, packed.channel),
            integer_bias(emitter, bias, quantized, scale),
        ]
    elif is_pointwise(op) and stays_integer(emitter, value, weight):
        emitter.hold(op.results[0], integer_layer(emitter, value, weight, bias, layout), layout)
        return
    else:
        packed = pack(emitter.constants.array(weight), integer(op.groups), transposed)
        operands = [
            emitter.get(value, layout),
            filter_constant(emitter, weight, packed),
            None if bias is None else emitter.get(bias),
        ]
    attributes = packed.attributes | window(op, rank, transposed)
    emitter.hold(op.results[0], emitter.node(packed.node, operands, attributes, info=info), layout)


def is_pointwise(op: edge.aten.convolution.default) -> bool:
    """Whether a convolution is the same layer at each place of an image."""
    shape = tensor_of(op.weight).get_shape()
    numbers = (*integers(op.padding), *(step - 1 for step in integers(op.stride)), *(size - 1 for size in shape[2:]))
    return len(shape) == 4 and not any(numbers) and integer(op.groups) == 1 and not op.transposed


def filter_constant(emitter: Emitter, weight: SSAValue, packed: Filter) -> SSAValue:
    """The packed filter as a constant of the graph; each weight is packed once."""
    key = ("filter", weight.owner.properties.get("symbol", weight), packed.node)  # type: ignore[union-attr]
    info = emitter.info(weight, packed.array.shape)
    known = emitter.made.get((*key, info))
    if known is not None:
        return known
    return emitter.constant(info, blob_of(packed.array), key=(*key, info))
