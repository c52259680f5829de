"""Says what takes long while it takes long.

    with Progress("Compiling") as progress:
        progress.say("reading model.pt2")

On a terminal a line on standard error tells, from the second second on, what is being done and for how long; it is gone
when the work is done. Elsewhere, in a log or a pipe, a whole line appears every half minute. What takes less says
nothing. A thread does it, because the work itself may be one call of a library.

As a command it runs another one, whose output goes to a file that is named when it fails:

    python etir/progress.py --log build/install.log 'Installing etir' pip install .

That works before anything is installed: this module needs the standard library only, and nothing of etir.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

SHOW_AFTER = 1.0
"""Seconds until a terminal shows anything."""

REDRAW = 0.5
"""Seconds between two states of the line on a terminal."""

SAY_EVERY = 30.0
"""Seconds between two lines where there is no terminal."""

LAST_LINES = 20
"""Lines of its output that are shown of a command that failed."""

_CLEAR = "\r\x1b[K"
"""Go to the start of a terminal's line and empty it."""


class Progress:
    """What is being done, on ``stream`` (standard error), while the ``with`` block runs."""

    def __init__(self, title: str, stream: IO[str] | None = None):
        self.title = title
        self._stream = sys.stderr if stream is None else stream
        self._what = ""
        self._start = time.monotonic()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._drawn = False

    def say(self, what: str) -> None:
        """Replace what is said to be done now; costs next to nothing."""
        self._what = what

    def clear(self) -> None:
        """Empty the line of a terminal, for something else that is printed; it comes back."""
        if self._drawn:
            self._drawn = False
            self._write(_CLEAR)

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self._start

    def __enter__(self) -> Progress:
        self._start = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.clear()

    def _run(self) -> None:
        on_terminal = is_terminal(self._stream)
        wait = SHOW_AFTER if on_terminal else SAY_EVERY
        while not self._stop.wait(wait):
            text = f"{self.title}: {self._what}" if self._what else self.title
            line = f"{text} ({duration(self.seconds)})"
            if on_terminal:
                self._drawn = True
                self._write(_CLEAR + line[: shutil.get_terminal_size().columns - 1])
                wait = REDRAW
            else:
                self._write(line + "\n")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # The reader is gone, or somebody closed the stream: the work goes on.
            self._stop.set()


def is_terminal(stream: IO[str]) -> bool:
    """Whether lines on the stream can be drawn over."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def duration(seconds: float) -> str:
    """``12 s`` or ``3 min 5 s``."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    parser = argparse.ArgumentParser(description="Run a command, and say how long it has taken so far.")
    parser.add_argument("--log", type=Path, required=True, metavar="FILE", help="where its output goes")
    parser.add_argument("title", help="what it does")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the command and its arguments")
    arguments = parser.parse_args(argv)
    arguments.log.parent.mkdir(parents=True, exist_ok=True)
    with arguments.log.open("wb") as log, Progress(arguments.title):
        try:
            done = subprocess.run(arguments.command, stdout=log, stderr=subprocess.STDOUT, check=False)
        except OSError as error:
            print(f"{arguments.title} failed: {error.strerror}: {arguments.command[0]}", file=sys.stderr)
            return 127
    if done.returncode:
        lines = arguments.log.read_text(encoding="utf-8", errors="replace").splitlines()
        print("\n".join(lines[-LAST_LINES:]), file=sys.stderr)
        print(f"{arguments.title} failed; all of its output is in {arguments.log}", file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
