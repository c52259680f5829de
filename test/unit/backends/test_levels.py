"""Partitions of random graphs: convex, acyclic, as few as an exhaustive search finds; boundaries only shrink."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.ir import Block

from etir.passes.delegation.claim import find_cycle_through
from etir.passes.delegation.graph import BlockGraph, Contraction, Value
from etir.passes.delegation.levels import boundary_bytes, find_levels, lower_boundary
from etir.passes.delegation.partition import drop_cycles, partitions


@st.composite
def graphs(draw: st.DrawFn, most: int = 9) -> tuple[BlockGraph, list[bool]]:
    """A graph, and which of its nodes a backend claims."""
    count = draw(st.integers(1, most))
    preds = [draw(st.lists(st.integers(0, i - 1), unique=True, max_size=3)) if i else [] for i in range(count)]
    values: list[Value] = []
    for i in range(count):
        users = tuple(j for j in range(count) if i in preds[j])
        values.append(Value(i, users, draw(st.integers(1, 64)), not users or draw(st.booleans())))
    values.append(Value(-1, tuple(i for i in range(count) if not preds[i]), 16, False))
    # The algorithms only see numbers: no operation belongs to a node.
    return BlockGraph(Block(), [None] * count, preds, values), [draw(st.booleans()) for _ in range(count)]  # type: ignore


def is_valid(graph: BlockGraph, groups: list[list[int]]) -> bool:
    convex = all(find_cycle_through(graph.preds, dict.fromkeys(group)) is None for group in groups)
    return convex and not Contraction(graph, groups).cycle


def fewest(graph: BlockGraph, nodes: list[int]) -> int:
    """The fewest groups of any valid partitioning of ``nodes``, by trying all."""
    for count in range(1, len(nodes) + 1):
        for choice in itertools.product(range(count), repeat=len(nodes)):
            groups = [[n for n, c in zip(nodes, choice, strict=True) if c == k] for k in range(count)]
            if is_valid(graph, [group for group in groups if group]):
                return count
    return 0


@settings(max_examples=150, deadline=None)
@given(graphs(most=6))
def test_as_few_as_possible(case: tuple[BlockGraph, list[bool]]) -> None:
    graph, taken = case
    nodes = [i for i, t in enumerate(taken) if t]
    groups = partitions(graph, [[i] for i in nodes], [])
    assert is_valid(graph, groups)
    assert sorted(i for group in groups for i in group) == nodes
    assert len(groups) == fewest(graph, nodes)


@settings(max_examples=200, deadline=None)
@given(graphs(most=14))
def test_boundary_only_shrinks(case: tuple[BlockGraph, list[bool]]) -> None:
    graph, taken = case
    contracted = Contraction(graph, [])
    levels = find_levels(contracted, taken)
    before = boundary_bytes(graph, contracted, taken, levels)
    count = {v for v, t in zip(levels, taken, strict=True) if t}
    lower_boundary(graph, contracted, taken, levels)
    assert boundary_bytes(graph, contracted, taken, levels) <= before
    assert {v for v, t in zip(levels, taken, strict=True) if t} <= count
    groups: dict[int, list[int]] = {}
    for node, level in enumerate(levels):
        if taken[node]:
            groups.setdefault(level, []).append(node)
    assert is_valid(graph, list(groups.values()))


@settings(max_examples=200, deadline=None)
@given(graphs(most=14), st.data())
def test_units_and_a_second_backend(case: tuple[BlockGraph, list[bool]], data: st.DataObject) -> None:
    """Units of several operations stay together; a second backend works around the first one's partitions."""
    graph, taken = case
    units = [[i] for i, t in enumerate(taken) if t]
    for _ in range(3):
        if len(units) < 2:
            break
        a, b = sorted(data.draw(st.lists(st.integers(0, len(units) - 1), min_size=2, max_size=2, unique=True)))
        joined = sorted(units[a] + units[b])
        if find_cycle_through(graph.preds, dict.fromkeys(joined)) is None:
            units = [u for i, u in enumerate(units) if i not in (a, b)] + [joined]
    dropped = drop_cycles(graph, units, [])
    first = partitions(graph, units, [])
    assert is_valid(graph, first)
    for unit in units:
        assert any(set(unit) <= set(group) for group in first)
    assert all(unit not in units for unit in dropped)
    rest = [[i] for i in range(len(taken)) if not any(i in group for group in first)]
    second = partitions(graph, rest, first)
    assert is_valid(graph, [*first, *second])


@settings(max_examples=100, deadline=None)
@given(graphs(most=14))
def test_split_partitions_are_connected(case: tuple[BlockGraph, list[bool]]) -> None:
    graph, taken = case
    groups = partitions(graph, [[i] for i, t in enumerate(taken) if t], [], split=True)
    assert is_valid(graph, groups)
    for group in groups:
        reached, pending = {group[0]: None}, [group[0]]
        while pending:
            node = pending.pop()
            for other in group:
                if other not in reached and (node in graph.preds[other] or other in graph.preds[node]):
                    reached[other] = None
                    pending.append(other)
        assert sorted(reached) == group


@settings(max_examples=200, deadline=None)
@given(graphs(most=14), st.data())
def test_cut_partitions(case: tuple[BlockGraph, list[bool]], data: st.DataObject) -> None:
    """Still valid; no more of them than there are cuts besides; nothing is lost."""
    graph, taken = case
    nodes = [i for i, t in enumerate(taken) if t]
    cuts = data.draw(st.lists(st.integers(0, len(taken) - 1), unique=True, max_size=3))
    whole = partitions(graph, [[i] for i in nodes], [])
    groups = partitions(graph, [[i] for i in nodes], [], cuts=cuts)
    assert is_valid(graph, groups)
    assert sorted(i for group in groups for i in group) == nodes
    assert len(whole) <= len(groups) <= len(whole) + len(cuts)


def test_a_cut_and_what_crosses_it() -> None:
    """Node 1 makes 64 bytes of the 4 of node 0, and node 3 reads them: with a cut before node 2 it follows. Node 0
    does not, although 4 bytes fewer would cross: it reads what nothing else reads there.
    """
    values = [
        Value(-1, (0,), 16, False),
        Value(0, (1, 2), 4, False),
        Value(1, (3,), 64, False),
        Value(2, (3,), 4, False),
        Value(3, (), 4, True),
    ]
    graph = BlockGraph(Block(), [None] * 4, [[], [0], [0], [1, 2]], values)  # type: ignore
    units = [[i] for i in range(4)]
    assert partitions(graph, units, []) == [[0, 1, 2, 3]]
    assert partitions(graph, units, [], cuts=[2]) == [[0], [1, 2, 3]]
    # Nothing is before it, or the backend has not got it.
    assert partitions(graph, units, [], cuts=[0]) == [[0, 1, 2, 3]]
    assert partitions(graph, units[:2], [], cuts=[3]) == [[0, 1]]


def test_all_readers_move_together() -> None:
    """Node 0 makes the operand of nodes 1 and 2, whose results wait for node 5, which is not the backend's, as queries
    and keys for a mask: any of the three would only let another tensor cross, and all of them save one.
    """
    values = [
        Value(-1, (0, 6), 16, False),
        Value(0, (1, 2), 16, False),
        Value(1, (6,), 16, False),
        Value(2, (6,), 16, False),
        Value(-1, (3,), 4, False),
        Value(3, (5,), 4, False),
        Value(5, (6,), 4, False),
        Value(6, (), 4, True),
    ]
    preds = [[], [0], [0], [], [], [3], [1, 2, 5]]
    graph = BlockGraph(Block(), [None] * 7, preds, values)  # type: ignore
    assert partitions(graph, [[i] for i in (0, 1, 2, 3, 6)], []) == [[0, 1, 2, 6], [3]]
