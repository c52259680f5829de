"""Jobs in this process, and on the cores of this machine.

A slot is a worker process that is used again for job after job, and replaced when a job has ended it or was stopped:
one job's crash, hang or greed costs nothing but its own row.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import IO

from etir.sweeps.calls import with_paths
from etir.sweeps.errors import E1908, E1909, E1910
from etir.sweeps.jobs import Job, Outcome
from etir.sweeps.lock import machine_lock
from etir.sweeps.scheduler import Event
from etir.sweeps.stages import processor, run_job
from etir.sweeps.store import Store
from etir.sweeps.worker import STARTED, Setup

LAST_LINES = 5
"""Lines of what a worker has printed that belong to its end."""


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


class Slot:
    """One worker process, started when the first job comes."""

    def __init__(self, setup: Setup, seconds: float):
        self._setup, self._seconds = setup, seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._printed: IO[bytes] | None = None
        self.connection: Connection | None = None
        self.job: Job | None = None
        self._began: float | None = None

    def start(self, job: Job) -> None:
        """Give the worker a job."""
        if self.connection is None:
            self._spawn()
        self.job, self._began = job, None
        assert self.connection is not None
        try:
            self.connection.send(job)
        except (BrokenPipeError, ConnectionResetError):  # It has ended while it had nothing to do.
            self._end()
            self._spawn()
            assert self.connection is not None
            self.connection.send(job)

    def _spawn(self) -> None:
        own, theirs = socket.socketpair()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            environment[variable] = str(self._setup.threads)
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process lives
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "etir.sweeps.worker", str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=self._printed,
            stderr=self._printed,
            env=environment,
        )
        theirs.close()
        self.connection = Connection(own.detach())
        self.connection.send(self._setup)

    def poll(self) -> Outcome | None:
        """The outcome of the job, when it has ended; a job that has taken too long is ended now."""
        assert self.connection is not None
        while self.connection.poll():
            try:
                answer = self.connection.recv()
            except (EOFError, ConnectionResetError):
                return self._crashed()
            if isinstance(answer, str):
                assert answer == STARTED
                self._began = time.monotonic()
                continue
            self.job = None
            return answer
        if self._began is not None and time.monotonic() - self._began > self._seconds:
            self._end()
            return self._outcome("timeout", E1909.id, f"no end after {self._seconds:g} s")
        return None

    def run(self, job: Job) -> Outcome:
        """Do a job, and wait for it."""
        self.start(job)
        assert self.connection is not None
        while True:
            wait([self.connection], self.patience())
            if (outcome := self.poll()) is not None:
                return outcome

    def patience(self) -> float | None:
        """Seconds until the job has taken too long; None while that is not known."""
        return None if self._began is None else max(0.0, self._began + self._seconds - time.monotonic())

    def _crashed(self) -> Outcome:
        assert self._process is not None and self._printed is not None
        code = self._process.wait()
        size = self._printed.seek(0, os.SEEK_END)
        self._printed.seek(max(0, size - 4000))
        lines = self._printed.read().decode(errors="replace").strip().splitlines()
        tail = " | ".join(line.strip() for line in lines[-LAST_LINES:] if line.strip())
        self._end()
        if "bad_alloc" in tail or "MemoryError" in tail:
            return self._outcome("memory", E1910.id, f"its process ended: {tail}")
        if code == -signal.SIGKILL:
            return self._outcome(
                "memory",
                E1910.id,
                "its process was killed (SIGKILL): the system had no memory left, or somebody did it",
            )
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return self._outcome("crash", E1908.id, f"{how}{f': {tail}' if tail else ''}")

    def _outcome(self, status: str, error: str, message: str) -> Outcome:
        job, self.job = self.job, None
        assert job is not None
        seconds = 0.0 if self._began is None else time.monotonic() - self._began
        return Outcome(status, {}, error, f"{job.stage}: {message}", seconds, socket.gethostname(), processor())

    def _end(self) -> None:
        if self.connection is not None:
            self.connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._printed is not None:
            self._printed.close()
        self._process = self.connection = self._printed = None

    def close(self) -> None:
        """End the process."""
        self._end()


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
            patience = [p for busy in self._busy if (p := busy.slot.patience()) is not None]
            wait([c for busy in self._busy if (c := busy.slot.connection) is not None], min(patience, default=None))
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
