"""A worker process: ``python -m etir.sweeps.worker DESCRIPTOR PARENT`` takes jobs from a socket, one after the other.

It is a new process, not a fork: the program that sweeps may have threads and devices that a fork does not survive, and
its main module is none of a worker's business. One worker does many jobs. Exits when the other end of the socket is
closed, and on Linux in the middle of a job when its parent ends, however that does: a job that hangs would stay else.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from etir.sweeps.jobs import Job, Outcome
from etir.sweeps.lock import machine_lock
from etir.sweeps.stages import run_job
from etir.sweeps.store import Store

STARTED = "started"
"""What a worker says when it begins with a job, for an exclusive one with the machine's lock: its time runs from there.
"""


@dataclass(frozen=True)
class Setup:
    """What all jobs of a sweep have in common: the folder of artefacts, folders of modules, bytes of memory that a job
    may take above what its process has, threads; ``code`` is the digest of what workers load, which one that outlives
    a sweep has to have in common with the next one."""

    store: str
    paths: tuple[str, ...] = ()
    memory: int | None = None
    threads: int = 1
    code: str = ""


def main(descriptor: int, parent: int) -> None:
    """Answer jobs until there are no more."""
    _end_with(parent)
    _offer_to_the_system()
    os.set_inheritable(descriptor, False)
    connection = Connection(descriptor)
    try:
        setup: Setup = connection.recv()
        sys.path.extend(path for path in setup.paths if path not in sys.path)
        store, limited = Store(setup.store), MemoryLimit(setup.memory)
        while True:
            job: Job = connection.recv()
            if job.exclusive:
                with machine_lock():
                    connection.send(STARTED)
                    answer = _answer(job, store, limited, setup)
            else:
                connection.send(STARTED)
                answer = _answer(job, store, limited, setup)
            connection.send(answer)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    os._exit(0)  # Threads of libraries that are still there have nothing to say.


_PR_SET_PDEATHSIG = 1


def _end_with(parent: int) -> None:
    """Let Linux end this process when its parent has ended."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # It has ended before that.
        os._exit(0)


def _offer_to_the_system() -> None:
    """When the machine has no memory left, Linux is to end this process, not the one that writes the rows."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
    except OSError:  # No such file elsewhere.
        pass


def _answer(job: Job, store: Store, limited: MemoryLimit, setup: Setup) -> Outcome:
    set_threads(setup.threads)
    limited.set()
    try:
        return run_job(job, store)
    finally:
        limited.lift()


def set_threads(count: int) -> None:
    """Threads of torch, where it is loaded: those of a library that starts later follow the environment."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "set_num_threads") and torch.get_num_threads() != count:
        torch.set_num_threads(count)


class MemoryLimit:
    """Lets a job take so many bytes of private memory (``RLIMIT_DATA``) above what the process had before it.

    Then memory cannot be had: Python and torch raise what becomes a row, and what does not look ends its process.
    """

    def __init__(self, limit: int | None):
        self._limit = limit

    def set(self) -> None:
        """Begin."""
        if self._limit is not None and (used := _data_bytes()) is not None:
            import resource

            hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
            resource.setrlimit(resource.RLIMIT_DATA, (used + self._limit, hard))

    def lift(self) -> None:
        """End."""
        if self._limit is not None:
            import resource

            hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
            resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def _data_bytes() -> int | None:
    """Private memory of this process; None where the system does not say."""
    try:
        with open("/proc/self/status", encoding="utf-8") as file:
            return next((int(line.split()[1]) * 1024 for line in file if line.startswith("VmData:")), None)
    except OSError:
        return None


if __name__ == "__main__":
    # By its own name: what is sent to this process and back has one class, not two.
    from etir.sweeps import worker

    worker.main(int(sys.argv[1]), int(sys.argv[2]))
