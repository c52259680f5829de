"""Operators on lists of tensors, as one operator for each."""

from __future__ import annotations

from etir.dialects.aten.base import aten_op
from etir.dialects.aten.table import load_table
from etir.dialects.schema_op import SchemaOp
from etir.lowering.build.foreach import PREFIX, arguments_of_one, single_operator
from etir.lowering.decompose_aten.decomposition import OperatorPattern
from etir.passes.infra.rewriting import PatternRewriter


class ForeachPattern(OperatorPattern):
    """``_foreach_add`` of lists as ``add`` of their items, and so on"""

    name = "foreach"
    roots = tuple(name for name in load_table() if name.startswith(PREFIX))

    def rewrite(self, op: SchemaOp, rewriter: PatternRewriter) -> None:
        """Replace ``op``."""
        one = single_operator(op.SCHEMA)
        if one is None or not op.results:
            rewriter.notify_match_failure("there is no such operator of one tensor")
            return
        cls, given = aten_op(one.op_name), op.args()
        made = [
            rewriter.insert_op(cls.make(arguments_of_one(one, op.SCHEMA, given, i), [result.type])).results[0]
            for i, result in enumerate(op.results)
        ]
        rewriter.replace_op(op, made)
