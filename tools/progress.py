"""What a tool shows while it compiles: the pass that is running, when it takes long. See ``etir/progress.py``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from etir.passes.infra.instrumentation import ShowPasses, watching
from etir.progress import Progress


@contextmanager
def showing_passes(title: str) -> Iterator[Progress]:
    """Show the passes of every pipeline that runs in the block."""
    with Progress(title) as progress, watching(ShowPasses(progress.say)):
        yield progress
