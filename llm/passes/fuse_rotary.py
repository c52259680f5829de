"""`fuse-rotary`: a rotary position embedding that a model writes out is one operator, in the layout of the cache.

Before, as transformers' models write it (``x * cos + rotate_half(x) * sin``)::

    %x = edge.aten.permute_copy.default(%h, dims = [0, 2, 1, 3]) : ... -> tensor<1x4x?x16xf32>
    %c = edge.aten.unsqueeze_copy.default(%cos, dim = 1) : (tensor<1x?x16xf32>) -> tensor<1x1x?x16xf32>
    %s = edge.aten.unsqueeze_copy.default(%sin, dim = 1) : (tensor<1x?x16xf32>) -> tensor<1x1x?x16xf32>
    %0 = edge.aten.mul.Tensor(%x, %c) : ... -> tensor<1x4x?x16xf32>
    %1 = edge.aten.slice_copy.Tensor(%x, dim = 3, start = 0, end = 8) : ... -> tensor<1x4x?x8xf32>
    %2 = edge.aten.slice_copy.Tensor(%x, dim = 3, start = 8) : ... -> tensor<1x4x?x8xf32>
    %3 = edge.aten.neg.default(%2) : ... -> tensor<1x4x?x8xf32>
    %4 = edge.aten.cat.default([%3, %1], dim = -1) : ... -> tensor<1x4x?x16xf32>
    %5 = edge.aten.mul.Tensor(%4, %s) : ... -> tensor<1x4x?x16xf32>
    %y = edge.aten.add.Tensor(%0, %5) : ... -> tensor<1x4x?x16xf32>

After; what turns %y again, for the cache or for attention, cancels out::

    %r = edge.etir.rotary.default(%h, %cos, %sin) : ... -> tensor<1x?x4x16xf32>
    %y = edge.aten.permute_copy.default(%r, dims = [0, 2, 1, 3]) : ... -> tensor<1x4x?x16xf32>

Of one token's operators in a layer, a third are these. Recognized in float32; which kernels there are is what the
target's manifest says. Models that rotate a part of a head, or neighbors in pairs, write something else and keep it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import Float32Type, ModuleOp
from xdsl.ir import SSAValue

from etir.dialects.context import EtContext
from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import dims_of, is_contiguous, tensor_of
from etir.llm.passes.one_operator import OneOperator, to_one_operator
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import PatternRewriter

KERNEL = "etir::rotary.out"
_TURNED = [0, 2, 1, 3]


@register_pass
@dataclass(frozen=True)
class FuseRotaryPass(Pass):
    """Compute rotary position embeddings with one operator, if ``target`` has a kernel."""

    name = "fuse-rotary"
    target: str = "executorch"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E0601 for an unknown target."""
        to_one_operator(ctx, module, self.target, KERNEL, RotaryOfHalves)


class RotaryOfHalves(OneOperator):
    """x * cos + cat(-x[..., width / 2 :], x[..., : width / 2]) * sin."""

    name = "rotary-of-halves"

    def rewrite(self, op: edge.aten.add.Tensor, rewriter: PatternRewriter) -> None:
        found = None if op.alpha != 1 else _rotated(op.self_, op.other) or _rotated(op.other, op.self_)
        if found is None:
            return rewriter.notify_match_failure("no sum of a tensor and of its turned halves, times one table each")
        x, cos, sin = found
        turned = x.owner
        if not isinstance(turned, edge.aten.permute_copy.default) or list(turned.dims) != _TURNED:
            return rewriter.notify_match_failure("the heads were not made from rows")
        source = turned.self_
        tables = [_table(cos), _table(sin)]
        dims = dims_of(tensor_of(source))
        for table in tables:
            if table is None or dims_of(tensor_of(table)) != (1, dims[1], dims[3]):
                return rewriter.notify_match_failure("a table that is not that of the positions")
        values = (source, *tables)
        types = [tensor_of(value) for value in values if value is not None]
        if not all(isinstance(t.element_type, Float32Type) and is_contiguous(t) for t in types):
            return rewriter.notify_match_failure("not float32, or a dim order that the kernel does not take")
        made = self.operator.make({"input": source, "cos": tables[0], "sin": tables[1]}, [source.type])
        back = edge.aten.permute_copy.default.make({"self": made.results[0], "dims": _TURNED}, [op.result.type])
        back.results[0].name_hint = op.result.name_hint
        self.made += 1
        rewriter.insert_op(made)
        rewriter.insert_op(back)
        rewriter.replace_op(op, [back.results[0]])
        return None


def _rotated(straight: SSAValue, crossed: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue] | None:
    """``x``, ``cos`` and ``sin`` where one summand is ``x * cos`` and the other ``rotate_half(x) * sin``."""
    first, second = straight.owner, crossed.owner
    if not isinstance(first, edge.aten.mul.Tensor) or not isinstance(second, edge.aten.mul.Tensor):
        return None
    for halves, sin in ((second.self_, second.other), (second.other, second.self_)):
        x = _source_of_halves(halves)
        if x is not None and x in (first.self_, first.other):
            return x, first.other if x == first.self_ else first.self_, sin
    return None


def _source_of_halves(value: SSAValue) -> SSAValue | None:
    """``x`` of ``cat(-x[..., half:], x[..., :half])``."""
    join = value.owner
    if not isinstance(join, edge.aten.cat.default):
        return None
    parts = list(join.tensors)
    rank = len(dims_of(tensor_of(value)))
    if len(parts) != 2 or rank != 4 or join.dim % rank != rank - 1:
        return None
    width = dims_of(tensor_of(value))[-1]
    negated = parts[0].owner
    if not isinstance(negated, edge.aten.neg.default) or not isinstance(width, int) or width % 2:
        return None
    upper, lower = _half(negated.self_, width // 2, width), _half(parts[1], 0, width // 2)
    return upper if upper is not None and upper == lower else None


def _half(value: SSAValue, start: int, end: int) -> SSAValue | None:
    """What a slice is of, if it has the numbers from ``start`` to ``end`` of the last dim, a half of them."""
    part = value.owner
    if not isinstance(part, edge.aten.slice_copy.Tensor) or part.step != 1:
        return None
    dims = dims_of(tensor_of(part.self_))
    first, last = part.arg("start") or 0, part.arg("end")
    if not isinstance(first, int) or not isinstance(last, int | None) or part.dim % len(dims) != len(dims) - 1:
        return None
    size = dims[-1]
    if not isinstance(size, int) or size != 2 * abs(end - start):
        return None
    stop = size if last is None else min(last, size)
    return part.self_ if (first, stop) == (start, end) else None


def _table(value: SSAValue) -> SSAValue | None:
    """``[1, positions, width]`` of ``[1, 1, positions, width]``."""
    wide = value.owner
    return wide.self_ if isinstance(wide, edge.aten.unsqueeze_copy.default) and wide.dim in (1, -3) else None
