"""Which operations of a block a backend claims, and the reason why it rejects each other one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from etir.backends.api.patterns import ANY, Match, operator_of
from etir.backends.api.registry import Delegate
from etir.dialects.schema_op import SchemaOp
from etir.passes.delegation.graph import FREE, STORES, BlockGraph


@dataclass
class Claims:
    """Units of operations (node numbers) that the backend claims together, and why it rejects the others."""

    units: list[list[int]] = field(default_factory=list[list[int]])
    reasons: dict[Operation, str] = field(default_factory=dict[Operation, str])


def computes(op: Operation) -> bool:
    """Whether an operation counts as work that could be delegated: it makes a tensor, and has no regions."""
    if isinstance(op, (*FREE, *STORES)) or op.regions or op.name == "et.read_state":
        return False
    return any(isinstance(r.type, TensorType) for r in op.results)


def copy_shared(ops: Sequence[Operation], delegate: Delegate) -> bool:
    """Give every match its own copy of duplicable operations with several users. Returns whether anything changed."""
    changed = False
    for op in reversed(ops):
        found = delegate.table.match(op)
        if not isinstance(found, tuple):
            continue
        for inner in found[1].duplicable:
            members = dict.fromkeys(found[1].ops)
            own = [use for r in inner.results for use in r.uses if use.operation in members]
            if len(own) == sum(1 for r in inner.results for _ in r.uses):
                continue
            copy = inner.clone()
            copy.location = inner.location
            Rewriter.insert_op(copy, InsertPoint.before(inner))
            for use in own:
                use.operation.operands[use.index] = copy.results[inner.results.index(use.operation.operands[use.index])]
            changed = True
    return changed


def find_claims(
    graph: BlockGraph, delegate: Delegate, is_free: Callable[[Operation], bool], excluded: Sequence[str]
) -> Claims:
    """What ``delegate`` claims of the operations for which ``is_free`` holds; not those of ``excluded``."""
    claims = Claims()
    unit_of: dict[int, int] = {}
    for i in range(len(graph.ops) - 1, -1, -1):
        op = graph.ops[i]
        if i in unit_of or not is_free(op):
            continue
        if operator_of(op) in excluded:
            claims.reasons[op] = "excluded by option"
            continue
        found = delegate.table.match(op)
        if not isinstance(found, tuple):
            claims.reasons[op] = _reason(delegate, op)
            continue
        problem = _add(graph, found[1], claims, unit_of, is_free, excluded)
        if problem is not None:
            claims.reasons[op] = problem
    for op in [op for op in claims.reasons if graph.index[op] in unit_of]:
        del claims.reasons[op]
    claims.units = [unit for unit in claims.units if unit]
    return claims


def _reason(delegate: Delegate, op: Operation) -> str:
    table = delegate.table
    name = operator_of(op)
    if name in table.by_root or (ANY in table.by_root and isinstance(op, SchemaOp)):
        return table.why_not(op) or ""
    inside = [row.name for row in table.rows if name in row.operators]
    if inside:
        return f"only claimed as part of {' or '.join(dict.fromkeys(inside))}"
    return f"{delegate.name} has no pattern for this operator"


def _add(
    graph: BlockGraph,
    match: Match,
    claims: Claims,
    unit_of: dict[int, int],
    is_free: Callable[[Operation], bool],
    excluded: Sequence[str],
) -> str | None:
    """Make a match a unit; matches that share an operation become one unit. Returns what speaks against it."""
    members: dict[int, None] = {}
    for op in match.ops:
        i = graph.index.get(op)
        if i is None:
            return f"'{operator_of(op)}' of its pattern is in another block"
        if not is_free(op):
            return f"'{operator_of(op)}' of its pattern is in another partition"
        if operator_of(op) in excluded:
            return f"'{operator_of(op)}' of its pattern is excluded by option"
        members[i] = None
    merged = [u for u in dict.fromkeys(unit_of[i] for i in members if i in unit_of)]
    for u in merged:
        members.update(dict.fromkeys(claims.units[u]))
    if len(members) > 1 and (path := find_cycle_through(graph.preds, members)) is not None:
        return f"'{operator_of(graph.ops[path])}' lies between operations of its pattern"
    for u in merged:
        claims.units[u] = []
    unit_of.update(dict.fromkeys(members, len(claims.units)))
    claims.units.append(sorted(members))
    return None


def find_cycle_through(preds: Sequence[Sequence[int]], members: dict[int, None]) -> int | None:
    """An operation outside of ``members`` on a path from one of them to another, or None when they are convex."""
    low = min(members)
    after: dict[int, None] = {}
    for i in range(low, max(members) + 1):
        fed = [p for p in preds[i] if p in after]
        if i in members:
            if fed:
                return fed[0]
        elif fed or any(p in members for p in preds[i]):
            after[i] = None
    return None
