"""The scheduler against workers that are simulated: order, shared jobs, lost workers, exclusive jobs, cost."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

import pytest
from sweep_simulation import SimulatedWorkers, chains, simulate

from etir.sweeps import scheduler
from etir.sweeps.jobs import Chain, Job, Outcome
from etir.sweeps.model import Cell
from etir.sweeps.scheduler import Event, Scheduler


class Noting(SimulatedWorkers):
    """Notes what runs at the same time."""

    def __init__(self, count: int, failures: float = 0.0):
        super().__init__(count, failures)
        self.started: list[str] = []
        self.now_running: dict[int, Job] = {}

    def start(self, token: int, job: Job) -> None:
        self.started.append(job.key)
        self.now_running[token] = job
        kinds = [job.exclusive for job in self.now_running.values()]
        assert len(set(kinds)) == 1, "an exclusive job runs beside another one"
        super().start(token, job)

    def wait(self) -> Iterable[Event]:
        found = list(super().wait())
        for event in found:
            del self.now_running[event.token]
        return found


def _run(executor: SimulatedWorkers, given: Iterable[Chain], **keywords: int) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}

    def finish(chain: Chain, outcome: Outcome) -> None:
        assert chain.id not in found
        found[chain.id] = outcome

    Scheduler(executor, finish, **keywords).run(given)
    return found


@pytest.mark.parametrize("window", [1, 3, 20_000])
def test_every_cell_ends_once_and_shared_jobs_run_once(window: int) -> None:
    executor = Noting(8)
    found = _run(executor, chains(1200), window=window)
    assert len(found) == 1200 and {o.status for o in found.values()} == {"ok"}
    # 3 exports, 24 quantizations, 1200 cells, 120 measurements: each once.
    assert len(executor.started) == len(set(executor.started)) == 3 + 24 + 1200 + 120


def test_lost_workers_cost_no_cell() -> None:
    executor = Noting(50, failures=0.1)
    found = _run(executor, chains(2000), retries=20)
    assert executor.lost > 100
    assert len(found) == 2000 and {o.status for o in found.values()} == {"ok"}


def test_a_job_that_loses_every_worker_is_a_row() -> None:
    found = _run(Noting(4, failures=1.0), chains(60), retries=2)
    assert len(found) == 60
    assert {(o.status, o.error) for o in found.values()} == {("lost", "E1911")}
    assert all("3 attempts" in o.message for o in found.values())


def test_a_shared_job_that_fails_ends_its_cells_alone() -> None:
    class Failing(SimulatedWorkers):
        def start(self, token: int, job: Job) -> None:
            super().start(token, job)
            self.fails = getattr(self, "fails", {}) | {token: job.key == "quantize1"}

        def wait(self) -> Iterable[Event]:
            return [
                Event(e.token, Outcome("error", error="E0000") if self.fails[e.token] else e.outcome)
                for e in super().wait()
            ]

    found = _run(Failing(4, 0.0), chains(150))
    assert [id for id, outcome in found.items() if outcome.status == "error"] == [str(i) for i in range(50, 100)]


def test_what_is_known_does_not_run() -> None:
    executor = Noting(4)
    ended: list[str] = []
    Scheduler(
        executor, lambda chain, _: ended.append(chain.id), lambda job: Outcome() if job.stage != "time" else None
    ).run(chains(100))
    assert sorted(executor.started) == sorted(f"time{i}" for i in range(0, 100, 10))
    assert len(ended) == 100


def test_a_chain_of_shared_jobs_only_ends() -> None:
    job = Job("a", "export", {}, shared=True)
    given = [Chain(str(i), Cell("p", "t", "d", "r", "o"), (job,)) for i in range(3)]
    executor = Noting(2)
    assert len(_run(executor, given)) == 3
    assert executor.started == ["a"]


def test_cells_that_have_begun_come_first() -> None:
    """Rows come from the start, not when the stages before them are done for all programs."""

    def chain(program: str, cell: int) -> Chain:
        export = Job(program, "export", {}, shared=True)
        return Chain(
            f"{program}{cell}", Cell(program, "t", "d", "r", str(cell)), (export, Job(f"{program}{cell}", "cell", {}))
        )

    executor = Noting(1)
    _run(executor, [chain(program, cell) for program in "abc" for cell in range(3)])
    assert executor.started == ["a", "a0", "a1", "a2", "b", "b0", "b1", "b2", "c", "c0", "c1", "c2"]


def lines_of(cells: int) -> float:
    """How many lines of the scheduler run for each of so many cells."""
    count = 0

    def local(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return local

    before = sys.gettrace()
    sys.settrace(lambda frame, event, argument: local if frame.f_code.co_filename == scheduler.__file__ else None)
    try:
        assert simulate(cells, workers=200).statuses == {"ok": cells}
    finally:
        sys.settrace(before)
    return count / cells


def test_the_cost_of_a_cell_stays_flat() -> None:
    """With 1 % failures; a scheduler that looks at all cells for each would take eight times as many lines."""
    assert lines_of(8_000) < 1.2 * lines_of(1_000)
