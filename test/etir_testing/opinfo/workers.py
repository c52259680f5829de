"""Processes that share out keys: each answers for one key after the other, and one that dies costs only its key.

They are forked, because importing torch's samples takes longer than most of them take to run; before torch has run
anything, which a fork would not survive. What they print (torch logs what it cannot export) is kept in files, of which
the end belongs to what is known of a process that died.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import IO, Any

SECONDS = 600
"""A process that works longer on one key is stopped."""


class Running:
    """What a process says that it is doing, in memory that outlives it."""

    def __init__(self, array: Any):
        self._array = array

    def say(self, what: str) -> None:
        """Replace it; the first 199 bytes are kept."""
        self._array.value = what.encode()[:199]

    @property
    def what(self) -> str:
        """What was said last."""
        return self._array.value.decode(errors="replace")


LAST_BYTES = 2000
"""How much is kept of what a process that died has printed."""


@dataclass(frozen=True)
class Lost:
    """The answer for a key whose process ended: its exit code, what it was doing, and the end of what it printed."""

    code: int | None
    doing: str
    printed: str = field(default="", compare=False)


Answer = Callable[[Any, Running], Any]
"""From a key to what is sent back; called in a process."""


class Workers:
    """``jobs`` processes. ``prepare`` runs in each, and gives the function that answers."""

    def __init__(self, jobs: int, prepare: Callable[[], Answer]):
        self._context = multiprocessing.get_context("fork")
        self._prepare = prepare
        self._workers: dict[Connection, tuple[Any, Running, IO[bytes]]] = {}
        for _ in range(jobs):
            self._start()

    def _start(self) -> None:
        own, other = self._context.Pipe()
        running = Running(self._context.Array("c", 200))
        printed = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process lives
        process = self._context.Process(target=_work, args=(other, running, printed, self._prepare), daemon=True)
        process.start()
        other.close()
        self._workers[own] = process, running, printed

    def run(self, keys: Sequence[Any]) -> Iterator[tuple[Any, Any, float]]:
        """Key, answer or :class:`Lost`, and seconds, as they are done."""
        waiting = list(reversed(keys))
        at: dict[Connection, tuple[Any, float]] = {}
        while waiting or at:
            free = [pipe for pipe in self._workers if pipe not in at]
            for pipe in free[: len(waiting)]:
                at[pipe] = waiting.pop(), time.monotonic()
                pipe.send(at[pipe][0])
            for pipe in wait(list(at), timeout=1.0):
                assert isinstance(pipe, Connection)
                key, start = at.pop(pipe)
                try:
                    answer = pipe.recv()
                except EOFError:
                    answer = self._lost(pipe)
                yield key, answer, time.monotonic() - start
            for pipe, (_, start) in at.items():
                if time.monotonic() - start > SECONDS:
                    self._workers[pipe][0].kill()
        for pipe in self._workers:
            pipe.send(None)

    def _lost(self, pipe: Connection) -> Lost:
        process, running, printed = self._workers.pop(pipe)
        process.join()
        self._start()
        size = printed.seek(0, os.SEEK_END)
        printed.seek(max(0, size - LAST_BYTES))
        return Lost(process.exitcode, running.what, printed.read().decode(errors="replace"))


def _work(pipe: Connection, running: Running, printed: IO[bytes], prepare: Callable[[], Answer]) -> None:
    for stream in (1, 2):
        os.dup2(printed.fileno(), stream)
    sys.stdout = sys.stderr = open(printed.fileno(), "w", buffering=1, closefd=False)  # noqa: SIM115
    answer = prepare()
    while (key := pipe.recv()) is not None:
        running.say(str(key))
        try:
            pipe.send(answer(key, running))
        except Exception:
            traceback.print_exc()
            raise
