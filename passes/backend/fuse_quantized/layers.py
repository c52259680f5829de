"""Linear layers of float32 with a weight of integers: as they are, and with an input that is quantized there."""

from __future__ import annotations

import numpy as np

from etir.backends.api.integer_kernels import CONDITIONS
from etir.backends.api.patterns import Match
from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import is_contiguous, tensor_of
from etir.interpret.numpy_ops.integer import in_halves, packed
from etir.passes.backend.fuse_quantized.grouped import rows_of_integers
from etir.passes.backend.fuse_quantized.inputs import bias_argument, quantized_there
from etir.passes.backend.fuse_quantized.kernels import Kernels, weight_name
from etir.passes.backend.fuse_quantized.stored import weight_of
from etir.passes.infra.rewriting import Pattern, PatternRewriter

DYNAMIC = "etir::int8_dynamic_linear.out"
BYTES, HALVES = "etir::int8_weight_linear.out", "etir::int4_weight_linear.out"


class DynamicLayer(Pattern):
    """``linear(dequantize(quantize(x, *choose_qparams(x))), dequantize(weight))``"""

    name = "layer-that-quantizes-its-input"

    def __init__(self, kernels: Kernels):
        self.kernels = kernels

    def rewrite(self, op: edge.aten.linear.default, rewriter: PatternRewriter) -> None:
        kernels = self.kernels
        source = quantized_there(op.arg("input"))
        if source is None or source.block or not kernels.has(DYNAMIC):
            rewriter.notify_match_failure("the input is not quantized with parameters chosen from it")
            return
        match = Match(op, (op,), {})
        reason = next((r for c in CONDITIONS[DYNAMIC] if (r := c.failure(match)) is not None), None)
        weight = weight_of(op.arg("weight"), kernels.store)
        if isinstance(weight, str) or reason is not None:
            rewriter.notify_match_failure(str(reason or weight))
            return
        bias = bias_argument(op, kernels.store)
        if isinstance(bias, str):
            rewriter.notify_match_failure(bias)
            return
        numbers, scales = weight
        arguments = {
            "input": source.source,
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
        found = rows_of_integers(op.arg("weight"), self.kernels.store)
        if isinstance(found, str) or found.zeros is not None or found.integers.dtype != np.int8:
            rewriter.notify_match_failure(found if isinstance(found, str) else "the weight has zero points")
            return
        if not all(is_contiguous(tensor_of(v)) for v in (op.operands[0], op.results[0])):
            rewriter.notify_match_failure("a dim order that the kernel does not take")
            return
        bias = bias_argument(op, self.kernels.store)
        numbers, scales = found.integers, found.scales
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
