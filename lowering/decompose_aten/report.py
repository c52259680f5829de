"""Problems of many operations as one table: an entry for each operator and reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from xdsl.ir import Operation

from etir.diagnostics import Diagnostic
from etir.dialects.aten.opaque import operator_of


def summary(problems: Iterable[tuple[Operation, Diagnostic]]) -> list[Diagnostic]:
    """Equal problems once, with how often they occur; the first one gives the location."""
    found: dict[tuple[str, str], list[Diagnostic]] = {}
    for op, problem in problems:
        found.setdefault((problem.id.id, problem.message), []).append(problem.about(operator_of(op)))
    rows: list[Diagnostic] = []
    for same in found.values():
        count = f" ({len(same)} uses, this is the first)" if len(same) > 1 else ""
        rows.append(replace(same[0], message=same[0].message + count))
    return rows
