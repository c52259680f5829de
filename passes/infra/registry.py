"""Passes by name. A pass is imported when it is first asked for, so that starting a tool imports none.

A pass is called like its file: ``fold-constants`` is in ``fold_constants.py``, in whatever folder below
:data:`PACKAGES`, or in the ``driver.py`` of a folder ``fold_constants``; :func:`register_pass` above the class says
that it is one. So a new pass is a new file, and no list has to know it. Looking a name up reads the names of files and
imports one; only listing all passes reads the files.

Plug-ins add passes and dialects through the entry-point group ``etir.plugins``: each entry point names a
:class:`Plugin`. docs/tutorial/pass.md shows one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TypeVar

from xdsl.ir import Dialect
from xdsl.passes import ModulePass

from etir.passes.errors import E0502

PassT = TypeVar("PassT", bound=type[ModulePass])

PACKAGES = ("etir.passes", "etir.lowering")
"""Where etir's own passes are, by folder in any depth."""

ALIASES: dict[str, str] = {
    "release-kept": "decompose-preserved",
    "scatter-in-place": "reinplace-scatter",
    "share-sizes": "cse-symbolic-sizes",
    "transpose-small-side": "commute-transpose-into-matmul",
}
"""Former names of passes, which stay for one version: what they are called now. Using one is a warning (E0509)."""

_REGISTERED: dict[str, type[ModulePass]] = {}
_MARK = re.compile(rb"^@register_pass\b", re.MULTILINE)


def register_pass(cls: PassT) -> PassT:
    """Make a pass known by its name, as a decorator. Raises ``ValueError`` when one of another module has that name."""
    other = _REGISTERED.get(cls.name, cls)
    if other.__module__ != cls.__module__:
        raise ValueError(f"there are two passes '{cls.name}': in {other.__module__} and in {cls.__module__}")
    _REGISTERED[cls.name] = cls
    return cls


@dataclass(frozen=True)
class Plugin:
    """What a plug-in adds: passes as ``module:Class`` or as classes, dialects as functions that load them."""

    passes: Mapping[str, str | type[ModulePass]] = field(default_factory=dict[str, "str | type[ModulePass]"])
    dialects: Mapping[str, Callable[[], Dialect]] = field(default_factory=dict[str, Callable[[], Dialect]])


@cache
def plugins() -> tuple[Plugin, ...]:
    """The installed plug-ins, in the order of their entry points' names."""
    from importlib.metadata import entry_points  # slow to import, and most runs need no plug-in

    found = sorted(entry_points(group="etir.plugins"), key=lambda entry: entry.name)
    return tuple(entry.load() for entry in found)


@cache
def _files() -> dict[str, dict[str, str]]:
    """Files that could hold a pass, as module to path, by the name that the pass would have."""
    found: dict[str, dict[str, str]] = {}
    for package in PACKAGES:
        for folder in import_module(package).__path__:
            for module, path in _walk(package, folder):
                stem = module.removesuffix(".driver").rpartition(".")[2]
                found.setdefault(stem.replace("_", "-"), {})[module] = path
    return found


def _walk(package: str, folder: str) -> Iterator[tuple[str, str]]:
    """Module and path of every Python file below a package's folder, in the order of names."""
    with os.scandir(folder) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        stem, suffix = os.path.splitext(entry.name)
        if suffix == ".py" and stem != "__init__":
            yield f"{package}.{stem}", entry.path
        elif not suffix and stem != "__pycache__" and entry.is_dir():
            yield from _walk(f"{package}.{stem}", entry.path)


def _own_pass(name: str) -> type[ModulePass] | None:
    """A pass of etir's own, or what was registered by something imported since."""
    if name not in _REGISTERED:
        for module in _files().get(name, {}):
            import_module(module)
    return _REGISTERED.get(name)


@cache
def own_passes() -> tuple[str, ...]:
    """The names of etir's own passes, sorted. No pass is imported for that."""
    return tuple(sorted(name for name, files in _files().items() if any(map(_is_marked, files.values()))))


def _is_marked(path: str) -> bool:
    with open(path, "rb") as file:
        return _MARK.search(file.read()) is not None


def all_passes() -> tuple[str, ...]:
    """Every pass by name, sorted: etir's own, those of plug-ins, and what was registered since."""
    added = [name for plugin in plugins() for name in plugin.passes]
    return tuple(sorted(dict.fromkeys([*own_passes(), *added, *_REGISTERED])))


def current_name(name: str) -> str:
    """What the pass is called now, which was called ``name`` once; any other name is as it was."""
    return ALIASES.get(name, name)


def has_pass(name: str) -> bool:
    """Whether there is a pass of that name, or was before it was renamed."""
    return _own_pass(current_name(name)) is not None or name in all_passes()


def find_pass(name: str) -> type[ModulePass]:
    """The class of a pass; a former name stands for the new one. A plug-in cannot replace a pass of etir's own.

    Raises error E0502 for an unknown name, with the nearest known ones.
    """
    name = current_name(name)
    own = _own_pass(name)
    if own is not None:
        return own
    target = next((plugin.passes[name] for plugin in plugins() if name in plugin.passes), None)
    if target is None:
        from difflib import get_close_matches

        near = get_close_matches(name, all_passes(), 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise E0502.error(f"there is no pass '{name}'{hint}")
    if not isinstance(target, str):
        return target
    module, _, cls = target.partition(":")
    return getattr(import_module(module), cls)
