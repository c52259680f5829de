"""One worker process: started when the first job comes, used for job after job, and replaced when a job has ended it.

What a job can do to the machine stays in the worker: the process leads a group of its own, so that what it has started
ends with it; it has a folder for temporary files of its own, which goes with it; and what it prints goes through a
pipe, of which the last lines are kept, however much there is. :mod:`etir.sweeps.worker` sees to it that it ends with
whoever started it.
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
from multiprocessing.connection import Connection, wait

from etir.sweeps.errors import E1908, E1909, E1910
from etir.sweeps.jobs import Job, Outcome
from etir.sweeps.lock import LOCK, lock_path
from etir.sweeps.stages import processor
from etir.sweeps.worker import STARTED, Setup

LAST_LINES, LAST_BYTES = 5, 4000
"""Lines of what a worker has printed that belong to its end, and the bytes among which they are."""

CHUNK = 1 << 16
"""Bytes of what a worker prints that are read at once, as many as a pipe holds."""

GRACE = 5.0
"""Seconds in which a worker that has closed its connection ends by itself."""

TICK = 1.0
"""Seconds after which a worker is looked at that says nothing: its end need not be seen on its connection, which a
process that it has forked may hold."""


class Slot:
    """A place for one worker. ``seconds`` is how long a job may take."""

    def __init__(self, setup: Setup, seconds: float):
        self._setup, self._seconds = setup, seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._connection: Connection | None = None
        self._printing: int | None = None
        self._tail = b""
        self.job: Job | None = None
        self._began: float | None = None
        self._refused: OSError | None = None

    def start(self, job: Job) -> None:
        """Give the worker a job."""
        self.job, self._began, self._refused, self._tail = job, None, None, b""
        try:
            if self._connection is not None and self._sent(job):
                return
            self._end()  # It has ended while it had nothing to do.
            self._spawn()
            self._sent(job)  # A new one that has ended already is found by poll.
        except OSError as error:
            self._end()
            self._refused = error

    def _sent(self, job: Job) -> bool:
        assert self._connection is not None
        try:
            self._connection.send(job)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def _spawn(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="etir-sweep-", ignore_cleanup_errors=True)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
        environment |= {"TMPDIR": self._folder.name, LOCK: str(lock_path())}
        for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            environment[variable] = str(self._setup.threads)
        own, theirs = socket.socketpair()
        self._connection = Connection(own.detach())
        self._printing, printed = os.pipe()
        os.set_blocking(self._printing, False)
        arguments = ["-P", "-W", "ignore", "-m", "etir.sweeps.worker", str(theirs.fileno()), str(os.getpid())]
        try:
            self._process = subprocess.Popen(
                [sys.executable, *arguments],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                env=environment,
                process_group=0,
            )
        finally:
            theirs.close()
            os.close(printed)
        self._connection.send(self._setup)

    def waits_for(self) -> list[Connection | int]:
        """What there is to read before :meth:`poll` has anything new to say."""
        return [source for source in (self._connection, self._printing) if source is not None]

    def poll(self) -> Outcome | None:
        """The outcome of the job, when it has ended; a job that has taken too long is ended now."""
        self._read_printed()
        if self._connection is None:
            return self._outcome("crash", E1908.id, f"no process can be started for it: {self._refused}")
        try:
            while self._connection.poll():
                answer = self._connection.recv()
                if isinstance(answer, Outcome):
                    return self._answered(answer)
                assert answer == STARTED
                self._began = time.monotonic()
        except (EOFError, ConnectionResetError):
            return self._crashed()
        if self._has_ended() and not self._connection.poll():
            return self._crashed()
        if self._began is not None and time.monotonic() - self._began > self._seconds:
            self._end()
            return self._outcome("timeout", E1909.id, f"no end after {self._seconds:g} s")
        return None

    def run(self, job: Job) -> Outcome:
        """Do a job, and wait for it."""
        self.start(job)
        while True:
            wait_for([self])
            if (outcome := self.poll()) is not None:
                return outcome

    def patience(self) -> float:
        """Seconds until the worker has to be looked at, whether it says something or not."""
        if self._connection is None:
            return 0.0
        return TICK if self._began is None else min(TICK, max(0.0, self._began + self._seconds - time.monotonic()))

    # --- how it ends -------------------------------------------------------------------------------------------------

    def _answered(self, outcome: Outcome) -> Outcome:
        self.job = None
        if outcome.status in ("disk", "memory"):
            self._end()  # What it has taken is given back.
        return outcome

    def _has_ended(self) -> bool:
        """Whether the process has; it is not reaped, so that its number stays that of its group."""
        assert self._process is not None
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _crashed(self) -> Outcome:
        assert self._process is not None
        give_up = time.monotonic() + GRACE
        while not self._has_ended():
            if time.monotonic() > give_up:
                self._end()
                return self._outcome("crash", E1908.id, "it has closed its connection, and went on")
            time.sleep(0.002)
        self._read_printed()
        process = self._process
        self._end()
        code = process.returncode
        lines = self._tail.decode(errors="replace").strip().splitlines()
        tail = " | ".join(line.strip() for line in lines[-LAST_LINES:] if line.strip())
        if "bad_alloc" in tail or "MemoryError" in tail:
            return self._outcome("memory", E1910.id, f"its process ended: {tail}")
        if code == -signal.SIGKILL:
            why = "its process was killed (SIGKILL): the system had no memory left, or somebody did it"
            return self._outcome("memory", E1910.id, why)
        how = f"signal {_signal_name(-code)}" if code < 0 else f"exit code {code}"
        return self._outcome("crash", E1908.id, f"{how}{f': {tail}' if tail else ''}")

    def _outcome(self, status: str, error: str, message: str) -> Outcome:
        job, self.job = self.job, None
        assert job is not None
        seconds = 0.0 if self._began is None else time.monotonic() - self._began
        return Outcome(status, {}, error, f"{job.stage}: {message}", seconds, socket.gethostname(), processor())

    def _read_printed(self) -> None:
        """Take what was printed out of the pipe, up to what it holds; keep the end."""
        if self._printing is None:
            return
        try:
            data = os.read(self._printing, CHUNK)
        except BlockingIOError:
            return
        self._tail = (self._tail + data)[-LAST_BYTES:]
        if not data:
            os.close(self._printing)
            self._printing = None

    def _end(self) -> None:
        if self._process is not None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                self._process.kill()
            self._process.wait()
        if self._connection is not None:
            self._connection.close()
        if self._printing is not None:
            os.close(self._printing)
        if self._folder is not None:
            self._folder.cleanup()
        self._process = self._connection = self._printing = self._folder = None

    def close(self) -> None:
        """End the process."""
        self._end()


def wait_for(slots: Iterable[Slot]) -> None:
    """Wait until one of the workers has something to say, or has to be looked at."""
    busy = list(slots)
    wait([source for slot in busy for source in slot.waits_for()], min(slot.patience() for slot in busy))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # Of real time, most of which have no name.
        return str(number)
