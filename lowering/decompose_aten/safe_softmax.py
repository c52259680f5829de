"""Softmax whose hidden rows are zeros, as one operator again.

What torch makes of attention with a mask when it decomposes a program itself compares every score with minus infinity::

    %p = aten._softmax.default(%x, -1, false)
    %seen = aten.any.dim(aten.logical_not.default(aten.eq.Scalar(%x, -inf)), -1, true)
    %y = aten.where.self(aten.logical_not.default(%seen), aten.full_like.default(%p, 0), %p)

That is ``aten._safe_softmax.default(%x, -1)``, which a delegate may take as one operator. What becomes of it elsewhere
looks at the largest score of a row alone, and has no tensor of zeros.
"""

from __future__ import annotations

import math
from typing import ClassVar

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.lowering.build.builder import Builder, rank
from etir.lowering.build.dims import wrap
from etir.lowering.decompose_aten.decomposition import OperatorPattern, replace
from etir.lowering.decompose_aten.value_range import value_range
from etir.passes.infra.rewriting import PatternRewriter


class SafeSoftmaxPattern(OperatorPattern):
    """A choice between zeros and a softmax by whether all of a row is minus infinity is a ``_safe_softmax``."""

    name = "recompose-safe-softmax"
    roots: ClassVar[tuple[str, ...]] = ("aten.where.self",)

    def rewrite(self, op: aten.where.self, rewriter: PatternRewriter) -> None:
        """Replace the choice; what it was made of is left to dead code elimination."""
        softmax = op.other.owner if isinstance(op.other, SSAValue) else None
        if not isinstance(softmax, aten._softmax.default) or softmax.half_to_float:
            rewriter.notify_match_failure("no choice of a softmax")
            return
        x = softmax.operands[0]
        dim = wrap(softmax.dim, rank(x))
        if not _is_zero(op.arg("self")) or not _is_hidden(op.condition, x, dim):
            rewriter.notify_match_failure("the choice is not between a softmax and zeros of hidden rows")
            return
        b = Builder(rewriter)
        types = [softmax.results[0].type]
        replace(b, op, [b(aten._safe_softmax.default, x, dim, None, types=types)], self.name)


def _is_zero(value: SSAValue) -> bool:
    op = value.owner
    if isinstance(op, (aten.full_like.default, aten.scalar_tensor.default)):
        return op.args()["fill_value" if isinstance(op, aten.full_like.default) else "s"] == 0
    return value_range(value) == (0.0, 0.0)


def _is_hidden(value: SSAValue, x: SSAValue, dim: int) -> bool:
    """Whether a truth value says of each row of ``x`` that all of it is minus infinity."""
    for operator in (aten.logical_not.default, aten.any.dim, aten.logical_not.default, aten.eq.Scalar):
        op = value.owner
        if not isinstance(op, operator):
            return False
        if isinstance(op, aten.any.dim) and (not op.keepdim or wrap(op.dim, rank(x)) != dim):
            return False
        if isinstance(op, aten.eq.Scalar) and op.other != -math.inf:
            return False
        value = op.operands[0]
    return value is x
