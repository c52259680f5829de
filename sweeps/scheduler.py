"""Which job runs next: chains of jobs in, outcomes out.

The scheduler knows neither processes nor clusters nor time: an executor starts jobs and says what became of them. So
the same code runs in this process, on the cores of a machine, on a cluster, and against simulated workers
(``benchmarks/sweep_simulation.py``).

It costs a constant amount of work for each job, whatever the number of cells: cells are taken from an iterator when
there is room for them, and a cell that waits for a shared job is in that job's list. What is kept of all cells is one
entry for each *shared* job. Cells that have begun come before others, so that rows come from the start, and few cells
are half done at any time. Exclusive jobs, one at a time on each machine, run in phases of their own: when there are
:data:`QUIET` of them, and when no other job is left.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from etir.sweeps.errors import E1911
from etir.sweeps.jobs import FAILURES, Chain, Job, Outcome

WINDOW = 20_000
"""Cells that are known at the same time: those that run, and those that wait for a shared job or for a worker."""

QUIET = 10_000
"""Exclusive jobs that wait until all others make room for them."""


OBJECTS = 100_000
"""New objects after which Python looks for garbage."""


@dataclass(frozen=True)
class Event:
    """A started job has ended; without an outcome its worker was lost, for reasons that are not the job's."""

    token: int
    outcome: Outcome | None
    why: str = ""


class Executor(Protocol):
    """Where jobs run."""

    def has_room(self, job: Job) -> bool:
        """Whether the job can start now."""
        ...

    def start(self, token: int, job: Job) -> None:
        """Start it; an :class:`Event` of that token comes later."""
        ...

    def wait(self) -> Iterable[Event]:
        """Wait until something has ended. Only called while something runs."""
        ...


@dataclass
class _Shared:
    """A job that several cells wait for."""

    outcome: Outcome | None = None
    waiting: list[Chain] = field(default_factory=list[Chain])


@dataclass
class Scheduler:
    """Runs chains on an executor.

    ``finish`` is told of each cell that has ended, ``known`` says whether a job was done in an earlier sweep. A job
    whose worker is lost starts again, ``retries`` times.
    """

    executor: Executor
    finish: Callable[[Chain, Outcome], None]
    known: Callable[[Job], Outcome | None] = lambda _: None
    retries: int = 2
    window: int = WINDOW

    def __post_init__(self) -> None:
        self._ready: deque[Chain] = deque()
        self._begun: deque[Chain] = deque()
        self._exclusive: deque[Chain] = deque()
        self._shared: dict[str, _Shared] = {}
        self._running: dict[int, Chain] = {}
        self._alive = 0
        self._token = 0
        self._quiet = False

    def run(self, chains: Iterable[Chain]) -> None:
        """Run all of them. An exception of ``finish`` ends the run; the jobs that run then are the executor's."""
        before = gc.get_threshold()
        # Chains form no cycles: looking for garbage among thousands of them costs more than scheduling them.
        gc.set_threshold(before[0] and max(before[0], OBJECTS), *before[1:])
        try:
            self._run(chains)
        finally:
            gc.set_threshold(*before)

    def _run(self, chains: Iterable[Chain]) -> None:
        source = iter(chains)
        is_open = True
        while True:
            while is_open and self._alive < self.window and not self._has_enough():
                chain = next(source, None)
                if chain is None:
                    is_open = False
                    break
                self._alive += 1
                self._advance(chain)
            self._dispatch()
            if self._running:
                for event in self.executor.wait():
                    self._ended(event)
            elif not is_open and not self._ready and not self._begun and not self._exclusive:
                return

    def _has_enough(self) -> bool:
        """Whether more cells would only wait: there is a job that finds no room."""
        first = self._first()
        return self._quiet or bool(first) and not self._has_room(first)

    def _first(self) -> deque[Chain]:
        """The queue from which the next job comes."""
        return self._begun or self._ready

    def _has_room(self, queue: deque[Chain]) -> bool:
        return self.executor.has_room(queue[0].jobs[queue[0].at])

    def _advance(self, chain: Chain) -> None:
        """Put a chain where its next job waits; jobs that are done are passed over."""
        while chain.at < len(chain.jobs):
            job = chain.jobs[chain.at]
            shared = self._shared.get(job.key) if job.shared else None
            if shared is None:
                outcome = self.known(job)
                if job.shared:
                    self._shared[job.key] = _Shared(outcome)
                if outcome is None:
                    self._queue(chain, job)
                    return
            elif shared.outcome is None:
                shared.waiting.append(chain)
                return
            else:
                outcome = shared.outcome
            if not self._passed(chain, outcome):
                return
        self._end(chain, chain.done[-1])

    def _queue(self, chain: Chain, job: Job) -> None:
        if not job.exclusive:
            (self._begun if chain.at else self._ready).append(chain)
            return
        self._exclusive.append(chain)
        # It may wait until all others are done: it takes no room from them.
        self._alive -= 1

    def _passed(self, chain: Chain, outcome: Outcome) -> bool:
        """Note what became of the chain's next job; False when the cell has ended with it."""
        chain.done.append(outcome)
        chain.at += 1
        if outcome.status not in FAILURES:
            return True
        self._end(chain, outcome)
        return False

    def _end(self, chain: Chain, outcome: Outcome) -> None:
        self._alive -= 1
        self.finish(chain, outcome)

    def _dispatch(self) -> None:
        if not self._quiet:
            while (first := self._first()) and self._has_room(first):
                self._start(first.popleft())
            if self._alive and len(self._exclusive) < QUIET:
                return
        self._quiet = bool(self._exclusive)
        while self._exclusive and self._has_room(self._exclusive):
            self._alive += 1
            self._start(self._exclusive.popleft())

    def _start(self, chain: Chain) -> None:
        self._token += 1
        chain.attempts += 1
        self._running[self._token] = chain
        self.executor.start(self._token, chain.jobs[chain.at])

    def _ended(self, event: Event) -> None:
        chain = self._running.pop(event.token)
        job, outcome = chain.jobs[chain.at], event.outcome
        if outcome is None:
            chain.lost += 1
            if chain.attempts <= self.retries:
                (self._exclusive if job.exclusive else self._begun).appendleft(chain)
                self._alive -= job.exclusive
                return
            message = f"{event.why or 'its worker was lost'}; {chain.attempts} attempts"
            outcome = Outcome("lost", error=E1911.id, message=message)
        waiting: list[Chain] = []
        if job.shared:
            shared = self._shared[job.key]
            # What is kept for the cells that are still to come costs them no time.
            shared.outcome, waiting, shared.waiting = replace(outcome, seconds=0.0), shared.waiting, []
        chain.attempts = 0
        if self._passed(chain, outcome):
            self._advance(chain)
        for other in waiting:
            if self._passed(other, replace(outcome, seconds=0.0)):
                self._advance(other)
