"""Python's collector of garbage, set for processes that test: it looks for some less often.

By default it looks every 700 new objects, and now and then through all of them, where torch, transformers and pytest's
15,000 tests are some millions that stay to the end. Compilers of etir (``passes/infra/room.py``) and its tools
(``tools/startup.py``) raise the number; what tests do besides, ``torch.export`` above all, is a fifth faster with it.

Not for benchmarks, which measure what users have.
"""

from __future__ import annotations

import gc

OBJECTS = 50_000
"""New objects after which garbage is looked for."""


def collect_less() -> None:
    """Look for garbage less often in this process and its forks."""
    gc.set_threshold(OBJECTS)


def keep_what_is_there() -> None:
    """Never look at the objects that there are now: call it when everything is imported."""
    gc.collect()
    gc.freeze()
