"""How far a compilation is, for Python: a bar over the passes.

    with etir.devtools.show_progress():
        program = etir.compile(ep)

A terminal and a notebook get a bar when a compilation takes longer than a second; a log or a pipe gets nothing. The
package ``tqdm`` (the extra ``etir[progress]``) draws it, and is imported only then. The command-line tools say the same
without it: ``etir/progress.py``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.ir import Operation

from etir.passes.infra.instrumentation import Instrument, PassRun, watching
from etir.passes.infra.rewriting import Pattern
from etir.progress import is_terminal

SHOW_AFTER = 1.0
"""Seconds until a bar is shown."""

Make = Callable[[int, int], Any]
"""A bar of so many steps of which so many are done."""


class Bar(Instrument):
    """Moves a bar with every pass, which ``make`` makes once it has taken long."""

    def __init__(self, make: Make):
        super().__init__()
        self._make = make
        self._start = time.monotonic()
        self._bar: Any = None

    def before_pass(self, run: PassRun, module: ModuleOp) -> None:
        """Say which pass is running."""
        if self._bar is None:
            if time.monotonic() - self._start < SHOW_AFTER:
                return
            self._bar = self._make(run.total, run.index)
        if self._bar.total != run.total:  # A pipeline of its own, which a pass or the next program runs.
            self._bar.reset(run.total)
        self._bar.n = run.index
        self._bar.set_description_str(run.name)

    def on_rewrite(self, pattern: Pattern, op_name: str, location: LocationAttr, new_ops: Sequence[Operation]) -> None:
        """Not even counted."""

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()


@contextmanager
def show_progress() -> Iterator[None]:
    """Show how far the compilations of the block are, where somebody sees it."""
    make = _maker()
    if make is None:
        yield
        return
    bar = Bar(make)
    try:
        with watching(bar):
            yield
    finally:
        bar.close()


def _maker() -> Make | None:
    """What draws here: nothing where nobody looks, or without tqdm."""
    notebook = _in_notebook()
    if not notebook and not is_terminal(sys.stderr):
        return None
    if find_spec("tqdm") is None:
        return None
    return _notebook_bar if notebook else _terminal_bar


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    running = None if shell is None else shell.get_ipython()
    return running is not None and "ipykernel" in sys.modules and hasattr(running, "kernel")


def _terminal_bar(total: int, done: int) -> Any:
    from tqdm import tqdm

    return tqdm(total=total, initial=done, leave=False, unit="pass", file=sys.stderr)


def _notebook_bar(total: int, done: int) -> Any:
    if find_spec("ipywidgets") is not None:
        from tqdm.notebook import tqdm

        return tqdm(total=total, initial=done, leave=False, unit="pass")
    from tqdm import tqdm

    return tqdm(total=total, initial=done, leave=False, unit="pass", file=sys.stdout)
