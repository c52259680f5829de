"""`verify-types`: the types that text declares for the results of operators are those that their operands give.

Every operation says the types of its results, since the importer has them from torch and not every operator has a rule.
Text says them too, and nothing in its syntax makes them true: a wrong one becomes a buffer of a wrong size. Where there
is a rule (``lowering/build/inference``), this pass compares; where there is none, it says nothing. Symbolic sizes are
compared as expressions over the ranges of their symbols: what can be equal for some values is no error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute

from etir.diagnostics import Diagnostic, raise_if_errors
from etir.dialects.aten.opaque import operator_of
from etir.dialects.context import EtContext
from etir.dialects.errors import E0310
from etir.dialects.et.layout import Dim, dims_of
from etir.dialects.schema_op import SchemaOp
from etir.dialects.sym.expr import Ranges, prove_equal
from etir.dialects.sym.ops import DimOp
from etir.dialects.text import source_location
from etir.lowering.build.dims import OperandError
from etir.lowering.build.inference import infer
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass


@register_pass
@dataclass(frozen=True)
class VerifyTypesPass(Pass):
    """Check the declared result types of operators against their operands."""

    name = "verify-types"
    checks_only = True

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises one error with every type that does not follow (E0310)."""
        ranges = {op.sym_name.data: op.range for op in module.body.block.ops if isinstance(op, DimOp)}
        found: list[Diagnostic] = []
        for method in methods(module):
            for op in method.walk():
                if isinstance(op, SchemaOp):
                    place = source_location(op.location)
                    problems = (E0310.diagnostic(f"'{op.name}' {p}", place) for p in type_problems(op, ranges))
                    found += [problem.about(operator_of(op)) for problem in problems]
        raise_if_errors(found)


def type_problems(op: SchemaOp, ranges: Ranges | None) -> Iterator[str]:
    """What contradicts the rule of an operator; nothing where it has none.

    ``ranges`` are those of the module's symbols; without them, symbolic sizes are taken to agree with anything.
    """
    try:
        expected = infer(op.SCHEMA, op.given_args())
    except OperandError as error:
        yield f"takes operands that do not fit: {error}"
        return
    except (LookupError, TypeError, ValueError):
        return
    for index, (result, type) in enumerate(zip(op.results, expected, strict=False)):
        got = result.type
        if not isinstance(got, TensorType) or not isinstance(type, TensorType):
            continue
        if got.element_type != type.element_type:
            yield f"gives result {index} element type {got.element_type}; its rule gives {type.element_type}"
        elif not _may_agree(got, type, ranges):
            yield f"gives result {index} type {got}; its rule gives {type}"


def _may_agree(a: TensorType[Attribute], b: TensorType[Attribute], ranges: Ranges | None) -> bool:
    if a.get_num_dims() != b.get_num_dims():
        return False
    return all(_may_equal(x, y, ranges) for x, y in zip(dims_of(a), dims_of(b), strict=True))


def _may_equal(a: Dim, b: Dim, ranges: Ranges | None) -> bool:
    if a == b or (isinstance(a, int) and isinstance(b, int)):
        return a == b
    return ranges is None or prove_equal(a, b, ranges) is not False
