"""Integers are made, or made float32, in the order of memory that is given and wanted.

Before, of an input whose channels lie innermost, as kernels for images take them::

    %0 = edge.dim_order_ops._to_dim_order_copy.default(%x, dim_order = [0, 1, 2, 3]) : ...
    %1 = edge.quantized_decomposed.quantize_per_tensor.default(%0, scale = 0.03, ...) : ...
    %2 = edge.dim_order_ops._to_dim_order_copy.default(%1, dim_order = [0, 2, 3, 1]) : ...

After::

    %2 = edge.quantized_decomposed.quantize_per_tensor.default(%x, scale = 0.03, ...) : ...

The same holds for `dequantize` before an output.
"""

from __future__ import annotations

from typing import TypeGuard

from etir.dialects.edge.base import PREFIX, EdgeOp
from etir.dialects.et.layout import dims_of, order_of, tensor_of, tensor_type
from etir.dialects.quantized import DEQUANTIZE, QUANTIZE
from etir.passes.backend.fuse_quantized.stored import COPY
from etir.passes.infra.rewriting import Pattern, PatternRewriter


class GivenOrder(Pattern):
    """``copy(quantize(copy(x)))`` where the second copy gives the order of ``x`` again, and nothing else reads it."""

    name = "conversion-in-the-given-order"
    roots = (PREFIX + QUANTIZE, PREFIX + DEQUANTIZE)

    def rewrite(self, op: EdgeOp, rewriter: PatternRewriter) -> None:
        source, result = op.operands[0].owner, op.results[0]
        if not _changes_order(source):
            return rewriter.notify_match_failure("what is converted is in the order that it was made in")
        given = source.operands[0]
        order = order_of(tensor_of(given))
        copies = [use.operation for use in result.uses]
        wanted = [order_of(tensor_of(copy.results[0])) for copy in copies if _changes_order(copy)]
        if not copies or wanted != [order] * len(copies):
            return rewriter.notify_match_failure("the result is read in another order than what is converted has")
        stored = tensor_type(tensor_of(result).element_type, dims_of(tensor_of(result)), order)
        made = type(op).make(op.given_args() | {"input": given}, [stored], location=op.location)
        rewriter.insert_op(made)
        for copy in copies:
            rewriter.replace_all_uses_with(copy.results[0], made.results[0])
        return None


def _changes_order(op: object) -> TypeGuard[EdgeOp]:
    """Whether an operation changes the order of memory and nothing else."""
    if not isinstance(op, EdgeOp) or op.op_name != COPY:
        return False
    return tensor_of(op.operands[0]).element_type == tensor_of(op.results[0]).element_type
