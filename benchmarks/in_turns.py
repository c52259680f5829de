"""The least time of several functions that are called in turns, so that noise of the machine hits all of them alike.

A turn is a short burst of calls of each function, so that each finds its own data in the caches, as in a loop of a
user; who comes first moves on by one in every turn. A function that takes less than ``SAMPLE`` is timed several calls
at a time. The clock is processor time of the whole process, all threads included: what others do on the machine costs
little, and a function that hands its work to other threads gains nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

BURST = 0.03
"""Seconds of one burst."""
SAMPLE = 3e-4
"""Seconds of the shortest time that is taken."""
TURNS = 3
"""Turns at least, however long they are."""
LONGEST_BURST = 50
"""Samples in a burst at most."""

Clock = Callable[[], float]


@dataclass(frozen=True)
class Least:
    """The least seconds of a call by the clock, and on the wall, of ``calls`` calls."""

    seconds: float
    wall: float
    calls: int


@dataclass
class _Runner:
    """One function, how it is called in a burst, and what was found."""

    call: Callable[[], Any]
    calls: int
    samples: int
    seconds: float = float("inf")
    wall: float = float("inf")
    made: int = 0

    def burst(self, clock: Clock, wall: Clock) -> None:
        for _ in range(self.samples):
            wall_start, start = wall(), clock()
            for _ in range(self.calls):
                self.call()
            taken, wall_taken = clock() - start, wall() - wall_start
            self.seconds = min(self.seconds, taken / self.calls)
            self.wall = min(self.wall, wall_taken / self.calls)
            self.made += self.calls


def plan(seconds: float) -> tuple[int, int]:
    """How a function that takes ``seconds`` is called in a burst: calls that are timed at once, and how often that is.

    At least two, because the first finds the caches full of somebody else's data.
    """
    calls = max(1, round(SAMPLE / max(seconds, 1e-9)))
    return calls, min(max(2, round(BURST / max(calls * seconds, 1e-9))), LONGEST_BURST)


def least_in_turns(
    calls: Mapping[str, Callable[[], Any]],
    seconds: float,
    *,
    clock: Clock = time.process_time,
    wall: Clock = time.perf_counter,
    starting: Callable[[str], None] = lambda name: None,
) -> dict[str, Least]:
    """The least times of ``calls``, which are called in turns for about ``seconds`` each, all equally many bursts.

    ``starting`` is told who comes next.
    """
    runners: dict[str, _Runner] = {}
    begin = wall()
    for name, call in calls.items():
        starting(name)
        call()
        start = clock()
        call()
        runners[name] = _Runner(call, *plan(clock() - start))
    names = list(runners)
    turn = 0
    while turn < TURNS or wall() - begin < seconds * len(names):
        first = turn % max(len(names), 1)
        for name in names[first:] + names[:first]:
            starting(name)
            runners[name].burst(clock, wall)
        turn += 1
    return {name: Least(runner.seconds, runner.wall, runner.made) for name, runner in runners.items()}
