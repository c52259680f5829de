"""`verify-fallback`: whether the target's kernels may run what no backend claims.

Backends were named, and none of them has, in ``forward``::

    %1 = edge.aten.tanh.default(%0) : ...

With ``verify-fallback{policy=refuse}`` that is an error with the reason that each backend gave. Otherwise it is a
warning when a backend claims nothing at all: it was named for something. The reasons are those of the report that
`partition` made in the same run; for partitions that were read from text there is none, and the errors say only what is
in no partition.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from etir.backends.api.fallback import FallbackPolicy
from etir.backends.api.patterns import operator_of
from etir.backends.errors import E1104
from etir.diagnostics import Diagnostic, Severity, SourceLocation, raise_if_errors
from etir.dialects.backend.ops import CallDelegateOp
from etir.dialects.context import EtContext
from etir.dialects.text import source_location
from etir.passes.delegation.attributes import partition_of
from etir.passes.delegation.claim import computes
from etir.passes.delegation.report import DelegationReport, Rejected
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass


@register_pass
@dataclass(frozen=True)
class VerifyFallbackPass(Pass):
    """Check that backends claim every operator, or warn of backends that claim none.

    ``policy`` says whether operators that no backend claims may run on the target's kernels.
    """

    name = "verify-fallback"
    checks_only = True
    policy: Literal["allow", "refuse"] = "allow"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises one error (E1104) under policy ``refuse`` with every operator that no backend claims, and why."""
        ctx.attachments.set(FallbackPolicy, FallbackPolicy(self.policy == "refuse"))
        report = ctx.attachments.get(DelegationReport)
        if self.policy == "refuse":
            raise_if_errors(_unexplained(module) if report is None else _explained(report))
        elif report is not None:
            ctx.diagnostics += _idle(report)


def _idle(report: DelegationReport) -> list[Diagnostic]:
    """A warning for every backend that claims nothing at all, with how much runs where."""
    return [
        E1104.diagnostic(
            f"'{backend.name}' claims none of {report.operators} operators; {report.summary()}",
            _place(backend.rejected[0]) if backend.rejected else None,
            notes=[f"{row.count} x {row.op}: {row.reason}" for row in backend.rejected[:5]],
            severity=Severity.WARNING,
        )
        for backend in report.backends
        if not backend.partitions
    ]


def _explained(report: DelegationReport) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    for name, count in report.fallback.items():
        rows = [(backend.name, row) for backend in report.backends for row in backend.rejected if row.op == name]
        notes = [f"{who} rejects {row.count}: {row.reason}" for who, row in rows]
        found.append(_refused(name, count, _place(rows[0][1]) if rows else None, notes))
    return found


def _unexplained(module: ModuleOp) -> list[Diagnostic]:
    first: dict[str, Operation] = {}
    counts: Counter[str] = Counter()
    for method in methods(module):
        for op in method.walk():
            if computes(op) and partition_of(op) is None and not isinstance(op, CallDelegateOp):
                first.setdefault(operator_of(op), op)
                counts[operator_of(op)] += 1
    return [_refused(name, counts[name], source_location(op.location), []) for name, op in first.items()]


def _refused(name: str, count: int, place: SourceLocation | None, notes: list[str]) -> Diagnostic:
    uses = "" if count == 1 else f" ({count} uses, this is the first)"
    message = f"no delegate claims '{name}'{uses}, and no fallback is allowed"
    return E1104.diagnostic(message, place, notes=notes).about(name)


def _place(rejected: Rejected) -> SourceLocation | None:
    file, *numbers = rejected.location.rsplit(":", 2)
    if not file:
        return None
    line, column, *_ = (*(int(n) for n in numbers if n.isdecimal()), 0, 0)
    return SourceLocation(file, line, column)
