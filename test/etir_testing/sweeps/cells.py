"""Functions of cells that end in every way there is; nothing heavy is imported, so that a worker starts at once."""

from __future__ import annotations

import ctypes
import os
import signal
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


_WAYS = {
    "crash": _crash,
    "exit": lambda: os._exit(3),
    "full": _full,
    "hang": lambda: time.sleep(1000),
    "killed": _killed,
    "memory": _greedy,
    "orphaned": _orphaned,
    "raise": _raise,
}
