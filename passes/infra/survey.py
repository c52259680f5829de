"""Everything that keeps a program from compiling, not only what the first failing pass says.

A pass that failed may say that those after it can still look (:meth:`Pass.recover`): checks change nothing,
decomposition leaves alone what it cannot decompose, functionalization drops the mutations that it could not express. So
the pipeline goes on, for the sake of what later passes find. What a later pass says of an operator that an earlier one
refused already is left out; a pass that fails for want of what was refused says nothing new either, and ends the
survey.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from etir.diagnostics import Diagnostic, EtirError, Severity
from etir.passes.errors import E0504, E0505
from etir.passes.infra.base import Pass


def collect_all_errors(
    error: EtirError, module: ModuleOp, passes: Sequence[ModulePass], run: Callable[[ModulePass], None]
) -> EtirError:
    """``error`` with what the passes after the one that raised it would say.

    ``passes`` are the one that raised and those after it, ``module`` is as it left it; ``run`` runs and verifies one.
    """
    failed, *rest = passes
    found = list(error.diagnostics)
    if _is_internal(error) or not _recovers(failed, module):
        return error
    for p in rest:
        try:
            run(p)
        except EtirError as later:
            if _is_internal(later):
                break
            found += [d for d in later.diagnostics if d.severity is Severity.ERROR and not _is_known(d, found)]
            if not _recovers(p, module):
                break
    return EtirError(found)


def _recovers(failed: ModulePass, module: ModuleOp) -> bool:
    return isinstance(failed, Pass) and failed.recover(module)


def _is_internal(error: EtirError) -> bool:
    return any(d.id in (E0504, E0505) for d in error.diagnostics)


def _is_known(diagnostic: Diagnostic, found: Sequence[Diagnostic]) -> bool:
    """Whether something was said already of the same operator."""
    own = diagnostic.operator
    return any((own and own == other.operator) or diagnostic.message == other.message for other in found)
