"""How much memory a method needs, to compare two forms of it."""

from __future__ import annotations

from etir.diagnostics import EtirError
from etir.passes.analysis.memory_effects import MethodMemory
from etir.passes.analysis.planning.algorithms import plan
from etir.passes.analysis.planning.lower_bound import lower_bound


def is_smaller(now: MethodMemory, before: MethodMemory) -> bool:
    """Whether the plan of a method as it is now is smaller than that of ``before``; not where it cannot be planned."""
    return saved(now, before) > 0


def saved(now: MethodMemory, before: MethodMemory) -> int:
    """How many bytes smaller the plan of a method as it is now is than that of ``before``: 0 where it is not, or where
    it cannot be planned.
    """
    if _bound(now) >= _bound(before):
        return 0
    try:
        return max(_planned(before) - _planned(now), 0)
    except EtirError:  # `plan-memory` says what is wrong
        return 0


def _bound(memory: MethodMemory) -> int:
    return sum(bound.bytes for bound in lower_bound(memory.problem).values())


def _planned(memory: MethodMemory) -> int:
    return sum(plan(memory.problem).pool_sizes.values())
