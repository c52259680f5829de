"""`verify-core-aten`: the legality check between decomposition and the edge level.

Allowed are core ATen operators, views, operators that the target has a kernel for, operators of custom libraries, and
everything that is not an operator. All others, and opaque ones, are reported together: how often, where first, and what
to do about each.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from etir.diagnostics import Diagnostic, raise_if_errors
from etir.dialects.aten.base import AtenOp
from etir.dialects.aten.opaque import OpaqueOp
from etir.dialects.aten.table import load_table, out_variant
from etir.dialects.context import EtContext
from etir.dialects.edge.rules import IDENTITIES, copy_form
from etir.dialects.schema import SchemaKind
from etir.dialects.text import source_location
from etir.lowering.errors import E0410
from etir.passes.base import Pass, methods
from etir.targets.manifest import Manifest, load


@dataclass(frozen=True)
class VerifyCoreAtenPass(Pass):
    """Check that only core ATen, views and operators with a kernel of ``target`` are left."""

    name = "verify-core-aten"
    target: str = "executorch"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises one error (E0410) with every operator that is left, its count and first location."""
        manifest = load(self.target) if self.target else None
        found: dict[tuple[str, str], list[Operation]] = {}
        for method in methods(module):
            for op in method.walk():
                reason = illegal(op, manifest)
                if reason is not None:
                    name = op.target.data if isinstance(op, OpaqueOp) else op.name
                    found.setdefault((name, reason), []).append(op)
        raise_if_errors([_diagnostic(name, reason, ops) for (name, reason), ops in found.items()])


def illegal(op: Operation, manifest: Manifest | None) -> str | None:
    """Why an operation may not stand here, or None."""
    if isinstance(op, OpaqueOp):
        reason = op.attributes.get("reason")
        return f"is not supported: {getattr(reason, 'data', reason)}"
    if not isinstance(op, AtenOp):
        return None
    name = op.SCHEMA.op_name
    if op.SCHEMA.kind is not SchemaKind.FUNCTIONAL:
        return "writes its arguments: run functionalize first"
    table = load_table()
    if name not in table:
        return None
    flags = table.flags(name)
    if "c" in flags or "v" in flags or name in IDENTITIES or copy_form(name) is not None:
        return None
    variant = out_variant(name)
    if manifest is not None and variant is not None and manifest.lookup(variant.qualified_name) is not None:
        return None
    return "is not core ATen and has no decomposition" + ("" if manifest is None else f" and no {manifest.name} kernel")


def _diagnostic(name: str, reason: str, ops: list[Operation]) -> Diagnostic:
    count = "" if len(ops) == 1 else f" ({len(ops)} uses, this is the first)"
    return E0410.diagnostic(f"'{name}' {reason}{count}", source_location(ops[0].location))
