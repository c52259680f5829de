"""What the examples share: a check for what has to be installed, and steps.

Libraries warn and log while they are imported and while they work. None of that is for who reads the results: inside of
a :func:`step` it goes to a file, which is named when the step fails.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

TEST_FOLDER = Path(__file__).resolve().parents[1] / "test"
"""Where ``models`` lives: the example models are the ones that the tests run."""


def missing_packages(packages: Mapping[str, str]) -> str | None:
    """An error message that says what to install, or None if everything is there.

    ``packages`` maps an importable name to the arguments of the ``pip install`` that provides it.
    """
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if not missing:
        return None
    commands = dict.fromkeys(f"    pip install {packages[name]}" for name in missing)
    return "\n".join([f"error: not installed: {', '.join(missing)}; install with", *commands])


@contextmanager
def step(title: str) -> Iterator[Callable[[str], None]]:
    """Print ``title`` and its wall seconds on stderr when the work is done; what takes long is shown meanwhile.

    Gives a function that says how far the work is. What anything
    else prints meanwhile, from Python or from C++, goes to a file; when the step fails, that stays, and is named.
    """
    from etir.progress import Progress

    with _others_to_a_log() as (console, log):
        start = time.perf_counter()
        try:
            with Progress(title, console) as progress:
                yield progress.say
        except BaseException:
            print(f"{title} ... failed; what was printed meanwhile is in {log}", file=console, flush=True)
            raise
        print(f"{title} ... {time.perf_counter() - start:.1f} s", file=console, flush=True)
        log.unlink()


@contextmanager
def _others_to_a_log() -> Iterator[tuple[TextIO, Path]]:
    """Send standard output and error to a file; gives what standard error was, and the file."""
    with tempfile.NamedTemporaryFile("w", prefix="etir-", suffix=".log", delete=False, buffering=1) as log:
        sys.stdout.flush()
        sys.stderr.flush()
        kept = {number: os.dup(number) for number in (1, 2)}
        streams = sys.stdout, sys.stderr
        for number in kept:
            os.dup2(log.fileno(), number)
        sys.stdout = sys.stderr = log
        try:
            with os.fdopen(os.dup(kept[2]), "w") as console:
                yield console, Path(log.name)
        finally:
            log.flush()
            sys.stdout, sys.stderr = streams
            for number, copy in kept.items():
                os.dup2(copy, number)
                os.close(copy)
