"""Passes by name. A pass is imported when it is first asked for, so that starting a tool imports none.

A pass is called like its file: ``fold-constants`` is in ``fold_constants.py``, in whatever folder below
:data:`PACKAGES`, or in the ``driver.py`` of a folder ``fold_constants``; :func:`register_pass` above the class says
that it is one. So a new pass is a new file, and no list has to know it. Looking a name up reads the names of files and
imports one; only listing all passes reads the files.

Passes from outside are registered with the same decorator, by ``etir.plugins.register_plugin`` or by what is installed
(:mod:`etir.extensions`); docs/guide/plugins.md shows all ways.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import TypeVar, overload

from xdsl.passes import ModulePass

from etir.extensions import (
    import_attribute,
    installed_plugins,
    registry_cache,
    registry_changed,
    taken,
    warn,
)
from etir.extensions.errors import E1302
from etir.passes.errors import E0502

__all__ = [
    "ALIASES",
    "add_pass",
    "all_passes",
    "current_name",
    "find_pass",
    "has_pass",
    "own_passes",
    "register_pass",
    "replacement",
]

PassT = TypeVar("PassT", bound=type[ModulePass])

PACKAGES = (
    "etir.passes",
    "etir.lowering",
    "etir.backends.native.passes",
    "etir.quantization.passes",
    "etir.llm.passes",
)
"""Where etir's own passes are, by folder in any depth."""

ALIASES: dict[str, str] = {
    "release-kept": "decompose-preserved",
    "scatter-in-place": "reinplace-scatter",
    "share-sizes": "cse-symbolic-sizes",
    "transpose-small-side": "commute-transpose-into-matmul",
}
"""Former names of passes, which stay for one version: what they are called now. Using one is a warning (E0509)."""

_REGISTERED: dict[str, str | type[ModulePass]] = {}
"""Passes by name: classes, and those of plug-ins as ``module:Class`` until they are asked for."""

_REPLACED: dict[str, None] = {}
"""The names of etir's own passes that others stand for."""

_MARK = re.compile(rb"^@register_pass\b", re.MULTILINE)


@overload
def register_pass(cls: PassT) -> PassT: ...
@overload
def register_pass(*, replace: bool = False) -> Callable[[PassT], PassT]: ...
def register_pass(cls: PassT | None = None, *, replace: bool = False) -> PassT | Callable[[PassT], PassT]:
    """Make a pass known by its name, as a decorator: ``@register_pass``, ``@register_pass(replace=True)``.

    ``replace`` puts it in the place of the pass that has its name, one of etir's own included. Raises E1303 when one of
    another module has that name.
    """

    def register(cls: PassT) -> PassT:
        add_pass(cls.name, cls, replace=replace)
        return cls

    return register if cls is None else register(cls)


def add_pass(name: str, target: str | type[ModulePass], *, replace: bool = False) -> None:
    """Make a pass known that may be given as ``module:Class``, to be imported when it is asked for.

    Raises E1303 when another module has a pass of that name, unless it is to ``replace`` it.
    """
    module = _module_of(target)
    if module.startswith(tuple(f"{package}." for package in PACKAGES)):
        if name not in _REPLACED:
            _add(name, target, _holders(name), replace=replace)
        return
    own = _own_modules(name)
    _add(name, target, _holders(name) or own, replace=replace)
    if own:
        _REPLACED[name] = None
    registry_changed()


def _add(name: str, target: str | type[ModulePass], holders: Sequence[str], *, replace: bool) -> None:
    module = _module_of(target)
    if holders and holders[0] != module and not replace:
        raise taken("passes", name, holders[0], module)
    _REGISTERED[name] = target


def _holders(name: str) -> list[str]:
    """The module of the registered pass of that name."""
    return [_module_of(_REGISTERED[name])] if name in _REGISTERED else []


def _module_of(target: str | type[ModulePass]) -> str:
    return target.partition(":")[0] if isinstance(target, str) else target.__module__


def replacement(name: str) -> type[ModulePass] | None:
    """The pass that stands for one of etir's own by its name, None where nothing replaces it."""
    return find_pass(name) if name in _REPLACED else None


@registry_cache
def _installed() -> dict[str, tuple[str, str | type[ModulePass]]]:
    """The passes of installed plug-ins with whose they are; one whose name is taken is left out with a warning."""
    found: dict[str, tuple[str, str | type[ModulePass]]] = {}
    for owner, plugin in installed_plugins().items():
        for name, target in plugin.passes.items():
            holders = [found[name][0]] if name in found else _holders(name) or _own_modules(name)
            if holders and holders[0] != _module_of(target):
                warn(taken("passes", name, holders[0], owner))
            elif name not in found:
                found[name] = (owner, target)
    return found


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


def _own_modules(name: str) -> list[str]:
    """The modules of etir's own that have a pass of that name."""
    return [module for module, path in _files().get(name, {}).items() if _is_marked(path)]


def _registered(name: str) -> type[ModulePass] | None:
    """A pass of etir's own, or what was registered. Raises E1302 for one of a plug-in that cannot be imported."""
    if name not in _REGISTERED:
        for module in _files().get(name, {}):
            import_module(module)
    target = _REGISTERED.get(name)
    return None if target is None else _class(name, "a plug-in", target)


def _class(name: str, owner: str, target: str | type[ModulePass]) -> type[ModulePass]:
    """The class that a plug-in names. Raises E1302 when it cannot be imported or is none."""
    if not isinstance(target, str):
        return target
    cls = import_attribute(target, f"pass '{name}' of {owner}")
    if not isinstance(cls, type) or not issubclass(cls, ModulePass):
        raise E1302.error(f"pass '{name}' of {owner} cannot be used: {target} is no class of a pass")
    return cls


@cache
def own_passes() -> tuple[str, ...]:
    """The names of etir's own passes, sorted. No pass is imported for that."""
    return tuple(sorted(name for name, files in _files().items() if any(map(_is_marked, files.values()))))


def _is_marked(path: str) -> bool:
    with open(path, "rb") as file:
        return _MARK.search(file.read()) is not None


def all_passes() -> tuple[str, ...]:
    """Every pass by name, sorted: etir's own, those of plug-ins, and what was registered since."""
    return tuple(sorted(dict.fromkeys([*own_passes(), *_installed(), *_REGISTERED])))


def current_name(name: str) -> str:
    """What the pass is called now, which was called ``name`` once; any other name is as it was."""
    return ALIASES.get(name, name)


def has_pass(name: str) -> bool:
    """Whether there is a pass of that name, or was before it was renamed."""
    name = current_name(name)
    return name in _REGISTERED or bool(_own_modules(name)) or name in _installed()


def find_pass(name: str) -> type[ModulePass]:
    """The class of a pass; a former name stands for the new one. An installed plug-in replaces no pass of etir's own.

    Raises error E0502 for an unknown name, with the nearest known ones, and E1302 for a pass of a plug-in that cannot
    be imported.
    """
    name = current_name(name)
    found = _registered(name)
    if found is not None:
        return found
    if name in _installed():
        return _class(name, *_installed()[name])
    from difflib import get_close_matches

    near = get_close_matches(name, all_passes(), 3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise E0502.error(f"there is no pass '{name}'{hint}")
