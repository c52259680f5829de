"""`reinplace-scatter`: write a part of a state without copying the rest.

Before::

    %c = et.read_state @cache : tensor<2x32x16xf32>
    %0 = edge.aten.slice_scatter.default(%c, %x, dim = 1, start = 3, end = 4) : ... -> tensor<2x32x16xf32>
    et.write_state @cache, %0 : tensor<2x32x16xf32>

After::

    %i = et.constant dense<3> : tensor<1xi64>
    %0 = edge.aten.index_put.default(%c, indices = [none, %i], values = %x) : ... -> tensor<2x32x16xf32>
    et.write_state @cache, %0 : tensor<2x32x16xf32>

A slice or a row of a buffer that is assigned (``cache[:, 3:4] = x``, ``cache[:, 3] = x``, ``narrow``, a start that is
a runtime scalar) arrives as a scatter, whose kernels copy the whole tensor. ``index_put`` has an in-place kernel, which
`to-out-variant` uses where nothing reads the old contents afterwards. Only what becomes the contents of a state or of a
caller's tensor is rewritten: elsewhere one kernel is as good as the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from etir.dialects.context import EtContext
from etir.dialects.dtypes import i64
from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import is_contiguous, is_static, tensor_of, tensor_type
from etir.dialects.et.program import UpdateInputOp, WriteStateOp
from etir.lowering.build.builder import Builder
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily

Scatter: TypeAlias = edge.aten.slice_scatter.default | edge.aten.select_scatter.default


@register_pass
@dataclass(frozen=True)
class ReinplaceScatterPass(Pass):
    """Write slices and rows of state with ``index_put``, which is done in place."""

    name = "reinplace-scatter"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Rewrite every method."""
        for method in methods(module):
            stored = _stored(method)
            apply_patterns_greedily(ctx, method, [SliceScatter(stored), SelectScatter(stored)])


def _stored(method: FuncOp) -> dict[SSAValue, None]:
    """The values that become, perhaps after further writes of parts, the contents of a state or of an input."""
    waiting = [v for op in method.walk() if isinstance(op, (WriteStateOp, UpdateInputOp)) for v in op.operands]
    found: dict[SSAValue, None] = {}
    while waiting:
        value = waiting.pop()
        if value in found:
            continue
        found[value] = None
        if isinstance(value.owner, Scatter | edge.aten.index_put.default):
            waiting.append(value.owner.self_)
    return found


class _Scatter(Pattern):
    """``positions`` of one dim of a tensor that is ``stored`` are replaced."""

    def __init__(self, stored: dict[SSAValue, None]) -> None:
        self.stored = stored

    def put(
        self, op: Scatter, rewriter: PatternRewriter, b: Builder, dim: int, positions: SSAValue, values: SSAValue
    ) -> None:
        """Replace ``op`` by the ``index_put``."""
        indices = [*[None] * dim, positions]
        result = b(edge.aten.index_put.default, op.self_, indices, values, types=[op.result.type])
        self.stored[result] = None
        rewriter.replace_op(op, [result])

    def sizes(self, op: Scatter, rewriter: PatternRewriter) -> tuple[int, ...] | None:
        """The sizes of the tensor, if it is one that may be written in place."""
        whole, part = tensor_of(op.self_), tensor_of(op.src)
        if not is_static(whole) or not is_static(part) or whole.element_type != part.element_type:
            rewriter.notify_match_failure("the sizes are dynamic, or the element types differ")
        elif not is_contiguous(whole) or not is_contiguous(part):
            rewriter.notify_match_failure("the dim order is not the plain one")
        elif op.result not in self.stored:
            rewriter.notify_match_failure("the result is not stored")
        elif not whole.get_shape():
            rewriter.notify_match_failure("the tensor has no dims")
        else:
            return whole.get_shape()
        return None


class SliceScatter(_Scatter):
    """``slice_scatter`` into what is stored."""

    name = "reinplace-slice-scatter"

    def rewrite(self, op: edge.aten.slice_scatter.default, rewriter: PatternRewriter) -> None:
        sizes = self.sizes(op, rewriter)
        if sizes is None:
            return
        dim, step, start, end = op.dim % len(sizes), op.step, op.start, op.end
        count = tensor_of(op.src).get_shape()[dim]
        if not isinstance(step, int) or not count:
            rewriter.notify_match_failure("the step is dynamic, or nothing is written")
            return
        b = Builder(rewriter, "edge")
        if start is None or isinstance(start, int):
            first = range(sizes[dim])[slice(start, None)].start
            positions = b.constant([first + i * step for i in range(count)], i64)
        elif isinstance(end, SSAValue):
            # A negative start counts from the end in both; a start that a slice would clamp is an error of the kernel.
            numbers = tensor_type(i64, [count])
            positions = b(edge.aten.arange.start_step, start, end, step, dtype=i64, types=[numbers])
        else:
            rewriter.notify_match_failure("the end is not given beside the start")
            return
        self.put(op, rewriter, b, dim, positions, op.src)


class SelectScatter(_Scatter):
    """``select_scatter`` into what is stored."""

    name = "reinplace-select-scatter"

    def rewrite(self, op: edge.aten.select_scatter.default, rewriter: PatternRewriter) -> None:
        sizes, index = self.sizes(op, rewriter), op.index
        if sizes is None:
            return
        dim = op.dim % len(sizes)
        if isinstance(index, int) and not -sizes[dim] <= index < sizes[dim]:
            rewriter.notify_match_failure("the index is outside of the dim")
            return
        b = Builder(rewriter, "edge")
        part = [*sizes[:dim], 1, *sizes[dim + 1 :]]
        type = tensor_type(tensor_of(op.result).element_type, part)
        values = b(edge.aten.view_copy.default, op.src, part, types=[type])
        known = isinstance(index, int)
        positions = b.constant([index % sizes[dim]], i64) if known else b.full([1], index, i64)
        self.put(op, rewriter, b, dim, positions, values)
