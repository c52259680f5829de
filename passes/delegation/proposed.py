"""Partitions that a backend found by itself (``Backend.propose``), made to fit beside those of other backends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation

from etir.backends.api.interface import Proposal
from etir.passes.delegation.claim import Claims, find_cycle_through
from etir.passes.delegation.graph import BlockGraph, Contraction


def fit_proposal(
    graph: BlockGraph,
    proposal: Proposal,
    made: Sequence[list[int]],
    is_free: Callable[[Operation], bool],
    excluded: Callable[[Operation], bool],
) -> tuple[list[list[int]], Claims]:
    """The proposed partitions that can be run as they are, and the operations of the others one by one.

    A partition is preserved when all of it is free and it is convex, and when it is on no cycle with the ones that
    are ``made``.
    """
    whole: list[list[int]] = []
    loose: list[list[int]] = []
    reasons = {op: why for op, why in proposal.reasons.items() if is_free(op)}
    for ops in proposal.partitions:
        known = [op for op in ops if op in graph.index]
        kept = [graph.index[op] for op in known if is_free(op) and not excluded(op)]
        reasons.update((op, "excluded by option") for op in known if is_free(op) and excluded(op))
        if not kept:
            continue
        if len(kept) == len(known) and find_cycle_through(graph.preds, dict.fromkeys(kept)) is None:
            whole.append(sorted(kept))
        else:
            loose += [[i] for i in kept]
    while whole and (on_cycle := [n for n in Contraction(graph, [*whole, *made]).cycle if n < len(whole)]):
        loose += [[i] for i in whole.pop(on_cycle[-1])]
    return whole, Claims(sorted(loose), reasons)
