"""Whether a backend may leave to the target's kernels what it has claimed and then cannot do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from xdsl.dialects.func import FuncOp

from etir.diagnostics import Diagnostic, EtirError, Severity, SourceLocation
from etir.dialects.context import EtContext
from etir.dialects.text import source_location


@dataclass(frozen=True)
class FallbackPolicy:
    """The option ``fallback`` of a compilation, which its context has among its attachments."""

    is_refused: bool = False


@dataclass(frozen=True)
class LeftToKernels:
    """Why functions that a backend has claimed run on the kernels, by the name of the function: an id and a message."""

    reasons: dict[str, str] = field(default_factory=dict[str, str])


def left_to_kernels(ctx: EtContext, func: FuncOp, error: EtirError) -> None:
    """Say as warnings, and for the report, why ``func`` runs on the kernels after all; raises ``error`` where that is
    not allowed.

    What has no place is at the first operation of the function that has one. What is wrong with several parts of one
    operation in the same words is said once.
    """
    place = _place(func)
    found = _different(diagnostic.at(place) for diagnostic in error.diagnostics)
    policy = ctx.attachments.get(FallbackPolicy)
    if policy is not None and policy.is_refused:
        raise EtirError(found) from error
    left = ctx.attachments.get(LeftToKernels) or LeftToKernels()
    left.reasons[func.sym_name.data] = "; ".join(f"{d.id.id}: {d.message}" for d in found)
    ctx.attachments.set(LeftToKernels, left)
    note = f"@{func.sym_name.data} runs on the kernels; with fallback=refuse this is an error"
    ctx.diagnostics += [replace(d, severity=Severity.WARNING, notes=(*d.notes, note)) for d in found]


def _different(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The first of those with the same id, message and place."""
    found: dict[tuple[str, str, SourceLocation | None], Diagnostic] = {}
    for diagnostic in diagnostics:
        found.setdefault((diagnostic.id.id, diagnostic.message, diagnostic.location), diagnostic)
    return list(found.values())


def _place(func: FuncOp) -> SourceLocation | None:
    places = (source_location(op.location) for op in func.body.block.ops)
    return next((place for place in places if place is not None), source_location(func.location))
