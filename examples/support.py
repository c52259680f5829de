"""What the examples share: a check for what has to be installed, and progress lines."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

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
def step(title: str) -> Iterator[None]:
    """Print ``title`` when the work starts and its wall seconds when it is done, on one line of stderr."""
    print(f"{title} ...", end="", file=sys.stderr, flush=True)
    start = time.perf_counter()
    try:
        yield
    except BaseException:
        print(" failed", file=sys.stderr, flush=True)
        raise
    print(f" {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
