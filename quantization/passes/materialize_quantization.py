"""`materialize-quantization`: what was observed and marked becomes integers.

Before::

    %0 = quant.observe %x {as = #quant.uniform<i8, scale = 0.03, zero_point = -5>} : tensor<2x8xf32>
    %1 = et.get_weight @w : tensor<4x8xf32>
    %2 = edge.aten.linear.default(%0, %1) {quant.weight = #quant.uniform<i8, axis = 0>} : ...

After::

    %0 = edge.quantized_decomposed.quantize_per_tensor.default(%x, scale = 0.03, zero_point = -5, ...)
    %1 = edge.quantized_decomposed.dequantize_per_tensor.default(%0, scale = 0.03, zero_point = -5, ...)
    %2 = et.get_weight @w_int8 : tensor<4x8xi8>
    %3 = edge.quantized_decomposed.dequantize_per_channel.default(%2, %scales, %zeros, axis = 0, ...)
    %4 = edge.aten.linear.default(%1, %3) : ...

A value that nothing was chosen for stays in floating point. What ``quant.dynamic`` names is quantized when the program
runs, each row with a scale of its own::

    %s, %z = edge.quantized_decomposed.choose_qparams_per_token_asymmetric.default(%x, dtype = i8)
    %0 = edge.quantized_decomposed.quantize_per_token.default(%x, %s, %z, ...)
    %1 = edge.quantized_decomposed.dequantize_per_token.default(%0, %s, %z, ...)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from etir.backends.api.quantization import CHOOSES, MOVES
from etir.dialects.context import EtContext
from etir.dialects.dtypes import f32, f64, i8, i64
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import dims_of, order_of, tensor_of, tensor_type
from etir.dialects.et.program import GetWeightOp
from etir.dialects.quant.ops import HIGH, LOW, ObserveOp, Uniform, UniformAttr
from etir.dialects.quantized import (
    CHOOSE_PER_TOKEN,
    DEQUANTIZE,
    DEQUANTIZE_PER_CHANNEL,
    DEQUANTIZE_PER_GROUP,
    DEQUANTIZE_PER_TOKEN,
    QUANTIZE,
    QUANTIZE_PER_TOKEN,
    declare,
    quantized_op,
)
from etir.passes.analysis.constants import ConstantStore
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.quantization.passes.annotate_quantization import DYNAMIC, INTEGERS, WEIGHT, WHY
from etir.quantization.weights import BOUNDS, MOST_BIAS, stored_weight

MADE = (
    QUANTIZE,
    DEQUANTIZE,
    DEQUANTIZE_PER_CHANNEL,
    DEQUANTIZE_PER_GROUP,
    CHOOSE_PER_TOKEN,
    QUANTIZE_PER_TOKEN,
    DEQUANTIZE_PER_TOKEN,
)
"""Operators that are made."""


@register_pass
@dataclass(frozen=True)
class MaterializeQuantizationPass(Pass):
    """Write integers for what is observed and marked.

    ``keep`` leaves the observers after the pairs, so that what is stored can be compared with what was observed.
    """

    name = "materialize-quantization"
    keep: bool = False

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Weights whose bytes are not loaded stay in floating point."""
        store = ConstantStore(module)
        for method in methods(module):
            rounded: dict[tuple[SSAValue, Block | None], SSAValue] = {}
            for op in list(method.walk()):
                for name in (WHY, INTEGERS):
                    op.attributes.pop(name, None)
                if isinstance(op, ObserveOp):
                    self._pair(op)
                elif isinstance(op, EdgeOp):
                    if isinstance(op.attributes.get(WEIGHT), UniformAttr):
                        _weight(op, store)
                    if isinstance(op.attributes.get(DYNAMIC), ArrayAttr):
                        _dynamic(op, rounded)
            names = dict.fromkeys(op.op_name for op in method.walk() if isinstance(op, EdgeOp))
            declare(module, [n for n in MADE if n in names])

    def _pair(self, op: ObserveOp) -> None:
        value, encoding = op.input, op.encoding
        if encoding is not None:
            type = tensor_of(value)
            numbers: dict[str, Any] = {"scale": encoding.data.scale, "zero_point": encoding.data.zero_point}
            numbers |= {"quant_min": LOW, "quant_max": HIGH, "dtype": i8}
            stored = tensor_type(i8, dims_of(type), order_of(type))
            quantize = quantized_op(QUANTIZE).make({"input": value, **numbers}, [stored], location=op.location)
            arguments = {"input": quantize.results[0], **numbers}
            dequantize = quantized_op(DEQUANTIZE).make(arguments, [type], location=op.location)
            for made in (quantize, dequantize):
                Rewriter.insert_op(made, InsertPoint.before(op))
            value = dequantize.results[0]
        if self.keep:
            op.operands[0] = value
            return
        op.result.replace_all_uses_with(value)
        Rewriter.erase_op(op)


def _weight(op: EdgeOp, store: ConstantStore) -> None:
    encoding = op.attributes.pop(WEIGHT)
    assert isinstance(encoding, UniformAttr)
    weight = cast(SSAValue, op.arg("weight"))
    if not store.is_constant(weight):
        return
    type = tensor_of(weight)
    order = order_of(type)
    stored = np.frombuffer(store.data(weight), np.float32).reshape([type.get_shape()[d] for d in order])
    array = stored.transpose(np.argsort(order))
    integers, scales = stored_weight(array, encoding.data, least_scales(op, store))
    write_weight(op, integers, scales, encoding.data, store)


def write_weight(op: EdgeOp, integers: np.ndarray, scales: np.ndarray, how: Uniform, store: ConstantStore) -> None:
    """Make ``integers`` (int8 numbers of its shape) times ``scales`` the weight of an operator: one scale for each
    index of a dim, or ``[rows, blocks]`` of them.
    """
    weight = cast(SSAValue, op.arg("weight"))
    shape = tensor_of(weight).get_shape()
    hint = weight.owner.symbol.root_reference.data if isinstance(weight.owner, GetWeightOp) else "weight"
    numbers = [
        store.make(np.ascontiguousarray(integers).tobytes(), tensor_type(i8, shape), op, f"{hint}_int{how.bits}")
    ]
    numbers.append(store.make(scales.tobytes(), tensor_type(f32, scales.shape), op, f"{hint}_scales"))
    if how.block is None:
        zeros = np.zeros(scales.shape, np.int64)
        numbers.append(store.make(zeros.tobytes(), tensor_type(i64, scales.shape), op, "zeros"))
    for number in numbers:
        Rewriter.insert_op(number, InsertPoint.before(op))
    names = ("input", "scales", "zero_points")
    arguments: dict[str, Any] = {n: o.results[0] for n, o in zip(names, numbers, strict=False)}
    low, high = BOUNDS[how.bits]
    arguments |= {"quant_min": low, "quant_max": high, "dtype": i8}
    if how.block is None:
        name, arguments["axis"] = DEQUANTIZE_PER_CHANNEL, cast(int, how.axis)
    else:
        name = DEQUANTIZE_PER_GROUP
        arguments |= {"group_size": how.block, "output_dtype": f32}
    made = quantized_op(name).make(arguments, [tensor_type(f32, shape)], location=op.location)
    Rewriter.insert_op(made, InsertPoint.before(op))
    op.operands[op.operands.index(weight)] = made.results[0]
    _erase_unused(weight.owner)


def least_scales(op: EdgeOp, store: ConstantStore) -> np.ndarray | None:
    """The scales of the weight of a layer on integers below which its bias has no room in 32 bits; None without a bias
    or where the input is not stored as integers.
    """
    bias, value = op.args().get("bias"), op.args().get("input")
    if not isinstance(bias, SSAValue) or not isinstance(value, SSAValue) or not store.is_constant(bias):
        return None
    scale = _stored_scale(value)
    if scale is None or tensor_of(bias).element_type != f32:
        return None
    numbers = np.abs(np.frombuffer(store.data(bias), np.float32).astype(np.float64))
    if "transposed" in op.SCHEMA.index and op.arg("transposed"):
        # Groups of a transposed convolution have one weight, and a scale for each channel of a group.
        numbers = numbers.reshape(cast(int, op.arg("groups")), -1).max(0)
    return np.maximum(numbers / (scale * MOST_BIAS), np.finfo(np.float32).tiny)


def _stored_scale(value: SSAValue) -> float | None:
    while True:
        owner = value.owner
        if isinstance(owner, ObserveOp) and owner.encoding is not None:
            return owner.encoding.data.scale
        if isinstance(owner, EdgeOp) and owner.op_name == DEQUANTIZE:
            return cast(float, owner.arg("scale"))
        if not isinstance(owner, EdgeOp) or owner.op_name not in MOVES | CHOOSES:
            return None
        value = owner.operands[0]


def _dynamic(op: EdgeOp, rounded: dict[tuple[SSAValue, Block | None], SSAValue]) -> None:
    """The activations of an operator as int8 with scales that are found at run time; ``rounded`` has those that are,
    by the block that they are in: what a branch has rounded, the other one and what is after them do not see.
    """
    for name in cast("ArrayAttr[StringAttr]", op.attributes.pop(DYNAMIC)):
        value = cast(SSAValue, op.arg(name.data))
        known = next((rounded[value, b] for b in _blocks_around(op) if (value, b) in rounded), None)
        if known is None:
            known = rounded[value, op.parent] = _by_rows(op, value)
        op.operands[op.operands.index(value)] = known


def _blocks_around(op: Operation) -> Iterator[Block]:
    """The block of an operation, that around it, and so on."""
    block = op.parent
    while block is not None:
        yield block
        block = block.parent_block()


def _by_rows(op: EdgeOp, value: SSAValue) -> SSAValue:
    type = tensor_of(value)
    dims, order = dims_of(type), order_of(type)
    parameters = [tensor_type(element, [*dims[:-1], 1]) for element in (f64, i64)]
    choose = quantized_op(CHOOSE_PER_TOKEN).make({"input": value, "dtype": i8}, parameters, location=op.location)
    scales, points = choose.results
    numbers: dict[str, Any] = {
        "scales": scales,
        "zero_points": points,
        "quant_min": LOW,
        "quant_max": HIGH,
        "dtype": i8,
    }
    stored = tensor_type(i8, dims, order)
    quantize = quantized_op(QUANTIZE_PER_TOKEN).make({"input": value, **numbers}, [stored], location=op.location)
    arguments: dict[str, Any] = {"input": quantize.results[0], **numbers, "output_dtype": f32}
    dequantize = quantized_op(DEQUANTIZE_PER_TOKEN).make(arguments, [type], location=op.location)
    for made in (choose, quantize, dequantize):
        Rewriter.insert_op(made, InsertPoint.before(op))
    return dequantize.results[0]


def _erase_unused(owner: object) -> None:
    if isinstance(owner, Operation) and all(r.first_use is None for r in owner.results):
        Rewriter.erase_op(owner)
