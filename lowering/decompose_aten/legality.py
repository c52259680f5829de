"""Which operations may stand after `decompose-aten`: core ATen, views, preserved operators, and what has a kernel."""

from __future__ import annotations

from functools import cache

from xdsl.ir import Operation

from etir.dialects.aten.base import AtenOp
from etir.dialects.aten.table import load_table
from etir.dialects.schema import SchemaKind
from etir.lowering.decompose_aten.preserved import PreservedOps


def is_legal(op: Operation, preserved: PreservedOps) -> bool:
    """Whether ``op`` may stay as it is. Everything but operators of ATen may, those of custom libraries included."""
    return not isinstance(op, AtenOp) or is_legal_name(op.name) or preserved.preserves(op) or preserved.has_kernel(op)


@cache
def is_legal_name(op_name: str) -> bool:
    """Whether any operator of this name may stay: core ATen, views, and what is not of ATen."""
    table = load_table()
    if not op_name.startswith("aten.") or op_name not in table:
        return True
    schema = table.get(op_name)
    assert schema is not None
    if schema.kind is not SchemaKind.FUNCTIONAL:
        return False
    flags = table.flags(op_name)
    if "c" in flags or "v" in flags:
        return True
    # A view that the edge level has a copying form of, as transpose.int has.
    packet, overload = op_name.rsplit(".", 1)
    return schema.is_view and "v" in table.flags(f"{packet}_copy.{overload}")
