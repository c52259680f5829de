"""The fewest convex partitions of a graph, in linear time.

Cut the graph into *levels*: the level of a node is the largest number of times that any path into it leaves the
delegate and enters it again. Operations that a delegate claims and that have one level form one partition::

    level(n) = max over predecessors p of  level(p) + 1  if the delegate claims p and does not claim n
                                           level(p)      otherwise

A path that leaves a partition through an operation on the outside arrives at a higher level and can never come back, so
every partition is convex and no two depend on each other in a cycle. A path along which the level rises k times needs
k + 1 partitions whatever one does, so there are as few as possible: this is the levelling of a graph by longest path
(Kelley and Walker, "Critical-path planning and scheduling", 1959) with edges of weight 1 where the delegate is left.
Contracting neighbors greedily, the usual method, needs a reachability test for every merge and depends on their order.

That gives every operation its *earliest* level. An operation that is needed later may sit at a higher one, up to where
its users are: a second pass, from the results backwards, moves operations to the level where the fewest bytes cross a
boundary, alone or with what only serves to make their operands from what is read there anyhow (an expert of a mixture
reads what its gate reads, and makes what waits for the gate). What is left is moved with all that is made of it, as the
norm before queries and keys that wait for a mask. The number of partitions does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from etir.passes.delegation.graph import BlockGraph, Contraction


def find_levels(graph: Contraction, claimed: Sequence[bool]) -> list[int]:
    """The earliest level of every node; ``claimed`` says which ones the delegate claims. The graph has no cycle."""
    levels = [0] * len(graph.members)
    for node in graph.order:
        level = 0
        for p in graph.preds[node]:
            reached = levels[p] + (claimed[p] and not claimed[node])
            if reached > level:
                level = reached
        levels[node] = level
    return levels


def lower_boundary(
    source: BlockGraph, graph: Contraction, claimed: Sequence[bool], levels: list[int], *, reads_more: bool = True
) -> None:
    """Move nodes to later levels, in place, where that lets fewer bytes cross boundaries; without ``reads_more`` only
    those that read nothing which their new level does not read anyhow.
    """
    touching: list[list[int]] = [[] for _ in graph.members]
    ends: list[tuple[int, tuple[int, ...], int, bool]] = []
    for value in source.values:
        producer = graph.node_of[value.producer] if value.producer >= 0 else -1
        users = tuple(dict.fromkeys(graph.node_of[u] for u in value.users))
        for node in dict.fromkeys((producer, *users)):
            if node >= 0:
                touching[node].append(len(ends))
        ends.append((producer, users, value.size, value.outside))

    def crossing_of(values: Iterable[int]) -> int:
        return sum(_bytes(*ends[v], claimed, levels) for v in values)

    def crossing(node: int) -> int:
        return crossing_of(touching[node])

    def is_new(v: int, chain: Mapping[int, None], level: int) -> bool:
        """Whether a value that a chain reads is none that its new level has already."""
        producer, users, *_ = ends[v]
        if producer in chain or (producer >= 0 and claimed[producer] and levels[producer] == level):
            return False
        return not any(claimed[u] and levels[u] == level and u not in chain for u in users)

    last = max(levels, default=0)
    latest = [0] * len(levels)
    for node in reversed(graph.order):
        if not claimed[node]:
            latest[node] = min((levels[s] if claimed[s] else latest[s] for s in graph.succs[node]), default=last + 1)
            continue
        limit = min((levels[s] if claimed[s] else latest[s] - 1 for s in graph.succs[node]), default=last)
        if limit <= levels[node]:
            continue
        best = earliest = levels[node]
        lowest = crossing(node)
        later = dict.fromkeys(levels[s] for s in graph.succs[node] if claimed[s] and earliest < levels[s] <= limit)
        for level in sorted(later):
            if not reads_more and any(is_new(v, {node: None}, level) for v in touching[node]):
                continue
            levels[node] = level
            found = crossing(node)
            if found < lowest:
                best, lowest = level, found
        levels[node] = best
        if best == earliest:
            for level in sorted(later):
                if _move_chain(graph, claimed, levels, node, level, touching, crossing_of, is_new):
                    break
    if not reads_more:
        return
    for node in reversed(graph.order):
        if claimed[node] and levels[node] < last:
            _move_readers(graph, claimed, levels, latest, node, touching, crossing_of)


LARGEST_CHAIN = 64
"""Nodes that move together at most."""


def _move_chain(
    graph: Contraction,
    claimed: Sequence[bool],
    levels: list[int],
    node: int,
    level: int,
    touching: Sequence[Sequence[int]],
    crossing_of: Callable[[Iterable[int]], int],
    is_new: Callable[[int, Mapping[int, None], int], bool],
) -> bool:
    """Move a node to a later level with what makes its operands, as far as nothing else reads that, where fewer bytes
    cross boundaries then, and nothing waits for that level that did not before; of such chains the one with the fewest.
    Returns whether it did.
    """
    here = levels[node]
    chain = {node: None}
    best: tuple[int, list[int]] = (0, [])
    pending = [node]
    while pending and len(chain) < LARGEST_CHAIN:
        ready = [
            p
            for p in dict.fromkeys(p for member in pending for p in graph.preds[member])
            if p not in chain and claimed[p] and levels[p] == here and all(s in chain for s in graph.succs[p])
        ]
        pending = []
        for p in sorted(ready, reverse=True):
            chain[p] = None
            pending.append(p)
            values = dict.fromkeys(v for member in chain for v in touching[member])
            if any(is_new(v, chain, level) for v in values):
                continue
            before = crossing_of(values)
            for member in chain:
                levels[member] = level
            saved = before - crossing_of(values)
            for member in chain:
                levels[member] = here
            if saved > best[0]:
                best = saved, [*chain]
    for member in best[1]:
        levels[member] = level
    return bool(best[1])


def _move_readers(
    graph: Contraction,
    claimed: Sequence[bool],
    levels: list[int],
    latest: Sequence[int],
    node: int,
    touching: Sequence[Sequence[int]],
    crossing_of: Callable[[Iterable[int]], int],
) -> None:
    """Move a node to a later level with all that is made of it at its own level, where fewer bytes cross boundaries
    then: queries, keys and values that wait for a mask with the norm that all of them read, none of which saves
    anything alone.
    """
    here = levels[node]
    moved = {node: None}
    pending = [node]
    limit = len(graph.members)
    while pending:
        for s in graph.succs[pending.pop()]:
            if not claimed[s]:
                limit = min(limit, latest[s] - 1)
            elif levels[s] > here:
                limit = min(limit, levels[s])
            elif s not in moved:
                moved[s] = None
                pending.append(s)
        if limit <= here or len(moved) > LARGEST_CHAIN:
            return
    if len(moved) == 1:
        return
    values = dict.fromkeys(v for member in moved for v in touching[member])
    later = dict.fromkeys(levels[s] for member in moved for s in graph.succs[member] if claimed[s] and s not in moved)
    best, lowest = here, crossing_of(values)
    for level in sorted(level for level in later if level <= limit):
        for member in moved:
            levels[member] = level
        if (found := crossing_of(values)) < lowest:
            best, lowest = level, found
    for member in moved:
        levels[member] = best


def boundary_bytes(source: BlockGraph, graph: Contraction, claimed: Sequence[bool], levels: Sequence[int]) -> int:
    """The bytes that enter and leave all partitions: each value once for every partition that reads or gives it."""
    total = 0
    for value in source.values:
        producer = graph.node_of[value.producer] if value.producer >= 0 else -1
        users = tuple(dict.fromkeys(graph.node_of[u] for u in value.users))
        total += _bytes(producer, users, value.size, value.outside, claimed, levels)
    return total


def _bytes(
    producer: int, users: tuple[int, ...], size: int, outside: bool, claimed: Sequence[bool], levels: Sequence[int]
) -> int:
    """What one value adds to the bytes that cross boundaries."""
    owner = levels[producer] if producer >= 0 and claimed[producer] else -1
    readers = dict.fromkeys(levels[u] for u in users if claimed[u])
    crossings = sum(1 for level in readers if level != owner)
    leaves = outside or crossings > 0 or any(not claimed[u] for u in users)
    return size * (crossings + (owner >= 0 and leaves))
