"""Least times in turns, with clocks that the tests move."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from in_turns import BURST, LONGEST_BURST, SAMPLE, TURNS, least_in_turns, plan


class Machine:
    """A clock, and calls that take the seconds they are given: one list each, the last again and again."""

    def __init__(self) -> None:
        self.now = 0.0
        self.made: list[str] = []

    def call(self, name: str, *seconds: float) -> Callable[[], None]:
        left = list(seconds)

        def run() -> None:
            self.made.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return run

    def clock(self) -> float:
        return self.now


def test_the_least_time_of_each_counts() -> None:
    machine = Machine()
    calls = {"a": machine.call("a", 9, 0.5, 0.5, 0.3, 0.5), "b": machine.call("b", 9, 0.2, 0.4, 0.4)}
    found = least_in_turns(calls, 1.0, clock=machine.clock, wall=machine.clock)
    assert found["a"].seconds == pytest.approx(0.3)
    # The first two calls warm up and say how long one takes; neither is a figure.
    assert found["b"].seconds == pytest.approx(0.4)
    assert found["a"].calls == machine.made.count("a") - 2


def test_turns_are_bursts_and_who_is_first_moves_on() -> None:
    machine = Machine()
    order: list[str] = []
    calls = {name: machine.call(name, 0.1) for name in "abc"}
    least_in_turns(calls, 0.0, clock=machine.clock, wall=machine.clock, starting=order.append)
    assert order == list("abc" + "abc" + "bca" + "cab")
    assert "".join(machine.made) == "aabbcc" + "aabbcc" + "bbccaa" + "ccaabb"
    assert TURNS == 3


def test_all_have_equally_many_turns_until_the_seconds_are_over() -> None:
    machine = Machine()
    order: list[str] = []
    calls = {"slow": machine.call("slow", 0.2), "fast": machine.call("fast", 0.001)}
    least_in_turns(calls, 5.0, clock=machine.clock, wall=machine.clock, starting=order.append)
    assert order.count("slow") == order.count("fast") > TURNS
    assert 10.0 <= machine.now < 11.0


def test_short_calls_are_timed_together() -> None:
    calls, samples = plan(SAMPLE / 10)
    assert calls == 10
    assert samples == LONGEST_BURST
    assert plan(BURST) == (1, 2)
    assert plan(10.0) == (1, 2)
    assert plan(BURST / 10) == (1, 10)
    assert plan(0.0)[0] > 1


def test_other_threads_show_as_more_processor_time_than_time_on_the_wall() -> None:
    machine = Machine()
    found = least_in_turns({"a": machine.call("a", 0.1)}, 0.5, clock=lambda: 2 * machine.clock(), wall=machine.clock)
    assert found["a"].seconds == pytest.approx(0.2)
    assert found["a"].wall == pytest.approx(0.1)


def test_nothing_is_measured_of_nothing() -> None:
    assert least_in_turns({}, 1.0) == {}
