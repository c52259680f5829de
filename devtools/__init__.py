"""Developer tools: from "it is slow" or "the numbers are wrong" to one line of Python and one operation of every level.

Two artifacts carry everything: a *trace* is what the compiler knew (``trace``), a *profile* is what a runtime saw
(``profile``); origins, integers in the locations of operations, are the link between them. Everything here reads what
the compiler and the runtimes have written: nothing of the compiler imports this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from etir.devtools.comparison import Comparison, compare
    from etir.devtools.etrecord import read_etrecord, write_etrecord
    from etir.devtools.inspector import Inspector
    from etir.devtools.page.explore import explore
    from etir.devtools.progress import show_progress
    from etir.devtools.reduction import reduce
    from etir.devtools.trace.read import Trace

__all__ = [
    "Comparison",
    "Inspector",
    "Trace",
    "compare",
    "explore",
    "read_etrecord",
    "reduce",
    "show_progress",
    "write_etrecord",
]

_PLACES = {
    "Comparison": "etir.devtools.comparison.findings",
    "compare": "etir.devtools.comparison.compare",
    "Inspector": "etir.devtools.inspector",
    "Trace": "etir.devtools.trace.read",
    "explore": "etir.devtools.page.explore",
    "read_etrecord": "etir.devtools.etrecord",
    "reduce": "etir.devtools.reduction",
    "show_progress": "etir.devtools.progress",
    "write_etrecord": "etir.devtools.etrecord",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _PLACES:
        raise AttributeError(f"module 'etir.devtools' has no attribute '{name}'")
    return getattr(import_module(_PLACES[name]), name)
