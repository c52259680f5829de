"""Whether a process has ended. One that was killed is a zombie until whoever inherited it takes note."""

from __future__ import annotations

import time
from pathlib import Path


def is_running(process: int) -> bool:
    """Whether it is there, and no zombie that waits for whoever inherited it."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):  # the latter if it ends between
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def is_gone(process: int) -> bool:
    """Whether it ends within ten seconds."""
    give_up = time.monotonic() + 10
    while is_running(process):
        if time.monotonic() > give_up:
            return False
        time.sleep(0.01)
    return True
