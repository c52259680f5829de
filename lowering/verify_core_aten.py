"""`verify-core-aten`: the legality check of core ATen.

After `decompose-aten` only core operators may be left, views, operators of custom libraries, and those that are
preserved because the target has a kernel for them. Everything else is reported in one table: operator, count, first
location, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation

from etir.diagnostics import Diagnostic, raise_if_errors
from etir.dialects.aten import ops as aten
from etir.dialects.aten.opaque import OpaqueOp
from etir.dialects.aten.table import load_table, out_variant
from etir.dialects.context import EtContext
from etir.dialects.schema import SchemaKind
from etir.dialects.schema_op import SchemaOp
from etir.dialects.text import source_location
from etir.lowering.decompose_aten.driver import check_names, hand_written
from etir.lowering.decompose_aten.legality import is_legal
from etir.lowering.decompose_aten.preserved import PreservedOps
from etir.lowering.decompose_aten.report import summary
from etir.lowering.errors import E0410
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.targets.manifest import other_target


@register_pass
@dataclass(frozen=True)
class VerifyCoreAtenPass(Pass):
    """Check that only core ATen is left, and preserved operators.

    ``keep``, ``target`` and ``delegates`` are those of `decompose-aten`.
    """

    name = "verify-core-aten"
    checks_only = True
    keep: tuple[str, ...] = ()
    target: str | None = "executorch"
    delegates: tuple[str, ...] = ()

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises one error (E0410) with every operator that may not be left."""
        check_names(ctx, self.name, "keep", self.keep, ())
        raise_if_errors(summary(violations(module, PreservedOps(self.target, self.keep, self.delegates))))


def violations(module: ModuleOp, preserved: PreservedOps) -> Iterator[tuple[Operation, Diagnostic]]:
    """Every operation that may not be left, in order."""
    for method in methods(module):
        for op in method.walk():
            place = source_location(op.location)
            if isinstance(op, OpaqueOp):
                reason = op.attributes.get("reason")
                why = f": {reason.data}" if isinstance(reason, StringAttr) else ""
                yield op, E0410.diagnostic(f"'{op.target.data}' is not known{why}", place)
            elif isinstance(op, aten.as_strided.default):
                help = "run functionalize first: it says which elements the call reads"
                yield op, E0410.diagnostic(f"'{op.name}' reads the storage of its tensor", place, help=help)
            elif isinstance(op, SchemaOp) and not is_legal(op, preserved):
                help = _suggestion(op, preserved.target)
                yield op, E0410.diagnostic(f"'{op.name}' is not core ATen", place, help=help)


def _suggestion(op: SchemaOp, target: str | None) -> str:
    """What helps against a single operator."""
    if op.SCHEMA.kind is not SchemaKind.FUNCTIONAL:
        return "it writes its arguments: run functionalize first"
    patterns = [p.name for p in hand_written() if op.name in p.roots]
    if patterns:
        return f"decompose-aten has pattern '{patterns[0]}' for it; --explain-match says why it did not apply"
    if "i" in load_table().flags(op.name):
        return "decompose-aten decomposes it by tracing: run it with torch installed"
    schema = out_variant(op.name) if op.name in load_table() else None
    if target is not None and schema is not None:
        kernel = schema.qualified_name
        other = other_target(target, lambda manifest: manifest.lookup(kernel) is not None)
        if other is not None:
            return f"target '{other}' has a kernel for it; or rewrite the model without it"
    return "rewrite the model without it, decompose it before export, or keep it (keep=...) if the target has a kernel"
