"""`attend-by-position`: attention under a causal mask over a whole cache reads the positions in use.

Before, as transformers exports a decoder with its static cache (here for a cache of 32 positions)::

    %p = aten.add.Tensor(%arange, %start) : (tensor<?xi64>, tensor<i64>) -> tensor<?xi64>
    %k = aten.index_copy.default(%cache, dim = 2, %p, %new) : ... -> tensor<1x2x32x16xf32>
    %h = aten.reshape.default(%expanded_k, shape = [1, 4, 32, 16]) : ...
    %y = aten.scaled_dot_product_attention.default(%q, %h, %i, %mask, scale = 0.25) : ... -> tensor<1x4x?x16xf32>

After: the cost grows with the position, not with the capacity, and each key head is read once for all its queries::

    %s = aten.item.default(%start) : (tensor<i64>) -> i64
    %0 = aten.transpose.int(%q, dim0 = 1, dim1 = 2) : ...
    %1 = aten.transpose.int(%k, dim0 = 1, dim1 = 2) : ... -> tensor<1x32x2x16xf32>
    %2 = aten.transpose.int(%v, dim0 = 1, dim1 = 2) : ...
    %3 = llama.custom_sdpa.default(%0, %1, %2, %s, is_causal = true, scale = 0.25) : ...
    %y = aten.transpose.int(%3, dim0 = 1, dim1 = 2) : ...

`sequence-first-cache` then turns the caches themselves, so that nothing is transposed.

What has to be true is read from the program, not assumed. The mask's computation is followed in the IR
(`element_values.py`) down to ``key <= query + start``. Keys and values are what a cache holds after ``index_copy`` (or
``index_put``) at the positions ``start, start + 1, ...``, of the same ``start``: so the cache has as many positions,
and a start that is negative or too large is an error at run time before as after. transformers' exports read the first
of the positions that they are given and count from there, hence a caller's positions that do not follow each other
give the same numbers with and without this pass. A program that uses the given positions one by one has no such
``start`` and is left alone. Scores with a soft cap (Gemma 2) or sinks (GPT-OSS), and values of another size than keys
(DeepSeek), are for ``etir::cached_attention``, where the target has it. Left alone is everything with another mask, a
batch, dropout, or a target without the kernel; ``--explain-match=attend-by-position`` says which.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from etir.dialects.aten import ops as aten
from etir.dialects.context import EtContext
from etir.dialects.dtypes import i64
from etir.dialects.llama import declare
from etir.llm.passes.cached_attention import cached_attention
from etir.llm.passes.element_values import Elements
from etir.llm.passes.kernels import missing_kernel
from etir.lowering.build.builder import Builder, element
from etir.passes.analysis.constants import ConstantStore
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily


@register_pass
@dataclass(frozen=True)
class AttendByPositionPass(Pass):
    """Let attention over a cache end at the last position, where the mask is causal.

    ``target`` is whose kernels may be called, ``libraries`` those of its libraries that it does not always have.
    """

    name = "attend-by-position"
    target: str = "executorch"
    libraries: tuple[str, ...] = ()

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E0601 for an unknown target."""
        pattern = CausalAttention(Elements(ConstantStore(module)), self.target, self.libraries)
        for method in methods(module):
            apply_patterns_greedily(ctx, method, [pattern])
        declare(module, pattern.made)


class CausalAttention(Pattern):
    """Attention over a cache whose mask is ``key <= query + start``."""

    name = "attend-by-position"

    def __init__(self, elements: Elements, target: str, libraries: tuple[str, ...]):
        self.elements = elements
        self.target = target
        self.libraries = libraries
        self.made: dict[str, None] = {}

    def rewrite(
        self, op: aten.scaled_dot_product_attention.default | aten.matmul.default, rewriter: PatternRewriter
    ) -> None:
        found = cached_attention(self.elements, op)
        if found is None:
            return
        if isinstance(found, str):
            return rewriter.notify_match_failure(found)
        if found.window is not None:
            return rewriter.notify_match_failure(f"the mask is a window of {found.window} positions")
        missing = missing_kernel(found.operator, element(found.form.query), self.target, self.libraries)
        if missing is not None:
            return rewriter.notify_match_failure(missing)
        b = Builder(rewriter)
        # The position of the first query, as a number.
        start = b(aten.item.default, found.start, types=[i64])
        self.made[found.operator] = None
        rewriter.replace_op(op, [found.attend(b, found.key, found.value, start, None)])
        found.form.erase_dropout(rewriter)
