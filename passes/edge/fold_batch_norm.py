"""`fold-batch-norm`: a convolution followed by a batch norm in inference form becomes one convolution.

Before::

    %c = edge.aten.convolution.default(%x, %w, %b, ...) : ... -> tensor<1x8x6x6xf32>
    %y, %m, %v = edge.aten._native_batch_norm_legit_no_training.default(%c, %gamma, %beta, %mean, %var, ...)

After::

    %y = edge.aten.convolution.default(%x, %w_folded, %b_folded, ...) : ... -> tensor<1x8x6x6xf32>

With s = gamma / sqrt(var + eps), the new filter of output channel o is s[o] * w[o] and the new bias s[o] * (b[o] -
mean[o]) + beta[o], computed in float64 and rounded once. The convolution may have no other use; weights and statistics
must be constants, and the other results of the batch norm unused. A convolution with a weight of integers keeps them:
:mod:`etir.passes.edge.batch_norm_of_integers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from etir.dialects.context import EtContext
from etir.dialects.dtypes import dtype_of
from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import is_contiguous, tensor_of, tensor_type
from etir.dialects.quantized import DEQUANTIZE_PER_CHANNEL, declare
from etir.passes.analysis.constants import ConstantStore
from etir.passes.edge.batch_norm_of_integers import QuantizedConvolutionBatchNorm
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily, fuse_locations

BatchNorm: TypeAlias = edge.aten._native_batch_norm_legit_no_training.default
Convolution: TypeAlias = edge.aten.convolution.default


@register_pass
@dataclass(frozen=True)
class FoldBatchNormPass(Pass):
    """Fold batch norms in inference form into the convolutions before them."""

    name = "fold-batch-norm"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Fold in every method."""
        store = ConstantStore(module)
        integers = QuantizedConvolutionBatchNorm(store)
        for method in methods(module):
            apply_patterns_greedily(ctx, method, [ConvolutionBatchNorm(store), integers])
        if integers.made:
            declare(module, (DEQUANTIZE_PER_CHANNEL,))


class ConvolutionBatchNorm(Pattern):
    """``batch_norm(convolution(x, w, b))`` is ``convolution(x, w', b')``."""

    name = "convolution-batch-norm"

    def __init__(self, store: ConstantStore):
        self.store = store

    def rewrite(self, op: BatchNorm, rewriter: PatternRewriter) -> None:
        convolution = op.input.owner
        if not isinstance(convolution, Convolution):
            rewriter.notify_match_failure("the input is not a convolution")
            return
        if not convolution.result.has_one_use():
            rewriter.notify_match_failure("the convolution has other uses")
            return
        if any(result.first_use is not None for result in op.results[1:]):
            rewriter.notify_match_failure("the statistics that the batch norm returns are used")
            return
        if convolution.transposed and convolution.groups != 1:
            rewriter.notify_match_failure("a transposed convolution with groups")
            return
        constants = [convolution.weight, convolution.bias, op.weight, op.bias, op.running_mean, op.running_var]
        if not all(value is None or self._is_known(value) for value in constants):
            rewriter.notify_match_failure("a weight or statistic is not a loaded constant of a NumPy float type")
            return
        weight, bias = self._fold(op, convolution)
        folded = convolution.with_args(
            [op.results[0].type], weight=rewriter.insert_op(weight).results[0], bias=rewriter.insert_op(bias).results[0]
        )
        folded.location = fuse_locations([convolution, op])
        rewriter.insert_op(folded)
        rewriter.replace_all_uses_with(op.results[0], folded.result)
        folded.result.name_hint = op.results[0].name_hint
        rewriter.erase_op(op)
        rewriter.erase_op(convolution)

    def _is_known(self, value: SSAValue) -> bool:
        type = value.type
        return (
            isinstance(type, TensorType)
            and is_contiguous(type)
            and dtype_of(type.element_type).torch_name in ("float16", "float32", "float64")
            and self.store.is_constant(value)
        )

    def _array(self, value: SSAValue) -> Any:
        type = tensor_of(value)
        flat = np.frombuffer(self.store.data(value), dtype_of(type.element_type).numpy_name)
        return flat.reshape(type.get_shape()).astype(np.float64)

    def _scaled(self, value: SSAValue, scale: Any, *, axis: int) -> Any:
        """The filter times ``scale`` along ``axis``: products in float64, rounded as they are written."""
        type = tensor_of(value)
        weight = np.frombuffer(self.store.data(value), dtype_of(type.element_type).numpy_name)
        weight = weight.reshape(type.get_shape())
        factors = np.expand_dims(scale, [dim for dim in range(weight.ndim) if dim != axis])
        return np.multiply(weight, factors, out=np.empty_like(weight), dtype=np.float64, casting="same_kind")

    def _fold(self, op: BatchNorm, convolution: Convolution) -> tuple[Operation, Operation]:
        mean, variance = self._array(op.running_mean), self._array(op.running_var)
        channels = mean.shape[0]
        gamma = np.ones(channels) if op.weight is None else self._array(op.weight)
        beta = np.zeros(channels) if op.bias is None else self._array(op.bias)
        bias = np.zeros(channels) if convolution.bias is None else self._array(convolution.bias)
        scale = gamma / np.sqrt(variance + op.eps)
        bias = (bias - mean) * scale + beta
        type = tensor_of(convolution.weight)
        name = dtype_of(type.element_type).numpy_name
        weight = self._scaled(convolution.weight, scale, axis=1 if convolution.transposed else 0)
        hint = getattr(convolution.weight.owner, "symbol", None)
        base = hint.root_reference.data if hint is not None else "folded"
        bias_type = tensor_type(type.element_type, [channels])
        return (
            self.store.make(memoryview(weight).cast("B"), type, op, f"{base}_folded"),
            self.store.make(memoryview(bias.astype(name)).cast("B"), bias_type, op, f"{base}_bias_folded"),
        )
