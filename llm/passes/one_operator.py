"""Operations that become one operator, for which the target has a kernel: what such passes have in common."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from etir.dialects.context import EtContext
from etir.dialects.declarations import declare_schemas, functional_form
from etir.dialects.edge.base import edge_class
from etir.dialects.schema import parse_schema
from etir.passes.infra.base import methods
from etir.passes.infra.rewriting import Pattern, apply_patterns_greedily
from etir.targets.manifest import load


class OneOperator(Pattern):
    """A rewrite to ``operator``, whose functional schema is given; it counts in ``made`` how many it has made."""

    def __init__(self, schema: str) -> None:
        self.operator = edge_class(parse_schema(schema))
        self.made = 0


def to_one_operator(ctx: EtContext, module: ModuleOp, target: str, kernel: str, pattern_of: type[OneOperator]) -> None:
    """Rewrite the methods of a module, if ``target`` has ``kernel``, and declare what they call then.

    Raises E0601 for an unknown target.
    """
    entry = load(target).lookup(kernel)
    if entry is None:
        return
    functional = functional_form(entry.schema_text)
    pattern = pattern_of(functional)
    for method in methods(module):
        apply_patterns_greedily(ctx, method, [pattern])
    if pattern.made:
        for text in (functional, entry.schema_text):
            ctx.declare_schema(text)
        declare_schemas(module, (functional, entry.schema_text))
