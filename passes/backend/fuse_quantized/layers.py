"""Linear layers of float32 with a weight of integers: as they are, and with an input that is quantized there."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from etir.backends.api.integer_kernels import CONDITIONS
from etir.backends.api.patterns import Match
from etir.dialects.dtypes import f32, i8
from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import PREFIX, EdgeOp
from etir.dialects.et.layout import is_contiguous, tensor_of
from etir.dialects.quantized import DEQUANTIZE, DEQUANTIZE_PER_CHANNEL, NAMESPACE, QUANTIZE
from etir.interpret.numpy_ops.integer import in_halves, packed
from etir.lowering.decompose_aten.preserved import GROUPED
from etir.passes.analysis.constants import ConstantStore
from etir.passes.backend.fuse_quantized.kernels import Kernels, weight_name
from etir.passes.backend.fuse_quantized.stored import HIGH, LOW, array_of, bias_of, weight_of
from etir.passes.infra.rewriting import Pattern, PatternRewriter

DYNAMIC = "etir::int8_dynamic_linear.out"
BYTES, HALVES = "etir::int8_weight_linear.out", "etir::int4_weight_linear.out"
CHOSEN = {
    f"{DEQUANTIZE.removesuffix('default')}tensor": (
        f"{QUANTIZE.removesuffix('default')}tensor",
        (f"{NAMESPACE}.choose_qparams.tensor",),
        ("scale", "zero_point"),
    ),
    f"{NAMESPACE}.dequantize_per_token.default": (
        f"{NAMESPACE}.quantize_per_token.default",
        (f"{NAMESPACE}.choose_qparams_per_token_asymmetric.default",),
        ("scales", "zero_points"),
    ),
}
"""Dequantize operators of activations, with the quantize operator before, those that choose the parameters, and the
names of these.
"""


class DynamicLayer(Pattern):
    """``linear(dequantize(quantize(x, *choose_qparams(x))), dequantize(weight))``"""

    name = "layer-that-quantizes-its-input"

    def __init__(self, kernels: Kernels):
        self.kernels = kernels

    def rewrite(self, op: edge.aten.linear.default, rewriter: PatternRewriter) -> None:
        kernels = self.kernels
        source = _quantized_there(op.arg("input"))
        if source is None or not kernels.has(DYNAMIC):
            rewriter.notify_match_failure("the input is not quantized with parameters chosen from it")
            return
        match = Match(op, (op,), {})
        reason = next((r for c in CONDITIONS[DYNAMIC] if (r := c.failure(match)) is not None), None)
        weight = weight_of(op.arg("weight"), kernels.store)
        if isinstance(weight, str) or reason is not None:
            rewriter.notify_match_failure(str(reason or weight))
            return
        bias = _bias(op, kernels.store)
        if isinstance(bias, str):
            rewriter.notify_match_failure(bias)
            return
        numbers, scales = weight
        arguments = {
            "input": source,
            "weight": packed(numbers),
            "column_sums": numbers.astype(np.int64).sum(1).astype(np.int32),
            "scales": scales.astype(np.float32),
            "bias": bias,
        }
        made = kernels.make(DYNAMIC, arguments, op.results[0].type, rewriter, weight_name(op))
        rewriter.replace_op(op, [made])


class LayerOfIntegers(Pattern):
    """``linear(x, dequantize(weight))``"""

    name = "layer-of-integers"

    def __init__(self, kernels: Kernels):
        self.kernels = kernels

    def rewrite(self, op: edge.aten.linear.default, rewriter: PatternRewriter) -> None:
        found = _rows_of_integers(op.arg("weight"), self.kernels.store)
        if isinstance(found, str):
            rewriter.notify_match_failure(found)
            return
        if not all(is_contiguous(tensor_of(v)) for v in (op.operands[0], op.results[0])):
            rewriter.notify_match_failure("a dim order that the kernel does not take")
            return
        bias = _bias(op, self.kernels.store)
        numbers, scales = found
        halves = numbers.shape[1] % 2 == 0 and numbers.size > 0 and numbers.min() >= -8 and numbers.max() <= 7
        kernel = HALVES if halves and self.kernels.has(HALVES) else BYTES
        if isinstance(bias, str) or not self.kernels.has(kernel):
            rewriter.notify_match_failure(str(bias) if self.kernels.has(kernel) else "the target has no such kernel")
            return
        arguments = {
            "input": op.arg("input"),
            "weight": in_halves(numbers) if kernel == HALVES else numbers,
            "scales": scales,
            "bias": bias,
        }
        made = self.kernels.make(kernel, arguments, op.results[0].type, rewriter, weight_name(op))
        rewriter.replace_op(op, [made])


def _quantized_there(value: Any) -> SSAValue | None:
    """The float32 tensor that a value is, quantized to int8 with parameters that were chosen from it, and back."""
    back = value.owner if isinstance(value, SSAValue) else None
    if not isinstance(back, EdgeOp) or back.op_name not in CHOSEN:
        return None
    quantize_name, choosers, names = CHOSEN[back.op_name]
    there = back.operands[0].owner
    if not isinstance(there, EdgeOp) or there.op_name != quantize_name:
        return None
    x = there.operands[0]
    if tensor_of(there.results[0]).element_type != i8 or tensor_of(x).element_type != f32:
        return None
    if tensor_of(value).element_type != f32 or not is_contiguous(tensor_of(x)):
        return None
    parameters = [there.arg(name) for name in names]
    if parameters != [back.arg(name) for name in names]:
        return None
    owners = [p.owner if isinstance(p, SSAValue) else None for p in parameters]
    chooser = owners[0]
    if not isinstance(chooser, EdgeOp) or chooser is not owners[1] or chooser.op_name not in choosers:
        return None
    ranges = [(o.arg("quant_min"), o.arg("quant_max")) for o in (there, chooser) if "quant_min" in o.SCHEMA.index]
    if any(r != (LOW, HIGH) for r in ranges) or parameters != list(chooser.results[:2]):
        return None
    return x if chooser.operands[0] is x else None


def _bias(op: EdgeOp, store: ConstantStore) -> Any:
    """The bias as the kernels take it: what it is, constants, or None; else why there is none."""
    value = op.arg("bias")
    if not isinstance(value, SSAValue):
        return None
    if tensor_of(value).element_type != f32:
        return "the bias is not float32"
    if not isinstance(value.owner, EdgeOp):
        return value
    found = bias_of(value, tensor_of(value).get_shape()[0], store)
    return value if found is None else found.astype(np.float32)


def _rows_of_integers(value: Any, store: ConstantStore) -> tuple[np.ndarray, np.ndarray] | str:
    """int8 rows and float32 scales ``[rows, groups]`` of a weight that is multiplied out; else why there are none."""
    owner = value.owner if isinstance(value, SSAValue) else None
    if not isinstance(owner, EdgeOp):
        return "the weight is not made of integers"
    if owner.op_name in (DEQUANTIZE, DEQUANTIZE_PER_CHANNEL):
        weight = weight_of(value, store)
        return weight if isinstance(weight, str) else (weight[0], weight[1].astype(np.float32)[:, None])
    groups = _groups(owner, store)
    if isinstance(groups, str):
        return groups
    numbers, scales, zeros = groups
    return "the weight has zero points" if zeros is not None and zeros.any() else (numbers, scales)


def _groups(op: EdgeOp, store: ConstantStore) -> tuple[np.ndarray, np.ndarray, np.ndarray | None] | str:
    """The integers, scales and zero points (the last two by group) of a weight with groups in its rows."""
    if op.op_name not in GROUPED:
        return "the weight is not made of integers"
    names = ("scale", "zero_point") if op.op_name == GROUPED[1] else ("scales", "zero_points")
    numbers, scales, zeros = (array_of(op.arg(name), store) for name in ("input", *names))
    if numbers is None or scales is None or numbers.dtype != np.int8 or numbers.ndim != 2 or not numbers.size:
        return "the weight or its scales are no constants"
    if zeros is None and op.arg(names[1]) is not None:
        return "the zero points are no constants"
    rows, columns = numbers.shape
    if scales.dtype != np.float32 or scales.size % rows or columns % (scales.size // rows or 1):
        return "groups of other lengths"
    count = scales.size // rows
    if op.op_name == GROUPED[1] and tuple(op.arg("block_size")) != (1, columns // count):
        return "groups of other shapes"
    return numbers, scales.reshape(rows, count), None if zeros is None else zeros.reshape(rows, count)


class WeightOfGroups(Pattern):
    """A weight with groups in its rows that no kernel reads is multiplied out now, as it is without a kernel."""

    name = "weight-of-groups"
    roots = tuple(PREFIX + name for name in GROUPED)

    def __init__(self, kernels: Kernels):
        self.kernels = kernels

    def rewrite(self, op: EdgeOp, rewriter: PatternRewriter) -> None:
        found = _groups(op, self.kernels.store)
        if isinstance(found, str):
            rewriter.notify_match_failure(found)
            return
        numbers, scales, zeros = found
        grouped = numbers.reshape(*scales.shape, numbers.shape[1] // scales.shape[1]).astype(np.float32)
        if zeros is not None:
            grouped = grouped - zeros.astype(np.float32)[..., None]
        whole = (grouped * scales[..., None]).reshape(numbers.shape).astype(np.float32)
        rewriter.replace_op(op, [self.kernels.constant(whole, op, "weight", rewriter)])
