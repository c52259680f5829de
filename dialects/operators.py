"""Operators as Python names: ``aten.add.Tensor`` is a class, and a name that does not exist is an error.

``dialects/aten/ops.py`` and ``dialects/edge/ops.py`` are modules whose attributes are what the text calls operators::

    from etir.dialects.aten import ops as aten
    from etir.dialects.edge import ops as edge

    aten.add.Tensor                                        # aten.add.Tensor
    edge.aten.add.Tensor                                   # edge.aten.add.Tensor
    edge.dim_order_ops._to_dim_order_copy.default          # edge.dim_order_ops._to_dim_order_copy.default

The class of an overload is made when its name is first read, so that importing either module costs nothing. The stubs
beside them, which type checkers and editors read and nothing executes, list every overload of the schema table with
its arguments (``python -m etir.dialects.stubs`` writes them).

An argument or a named result of an operator is an attribute of the operation: ``op.mat2``, ``op.stride``. Where the
schema's name is a keyword, ``self``, or an attribute that every operation has, an underscore is appended
(``schema_op.python_name``): ``op.self_``, ``aten.random.from_``.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable
from functools import cache
from typing import NoReturn

from etir.dialects.aten.table import load_table
from etir.dialects.schema_op import SchemaOp


class Level:
    """A level that has operators: the prefix of their names, and what makes the class of one.

    ``refuse`` says why the level has no such operator although the schema table does, or gives None.
    """

    def __init__(
        self,
        prefix: str,
        make: Callable[[str], type[SchemaOp]],
        refuse: Callable[[str], str | None] = lambda op_name: None,
    ):
        self.prefix = prefix
        self.make = make
        self.refuse = refuse


class Overloads:
    """The overloads of one operator: the attribute ``Tensor`` of ``aten.add`` is the class of ``aten.add.Tensor``."""

    def __init__(self, level: Level, packet: str):
        self.__level = level
        self.__packet = packet

    def __getattr__(self, name: str) -> type[SchemaOp]:
        level, op_name = self.__level, f"{self.__packet}.{_schema_name(name)}"
        overloads = load_table().overloads(self.__packet)
        if op_name not in overloads:
            if _is_protocol(name):
                raise AttributeError(name)
            raise_unknown(op_name, overloads, level.prefix, fallback=overloads)
        reason = level.refuse(op_name)
        if reason is not None:
            raise AttributeError(reason)
        cls = level.make(op_name)
        setattr(self, name, cls)
        return cls

    def __dir__(self) -> list[str]:
        level = self.__level
        names = [name for name in load_table().overloads(self.__packet) if level.refuse(name) is None]
        return [overload_name(name.rsplit(".", 1)[1]) for name in names]

    def __repr__(self) -> str:
        return f"<overloads of {self.__level.prefix}{self.__packet}: {', '.join(dir(self))}>"


class Namespace:
    """The operators of one namespace of a level: ``edge.aten``, ``edge.dim_order_ops``."""

    def __init__(self, level: Level, name: str):
        self.__level = level
        self.__name = name

    def __getattr__(self, name: str) -> Overloads:
        packet = f"{self.__name}.{name}"
        if not load_table().overloads(packet):
            if _is_protocol(name):
                raise AttributeError(name)
            raise_unknown(packet, load_table().packets, self.__level.prefix)
        overloads = Overloads(self.__level, packet)
        setattr(self, name, overloads)
        return overloads

    def __dir__(self) -> list[str]:
        start = f"{self.__name}."
        return [packet.removeprefix(start) for packet in load_table().packets if packet.startswith(start)]

    def __repr__(self) -> str:
        return f"<operators {self.__level.prefix}{self.__name}>"


def _is_protocol(name: str) -> bool:
    """Whether Python itself asks any object for the attribute, which deserves no advice."""
    return name.startswith("__") and name.endswith("__")


def overload_name(overload: str) -> str:
    """An overload in Python: with an underscore appended to a keyword."""
    return f"{overload}_" if keyword.iskeyword(overload) else overload


def _schema_name(name: str) -> str:
    return name[:-1] if name.endswith("_") and keyword.iskeyword(name[:-1]) else name


def raise_unknown(name: str, known: Iterable[str], prefix: str = "", *, fallback: Iterable[str] = ()) -> NoReturn:
    """Raise ``AttributeError`` for the operator ``name``, with similar ones of ``known``, else ``fallback``."""
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), 3) or list(fallback)[:3]
    advice = f"; did you mean {' or '.join(repr(prefix + other) for other in near)}?" if near else ""
    raise AttributeError(f"there is no operator '{prefix}{name}'{advice}")


@cache
def check_operator(op_name: str) -> str:
    """``op_name`` itself when the schema table has it, with or without the prefix of the edge level.

    For tables that name operators as data. Raises ``AttributeError`` with similar names for an unknown operator of one
    of the table's namespaces; operators of other libraries pass.
    """
    table = load_table()
    name = op_name.removeprefix("edge.")
    if name not in table and name.split(".", 1)[0] in table.namespaces:
        raise_unknown(name, table, op_name.removesuffix(name))
    return op_name


def operator_name(operator: type[SchemaOp] | str) -> str:
    """The name of an operator that is given by its class, or by name; then it has to exist (:func:`check_operator`)."""
    return check_operator(operator) if isinstance(operator, str) else operator.name
