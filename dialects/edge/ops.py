"""The edge level's operators by name: ``edge.aten.add.Tensor``, ``edge.dim_order_ops._clone_dim_order.default``.

::

    from etir.dialects.edge import ops as edge

    def rewrite(self, op: edge.aten.bmm.default, rewriter: PatternRewriter) -> None: ...

A class is made when its name is first read; a name that does not exist raises ``AttributeError`` with similar ones, and
so does one that the level cannot have (rules E1 and E2 of docs/dialects/edge.md). Type checkers read ``ops.pyi``
instead, which has every overload of the schema table that the level can have.
"""

from __future__ import annotations

from etir.dialects.aten.table import load_table
from etir.dialects.edge.base import PREFIX, edge_op
from etir.dialects.edge.rules import refusal
from etir.dialects.operators import Level, Namespace, raise_unknown

_level = Level(PREFIX, edge_op, refusal)


def __getattr__(name: str) -> Namespace:
    known = load_table().namespaces
    if name not in known:
        if name.startswith("__"):
            raise AttributeError(name)
        raise_unknown(name, known, PREFIX, fallback=known)
    namespace = globals()[name] = Namespace(_level, name)
    return namespace


def __dir__() -> list[str]:
    return list(load_table().namespaces)
