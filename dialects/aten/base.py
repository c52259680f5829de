"""ATen and custom-library operators at the first level: ``aten.add.Tensor``, ``mylib.foo.default``.

The operation's name is the overload's name, so that ``str(node.target)`` of an FX graph *is* the operation name. An
overload gets its class at first use; ``ops.py`` has them by name.
"""

from __future__ import annotations

from etir.dialects.aten.table import load_table
from etir.dialects.schema import OpSchema, parse_schema
from etir.dialects.schema_op import SchemaOp, add_members, make_op_class, traits_of


class TableSchema:
    """The attribute ``SCHEMA`` of the class of an overload of the schema table: parsed when it is first read.

    Registering a thousand patterns names a thousand classes; few of them meet an operation.
    """

    def __get__(self, instance: SchemaOp | None, owner: type[SchemaOp]) -> OpSchema:
        schema = load_table().get(owner.name.removeprefix("edge."))
        assert schema is not None, f"{owner.name} is not in the schema table"
        owner.SCHEMA = schema
        add_members(owner)
        return schema


_SCHEMA = TableSchema()


def table_class(base: type[SchemaOp], prefix: str, op_name: str) -> type[SchemaOp]:
    """The class of an overload of the schema table at one level. Raises ``KeyError`` for an unknown one."""
    table = load_table()
    # Without an exclamation mark nothing is written. Parsing the schema can wait.
    is_functional = "!" not in table.text(op_name)
    _, packet, overload = op_name.split(".")
    return type(
        f"{packet}_{overload}",
        (base,),
        {
            "name": prefix + op_name,
            "SCHEMA": _SCHEMA,
            "traits": traits_of(is_functional, "r" in table.flags(op_name)),
            "__module__": base.__module__,
        },
    )


class AtenOp(SchemaOp):
    """An operator of a torch library, as ``torch.export`` writes it. Tensor slots may hold Python scalars."""


_classes: dict[str, type[AtenOp]] = {}
_custom: dict[str, type[AtenOp]] = {}


def aten_op(op_name: str) -> type[AtenOp]:
    """The class of an overload of the schema table, ``aten.add.Tensor``. Raises ``KeyError`` for an unknown one.

    Where the name is known when the code is written, ``ops.py`` has the class under that name.
    """
    cls = _classes.get(op_name)
    if cls is None:
        cls = _classes[op_name] = table_class(AtenOp, "", op_name)  # type: ignore[assignment]
    return cls  # type: ignore[return-value]


def custom_op(schema: OpSchema | str) -> type[AtenOp]:
    """The class of an operator of a custom library, from its schema. Raises ``SchemaError`` for a malformed text."""
    if isinstance(schema, str):
        schema = parse_schema(schema)
    cls = _custom.get(schema.text)
    if cls is None:
        cls = _custom[schema.text] = make_op_class(AtenOp, schema.op_name, schema)  # type: ignore[assignment]
    return cls  # type: ignore[return-value]


def op_class(schema: OpSchema) -> type[AtenOp]:
    """The class for ``schema``: the table's when the table has this very overload, else a custom one."""
    known = load_table().get(schema.op_name)
    return aten_op(schema.op_name) if known is not None else custom_op(schema)
