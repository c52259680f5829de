"""Where partitions may be cut so that inputs are made late: numbers worked out by hand."""

from __future__ import annotations

from etir.backends.api.memory import DelegateNeeds, InputNeed, Need
from etir.memory_cuts import MOST_CUTS, cuts_of


def steps(*bytes: int) -> list[Need]:
    """Steps of one operator each, of so many bytes."""
    return [Need(b, (number,), 1) for number, b in enumerate(bytes)]


def test_before_the_first_reader() -> None:
    """Of 100 bytes 40 are an input that operator 2 reads first: the step before it then needs 60."""
    need = DelegateNeeds(100, steps(50, 100, 60), inputs=[InputNeed(40, 2)])
    assert cuts_of(need, 60) == [2]
    assert cuts_of(need, 99) == [2]
    assert cuts_of(need, 100) == []


def test_what_does_not_help() -> None:
    """An input that is read at once, or only after what needs most is over without it, is not waited for."""
    assert cuts_of(DelegateNeeds(100, steps(100, 50), inputs=[InputNeed(40, 0)]), 60) == []
    assert cuts_of(DelegateNeeds(100, steps(50, 100, 50), inputs=[InputNeed(40, 1)]), 60) == []


def test_two_peaks() -> None:
    """Each of two equal peaks wants a cut of its own, although neither cut alone lowers the larger of them."""
    need = DelegateNeeds(90, steps(90, 20, 90, 20), inputs=[InputNeed(30, 1), InputNeed(30, 3)])
    # Before operator 3, the second input is absent from both peaks: one cut does.
    assert cuts_of(need, 60) == [3]
    # Nothing but the first input is absent before operator 1, and the first peak has to lose both.
    assert cuts_of(need, 40) == [3, 1]


def test_the_kernels_count_as_well() -> None:
    """They may run in place of code, in the same workspace."""
    need = DelegateNeeds(100, steps(60, 60), kernels=steps(100, 50), inputs=[InputNeed(40, 1)])
    assert cuts_of(need, 60) == [1]


def test_bounded() -> None:
    """A partition is cut a few times at most; steps of which no operator is known are as they are."""
    count = 2 * MOST_CUTS
    need = DelegateNeeds(100, steps(*[1000] * count), inputs=[InputNeed(1, number) for number in range(count)])
    assert len(cuts_of(need, 0)) == MOST_CUTS
    assert cuts_of(DelegateNeeds(100, [Need(100, (), 1)], inputs=[InputNeed(40, 1)]), 60) == []


def test_inside_of_a_step() -> None:
    """A sum of four tables of 30 bytes is one step. Cut in the middle, its first half reads two, and its second half
    their sum and the other two.
    """
    tables = [InputNeed(30, number) for number in range(1, 5)]
    need = DelegateNeeds(120, [Need(120, (1, 2, 3, 4), 1)], inputs=tables)
    assert cuts_of(need, 90) == [3]
    assert cuts_of(need, 120) == []
    # What is read again after the cut is not gone.
    again = [InputNeed(30, number, 4) for number in range(1, 5)]
    assert cuts_of(DelegateNeeds(120, need.steps, inputs=again), 90) == []
