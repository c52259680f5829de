"""`fold-batch-norm`: a convolution followed by a batch norm in inference form becomes one convolution.

Before::

    %c = edge.aten.convolution.default(%x, %w, %b, ...) : ... -> tensor<1x8x6x6xf32>
    %y, %m, %v = edge.aten._native_batch_norm_legit_no_training.default(%c, %gamma, %beta, %mean, %var, ...)

After::

    %y = edge.aten.convolution.default(%x, %w_folded, %b_folded, ...) : ... -> tensor<1x8x6x6xf32>

With s = gamma / sqrt(var + eps), the new filter of output channel o is s[o] * w[o] and the new bias s[o] * (b[o] -
mean[o]) + beta[o], computed in float64 and rounded once. The convolution may have no other use; weights and statistics
must be constants, and the other results of the batch norm unused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from etir.dialects.context import EtContext
from etir.dialects.dtypes import dtype_of
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import is_contiguous, tensor_of, tensor_type
from etir.passes.analysis.constants import ConstantStore
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, Rewriter, apply_patterns, fuse_locations


@register_pass
@dataclass(frozen=True)
class FoldBatchNormPass(Pass):
    """Fold batch norms in inference form into the convolutions before them."""

    name = "fold-batch-norm"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Fold in every method."""
        store = ConstantStore(module)
        for method in methods(module):
            apply_patterns(ctx, method, [ConvolutionBatchNorm(store)])


class ConvolutionBatchNorm(Pattern):
    """``batch_norm(convolution(x, w, b))`` is ``convolution(x, w', b')``."""

    name = "convolution-batch-norm"
    roots = ("edge.aten._native_batch_norm_legit_no_training.default",)

    def __init__(self, store: ConstantStore):
        self.store = store

    def rewrite(self, op: Operation, rewriter: Rewriter) -> None:
        assert isinstance(op, EdgeOp)
        convolution = op.arg("input").owner
        if not isinstance(convolution, EdgeOp) or convolution.name != "edge.aten.convolution.default":
            rewriter.no_match("the input is not a convolution")
            return
        if not convolution.results[0].has_one_use():
            rewriter.no_match("the convolution has other uses")
            return
        if any(result.first_use is not None for result in op.results[1:]):
            rewriter.no_match("the statistics that the batch norm returns are used")
            return
        if convolution.arg("transposed") and convolution.arg("groups") != 1:
            rewriter.no_match("a transposed convolution with groups")
            return
        constants = [convolution.arg("weight"), convolution.arg("bias")]
        constants += [op.arg(name) for name in ("weight", "bias", "running_mean", "running_var")]
        if not all(value is None or self._is_known(value) for value in constants):
            rewriter.no_match("a weight or statistic is not a loaded constant of a NumPy float type")
            return
        weight, bias = self._fold(op, convolution)
        folded = convolution.with_args(
            [op.results[0].type], weight=rewriter.insert(weight).results[0], bias=rewriter.insert(bias).results[0]
        )
        folded.location = fuse_locations([convolution, op])
        rewriter.insert(folded)
        rewriter.replace_value(op.results[0], folded.results[0])
        folded.results[0].name_hint = op.results[0].name_hint
        rewriter.erase(op)
        rewriter.erase(convolution)

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
        """The filter times ``scale`` along ``axis``: products in float64, one channel at a time for the cache."""
        type = tensor_of(value)
        weight = np.frombuffer(self.store.data(value), dtype_of(type.element_type).numpy_name)
        weight = weight.reshape(type.get_shape())
        result = np.empty_like(weight)
        source, target = np.moveaxis(weight, axis, 0), np.moveaxis(result, axis, 0)
        for channel, factor in enumerate(scale):
            target[channel] = source[channel] * factor
        return result

    def _fold(self, op: EdgeOp, convolution: EdgeOp) -> tuple[Operation, Operation]:
        weight_value, bias_value = convolution.arg("weight"), convolution.arg("bias")
        mean, variance = self._array(op.arg("running_mean")), self._array(op.arg("running_var"))
        channels = mean.shape[0]
        gamma = np.ones(channels) if op.arg("weight") is None else self._array(op.arg("weight"))
        beta = np.zeros(channels) if op.arg("bias") is None else self._array(op.arg("bias"))
        bias = np.zeros(channels) if bias_value is None else self._array(bias_value)
        scale = gamma / np.sqrt(variance + op.arg("eps"))
        bias = (bias - mean) * scale + beta
        type = tensor_of(weight_value)
        name = dtype_of(type.element_type).numpy_name
        weight = self._scaled(weight_value, scale, axis=1 if convolution.arg("transposed") else 0)
        hint = getattr(weight_value.owner, "symbol", None)
        base = hint.root_reference.data if hint is not None else "folded"
        bias_type = tensor_type(type.element_type, [channels])
        return (
            self.store.make(memoryview(weight).cast("B"), type, op, f"{base}_folded"),
            self.store.make(memoryview(bias.astype(name)).cast("B"), bias_type, op, f"{base}_bias_folded"),
        )
