"""Products of rows with the matrices of their groups, as mixtures of experts have them.

Rows are sorted by group; ``offs`` has the number of the row after each group's last one. A loop over the rows takes
each one's matrix: what is computed is what the rows need, and of the matrices only one more is in memory at a time.
"""

from __future__ import annotations

from xdsl.ir import Attribute, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import i64
from etir.lowering.build.builder import Builder, dims, rank
from etir.lowering.decompose_aten.decomposition import decomposition
from etir.lowering.decompose_aten.loops import scan


@decomposition("transformers.grouped_mm_fallback.default")
def grouped_mm_fallback(b: Builder, x: SSAValue, matrices: SSAValue, offs: SSAValue) -> SSAValue | None:
    """``x[start:end] @ matrices[group]`` for each group, a loop over the rows"""
    return _by_rows(b, x, matrices, offs)


@decomposition(aten._grouped_mm.default)
def grouped_mm(
    b: Builder, x: SSAValue, y: SSAValue, offs: SSAValue | None, bias: SSAValue | None, out_dtype: Attribute | None
) -> SSAValue | None:
    """As ``grouped-mm-fallback``; of as many matrices on either side a batched product"""
    if rank(y) != 3 or (offs is None) != (rank(x) == 3):
        return b.notify_match_failure("groups of columns, or of what is summed over, are not decomposed")
    result = b.bmm(x, y) if offs is None else _by_rows(b, x, y, offs)
    if result is None:
        return None
    if bias is not None:
        result = b.add(result, bias)
    return result if out_dtype is None else b.cast(result, out_dtype)


def _by_rows(b: Builder, x: SSAValue, matrices: SSAValue, offs: SSAValue) -> SSAValue | None:
    """[rows, k] by [groups, k, n]: [rows, n], zeros in the rows after the last group."""
    groups = dims(matrices)[0]
    if not isinstance(groups, int):
        return b.notify_match_failure("the number of groups is dynamic")
    row = b.unsqueeze(b.arange(b.size(x, 0), i64), 1)
    group = b.sum(b.cast(b.ge(row, b.cast(offs, i64)), i64), [1])

    def product(_: object, slices: list[SSAValue]) -> tuple[list[SSAValue], list[SSAValue]]:
        one, number = slices
        matrix = b(aten.index_select.default, matrices, 0, b.unsqueeze(number, 0))
        return [], [b.squeeze(b.bmm(b.unsqueeze(b.unsqueeze(one, 0), 0), matrix), (0, 1))]

    products = scan(b, [], [x, b.clamp(group, None, groups - 1)], product)[1][0]
    inside = b.unsqueeze(b.lt(group, groups), 1)
    return b.where(inside, products, 0.0)
