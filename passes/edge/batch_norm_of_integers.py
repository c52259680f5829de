"""The pattern of ``fold-batch-norm`` for convolutions with a weight of integers, as training that knows of quantization
leaves them (Jacob et al., *Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
Inference*, 2018, section 3.2).

Before, the weight having been multiplied with the batch norm's factor before it was quantized::

    %w = edge.quantized_decomposed.dequantize_per_channel.default(%integers, %scales, %zeros, ...)
    %c = edge.aten.convolution.default(%x, %w, ...)
    %d = edge.aten.div.Tensor(%c, %factor) : (tensor<4x8x6x6xf32>, tensor<1x8x1x1xf32>) -> ...
    %y, %m, %v = edge.aten._native_batch_norm_legit_no_training.default(%d, %gamma, %beta, %mean, %var, ...)

After::

    %y = edge.aten.convolution.default(%x, %w, %b_folded, ...)

Everything between the convolution and the result is a factor and an offset for each channel. The offset is the new
bias; a factor of 1, to the rounding of float32, leaves the weight alone, any other positive one multiplies its scales.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.ir import Operation, SSAValue

from etir.dialects.dtypes import f32, i64
from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import is_contiguous, tensor_of, tensor_type
from etir.dialects.quantized import DEQUANTIZE, DEQUANTIZE_PER_CHANNEL, quantized_op
from etir.passes.analysis.constants import ConstantStore
from etir.passes.infra.rewriting import Pattern, PatternRewriter, fuse_locations

BatchNorm: TypeAlias = edge.aten._native_batch_norm_legit_no_training.default
Convolution: TypeAlias = edge.aten.convolution.default
STEPS = ("aten.div.Tensor", "aten.mul.Tensor", "aten.add.Tensor", "aten.sub.Tensor")
NEXT_TO_ONE = 1e-5
"""How far a factor may be from 1 that is one but for the rounding of float32."""


@dataclass(frozen=True)
class _Folded:
    """What follows a convolution: ``factor`` and ``offset`` of each channel, and the operators, the last first."""

    convolution: Convolution
    factor: np.ndarray
    offset: np.ndarray
    steps: tuple[EdgeOp, ...]


class QuantizedConvolutionBatchNorm(Pattern):
    """``batch_norm(convolution(x, dequantize(w)) / s + b)`` is ``convolution(x, dequantize(w), b')``."""

    name = "quantized-convolution-batch-norm"

    def __init__(self, store: ConstantStore):
        self.store = store
        self.made = False
        """Whether operators were made, which have to be declared."""

    def rewrite(self, op: BatchNorm, rewriter: PatternRewriter) -> None:
        if any(result.first_use is not None for result in op.results[1:]):
            rewriter.notify_match_failure("the statistics that the batch norm returns are used")
            return
        folded = self._folded(op)
        if isinstance(folded, str):
            rewriter.notify_match_failure(folded)
            return
        weight = self._weight(op, folded, rewriter)
        if weight is None:
            rewriter.notify_match_failure("the factors are not positive, or the weight is not int8 numbers by channel")
            return
        convolution = folded.convolution
        bias = folded.offset
        if convolution.bias is not None:
            bias = bias + self._array(convolution.bias) * folded.factor
        data = bias.astype(np.float32).tobytes()
        constant = rewriter.insert_op(self.store.make(data, tensor_type(f32, bias.shape), op, "bias_folded"))
        made = convolution.with_args([op.results[0].type], weight=weight, bias=constant.results[0])
        made.location = fuse_locations([convolution, op])
        rewriter.insert_op(made)
        rewriter.replace_all_uses_with(op.results[0], made.result)
        made.result.name_hint = op.results[0].name_hint
        for old in (op, *folded.steps, convolution):
            rewriter.erase_op(old)

    def _folded(self, op: BatchNorm) -> _Folded | str:
        numbers = [op.weight, op.bias, op.running_mean, op.running_var]
        if not all(value is None or self._is_known(value) for value in numbers):
            return "a statistic is not a loaded constant of float32"
        mean, variance = self._array(op.running_mean), self._array(op.running_var)
        channels = len(mean)
        found: list[tuple[str, np.ndarray]] = []
        steps: list[EdgeOp] = []
        value = op.input
        while isinstance(owner := value.owner, EdgeOp) and owner.op_name in STEPS:
            constant = self._by_channel(owner, channels)
            if constant is None or not owner.results[0].has_one_use() or owner.args().get("alpha", 1) != 1:
                return "what follows the convolution is not a constant for each channel"
            found.append((owner.op_name, constant))
            steps.append(owner)
            value = owner.operands[0]
        if not isinstance(owner, Convolution) or not owner.result.has_one_use():
            return "the input is not a convolution, or it has other uses"
        if owner.transposed or (owner.bias is not None and not self._is_known(owner.bias)):
            return "a transposed convolution, or one with a bias that is computed"
        factor, offset = np.ones(channels), np.zeros(channels)
        for name, constant in reversed(found):
            if name in STEPS[:2]:
                by = constant if name == STEPS[1] else 1 / constant
                factor, offset = factor * by, offset * by
            else:
                offset = offset + (constant if name == STEPS[2] else -constant)
        gamma = np.ones(channels) if op.weight is None else self._array(op.weight)
        beta = np.zeros(channels) if op.bias is None else self._array(op.bias)
        scale = gamma / np.sqrt(variance + op.eps)
        return _Folded(owner, factor * scale, (offset - mean) * scale + beta, tuple(steps))

    def _by_channel(self, op: EdgeOp, channels: int) -> np.ndarray | None:
        """The constant on the right of an operator, one number for each channel."""
        if len(op.operands) != 2 or not self._is_known(op.operands[1]):
            return None
        shape = tensor_of(op.operands[1]).get_shape()
        rank = len(tensor_of(op.results[0]).get_shape())
        full = (1,) * (rank - len(shape)) + shape
        if full[:1] != (1,) or any(size != 1 for size in full[2:]) or full[1] not in (1, channels):
            return None
        return np.broadcast_to(self._array(op.operands[1]).reshape(-1), (channels,))

    def _weight(self, op: BatchNorm, folded: _Folded, rewriter: PatternRewriter) -> SSAValue | None:
        """The weight of the new convolution, None where it is no weight of integers."""
        value = folded.convolution.weight
        source = value.owner
        if not np.isfinite(folded.factor).all() or (folded.factor <= 0).any():
            return None
        if np.abs(folded.factor - 1).max(initial=0) < NEXT_TO_ONE:
            return value
        if not isinstance(source, EdgeOp) or source.op_name not in (DEQUANTIZE, DEQUANTIZE_PER_CHANNEL):
            return None
        if source.op_name == DEQUANTIZE:
            before, zeros = np.full(len(folded.factor), cast(float, source.arg("scale"))), source.arg("zero_point")
        else:
            scales, points = source.arg("scales"), source.arg("zero_points")
            if cast(int, source.arg("axis")) % len(tensor_of(value).get_shape()) or not self._is_known(
                cast(SSAValue, scales)
            ):
                return None
            before, zeros = self._array(cast(SSAValue, scales)), 0 if points is None or self._zeros(points) else 1
        if zeros:
            return None
        made: list[Operation] = [
            self.store.make((before * folded.factor).astype(np.float32).tobytes(), self._type(before), op, "scales"),
            self.store.make(np.zeros(len(before), np.int64).tobytes(), tensor_type(i64, before.shape), op, "zeros"),
        ]
        arguments: dict[str, Any] = {"input": source.arg("input"), "axis": 0}
        for name, constant in zip(("scales", "zero_points"), made, strict=True):
            arguments[name] = rewriter.insert_op(constant).results[0]
        self.made = True
        arguments |= {name: source.arg(name) for name in ("quant_min", "quant_max", "dtype")}
        return rewriter.insert_op(quantized_op(DEQUANTIZE_PER_CHANNEL).make(arguments, [value.type])).results[0]

    def _type(self, numbers: np.ndarray) -> Any:
        return tensor_type(f32, numbers.shape)

    def _zeros(self, value: object) -> bool:
        return isinstance(value, SSAValue) and self.store.is_constant(value) and not any(bytes(self.store.data(value)))

    def _is_known(self, value: SSAValue) -> bool:
        type = tensor_of(value)
        return type.element_type == f32 and is_contiguous(type) and self.store.is_constant(value)

    def _array(self, value: SSAValue) -> np.ndarray:
        return np.frombuffer(self.store.data(value), np.float32).astype(np.float64)
