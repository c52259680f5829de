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

What follows has one form to look for. Scores that are anything but scaled products and a mask are left alone; those
with a soft cap or sinks (Gemma 2, GPT-OSS) `attend-by-position` and `ring-cache` know.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from etir.dialects.aten import ops as aten
from etir.dialects.context import EtContext
from etir.llm.passes.attention_forms import attention_of
from etir.lowering.build.builder import Builder
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
        found = attention_of(op)
        if found is None:
            return
        if isinstance(found, str):
            return rewriter.notify_match_failure(found)
        if not found.is_plain:
            return rewriter.notify_match_failure("the operator has no soft cap of scores, and no sinks")
        b = Builder(rewriter)
        mask = found.mask
        if mask is not None and found.mask_scale != 1:
            mask = b.mul(mask, found.mask_scale)
        result = b(
            aten.scaled_dot_product_attention.default,
            found.query, found.key, found.value, mask, scale=found.scale, types=[op.result.type],
        )  # fmt: skip
        rewriter.replace_op(op, [result])
        found.erase_dropout(rewriter)
