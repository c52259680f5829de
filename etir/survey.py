"""Everything that keeps a program from compiling, not only what the first failing pass says.

The passes that check change nothing, so what follows them can still be run to see what else is wrong; decomposition
leaves alone what it cannot decompose. After functionalisation failed, the in-place operators that it left are taken
out, and the program goes on with the tensors as they were. What a later pass says of an operator that an earlier one
refused already is left out; a pass that fails for want of what was refused says nothing new either, and ends the
survey.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

from etir.diagnostics import Diagnostic, EtirError, Severity
from etir.dialects.context import EtContext
from etir.dialects.schema_op import SchemaOp
from etir.lowering.functionalize.mutations import mutates
from etir.passes.errors import E0504, E0505
from etir.passes.infra.manager import run_pipeline

_CHECKS = ("verify-core-aten", "verify-edge", "verify-link")
_IN_PLACE = "functionalize"
_GO_ON = (_IN_PLACE, "decompose-aten", *_CHECKS)
"""Passes after which the next one can still run, if they fail."""
_LAST = "to-out-variant"


def everything_wrong(error: EtirError, ctx: EtContext, module: ModuleOp, passes: Sequence[str]) -> EtirError:
    """``error`` with what the passes behind the one that raised it would say.

    ``module`` is as the failing pass left it, ``passes`` are that pass, those before it in its pipeline or not, and
    those behind it.
    """
    found = list(error.diagnostics)
    failed = next((d.pass_name for d in found if d.pass_name), "")
    names = [spec.partition("{")[0] for spec in passes]
    if failed not in _GO_ON or failed not in names:
        return error
    if failed == _IN_PLACE:
        _take_out_mutations(module)
    for name, spec in list(zip(names, passes, strict=True))[names.index(failed) + 1 :]:
        try:
            run_pipeline(ctx, module, spec)
        except EtirError as later:
            if any(d.id in (E0504, E0505) for d in later.diagnostics):
                break
            found += [d for d in later.diagnostics if d.severity is Severity.ERROR and not _is_known(d, found)]
            if name not in _GO_ON:
                break
        if name == _LAST:
            break
    return EtirError(found)


def _take_out_mutations(module: ModuleOp) -> None:
    """Erase what changes a tensor; a result of the tensor's type stands for it as it was."""
    for op in list(module.walk()):
        if not isinstance(op, SchemaOp) or not mutates(op):
            continue
        for result in op.results:
            same = next((operand for operand in op.operands if operand.type == result.type), None)
            if same is not None:
                result.replace_all_uses_with(same)
        if all(result.first_use is None for result in op.results):
            Rewriter.erase_op(op)


def _is_known(diagnostic: Diagnostic, found: Sequence[Diagnostic]) -> bool:
    """Whether something was said already of the same operator."""
    own = diagnostic.operator
    return any((own and own == other.operator) or diagnostic.message == other.message for other in found)
