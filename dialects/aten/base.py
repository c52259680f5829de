"""ATen and custom-library operators at the first level: ``aten.add.Tensor``, ``mylib.foo.default``.

The operation's name is the overload's name, so that ``str(node.target)`` of an FX graph *is* the operation name. Core
overloads are generated classes (``core_ops.py``); every other overload gets its class at first use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeVar

from etir.dialects.aten.table import load_table
from etir.dialects.schema import OpSchema, parse_schema
from etir.dialects.schema_op import SchemaOp, make_op_class, traits_of


class AtenOp(SchemaOp):
    """An operator of a torch library, as ``torch.export`` writes it. Tensor slots may hold Python numbers."""

    IS_RANDOM: ClassVar[bool] = False


_classes: dict[str, type[AtenOp]] = {}
_custom: dict[str, type[AtenOp]] = {}

_OpT = TypeVar("_OpT", bound=AtenOp)


def core_op(op_name: str) -> Callable[[type[_OpT]], type[_OpT]]:
    """Class decorator: bind a generated class to its row of the schema table."""

    def bind(cls: type[_OpT]) -> type[_OpT]:
        table = load_table()
        schema = table.get(op_name)
        assert schema is not None, f"{op_name} is not in the schema table"
        cls.name = op_name
        cls.SCHEMA = schema
        cls.IS_RANDOM = "r" in table.flags(op_name)
        cls.traits = traits_of(schema, cls.IS_RANDOM)
        _classes[op_name] = cls
        return cls

    return bind


def aten_op(op_name: str) -> type[AtenOp]:
    """The class of an overload of the schema table, ``aten.add.Tensor``. Raises ``KeyError`` for an unknown one."""
    cls = _classes.get(op_name)
    if cls is not None:
        return cls
    table = load_table()
    schema = table.get(op_name)
    if schema is None:
        raise KeyError(op_name)
    is_random = "r" in table.flags(op_name)
    cls = make_op_class(AtenOp, op_name, schema, is_random=is_random)
    cls.IS_RANDOM = is_random  # type: ignore[attr-defined]
    _classes[op_name] = cls  # type: ignore[assignment]
    return _classes[op_name]


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
