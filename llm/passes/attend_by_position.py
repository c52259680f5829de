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
``start`` and is left alone. So is everything with another mask, a batch, dropout, or a target without the kernel;
``--explain-match=attend-by-position`` says which.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.context import EtContext
from etir.dialects.dtypes import i64
from etir.dialects.et.layout import dims_of, tensor_of, tensor_type
from etir.dialects.llama import CUSTOM_SDPA, declare, llama_op
from etir.llm.passes.cached_attention import CachedAttention, cached_attention
from etir.llm.passes.element_values import Elements
from etir.llm.passes.kernels import missing_kernel
from etir.lowering.build.builder import Builder
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
        declare(module, [CUSTOM_SDPA] if pattern.made else [])


class CausalAttention(Pattern):
    """Attention over a cache whose mask is ``key <= query + start``."""

    name = "attend-by-position"

    def __init__(self, elements: Elements, target: str, libraries: tuple[str, ...]):
        self.elements = elements
        self.target = target
        self.libraries = libraries
        self.made = 0

    def rewrite(self, op: aten.scaled_dot_product_attention.default, rewriter: PatternRewriter) -> None:
        found = cached_attention(self.elements, op)
        if isinstance(found, str):
            return rewriter.notify_match_failure(found)
        if found.window is not None:
            return rewriter.notify_match_failure(f"the mask is a window of {found.window} positions")
        missing = missing_kernel(CUSTOM_SDPA, tensor_of(op.query).element_type, self.target, self.libraries)
        if missing is not None:
            return rewriter.notify_match_failure(missing)
        b = Builder(rewriter)
        query, key, value = (turned(b, v) for v in (op.query, found.key, found.value))
        made = llama_op(CUSTOM_SDPA).make(
            {
                "query": query,
                "key": key,
                "value": value,
                "start_pos": start_of(b, found),
                "is_causal": True,
                "scale": found.scale,
            },
            [query.type],
        )
        b.insert(made)
        self.made += 1
        rewriter.replace_op(op, [turned(b, made.results[0])])


def start_of(b: Builder, found: CachedAttention) -> SSAValue:
    """The position of the first query, as a number."""
    return b(aten.item.default, found.start, types=[i64])


def turned(b: Builder, x: SSAValue) -> SSAValue:
    """``[1, heads, n, width]`` from ``[1, n, heads, width]``, and back."""
    one, first, second, width = dims_of(tensor_of(x))
    types = [tensor_type(tensor_of(x).element_type, (one, second, first, width))]
    return b(aten.transpose.int, x, 1, 2, types=types)
