"""``--import`` and ``--load-library``, which all tools that compile or run programs have.

Both act while the command line is read: what a module adds may be named by the options after it (a pass is an option
of et-opt). A library for torch is loaded by every tool. One for etir's runtime is loaded where programs run (et-run);
the others let the link check of target ``etir`` know what is in it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any


def add_plugin_arguments(parser: argparse.ArgumentParser, *, runs: bool = False) -> None:
    """Add the options; libraries for etir's runtime are left in ``load_library`` for a tool that ``runs`` programs."""
    group = parser.add_argument_group("plug-ins")
    group.add_argument(
        "--import",
        action=_Import,
        default=argparse.SUPPRESS,
        metavar="MODULE",
        help="a Python module or .py file that adds passes, dialects, decompositions, meanings, kernels or backends",
    )
    group.add_argument(
        "--load-library",
        action=_Load if runs else _Link,
        default=[],
        metavar="FILE",
        help="a shared library with kernels or backends for etir's runtime, or with operators for torch",
    )


class _Import(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        from etir.plugins import import_plugin

        import_plugin(values)


class _Load(argparse.Action):
    """A library for torch is loaded, one for etir's runtime is left to it."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        from etir.libraries import library_kind, load_torch_library

        if library_kind(values) == "torch":
            load_torch_library(values)
        else:
            self.take(values)
            known: Sequence[str] = getattr(namespace, self.dest)
            setattr(namespace, self.dest, [*known, values])

    def take(self, path: str) -> None:
        """What happens to a library for etir's runtime at once."""


class _Link(_Load):
    """A library for etir's runtime is known to the link check."""

    def take(self, path: str) -> None:
        """Register what is in it."""
        from etir.libraries import link_library

        link_library(path)
