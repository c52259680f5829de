"""`commute-transpose-into-matmul`: of a product with a transposed matrix, transpose what is small.

Before, one token against a cache of keys::

    %t = edge.aten.permute_copy.default(%keys, dims = [0, 2, 1]) : (tensor<8x2048x64xf32>) -> tensor<8x64x2048xf32>
    %s = edge.aten.bmm.default(%query, %t) : (tensor<8x1x64xf32>, ...) -> tensor<8x1x2048xf32>

After::

    %q = edge.aten.view_copy.default(%query, size = [8, 64, 1]) : ... -> tensor<8x64x1xf32>
    %p = edge.aten.bmm.default(%keys, %q) : ... -> tensor<8x2048x1xf32>
    %s = edge.aten.view_copy.default(%p, size = [8, 1, 2048]) : ... -> tensor<8x1x2048xf32>

A times B transposed is B times A transposed, transposed. Where the other factor and the result have fewer elements than
the transposed matrix, less is copied; with one row nothing is, since the transpose of a vector is a view.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from etir.dialects.context import EtContext
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import is_contiguous, is_static, tensor_of, tensor_type
from etir.lowering.build.builder import Builder
from etir.passes.generic.canonicalize import permutation_of
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, Rewriter, apply_patterns

_PERMUTATIONS = ("edge.aten.permute_copy.default", "edge.aten.transpose_copy.int")


@register_pass
@dataclass(frozen=True)
class CommuteTransposeIntoMatmulPass(Pass):
    """Transpose the smaller side of a batch of products."""

    name = "commute-transpose-into-matmul"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Rewrite every method."""
        for method in methods(module):
            apply_patterns(ctx, method, [ProductWithTransposed()])


class ProductWithTransposed(Pattern):
    """``bmm(a, transpose(b))`` with a small ``a``."""

    name = "product-with-transposed"
    roots = ("edge.aten.bmm.default",)

    def rewrite(self, op: Operation, rewriter: Rewriter) -> None:
        assert isinstance(op, EdgeOp)
        left, right = op.arg("self"), op.arg("mat2")
        types = [tensor_of(v) for v in (left, right, op.results[0])]
        if not all(is_static(t) and is_contiguous(t) for t in types):
            rewriter.no_match("sizes are dynamic, or a dim order is not the plain one")
            return
        source = _transposed_source(right)
        if source is None:
            rewriter.no_match("the second factor is not transposed for this product alone")
            return
        batch, rows, inner = types[0].get_shape()
        columns = types[1].get_shape()[2]
        if rows > 1 and rows * (inner + columns) >= inner * columns:
            rewriter.no_match("the other factor and the result are not smaller")
            return
        element = types[0].element_type
        b = Builder(rewriter, "edge")
        keys = b.view(source, [batch, columns, inner])
        product = b(
            "aten.bmm.default",
            keys,
            _transpose(b, left),
            types=[tensor_type(element, [batch, columns, rows])],
        )
        rewriter.replace(op, [_transpose(b, product)])


def _transposed_source(value: SSAValue) -> SSAValue | None:
    """The tensor whose last two dims were exchanged to make ``value``, perhaps with its leading dims merged after."""
    shape = tensor_of(value).get_shape()
    op = value.owner
    if isinstance(op, EdgeOp) and op.name == "edge.aten.view_copy.default" and value.has_one_use():
        inner = op.operands[0]
        before = tensor_of(inner)
        if not is_static(before) or before.get_num_dims() < 2 or before.get_shape()[-2:] != shape[-2:]:
            return None
        value, op = inner, inner.owner
    if not isinstance(op, EdgeOp) or op.name not in _PERMUTATIONS or not value.has_one_use():
        return None
    order = permutation_of(op)
    rank = len(order)
    if order != [*range(rank - 2), rank - 1, rank - 2] or not is_contiguous(tensor_of(op.operands[0])):
        return None
    return op.operands[0]


def _transpose(b: Builder, value: SSAValue) -> SSAValue:
    """The last two dims of a batch of matrices exchanged; a view where one of them has size 1."""
    type = tensor_of(value)
    batch, rows, columns = type.get_shape()
    result = tensor_type(type.element_type, [batch, columns, rows])
    if min(rows, columns) == 1 or math.prod(type.get_shape()) == 0:
        return b("aten.view_copy.default", value, [batch, columns, rows], types=[result])
    return b("aten.permute_copy.default", value, [0, 2, 1], types=[result])
