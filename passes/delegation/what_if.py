"""What-if: what one more operator would be worth to a backend.

For every operator that a backend rejects, the partitions of each block are recomputed as if it claimed all, and
the number of partitions and the bytes at their boundaries are compared. Making partitions is linear in the size of the
block, so that this costs little more than one partitioning for each rejected operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from etir.backends.api.patterns import operator_of
from etir.backends.api.registry import Delegate
from etir.passes.delegation.claim import Claims, computes
from etir.passes.delegation.graph import BlockGraph, Contraction
from etir.passes.delegation.levels import boundary_bytes, find_levels, lower_boundary


@dataclass(frozen=True)
class Saving:
    """If the backend claimed every ``op``: ``count`` operators more, and what becomes of partitions and boundaries."""

    op: str
    count: int
    partitions_before: int
    partitions_after: int
    bytes_before: int
    bytes_after: int

    def __str__(self) -> str:
        saved = self.bytes_before - self.bytes_after
        change = f"save {saved:,}" if saved >= 0 else f"add {-saved:,}"
        return (
            f"with {self.op} ({self.count}): {self.partitions_before} -> {self.partitions_after} partitions, "
            f"{change} bytes at their boundaries"
        )


class WhatIf:
    """One block and the partitions (``groups``) that ``delegate`` has of it, beside those that others have ``made``."""

    def __init__(
        self,
        graph: BlockGraph,
        made: Sequence[list[int]],
        groups: Sequence[list[int]],
        claims: Claims,
        delegate: Delegate,
    ):
        inside = dict.fromkeys(i for group in groups for i in group)
        self.graph = graph
        self.made = list(made)
        self.units = [list(unit) for unit in claims.units if unit[0] in inside]
        self.rejected = {op: None for op in claims.reasons if computes(op)}
        self.delegate = delegate

    def operators(self) -> dict[str, int]:
        """The rejected operators, with their number."""
        found: dict[str, int] = {}
        for op in self.graph.ops:
            if op in self.rejected:
                found[operator_of(op)] = found.get(operator_of(op), 0) + 1
        return found

    def measure(self, operator: str | None = None) -> tuple[int, int]:
        """Partitions and boundary bytes, with every ``operator`` of the block claimed as well."""
        more = [[self.graph.index[op]] for op in self.rejected if operator is not None and operator_of(op) == operator]
        units = [*self.units, *more]
        contracted = Contraction(self.graph, [*units, *self.made])
        claimed = [n < len(units) for n in range(len(contracted.members))]
        levels = find_levels(contracted, claimed)
        lower_boundary(self.graph, contracted, claimed, levels)
        used = dict.fromkeys(level for level, is_claimed in zip(levels, claimed, strict=True) if is_claimed)
        return len(used), boundary_bytes(self.graph, contracted, claimed, levels)


def rank_savings(questions: Sequence[WhatIf]) -> list[Saving]:
    """The rejected operators, the ones whose support merges most partitions and saves most bytes first."""
    counts: dict[str, int] = {}
    for question in questions:
        for name, count in question.operators().items():
            counts[name] = counts.get(name, 0) + count
    if not counts:
        return []
    before = [question.measure() for question in questions]
    savings: list[Saving] = []
    for name, count in counts.items():
        after = [
            question.measure(name) if name in question.operators() else same
            for question, same in zip(questions, before, strict=True)
        ]
        savings.append(
            Saving(
                name,
                count,
                sum(b[0] for b in before),
                sum(a[0] for a in after),
                sum(b[1] for b in before),
                sum(a[1] for a in after),
            )
        )
    return sorted(
        savings,
        key=lambda s: (s.partitions_after - s.partitions_before, s.bytes_after - s.bytes_before, -s.count, s.op),
    )
