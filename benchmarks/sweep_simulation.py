"""The scheduler of sweeps against simulated workers: what it costs by itself, at sizes that no test cluster has.

    python benchmarks/sweep_simulation.py                            10,000, 100,000 and 1,000,000 cells
    python benchmarks/sweep_simulation.py --cells 100000 --workers 100 --failures 0.05

The scheduler is the real one (``sweeps/scheduler.py``) with real chains of jobs: an export for every 500 cells, a
quantization for every 50, a cell, and for one of ten a measurement that wants its machine for itself. Workers and time
are simulated: a started job is an entry in a heap, ordered by the time at which it is going to end, and waiting takes
the next one and moves the clock there. How long a job takes, and whether its worker is lost on the way, comes from a
seeded generator; 1 % are lost. Nothing is written and no process is started, so the processor time of the run is that
of the scheduler, of the heap and of making the chains; the latter two are measured by themselves and taken off.

Whether the cost grows with the number of cells is seen within one run, where everything else is equal: the cells that
end are counted in tenths, and each tenth has its own figure. Runs of different sizes are also different in how much of
them is the beginning, in which there are few cells yet, and the end, in which none are taken any more.
"""

from __future__ import annotations

import argparse
import heapq
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from etir.sweeps.jobs import Chain, Job, Outcome
from etir.sweeps.model import Cell
from etir.sweeps.scheduler import Event, Scheduler

SECONDS = {"export": 20.0, "quantize": 30.0, "cell": 10.0, "time": 1.0}
"""The mean of each stage, simulated."""


class SimulatedWorkers:
    """``count`` workers of machines with four each, on a clock that jumps. Exclusive jobs have a machine each."""

    def __init__(self, count: int, failures: float, seed: int = 0):
        self.now, self.busy_seconds, self.lost = 0.0, 0.0, 0
        self._count, self._failures, self._random = count, failures, random.Random(seed)
        self._running: list[tuple[float, int, bool, bool]] = []
        self._exclusive = 0

    def has_room(self, job: Job) -> bool:
        """As a cluster: exclusive jobs when only such run, one to a machine."""
        if job.exclusive:
            return len(self._running) == self._exclusive and self._exclusive < max(1, self._count // 4)
        return self._exclusive == 0 and len(self._running) < self._count

    def start(self, token: int, job: Job) -> None:
        """Note when it is going to end, and how."""
        seconds = self._random.expovariate(1 / SECONDS[job.stage])
        is_lost = self._random.random() < self._failures
        self.busy_seconds += seconds
        self._exclusive += job.exclusive
        heapq.heappush(self._running, (self.now + seconds, token, is_lost, job.exclusive))

    def wait(self) -> Iterable[Event]:
        """The next end."""
        self.now, token, is_lost, exclusive = heapq.heappop(self._running)
        self._exclusive -= exclusive
        self.lost += is_lost
        return [Event(token, None if is_lost else _DONE, "simulated")]


_DONE = Outcome()


def chains(count: int) -> Iterator[Chain]:
    """The cells."""
    for i in range(count):
        cell = Cell(f"p{i // 500}", "etir", "none", f"r{i // 50}", str(i))
        export, quantized = f"export{i // 500}", f"quantize{i // 50}"
        jobs = [
            Job(export, "export", {}, shared=True),
            Job(quantized, "quantize", {}, (export,), shared=True),
            Job(f"cell{i}", "cell", {}, (export, quantized)),
        ]
        if i % 10 == 0:
            jobs.append(Job(f"time{i}", "time", {}, (export, f"cell{i}"), exclusive=True))
        yield Chain(str(i), cell, tuple(jobs))


@dataclass(frozen=True)
class Figures:
    """Of one simulation. ``microseconds`` are the scheduler's own for each cell, ``tenths`` those of the cells that
    ended first to those that ended last, ``use`` the share of the workers' time in which they had something to do.
    """

    cells: int
    statuses: dict[str, int]
    lost: int
    simulated_seconds: float
    use: float
    microseconds: float
    tenths: tuple[float, ...]


def simulate(cells: int, workers: int = 1000, failures: float = 0.01, retries: int = 5) -> Figures:
    """Run the scheduler on simulated workers. Every cell ends exactly once, or ``AssertionError`` is raised."""
    ended, statuses, marks = bytearray(cells), Counter[str](), [0.0]

    def finish(chain: Chain, outcome: Outcome) -> None:
        assert not ended[int(chain.id)], f"cell {chain.id} has ended twice"
        ended[int(chain.id)] = 1
        statuses[outcome.status] += 1
        if statuses.total() * 10 >= cells * len(marks):
            marks.append(time.process_time() - start)

    executor = SimulatedWorkers(workers, failures)
    start = time.process_time()
    Scheduler(executor, finish, retries=retries).run(chains(cells))
    whole = time.process_time() - start
    assert all(ended), "a cell has not ended"
    beside = _beside(cells, workers, failures)
    use = executor.busy_seconds / (executor.now * workers)
    own = (whole - beside) / cells * 1e6
    tenths = tuple((after - before - beside / 10) / (cells / 10) * 1e6 for before, after in pairwise(marks))
    return Figures(cells, dict(statuses), executor.lost, executor.now, use, own, tenths)


def _beside(cells: int, workers: int, failures: float) -> float:
    """Seconds of the simulation itself: the same chains, the same number of entries in a heap of the same size."""
    executor: Any = SimulatedWorkers(workers, failures)
    start = time.process_time()
    token = 0
    for chain in chains(cells):
        for job in chain.jobs[2:]:
            if token >= workers:
                executor.wait()
            executor.start(token, job)
            token += 1
    return time.process_time() - start


def main() -> int:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--failures", type=float, default=0.01)
    arguments = parser.parse_args()
    for cells in arguments.cells:
        found = simulate(cells, arguments.workers, arguments.failures)
        print(
            f"{found.cells:>9,} cells on {arguments.workers:,} workers: {found.microseconds:.1f} us of the scheduler "
            f"for each, {found.statuses}, {found.lost:,} workers lost, {found.simulated_seconds:,.0f} simulated "
            f"seconds, workers busy {found.use:.0%}; by tenths {' '.join(f'{one:.0f}' for one in found.tenths)}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
