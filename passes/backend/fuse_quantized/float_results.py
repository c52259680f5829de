"""Layers on integers whose result nobody reads as integers: sums become float32 at once, and are rounded nowhere."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType

from etir.backends.api.integer_kernels import CONDITIONS, FLOAT_RESULTS
from etir.backends.api.patterns import Match
from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import order_of, tensor_of
from etir.passes.backend.fuse_quantized.call import Call
from etir.passes.backend.fuse_quantized.calls import CALLS
from etir.passes.backend.fuse_quantized.kernels import Kernels
from etir.passes.backend.fuse_quantized.stored import Encoding, in_order
from etir.passes.infra.rewriting import Pattern, PatternRewriter

SUMS = Encoding(1.0, 0)
"""What factors are in the unit of: numbers as they are."""


class FloatResult(Pattern):
    """``linear(dequantize(x), dequantize(weight))`` or a convolution, and no quantize operator after it."""

    name = "float-result-of-integers"
    roots = tuple(op.name for op in (edge.aten.linear.default, edge.aten.convolution.default))

    def __init__(self, kernels: Kernels):
        self.kernels = kernels

    def rewrite(self, op: EdgeOp, rewriter: PatternRewriter) -> None:
        kernel = next((to for name, to in FLOAT_RESULTS.items() if self._computes(name, to, op)), None)
        if kernel is None:
            rewriter.notify_match_failure("no kernel of the target gives float32 for its integers")
            return
        reason = next((r for c in CONDITIONS[kernel] if (r := c.failure(Match(op, (op,), {}))) is not None), None)
        given = self.kernels.integers.of(op.arg("input"), rewriter) if reason is None else None
        if given is None:
            rewriter.notify_match_failure(reason or "'input' is not made of int8")
            return
        made = CALLS[kernel](Call(self.kernels, kernel, op, op, rewriter), [given], SUMS)
        if isinstance(made, str):
            rewriter.notify_match_failure(made)
            return
        result = op.results[0]
        assert isinstance(result.type, TensorType)
        rewriter.replace_op(op, [in_order(made, order_of(tensor_of(result)), rewriter)])

    def _computes(self, name: str, gives_float: str, op: EdgeOp) -> bool:
        rows = self.kernels.rows.get(op.op_name, ())
        return self.kernels.has(gives_float) and any(kernel == name for kernel, _ in rows)
