"""`propagate-quantization`: integers stay integers while they are moved.

Before::

    %d = edge.quantized_decomposed.dequantize_per_tensor.default(%q, scale = 0.03, zero_point = 3, ...)
    %v = edge.aten.view_copy.default(%d, [4, 16]) : (tensor<2x2x16xf32>) -> tensor<4x16xf32>
    %r = edge.quantized_decomposed.quantize_per_tensor.default(%v, scale = 0.03, zero_point = 3, ...)

After::

    %r = edge.aten.view_copy.default(%q, [4, 16]) : (tensor<2x2x16xi8>) -> tensor<4x16xi8>

What moves elements, joins those of one scale, or pads with a number that integers stand for exactly, does the same to
integers. A dequantize operator goes past it where what reads the result quantizes it again; a pair of equal scales that
stand next to each other is nothing, and one of unequal ones stays, which is what a requantization is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from etir.dialects.context import EtContext
from etir.dialects.dtypes import f32, i8, ui8
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import dims_of, order_of, tensor_of, tensor_type
from etir.dialects.quantized import DEQUANTIZE, QUANTIZE, quantized_op
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily

MOVES = frozenset(
    f"aten.{name}"
    for name in (
        "view_copy.default",
        "permute_copy.default",
        "transpose_copy.int",
        "t_copy.default",
        "unsqueeze_copy.default",
        "squeeze_copy.default",
        "squeeze_copy.dim",
        "squeeze_copy.dims",
        "expand_copy.default",
        "slice_copy.Tensor",
        "select_copy.int",
    )
)
"""Operators with one result, whose kernels take every dtype."""
JOIN, PAD = "aten.cat.default", "aten.constant_pad_nd.default"
PARAMETERS = ("scale", "zero_point")


@register_pass
@dataclass(frozen=True)
class PropagateQuantizationPass(Pass):
    """Move integers instead of the numbers that they stand for."""

    name = "propagate-quantization"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Rewrite every method until nothing changes."""
        for method in methods(module):
            apply_patterns_greedily(ctx, method, [MovedIntegers(), EqualPair()])


def _encoding(op: EdgeOp) -> tuple[Any, ...]:
    stored = op.operands[0] if op.op_name == DEQUANTIZE else op.results[0]
    return (*(op.arg(name) for name in PARAMETERS), tensor_of(stored).element_type)


def _source(value: object) -> EdgeOp | None:
    """The operator that makes float32 numbers of integers of 8 bits with one scale, None where it is another."""
    if not isinstance(value, SSAValue) or not isinstance(value.owner, EdgeOp) or value.owner.op_name != DEQUANTIZE:
        return None
    op = value.owner
    is_known = tensor_of(value).element_type == f32 and tensor_of(op.operands[0]).element_type in (i8, ui8)
    return op if is_known else None


def _is_quantized_again(value: SSAValue, encoding: tuple[Any, ...]) -> bool:
    """Whether all that reads ``value`` quantizes it as it was, after further moves or at once."""
    users = [use.operation for use in value.uses]
    if not users:
        return False
    for user in users:
        if not isinstance(user, EdgeOp):
            return False
        if user.op_name == QUANTIZE:
            if _encoding(user) != encoding:
                return False
        elif user.op_name not in MOVES or not _is_quantized_again(user.results[0], encoding):
            return False
    return True


class MovedIntegers(Pattern):
    """``move(dequantize(q))`` is ``dequantize(move(q))``."""

    name = "moved-integers"
    kind = EdgeOp

    def rewrite(self, op: EdgeOp, rewriter: PatternRewriter) -> None:
        if op.op_name not in MOVES and op.op_name not in (JOIN, PAD):
            return
        joined = op.op_name == JOIN
        operands = cast("tuple[Any, ...]", op.arg("tensors")) if joined else (op.operands[0],)
        sources = [_source(value) for value in operands]
        first = sources[0] if sources else None
        if first is None or any(s is None or _encoding(s) != _encoding(first) for s in sources):
            rewriter.notify_match_failure("what it reads is not integers of one scale")
            return
        if not _is_quantized_again(op.results[0], _encoding(first)):
            rewriter.notify_match_failure("something reads the result that does not quantize it as it was")
            return
        changed: dict[str, Any] = {}
        if op.op_name == PAD:
            if op.arg("value") != 0:
                rewriter.notify_match_failure("what it pads with is not 0")
                return
            changed["value"] = first.arg("zero_point")
        stored = tuple(cast(EdgeOp, source).operands[0] for source in sources)
        name = (
            next(n for n in op.SCHEMA.index if op.arg(n) is (operands if joined else operands[0])) if not joined else ""
        )
        changed["tensors" if joined else name] = stored if joined else stored[0]
        type = tensor_of(op.results[0])
        moved_type = tensor_type(tensor_of(stored[0]).element_type, dims_of(type), order_of(type))
        moved = op.with_args([moved_type], **changed)
        rewriter.insert_op(moved)
        arguments = {**first.given_args(), "input": moved.results[0]}
        back = quantized_op(DEQUANTIZE).make(arguments, [op.results[0].type])
        rewriter.insert_op(back)
        rewriter.replace_op(op, [back.results[0]])


class EqualPair(Pattern):
    """``quantize(dequantize(q))`` with the same scale and zero point is ``q``."""

    name = "equal-pair"
    kind = EdgeOp

    def rewrite(self, op: EdgeOp, rewriter: PatternRewriter) -> None:
        if op.op_name != QUANTIZE:
            return
        source = _source(op.operands[0])
        if source is None or _encoding(source) != _encoding(op):
            rewriter.notify_match_failure("it is not integers of the same scale that are quantized")
            return
        limits = (-128, 127) if tensor_of(op.results[0]).element_type == i8 else (0, 255)
        if (op.arg("quant_min"), op.arg("quant_max")) != limits or source.operands[0].type != op.results[0].type:
            rewriter.notify_match_failure("a range that is narrower than the type's")
            return
        rewriter.replace_op(op, [source.operands[0]])
