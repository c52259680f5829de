"""How a call of each of the target's integer kernels is made of an operator."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from etir.dialects.et.layout import tensor_of
from etir.interpret.numpy_ops.integer import PANEL, QUAD, packed, phases_of
from etir.passes.backend.fuse_quantized import cortex_m
from etir.passes.backend.fuse_quantized.call import Call, Made, in_planes, in_two_dims, window_of
from etir.passes.backend.fuse_quantized.stored import (
    Encoding,
    Stored,
    as_image,
    as_row,
    in_order,
    is_image,
)

ADD_BITS = 20
"""Bits of the larger factor of a sum."""
ONE = 2.0**23
"""What the table of a softmax has for the largest number of a row."""


def _bias(numbers: np.ndarray, bias: np.ndarray, zero_point: int) -> np.ndarray:
    """The bias of a kernel that adds up (x + 128) w."""
    sums = numbers.astype(np.int64).sum(tuple(range(1, numbers.ndim)))
    return (bias - (128 + zero_point) * sums).astype(np.int32)


def _linear(call: Call, given: list[Stored], out: Encoding) -> Made:
    (x,) = given
    layer = call.layer(x.encoding, out)
    if isinstance(layer, str):
        return layer
    numbers, bias, factors = layer
    rank = tensor_of(x.value).get_num_dims()
    value = in_order(x.value, tuple(range(rank)), call.rewriter)
    constants = {
        "weight": packed(numbers),
        "bias": _bias(numbers, bias, x.encoding.zero_point),
        "factors": factors.astype(np.float32),
    }
    return call.make({"input": value, **constants}, out, tuple(range(rank)))


def _convolution(call: Call, given: list[Stored], out: Encoding) -> Made:
    (x,) = given
    window = window_of(call.root)
    layer = call.layer(x.encoding, out) if window is not None else "sizes that are computed"
    if isinstance(layer, str) or window is None:
        return str(layer)
    numbers, bias, factors = layer
    groups = int(call.root.arg("groups"))
    columns = in_planes(numbers).transpose(0, 2, 3, 1).reshape(groups, numbers.shape[0] // groups, -1)
    constants = {
        "weight": np.stack([packed(group) for group in columns]),
        "bias": _bias(numbers, bias, x.encoding.zero_point),
        "factors": factors.astype(np.float32),
    }
    numbers_of_call = {"input_zero_point": x.encoding.zero_point, **window, "groups": groups}
    return call.convolved({"input": as_row(x.value, call.rewriter), **constants, **numbers_of_call, **call.limits(out)})


def _depthwise(call: Call, given: list[Stored], out: Encoding) -> Made:
    (x,) = given
    window = window_of(call.root)
    layer = call.layer(x.encoding, out) if window is not None else "sizes that are computed"
    if isinstance(layer, str) or window is None:
        return str(layer)
    numbers, bias, factors = layer
    constants = {
        "weight": np.ascontiguousarray(numbers.reshape(numbers.shape[0], -1).T),
        "bias": bias.astype(np.int32),
        "factors": factors.astype(np.float32),
    }
    numbers_of_call = {"input_zero_point": x.encoding.zero_point, **window}
    return call.convolved({"input": as_row(x.value, call.rewriter), **constants, **numbers_of_call, **call.limits(out)})


def _transposed(call: Call, given: list[Stored], out: Encoding) -> Made:
    (x,) = given
    window = window_of(call.root)
    more = in_two_dims(call.root, {"output_padding": call.root.arg("output_padding")})
    layer = call.layer(x.encoding, out) if window is not None else "sizes that are computed"
    if isinstance(layer, str) or window is None or more is None:
        return str(layer)
    numbers, bias, factors = layer
    groups = int(call.root.arg("groups"))
    taps = in_planes(numbers).transpose(0, 2, 3, 1)
    packed_groups: list[list[np.ndarray]] = [[] for _ in range(groups)]
    biases: list[np.ndarray] = []
    for lines, columns in phases_of(window["kernel"], window["stride"], window["dilation"]):
        part = taps[:, lines][:, :, columns].reshape(groups, len(taps) // groups, -1)
        for index, matrix in enumerate(part):
            packed_groups[index].append(packed(matrix).reshape(-1, PANEL, QUAD))
        biases.append(_bias(part.reshape(len(taps), -1), bias, x.encoding.zero_point))
    constants = {
        "weight": np.stack([np.concatenate(parts) for parts in packed_groups]),
        "bias": np.stack(biases),
        "factors": factors.astype(np.float32),
    }
    numbers_of_call = {"input_zero_point": x.encoding.zero_point, **window, **more, "groups": groups}
    return call.convolved({"input": as_row(x.value, call.rewriter), **constants, **numbers_of_call, **call.limits(out)})


def _add(call: Call, given: list[Stored], out: Encoding) -> Made:
    a, b = given
    factors = [g.encoding.scale / out.scale for g in given]
    sign = -1 if call.root.op_name == "aten.sub.Tensor" else 1
    most = max(factors)
    shift = min(28, math.floor(ADD_BITS - math.log2(most))) if 0 < most < math.inf else 0
    if shift < 1:
        return "the scale of an operand is too large for that of the result"
    first, second = round(math.ldexp(factors[0], shift)), sign * round(math.ldexp(factors[1], shift))
    bias = -(a.encoding.zero_point * first + b.encoding.zero_point * second)
    arguments = {"a_multiplier": first, "b_multiplier": second, "bias": bias, "shift": shift}
    return call.pairwise(given, arguments, out)


def _mul(call: Call, given: list[Stored], out: Encoding) -> Made:
    a, b = given
    factor = a.encoding.scale * b.encoding.scale / out.scale
    if not math.isfinite(np.float32(factor)):
        return "the scales of the operands are too large for that of the result"
    points = {"a_zero_point": a.encoding.zero_point, "b_zero_point": b.encoding.zero_point}
    return call.pairwise(given, {"factor": factor, **points}, out)


def _mean(call: Call, given: list[Stored], out: Encoding) -> Made:
    (x,) = given
    height, width = tensor_of(x.value).get_shape()[2:]
    if height * width > 2**16:
        return "a sum of more than 65536 numbers"
    value = as_image(x.value, call.rewriter) if is_image(x.value) else x.value
    rank = tensor_of(call.op.results[0]).get_num_dims()
    factor = x.encoding.scale / (height * width * out.scale)
    arguments = {"input": value, "input_zero_point": x.encoding.zero_point, "keepdim": rank == 4, "factor": factor}
    return call.make(arguments, out, tuple(range(rank)))


def _bmm(call: Call, given: list[Stored], out: Encoding) -> Made:
    a, b = given
    factor = a.encoding.scale * b.encoding.scale / out.scale
    if not math.isfinite(np.float32(factor)):
        return "the scales of the operands are too large for that of the result"
    left, right = call.matrices(given)
    points = {"a_zero_point": a.encoding.zero_point, "b_zero_point": b.encoding.zero_point}
    return call.product({"a": left, "b": right, "factor": factor, **points, **call.limits(out)})


def _softmax(call: Call, given: list[Stored], out: Encoding) -> Made:
    (x,) = given
    order = tuple(range(tensor_of(x.value).get_num_dims()))
    table = np.rint(ONE * np.exp(-x.encoding.scale * np.arange(256.0))).astype(np.int32)
    arguments = {"input": in_order(x.value, order, call.rewriter), "table": table, "factor": 1 / out.scale}
    return call.make(arguments, out, order)


CALLS: dict[str, Callable[[Call, list[Stored], Encoding], Made]] = {
    "etir::int8_linear.out": _linear,
    "etir::int8_float_linear.out": _linear,
    "etir::int8_conv2d.out": _convolution,
    "etir::int8_float_conv2d.out": _convolution,
    "etir::int8_depthwise_conv2d.out": _depthwise,
    "etir::int8_conv_transpose2d.out": _transposed,
    "etir::int8_bmm.out": _bmm,
    "etir::int8_softmax.out": _softmax,
    "etir::int8_add.out": _add,
    "etir::int8_mul.out": _mul,
    "etir::int8_mean.out": _mean,
    cortex_m.CONVOLUTION: cortex_m.convolution,
    "cortex_m::maximum.out": cortex_m.choice,
    "cortex_m::minimum.out": cortex_m.choice,
    "cortex_m::quantized_add.out": cortex_m.add,
    "cortex_m::quantized_avg_pool2d.out": cortex_m.mean,
    "cortex_m::quantized_batch_matmul.out": cortex_m.bmm,
    "cortex_m::quantized_depthwise_conv2d.out": cortex_m.depthwise,
    "cortex_m::quantized_linear.out": cortex_m.linear,
    "cortex_m::quantized_mul.out": cortex_m.mul,
    "cortex_m::quantized_transpose_conv2d.out": cortex_m.transposed,
    "cortex_m::softmax.out": cortex_m.softmax,
}
"""How a call of each kernel is made of an operator."""
