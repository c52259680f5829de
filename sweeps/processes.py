"""Jobs in this process, and on the cores of this machine, in a worker process each (:mod:`etir.sweeps.slot`): one job's
crash, hang or greed costs nothing but its own row.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from etir.sweeps.calls import with_paths
from etir.sweeps.jobs import Job
from etir.sweeps.lock import machine_lock
from etir.sweeps.scheduler import Event
from etir.sweeps.slot import Slot, wait_for
from etir.sweeps.stages import run_job
from etir.sweeps.store import Store
from etir.sweeps.worker import Setup


class Serial:
    """Jobs in this process, one at a time: for debuggers. Nothing protects it from a job, and no time limit holds."""

    def __init__(self, setup: Setup):
        self._setup, self._store = setup, Store(setup.store)
        self._ended: list[Event] = []

    def has_room(self, job: Job) -> bool:
        """Whether nothing waits to be told."""
        return not self._ended

    def start(self, token: int, job: Job) -> None:
        """Do it."""
        from etir.sweeps.worker import set_threads

        torch = sys.modules.get("torch")
        before = None if torch is None else torch.get_num_threads()
        set_threads(self._setup.threads)
        try:
            with with_paths(self._setup.paths):
                if job.exclusive:
                    with machine_lock():
                        outcome = run_job(job, self._store)
                else:
                    outcome = run_job(job, self._store)
        finally:
            if before is not None:
                set_threads(before)
        self._ended.append(Event(token, outcome))

    def wait(self) -> Iterable[Event]:
        """What was done."""
        found, self._ended = self._ended, []
        return found


@dataclass
class _Busy:
    token: int
    slot: Slot


class Processes:
    """Jobs on ``count`` worker processes of this machine. An exclusive job runs while no other does."""

    def __init__(self, setup: Setup, count: int, seconds: float):
        self._idle = [Slot(setup, seconds) for _ in range(count)]
        self._busy: list[_Busy] = []

    def has_room(self, job: Job) -> bool:
        """Whether a worker is free, all of them for an exclusive job."""
        if job.exclusive:
            return not self._busy
        exclusive = any(busy.slot.job is not None and busy.slot.job.exclusive for busy in self._busy)
        return bool(self._idle) and not exclusive

    def start(self, token: int, job: Job) -> None:
        """Give it to a worker."""
        slot = self._idle.pop()
        slot.start(job)
        self._busy.append(_Busy(token, slot))

    def wait(self) -> Iterable[Event]:
        """Wait for some job to end."""
        while True:
            wait_for(busy.slot for busy in self._busy)
            found: list[Event] = []
            for busy in list(self._busy):
                outcome = busy.slot.poll()
                if outcome is not None:
                    self._busy.remove(busy)
                    self._idle.append(busy.slot)
                    found.append(Event(busy.token, outcome))
            if found:
                return found

    def close(self) -> None:
        """End all workers, also those that work."""
        for slot in [*self._idle, *(busy.slot for busy in self._busy)]:
            slot.close()
