"""The lock of a machine: one measurement at a time, whichever sweep it belongs to.

A file in the folder for temporary files, which every process of the machine sees; the system gives the lock back when
a process ends, however it does.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOCK = "ETIR_SWEEP_LOCK"
"""The variable that names another file; workers, whose folder for temporary files is their own, are told so."""


def lock_path() -> Path:
    """The file."""
    return Path(os.environ.get(LOCK) or Path(tempfile.gettempdir()) / "etir-sweep.lock")


@contextmanager
def machine_lock() -> Iterator[None]:
    """Wait for the lock, and hold it."""
    descriptor = os.open(lock_path(), os.O_RDWR | os.O_CREAT, 0o666)
    try:
        with suppress(OSError):  # Another user's file: its mode is theirs to give.
            os.chmod(lock_path(), 0o666)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
