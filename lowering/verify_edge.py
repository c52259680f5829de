"""`verify-edge`: the legality check of the edge level.

The rules of docs/reference/dialects/edge.md: E1 every operator is functional; E2 none is a view; E3 every tensor slot
holds a tensor; E4 memory formats are explicit dim orders; E5 element types and sizes of results are those that the
operator's rule gives. All violations are reported together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from etir.diagnostics import Diagnostic, raise_if_errors
from etir.dialects.aten.base import AtenOp
from etir.dialects.aten.opaque import OpaqueOp, operator_of
from etir.dialects.context import EtContext
from etir.dialects.edge.base import EdgeOp
from etir.dialects.schema import Kind, SchemaKind
from etir.dialects.text import source_location
from etir.lowering.errors import E0410, E0414
from etir.lowering.verify_types import type_problems
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass


@register_pass
@dataclass(frozen=True)
class VerifyEdgePass(Pass):
    """Check that a module is at the edge level and keeps its rules."""

    name = "verify-edge"
    checks_only = True

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises one error with every violation (E0410, E0414)."""
        found = [d.about(operator_of(op)) for method in methods(module) for op in method.walk() for d in violations(op)]
        raise_if_errors(found)


def violations(op: Operation) -> Iterator[Diagnostic]:
    """What is wrong with one operation at the edge level."""
    place = source_location(op.location)
    if isinstance(op, OpaqueOp):
        yield E0410.diagnostic(f"'{op.target.data}' is not supported: {op.attributes.get('reason')}", place)
    elif isinstance(op, AtenOp):
        yield E0414.diagnostic(f"'{op.name}' is an ATen operator: run aten-to-edge", place)
    elif isinstance(op, EdgeOp):
        for problem in _operator(op):
            yield E0414.diagnostic(f"'{op.name}' {problem}", place)


def _operator(op: EdgeOp) -> Iterator[str]:
    schema = op.SCHEMA
    if schema.kind is not SchemaKind.FUNCTIONAL:
        yield "writes its arguments (E1)"
        return
    if schema.is_view:
        yield "is a view (E2)"
    arguments = op.given_args()
    for argument in schema.arguments:
        value = arguments.get(argument.name)
        is_number = not isinstance(value, SSAValue) or not isinstance(value.type, TensorType)
        if argument.is_tensor and not argument.is_list and value is not None and is_number:
            yield f"has a number in tensor slot '{argument.name}' (E3)"
            return
        if argument.kind is Kind.MEMORY_FORMAT and value is not None:
            yield f"has a memory format ('{argument.name}') instead of a dim order (E4)"
    yield from (f"{problem} (E5)" for problem in type_problems(op, None))
