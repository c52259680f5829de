"""What to say when operators are left for the target's kernels."""

from __future__ import annotations

from etir.backends.errors import E1104
from etir.diagnostics import Diagnostic, Severity, SourceLocation, raise_if_errors
from etir.passes.delegation.report import DelegationReport, Left


def check_fallback(report: DelegationReport, policy: str) -> list[Diagnostic]:
    """Warnings under policy ``allow``: a backend that takes nothing at all, with how much runs where.

    Raises one error (E1104) under policy ``refuse`` with every operator that no backend takes, and why.
    """
    if policy == "refuse":
        raise_if_errors([_refused(report, name, count) for name, count in report.fallback.items()])
        return []
    warnings: list[Diagnostic] = []
    for backend in report.backends:
        if backend.partitions:
            continue
        reasons = [f"{left.count} x {left.op}: {left.reason}" for left in backend.left[:5]]
        warnings.append(
            E1104.diagnostic(
                f"'{backend.name}' takes none of {report.operators} operators; {report.summary()}",
                _place(backend.left[0]) if backend.left else None,
                notes=reasons,
                severity=Severity.WARNING,
            )
        )
    return warnings


def _refused(report: DelegationReport, name: str, count: int) -> Diagnostic:
    rows = [(backend.name, left) for backend in report.backends for left in backend.left if left.op == name]
    notes = [f"{who} leaves {left.count}: {left.reason}" for who, left in rows]
    place = _place(rows[0][1]) if rows else None
    uses = "" if count == 1 else f" ({count} uses, this is the first)"
    return E1104.diagnostic(f"no delegate takes '{name}'{uses}, and no fallback is allowed", place, notes=notes)


def _place(left: Left) -> SourceLocation | None:
    file, *numbers = left.location.rsplit(":", 2)
    if not file:
        return None
    digits = [int(n) for n in numbers if n.isdecimal()]
    return SourceLocation(file, *digits)
