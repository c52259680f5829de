"""How calls of ExecuTorch's kernels for Cortex-M (``cortex_m::*``) are made: factors are multipliers and shifts.

A linear layer whose weight has a scale for each output is a convolution of images of one pixel, since the kernel of
linear layers has one scale. Scratch memory has the most bytes that CMSIS-NN takes on any of the processors, so that a
file runs on all of them; linear layers get the bias both ways, of which each processor reads one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from etir.dialects.dtypes import i8, ui8
from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import dims_of, tensor_of, tensor_type
from etir.interpret.numpy_ops.cortex_m import ADD_SHIFT
from etir.passes.backend.fuse_quantized.call import Call, Made, in_planes, in_two_dims, window_of
from etir.passes.backend.fuse_quantized.stored import (
    HIGH,
    IMAGE_ORDER,
    LOW,
    Encoding,
    Stored,
    as_image,
    as_row,
    in_order,
)

CONVOLUTION = "cortex_m::quantized_conv2d.out"
SHARES = Encoding(1 / 256, -128)
"""What the kernel of a softmax gives."""
_MOST_SHIFT = 31
_LANES = 16
"""Numbers of a vector of the M-profile vector extension, in bytes."""
_PATCHES = 4
"""Patches that the vector extension gathers at once."""
_SOFTMAX_BITS = 5
"""Bits before the point of what a softmax takes the exponential of."""
_BLOCK = 124
"""Channels that the vector extension convolves at once where each has a filter of its own."""


def fixed_point(factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Factors as multipliers of 31 bits and powers of two: ``multiplier * 2**(shift - 31)``. What is next to nothing is
    0.
    """
    mantissas, shifts = np.frexp(factors.astype(np.float64))
    multipliers = np.rint(np.ldexp(mantissas, 31)).astype(np.int64)
    carried = multipliers == 1 << 31
    multipliers[carried], shifts = 1 << 30, shifts + carried
    nothing = (multipliers == 0) | (shifts < -_MOST_SHIFT)
    return np.where(nothing, 0, multipliers).astype(np.int32), np.where(nothing, 0, shifts).astype(np.int32)


def _of_layer(call: Call, x: Encoding, out: Encoding) -> tuple[np.ndarray, dict[str, np.ndarray]] | str:
    """The integers of a weight, and the constants that follow from scales; why there are none."""
    layer = call.layer(x, out)
    if isinstance(layer, str):
        return layer
    numbers, bias, factors = layer
    multipliers, shifts = fixed_point(factors)
    most = np.abs(bias) + 255.0 * np.abs(numbers.astype(np.int64)).reshape(len(numbers), -1).sum(1)
    if (np.ldexp(most, np.maximum(shifts, 0)) >= 2.0**31).any():
        return "the scale of the result is too small: sums have no room in 32 bits"
    named = {"bias": bias.astype(np.int32), "requantize_multipliers": multipliers, "requantize_shifts": shifts}
    return numbers, named


def _scratch(call: Call, size: int) -> SSAValue:
    """Memory for a kernel while it runs."""
    made = edge.aten.empty.memory_format.make({"size": [max(1, size)]}, [tensor_type(ui8, [max(1, size)])])
    call.rewriter.insert_op(made)
    return made.results[0]


def _limits(out: Encoding) -> dict[str, int]:
    return {"activation_min": out.low, "activation_max": out.high}


def patch_bytes(depth: int) -> int:
    """For patches of ``depth`` numbers: two of 16 bits in a number with the DSP extension, four in whole vectors with
    that for vectors.
    """
    return max(2 * 2 * (-(-depth // 4) * 4), _PATCHES * (-(-depth // _LANES) * _LANES))


def depthwise_bytes(channels: int, taps: int) -> int:
    """Where each channel has a filter: a patch of 16 bits a number with the DSP extension, four of a block of channels
    with that for vectors.
    """
    return max(2 * channels * taps, _PATCHES * _BLOCK * taps, patch_bytes(taps))


def linear(call: Call, given: list[Stored], out: Encoding) -> Made:
    """A layer whose weight has one scale."""
    (x,) = given
    layer = _of_layer(call, x.encoding, out)
    if isinstance(layer, str):
        return layer
    numbers, named = layer
    factors = [named[name] for name in ("requantize_multipliers", "requantize_shifts")]
    if any((values != values[0]).any() for values in factors):
        return "the weight has several scales"
    order = tuple(range(tensor_of(x.value).get_num_dims()))
    offset = -x.encoding.zero_point
    sums = numbers.astype(np.int64).sum(1) * offset + named["bias"]
    arguments: dict[str, Any] = {
        "input": in_order(x.value, order, call.rewriter),
        "weights": numbers,
        "bias": named["bias"],
        "kernel_sum": sums.astype(np.int32)[None],
        "input_offset": offset,
        "filter_offset": 0,
        "output_offset": out.zero_point,
    }
    for name, values in zip(("requantize_multipliers", "requantize_shifts"), factors, strict=True):
        arguments[name] = [int(values[0])]
    return call.made({**arguments, **_limits(out)}, order)


def convolution(call: Call, given: list[Stored], out: Encoding) -> Made:
    """A convolution of any groups, or a linear layer as one of a pixel."""
    (x,) = given
    is_linear = call.root.op_name == "aten.linear.default"
    window = {"stride": [1, 1], "padding": [0, 0], "dilation": [1, 1]} if is_linear else window_of(call.root)
    layer = _of_layer(call, x.encoding, out) if window is not None else "sizes that are computed"
    if isinstance(layer, str) or window is None:
        return str(layer)
    numbers, named = layer
    filters = numbers[:, :, None, None] if is_linear else in_planes(numbers)
    image = _pixels(call, x) if is_linear else as_row(x.value, call.rewriter)
    channels = tensor_of(image).get_shape()[1]  # of all groups
    arguments: dict[str, Any] = {
        "input": image,
        "weight": filters.transpose(0, 2, 3, 1),
        **named,
        **{name: window[name] for name in ("stride", "padding", "dilation")},
        "input_offset": -x.encoding.zero_point,
        "output_offset": out.zero_point,
        "scratch": _scratch(call, patch_bytes(math.prod(filters.shape[2:]) * channels)),
    }
    if not is_linear:
        return call.convolved({**arguments, **_limits(out)})
    rows = dims_of(tensor_of(image))[0]
    made = call.made({**arguments, **_limits(out)}, IMAGE_ORDER, [rows, len(numbers), 1, 1])
    return _viewed(call, in_order(made, (0, 1, 2, 3), call.rewriter), dims_of(tensor_of(call.op.results[0])))


def _pixels(call: Call, x: Stored) -> SSAValue:
    """Rows as images of one pixel, as many as there are rows."""
    type = tensor_of(x.value)
    plain = in_order(x.value, tuple(range(type.get_num_dims())), call.rewriter)
    *outer, depth = type.get_shape()
    return as_image(_viewed(call, plain, [math.prod(outer), depth, 1, 1]), call.rewriter)


def _viewed(call: Call, value: SSAValue, dims: Any) -> SSAValue:
    made = edge.aten.view_copy.default.make({"self": value, "size": list(dims)}, [tensor_type(i8, dims)])
    call.rewriter.insert_op(made)
    return made.results[0]


def depthwise(call: Call, given: list[Stored], out: Encoding) -> Made:
    """A filter for each channel of one image."""
    (x,) = given
    window = window_of(call.root)
    layer = _of_layer(call, x.encoding, out) if window is not None else "sizes that are computed"
    if isinstance(layer, str) or window is None:
        return str(layer)
    numbers, named = layer
    channels, taps = int(call.root.arg("groups")), math.prod(numbers.shape[2:])
    arguments: dict[str, Any] = {
        "input": as_row(x.value, call.rewriter),
        "weight": in_planes(numbers).transpose(1, 2, 3, 0),
        **named,
        **{name: window[name] for name in ("stride", "padding", "dilation")},
        "depth_multiplier": len(numbers) // channels,
        "input_offset": -x.encoding.zero_point,
        "output_offset": out.zero_point,
        "scratch": _scratch(call, depthwise_bytes(channels, taps)),
    }
    return call.convolved({**arguments, **_limits(out)})


def add(call: Call, given: list[Stored], out: Encoding) -> Made:
    """A sum or a difference: operands in the scale of twice the larger one, 20 bits to the left."""
    a, b = (g.encoding for g in given)
    sign = -1 if call.root.op_name == "aten.sub.Tensor" else 1
    whole = 2 * max(a.scale, b.scale)
    multipliers, shifts = fixed_point(np.array([a.scale / whole, b.scale / whole, math.ldexp(whole / out.scale, -20)]))
    if shifts[2] > 0 and math.ldexp(255.0, ADD_SHIFT + int(shifts[2])) >= 2.0**31:
        return "the scale of an operand is too large for that of the result"
    values, order = call.side_by_side(given)
    numbers: dict[str, Any] = {"self": values[0], "other": values[1]}
    for name, encoding, factor, index in (("self", a, 1, 0), ("other", b, sign, 1)):
        numbers[f"{name}_zero_point"] = encoding.zero_point
        numbers[f"{name}_multiplier"] = factor * int(multipliers[index])
        numbers[f"{name}_shift"] = int(shifts[index])
    numbers |= {"output_zero_point": out.zero_point, "output_multiplier": int(multipliers[2])}
    return call.made({**numbers, "output_shift": int(shifts[2]), **_limits(out)}, order)


def _product(out: Encoding, factor: float) -> dict[str, int] | str:
    """The factor of a product, whose kernels have no limits."""
    if (out.low, out.high) != (LOW, HIGH):
        return "a clamp after a product"
    (multiplier,), (shift,) = fixed_point(np.array([factor]))
    if shift > 0:
        return "the scales of the operands are too large for that of the result"
    return {"output_zero_point": out.zero_point, "output_multiplier": int(multiplier), "output_shift": int(shift)}


def mul(call: Call, given: list[Stored], out: Encoding) -> Made:
    """A product, element by element."""
    a, b = (g.encoding for g in given)
    numbers = _product(out, a.scale * b.scale / out.scale)
    if isinstance(numbers, str):
        return numbers
    values, order = call.side_by_side(given)
    operands = {
        "self": values[0],
        "self_zero_point": a.zero_point,
        "other": values[1],
        "other_zero_point": b.zero_point,
    }
    return call.made({**operands, **numbers}, order)


def bmm(call: Call, given: list[Stored], out: Encoding) -> Made:
    """A product of matrices; the kernel takes the second one transposed."""
    a, b = (g.encoding for g in given)
    numbers = _product(out, a.scale * b.scale / out.scale)
    if isinstance(numbers, str):
        return numbers
    left, right = call.matrices(given)
    batch, depth, columns = tensor_of(right).get_shape()
    turned = edge.aten.permute_copy.default.make(
        {"self": right, "dims": [0, 2, 1]}, [tensor_type(i8, [batch, columns, depth])]
    )
    call.rewriter.insert_op(turned)
    operands: dict[str, Any] = {"lhs": left, "lhs_zero_point": -a.zero_point, "rhs_transposed": turned.results[0]}
    # The extension for vectors keeps the sum of each column.
    scratch = _scratch(call, 4 * columns)
    return call.product({**operands, "rhs_zero_point": -b.zero_point, **numbers, "scratch": scratch})


def choice(call: Call, given: list[Stored], out: Encoding) -> Made:
    """The less or the greater of two: integers have the order of their numbers in one encoding, that of the result."""
    tables = [out.quantized(g.encoding.table()) for g in given]
    same = [Stored(call.kernels.table(g.value, t, call.rewriter), out) for g, t in zip(given, tables, strict=True)]
    (a, b), order = call.side_by_side(same)
    return call.made({"self": a, "other": b}, order)


def mean(call: Call, given: list[Stored], out: Encoding) -> Made:
    """The mean of an image, in the encoding of the image; a table gives it that of the result."""
    (x,) = given
    image = as_image(x.value, call.rewriter)
    _, channels, height, width = tensor_of(image).get_shape()
    arguments: dict[str, Any] = {"input": image, "kernel_size": [height, width], "stride": [height, width]}
    arguments |= {"padding": [0, 0], "ceil_mode": False, "zero_point": x.encoding.zero_point}
    # The scale is that of both sides and says nothing: it is 1.
    arguments |= {"multiplier": 1 << 30, "shift": 1, "scratch": _scratch(call, 4 * channels)}
    made = call.made(arguments, IMAGE_ORDER, [*dims_of(tensor_of(image))[:2], 1, 1])
    value = in_order(made, (0, 1, 2, 3), call.rewriter)
    dims = dims_of(tensor_of(call.op.results[0]))
    value = value if len(dims) == 4 else _viewed(call, value, dims)
    if x.encoding.same_numbers(out):
        return value
    return call.kernels.table(value, out.quantized(x.encoding.table()), call.rewriter)


def softmax(call: Call, given: list[Stored], out: Encoding) -> Made:
    """Of the last dim: the kernel gives the 256 parts of one, and a table brings them to another encoding."""
    (x,) = given
    order = tuple(range(tensor_of(x.value).get_num_dims()))
    most = float(2**31 - 1)
    (multiplier,), (shift,) = fixed_point(np.array([min(math.ldexp(x.encoding.scale, 31 - _SOFTMAX_BITS), most)]))
    if shift < 0:
        return "the scale of the operand is too small"
    # What is further below the largest number has no share.
    reach = math.floor(math.ldexp(2**_SOFTMAX_BITS - 1, 31 - _SOFTMAX_BITS - int(shift)))
    arguments = {
        "input": in_order(x.value, order, call.rewriter),
        "dim": len(order) - 1,
        "input_zero_point": x.encoding.zero_point,
        "output_zero_point": SHARES.zero_point,
        "input_multiplier": int(multiplier),
        "input_shift": int(shift),
        "diff_min": -reach,
    }
    value = call.made(arguments, order)
    return (
        value if SHARES.same_numbers(out) else call.kernels.table(value, out.quantized(SHARES.table()), call.rewriter)
    )


def transposed_bytes(channels: int, columns: int, kernel: Sequence[int], stride: Sequence[int], width: int) -> int:
    """Where an image is written to, with sums of some of its lines, or, of many channels, the patches of a convolution
    of what lies between its pixels.
    """
    # CMSIS-NN takes either of the strides for the other.
    pixels = max(kernel[0], *stride) * ((width - 1) * stride[1] + max(kernel[1], *stride))
    return max(4 * pixels * columns, patch_bytes(math.prod(kernel) * channels))


def transposed(call: Call, given: list[Stored], out: Encoding) -> Made:
    """A transposed convolution of images, of one group."""
    (x,) = given
    window = window_of(call.root)
    more = in_two_dims(call.root, {"output_padding": call.root.arg("output_padding")})
    layer = _of_layer(call, x.encoding, out) if window is not None else "sizes that are computed"
    if isinstance(layer, str) or window is None or more is None:
        return str(layer)
    numbers, named = layer
    image = as_image(x.value, call.rewriter)
    channels, width = numbers.shape[1], tensor_of(image).get_shape()[3]
    size = transposed_bytes(channels, len(numbers), window["kernel"], window["stride"], width)
    arguments: dict[str, Any] = {
        "input": image,
        "weight": numbers.transpose(0, 2, 3, 1),
        **named,
        **{name: window[name] for name in ("stride", "padding")},
        **more,
        "dilation": window["dilation"],
        "input_offset": -x.encoding.zero_point,
        "output_offset": out.zero_point,
        "scratch": _scratch(call, size),
        # Of many channels, the filters the other way round.
        "output_scratch": _scratch(call, numbers.size),
    }
    return call.made({**arguments, **_limits(out)}, IMAGE_ORDER)
