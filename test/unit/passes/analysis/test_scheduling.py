"""Orders of instructions: legal, never with more bytes at once, and as good as the best where that can be counted."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from etir.passes.analysis.scheduling import Run, lower_peak


def peak(run: Run, order: list[int]) -> int:
    """Most bytes at once, by going through the order and asking every buffer."""
    place = {index: position for position, index in enumerate(order)}
    highest = 0
    for position, index in enumerate(order):
        live: dict[int, int] = {}
        for buffer, size in enumerate(run.sizes):
            places = [place[i] for i, touched in enumerate(run.touches) if buffer in touched]
            first = min(places) if run.born[buffer] else 0
            last = max(places) if run.dies[buffer] else len(order) - 1
            if first <= position <= last:
                live[buffer] = size
        saved: dict[int, int] = {}
        for operand, result in run.over.get(index, []):
            dies = run.dies[operand] and max(place[i] for i, t in enumerate(run.touches) if operand in t) == position
            begins = run.born[result] and min(place[i] for i, t in enumerate(run.touches) if result in t) == position
            if dies and begins:
                both = min(run.sizes[operand], run.sizes[result])
                saved[result] = min(run.sizes[result], saved.get(result, 0) + both)
        highest = max(highest, sum(live.values()) - sum(saved.values()))
    return highest


def is_legal(run: Run, order: list[int]) -> bool:
    place = {index: position for position, index in enumerate(order)}
    return sorted(order) == list(range(len(run.after))) and all(
        place[other] < place[index] for index, others in enumerate(run.after) for other in others
    )


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Instructions that each fill a buffer from up to two earlier ones, or from one that was there before."""
    count = draw(st.integers(3, 6))
    touches: list[list[int]] = []
    after: list[list[int]] = []
    over: dict[int, list[tuple[int, int]]] = {}
    for index in range(count):
        read = draw(st.lists(st.integers(0, index), max_size=2, unique=True))
        # Buffer 0 is there before; buffer n + 1 is that of instruction n.
        touches.append([*read, index + 1])
        after.append([buffer - 1 for buffer in read if buffer])
        if read and draw(st.booleans()):
            over[index] = [(read[0], index + 1)]
    sizes = [draw(st.sampled_from([16, 32, 64, 256])) for _ in range(count + 1)]
    kept = draw(st.lists(st.integers(1, count), min_size=1, max_size=2))
    if not any(0 in touched for touched in touches):
        touches[0].insert(0, 0)
    return Run(
        touches, after, sizes, [n > 0 for n in range(count + 1)], [n not in kept for n in range(count + 1)], over
    )


@settings(max_examples=300, deadline=None)
@given(runs())
def test_legal_and_not_worse(run: Run) -> None:
    """What depends stays after, and the peak is that of the program's order or lower."""
    order = lower_peak(run)
    own = list(range(len(run.after)))
    assert is_legal(run, order)
    assert peak(run, order) < peak(run, own) or order == own


@settings(max_examples=200, deadline=None)
@given(runs())
def test_nothing_to_gain_is_left_alone(run: Run) -> None:
    """Where no order is better, the program's own stays."""
    legal = [list(order) for order in permutations(range(len(run.after))) if is_legal(run, list(order))]
    if min(peak(run, order) for order in legal) == peak(run, list(range(len(run.after)))):
        assert lower_peak(run) == list(range(len(run.after)))


def test_a_chain_moves_together() -> None:
    """What makes a waiting buffer, and serves nothing else: 64 bytes made from 256 made from a weight."""
    # 0: big = f(); 1: waiting = g(big); 2: scores = h(); 3: sum = k(scores); 4: out = m(waiting, sum)
    touches = [[0], [0, 1], [2], [2, 3], [1, 3, 4]]
    after = [[], [0], [], [2], [1, 3]]
    run = Run(touches, after, [256, 64, 512, 16, 16], [True] * 5, [True] * 4 + [False], {})
    assert peak(run, [0, 1, 2, 3, 4]) == 592
    order = lower_peak(run)
    assert order == [2, 3, 0, 1, 4]
    assert peak(run, order) == 528


def test_work_is_bounded() -> None:
    """No work, no search."""
    run = Run([[0], [1], [0, 1]], [[], [], [0, 1]], [64, 64], [True, True], [True, True], {})
    assert lower_peak(run, 0) == [0, 1, 2]


def test_what_only_frees_comes_early() -> None:
    """A state that is stored last is stored when it is there, once the order is another one anyway."""
    run = Run(
        touches=[[0, 1], [0, 2], [0, 3], [3, 4], [2, 4, 5], [1, 6]],
        after=[[], [], [], [2], [1, 3], [0]],
        sizes=[16, 16, 256, 256, 16, 16, 0],
        born=[False, True, True, True, True, True, False],
        dies=[True, True, True, True, True, False, False],
        over={},
    )
    order = lower_peak(run)
    assert is_legal(run, order) and peak(run, order) < peak(run, list(range(6)))
    assert order[:2] == [0, 5]


def test_what_waits_goes_to_the_valley() -> None:
    """Scores are made late, but before what another operand of their sum is expanded from is expanded."""
    # 0: k = f(x); 1: waiting = g(k); 2: q = h(x); 3: p = i(); 4: large = j(q, p); 5: small = l(q)
    # 6: wide = expand(small); 7: out = waiting + large + wide, written over the last one; x stays
    run = Run(
        touches=[[0, 1], [1, 2], [0, 3], [4], [3, 4, 5], [3, 6], [6, 7], [2, 5, 7, 8]],
        after=[[], [0], [], [], [2, 3], [2], [5], [1, 4, 6]],
        sizes=[3, 3, 4, 3, 5, 9, 1, 5, 5],
        born=[False, *[True] * 8],
        dies=[False, *[True] * 7, False],
        over={7: [(7, 8)]},
    )
    assert peak(run, list(range(8))) == peak(run, [2, 3, 4, 5, 6, 0, 1, 7]) == 24
    order = lower_peak(run)
    assert order == [2, 3, 4, 5, 0, 1, 6, 7]
    assert peak(run, order) == 22
