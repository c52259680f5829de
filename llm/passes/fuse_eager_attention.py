"""`fuse-eager-attention`: two products with a softmax between them are one attention.

Before, as transformers' models are exported with ``attn_implementation="eager"``::

    %t = aten.transpose.int(%k, dim0 = 2, dim1 = 3) : (tensor<1x4x32x16xf32>) -> tensor<1x4x16x32xf32>
    %0 = aten.matmul.default(%q, %t) : ... -> tensor<1x4x1x32xf32>
    %1 = aten.mul.Tensor(%0, 0.25) : ...
    %2 = aten.add.Tensor(%1, %mask) : ...
    %3 = aten.softmax.int(%2, dim = -1, dtype = f32) : ...
    %y = aten.matmul.default(%3, %v) : ... -> tensor<1x4x1x16xf32>

After::

    %y = aten.scaled_dot_product_attention.default(%q, %k, %v, %mask, scale = 0.25) : ...

What follows has one form to look for. Scores that are anything but scaled products and a mask (Gemma 2's soft cap) are
left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.context import EtContext
from etir.dialects.dtypes import dtype_of
from etir.dialects.et.layout import tensor_of
from etir.lowering.build.builder import Builder, is_tensor, rank
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily


@register_pass
@dataclass(frozen=True)
class FuseEagerAttentionPass(Pass):
    """Make one attention of its products, softmax and mask."""

    name = "fuse-eager-attention"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Rewrite every method. Raises nothing."""
        for method in methods(module):
            apply_patterns_greedily(ctx, method, [EagerAttention()])


class EagerAttention(Pattern):
    """``matmul(softmax(matmul(q, k^T) * scale + mask), v)``"""

    name = "fuse-eager-attention"

    def rewrite(self, op: aten.matmul.default, rewriter: PatternRewriter) -> None:
        between = list(_casts(op.self_))
        weights = between[-1].operands[0] if between else op.self_
        softmax = weights.owner
        if not isinstance(softmax, aten.softmax.int | aten._softmax.default):
            return
        if rank(softmax.self_) != 4 or softmax.dim % 4 != 3:
            return rewriter.notify_match_failure("the softmax is not over the last of four dims")
        scores, mask = softmax.self_, None
        if isinstance(scores.owner, aten.add.Tensor) and scores.owner.alpha == 1 and is_tensor(scores.owner.other):
            scores, mask = scores.owner.self_, scores.owner.other
        scale = 1.0
        if isinstance(scores.owner, aten.mul.Tensor | aten.mul.Scalar) and isinstance(scores.owner.other, int | float):
            scores, scale = scores.owner.self_, float(scores.owner.other)
        elif isinstance(scores.owner, aten.div.Tensor | aten.div.Scalar) and isinstance(
            scores.owner.other, int | float
        ):
            scores, scale = scores.owner.self_, 1.0 / float(scores.owner.other)
        product = scores.owner
        if not isinstance(product, aten.matmul.default):
            return rewriter.notify_match_failure("the scores are not scaled products and a mask")
        query, turned = product.self_, product.other.owner
        if not isinstance(turned, aten.transpose.int) or {turned.dim0 % 4, turned.dim1 % 4} != {2, 3}:
            return rewriter.notify_match_failure("the second factor of the scores is not the transposed keys")
        key, value = turned.self_, op.other
        types = [tensor_of(v).element_type for v in (query, key, value, op.result)]
        if any(rank(v) != 4 for v in (query, key, value)) or any(t != types[0] for t in types):
            return rewriter.notify_match_failure("query, keys and values do not have four dims and one dtype")
        b = Builder(rewriter)
        result = b(
            aten.scaled_dot_product_attention.default,
            query, key, value, mask, scale=scale, types=[op.result.type],
        )  # fmt: skip
        rewriter.replace_op(op, [result])
        # Dropout counts as random where it does nothing, too, and would keep products alive that read whole caches.
        for dead in between:
            if dead.results[0].first_use:
                break
            rewriter.erase_op(dead)


def _casts(value: SSAValue) -> Iterator[aten.dropout.default | aten.to.dtype]:
    """The casts that a value comes out of, and dropout that does nothing, the last one first."""
    while True:
        op = value.owner
        if isinstance(op, aten.dropout.default) and (not op.train or op.p == 0):
            value = op.input
        elif isinstance(op, aten.to.dtype) and dtype_of(tensor_of(value).element_type).is_float:
            value = op.self_
        else:
            return
        yield op
