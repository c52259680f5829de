"""Room for large programs: Python's limits, while a compiler works.

Operations hold one another, so that what a pass erases is garbage that only a full collection finds; by default Python
looks for it every 700 objects, which is a fifth of all time. Regions nest, and what walks them recurses: a few frames
for each level. Both settings are put back.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from etir.passes.errors import E0523

FRAMES = 5_000
"""Calls in calls: control flow nested 600 deep. A thread's usual stack of 8 MiB has room for several times as many."""

OBJECTS = 100_000
"""New objects after which garbage is looked for: some ten MiB."""


@contextmanager
def room() -> Iterator[None]:
    """Raise Python's limits. Raises error E0523 when a program is nested too deeply all the same."""
    frames, objects = sys.getrecursionlimit(), gc.get_threshold()
    sys.setrecursionlimit(max(frames, FRAMES))
    # 0 is off.
    gc.set_threshold(objects[0] and max(objects[0], OBJECTS), *objects[1:])
    try:
        yield
    except RecursionError:
        raise E0523.error("the program is nested more deeply than Python can call functions") from None
    finally:
        gc.set_threshold(*objects)
        sys.setrecursionlimit(frames)
