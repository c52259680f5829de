"""Weights of groups of integers for layers in floating point: XNNPACK has no node that takes them, so that other nodes
make the numbers when the graph runs. The file has a byte for each number of 8 bits, half a byte for one of 4 bits.

Scales are held in 16 bits where those have every one of them, as those of etir's own quantizer do.

A byte holds two numbers of 4 bits, ``v = 16 h + (l + 8)``, both from -8 to 7: ``h = floor(v / 16)`` is of the right
half of a row, ``l = v - 16 h - 8`` of the left half. All of it is exact in float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from etir.backends.xnnpack.datatypes import BY_FLOAT_NAME, BY_NAME
from etir.backends.xnnpack.legalize.constants import QuantizedWeight, blob_of
from etir.backends.xnnpack.legalize.emitter import Emitter, quantized_info
from etir.backends.xnnpack.scales import Scale
from etir.backends.xnnpack.types import TensorInfo
from etir.dialects.narrow import in_sixteen_bits

if TYPE_CHECKING:
    import numpy as np


def unpacked(emitter: Emitter, weight: QuantizedWeight, like: SSAValue) -> SSAValue:
    """The numbers of a matrix ``[rows, columns]``, made when the graph runs; ``like`` is any tensor of float32."""
    key = ("unpacked", weight.value.owner.properties.get("symbol", weight.value))  # type: ignore[union-attr]
    known = emitter.made.get(key)
    if known is not None:
        return known
    integers = emitter.constants.array(weight.value)
    rows, columns = integers.shape
    in_halves = weight.bits == 4 and columns % 2 == 0
    numbers = _halves(emitter, integers, like) if in_halves else _bytes(emitter, integers)
    scales = weight.scales.reshape(rows, -1, 1)
    groups = scales.shape[1]
    numbers = emitter.reshape(numbers, (rows, groups, columns // groups))
    numbers = emitter.node("multiply", [numbers, _scales(emitter, scales, like)])
    made = emitter.made[key] = emitter.reshape(numbers, (rows, columns))
    return made


def _scales(emitter: Emitter, scales: np.ndarray, like: SSAValue) -> SSAValue:
    narrow = in_sixteen_bits(scales)
    if narrow is None:
        return emitter.float_constant(scales, like)
    name, array = narrow
    stored = emitter.constant(TensorInfo(BY_FLOAT_NAME[name], array.shape), blob_of(array))
    return emitter.node("convert", [stored], info=TensorInfo(BY_NAME["fp32"], array.shape))


def _bytes(emitter: Emitter, integers: np.ndarray) -> SSAValue:
    stored = emitter.constant(quantized_info(integers.shape, Scale(1.0, 0)), blob_of(integers))
    return emitter.node("convert", [stored], info=TensorInfo(BY_NAME["fp32"], integers.shape))


def _halves(emitter: Emitter, integers: np.ndarray, like: SSAValue) -> SSAValue:
    import numpy as np

    half = integers.shape[1] // 2
    low, high = integers[:, :half].astype(np.int16), integers[:, half:].astype(np.int16)
    both = _bytes(emitter, np.ascontiguousarray(16 * high + low + 8).astype(np.int8))
    right = emitter.node("floor", [emitter.node("multiply", [both, emitter.scalar(1 / 16, like)])])
    left = emitter.node("subtract", [both, emitter.node("multiply", [right, emitter.scalar(16.0, like)])])
    left = emitter.node("subtract", [left, emitter.scalar(8.0, like)])
    return emitter.node("concatenate2", [left, right], {"axis": 1})
