"""The operator that a kernel call computes, and its arguments as that operator's rule takes them.

A call has literals where a file has numbers (dtypes, memory formats); the rules for result types
(``lowering/build/inference``) take what the levels above have.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from etir.dialects.aten.table import load_table, out_variant
from etir.dialects.declarations import functional_form
from etir.dialects.dtypes import BY_NUMBER
from etir.dialects.schema import Kind, OpSchema, SchemaKind, parse_schema
from etir.lowering.to_out_variant.calls import MEMORY_FORMAT_NUMBERS
from etir.passes.analysis.call_arguments import BoundArgument

FORMATS = {number: name for name, number in MEMORY_FORMAT_NUMBERS.items()}
"""Memory formats by the number that files have for them."""


@cache
def functional_of(schema: OpSchema) -> OpSchema | None:
    """The functional operator that a kernel's schema computes, or None: of the table, or what a kernel of another
    library that writes one result is without it.
    """
    table = load_table()
    if schema.kind is SchemaKind.INPLACE:
        return table.get(f"{schema.namespace}.{schema.name.removesuffix('_')}.{schema.overload or 'default'}")
    for name in table.overloads(f"{schema.namespace}.{schema.name}"):
        if out_variant(name) == schema:
            return table.get(name)
    if schema.namespace not in table.namespaces and schema.text.endswith("Tensor(a!) out) -> Tensor(a!)"):
        return parse_schema(functional_form(schema.text))
    return None


def given_for_rule(bound: BoundArgument) -> Any:
    """An argument of a call: its value, or the tuple of a list's, with dtypes and memory formats by name."""

    def plain(value: Any) -> Any:
        if bound.argument.kind is Kind.DTYPE and isinstance(value, int):
            return BY_NUMBER[value].type if value in BY_NUMBER else None
        return FORMATS.get(value, value) if bound.argument.kind is Kind.MEMORY_FORMAT else value

    given = bound.given
    return tuple(plain(v) for v in given) if isinstance(given, tuple) else plain(given)
