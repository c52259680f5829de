"""The edge level's operators: ``edge.aten.add.Tensor``, ``edge.dim_order_ops._to_dim_order_copy.default``.

The same overloads as at the ATen level under the stricter rules of docs/reference/dialects/edge.md: functional, no view
and no alias, every tensor slot a tensor, dtypes by the rules of ``rules.py``, dim order explicit.
"""

from __future__ import annotations

from etir.dialects.aten.base import custom_op, table_class
from etir.dialects.aten.table import load_table
from etir.dialects.schema import OpSchema
from etir.dialects.schema_op import SchemaOp, make_op_class

PREFIX = "edge."


class EdgeOp(SchemaOp):
    """An operator at the edge level."""

    @property
    def op_name(self) -> str:
        """The overload's own name, without the level: ``aten.add.Tensor``."""
        return self.SCHEMA.op_name


_classes: dict[str, type[EdgeOp]] = {}


def edge_op(op_name: str) -> type[EdgeOp]:
    """The edge class of an overload of the schema table (``aten.add.Tensor``). Raises ``KeyError`` if unknown."""
    cls = _classes.get(op_name)
    if cls is None:
        cls = _classes[op_name] = table_class(EdgeOp, PREFIX, op_name)  # type: ignore[assignment]
    return cls  # type: ignore[return-value]


def edge_class(schema: OpSchema) -> type[EdgeOp]:
    """The edge class for ``schema``: the table's, or one for a custom library's operator."""
    if load_table().get(schema.op_name) is not None:
        return edge_op(schema.op_name)
    key = custom_op(schema).SCHEMA.text
    cls = _classes.get(key)
    if cls is None:
        cls = _classes[key] = make_op_class(EdgeOp, PREFIX + schema.op_name, schema)  # type: ignore[assignment]
    return cls  # type: ignore[return-value]
