"""Functions of cells that end in every way there is; nothing heavy is imported, so that a worker starts at once."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from typing import Any


def figures(cell: Any) -> Mapping[str, Any]:
    """What the arguments say: ``kind`` is how the cell ends, ``seconds`` how long it takes."""
    time.sleep(cell.arguments.get("seconds", 0))
    _WAYS.get(cell.arguments.get("kind", ""), lambda: None)()
    return {"letters": len(cell.program), "process": os.getpid()}


def noted(cell: Any) -> Mapping[str, Any]:
    """As :func:`figures`, and adds a line to the file ``arguments["log"]`` before and after its work, with the time of
    the machine.
    """
    log, made = cell.arguments["log"], {}
    for word in ("begin", "end"):
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"{word} {cell.program} {os.getpid()} {time.monotonic()}\n")
        if word == "begin":
            made = figures(cell)
    return made


def names() -> list[str]:
    """Names of programs."""
    return ["first", "second"]


def not_figures(cell: Any) -> Any:
    """No mapping."""
    return [cell.program]


def scalars(cell: Any) -> Mapping[str, Any]:
    """Figures as NumPy has them, and one that is none."""
    import numpy as np

    made = {"single": np.float32(0.5), "count": np.int64(3), "flag": np.bool_(True), "rank 0": np.zeros(())}
    return made if cell.program != "array" else {"several": np.zeros(2)}


def _greedy() -> None:
    held = bytearray(1 << 30)
    held[:] = b"1" * len(held)


def _crash() -> None:
    print("about to crash", flush=True)
    ctypes.string_at(0)


def _raise() -> None:
    raise ValueError("no such thing")


def _full() -> None:
    raise OSError(28, "No space left on device")


def _killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _orphaned() -> None:
    """On a cluster: ends the worker that has started this process."""
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(1000)


def _chatty() -> None:
    """Prints more than any pipe holds, and a file of which would be noticed."""
    for _ in range(400):
        os.write(1, b"x" * 99_999 + b"\n")
    print("the last words", flush=True)
    os._exit(7)


def _closes() -> None:
    """Loses the connection, and does not end."""
    os.closerange(3, 256)
    time.sleep(1000)


def _forked() -> None:
    """Ends while a process that it has forked holds all that it had open."""
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(5)


def _parent() -> None:
    """Has a program at work when its time is over; its number is in the file of ``log``."""
    with open(os.environ["ETIR_TEST_LOG"], "w", encoding="utf-8") as file:
        file.write(str(subprocess.Popen(["sleep", "1000"]).pid))
    time.sleep(1000)


def _litter() -> None:
    """Leaves a file that nobody removes, and is killed."""
    with open(os.environ["ETIR_TEST_LOG"], "w", encoding="utf-8") as log:
        descriptor, path = tempfile.mkstemp()
        os.close(descriptor)
        log.write(path)
    os.kill(os.getpid(), signal.SIGKILL)


def _surrogate() -> None:
    raise ValueError("half a letter: \ud800, and " + "many of them " * 1000)


_WAYS = {
    "chatty": _chatty,
    "closes": _closes,
    "crash": _crash,
    "exit": lambda: os._exit(3),
    "forked": _forked,
    "full": _full,
    "hang": lambda: time.sleep(1000),
    "killed": _killed,
    "litter": _litter,
    "memory": _greedy,
    "orphaned": _orphaned,
    "parent": _parent,
    "raise": _raise,
    "real time": lambda: os.kill(os.getpid(), signal.SIGRTMIN + 3),
    "surrogate": _surrogate,
}
