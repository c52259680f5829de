"""What plug-ins add, and when what was computed without them has to be forgotten.

Everything that can be added from outside is kept by the registry of its kind: passes, dialects, decompositions,
meanings, kernels of targets, backends. This package is below all of them. It has what they share:

* :func:`installed_plugins`, which finds the :class:`~etir.extensions.plugin.Plugin` of every installed package: what it
  contributes, by kind. Every registry asks for its part when it needs it, so that starting a tool looks for no package;
* :func:`registry_cache`, a cache that depends on what is registered, and :func:`registry_changed`, which every
  registration calls: it drops all of these caches, so that nothing has to know which ones a registration concerns;
* :func:`taken`, the error of two things with one name.

What a user asks for by name (``--import``, ``etir.plugins.register_plugin``) fails with an error. What is merely
installed must not keep an unrelated command from working: its faults are warnings (:func:`warn`).
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from etir.diagnostics import Diagnostic, EtirError, Severity
from etir.extensions.errors import E1302, E1303

if TYPE_CHECKING:
    from etir.extensions.plugin import Plugin

P = ParamSpec("P")
R = TypeVar("R")

GROUP = "etir.plugins"
"""The group of entry points whose values are instances of :class:`Plugin`."""

# --- caches -----------------------------------------------------------------------------------------------------------

_CLEAR: list[Callable[[], None]] = []


def registry_cache(function: Callable[P, R]) -> Callable[P, R]:
    """``functools.cache`` for a function whose results depend on what is registered."""
    cached = functools.cache(function)
    _CLEAR.append(cached.cache_clear)
    return cast("Callable[P, R]", cached)


def registry_changed() -> None:
    """Forget everything that :func:`registry_cache` keeps: something was registered."""
    for clear in _CLEAR:
        clear()


# --- two of one name --------------------------------------------------------------------------------------------------


def taken(kind: str, name: str, holder: str, newcomer: str) -> EtirError:
    """The error E1303 that two of a kind have one name; ``holder`` and ``newcomer`` say where they come from."""
    return E1303.error(f"there are two {kind} '{name}': of {holder} and of {newcomer}")


def is_own(module: str) -> bool:
    """Whether a module is a part of etir."""
    return module.partition(".")[0] == "etir"


# --- warnings ---------------------------------------------------------------------------------------------------------


class PluginWarning(UserWarning):
    """Something of an installed plug-in is left out."""


def _as_python_warning(diagnostic: Diagnostic) -> None:
    warnings.warn(diagnostic.render(), PluginWarning, stacklevel=3)


_report: Callable[[Diagnostic], None] = _as_python_warning
_reported: dict[str, None] = {}


def report_warnings_to(report: Callable[[Diagnostic], None]) -> None:
    """Let warnings about plug-ins go to ``report`` instead of Python's ``warnings``; each is given once."""
    global _report
    _report = report
    _reported.clear()


def warn(problems: EtirError) -> None:
    """Report what is wrong with something installed that nobody asked for by name."""
    for diagnostic in problems.diagnostics:
        warning = replace(diagnostic, severity=Severity.WARNING)
        if warning.render() not in _reported:
            _reported[warning.render()] = None
            _report(warning)


# --- other people's code ----------------------------------------------------------------------------------------------


def call_foreign(owner: str, function: Callable[[], R]) -> R:
    """The result of code that belongs to a plug-in. Raises E1302 for whatever it raises, its own errors as they are."""
    try:
        return function()
    except EtirError:
        raise
    except (Exception, SystemExit) as error:  # Nothing is known about the code: any exception means the same.
        words = str(error).strip().splitlines()
        said = f"{type(error).__name__}: {words[0]}" if words else type(error).__name__
        raise E1302.error(f"{owner} cannot be used: {said}") from error


def import_attribute(target: str, owner: str) -> Any:
    """What ``module:attribute`` names. Raises E1302 when it cannot be imported."""
    module, _, attribute = target.partition(":")
    return call_foreign(owner, lambda: getattr(import_module(module), attribute))


def import_contributions(what: Callable[[Plugin], Sequence[str]]) -> None:
    """Import the modules that installed plug-ins name, whose import registers what is in them; faults are warnings."""
    for owner, plugin in installed_plugins().items():
        for module in what(plugin):
            if module not in sys.modules:
                try:
                    call_foreign(f"module '{module}' of {owner}", functools.partial(import_module, module))
                except EtirError as error:
                    warn(error)


# --- entry points -----------------------------------------------------------------------------------------------------


@functools.cache
def installed_plugins() -> dict[str, Plugin]:
    """The plug-ins of installed packages by what messages call them, in the order of their entry points' names.

    One that cannot be imported, or that is no :class:`Plugin`, is left out with a warning (E1302).
    """
    found: dict[str, Plugin] = {}
    if not may_have_entry_points(GROUP):
        return found
    from importlib.metadata import entry_points  # Slow to import, and most runs need no plug-in.

    from etir.extensions.plugin import Plugin

    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        owner = f"plug-in '{entry.name}' ({entry.value})"
        try:
            plugin = call_foreign(owner, entry.load)
            if not isinstance(plugin, Plugin):
                raise E1302.error(
                    f"{owner} cannot be used: it is no Plugin, but a value of type {type(plugin).__name__}"
                )
            found[owner] = plugin
        except EtirError as error:
            warn(error)
    return found


def may_have_entry_points(group: str) -> bool:
    """Whether an installed package can have entry points of a group, by the bytes of the files that list them.

    Reading these takes a tenth of the time of importing ``importlib.metadata``. Whatever is no folder of installed
    packages (archives, finders of other packages) may have some.
    """
    if any(finder is not PathFinder and hasattr(finder, "find_distributions") for finder in sys.meta_path):
        return True
    word = f"[{group}]".encode()
    for place in sys.path:
        try:
            with os.scandir(place or ".") as entries:
                folders = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
        except NotADirectoryError:
            return True
        except OSError:
            continue
        for folder in folders:
            try:
                with open(os.path.join(folder, "entry_points.txt"), "rb") as file:
                    if word in file.read():
                        return True
            except OSError:
                continue
    return False
