"""Adding to etir from outside: passes, dialects, decompositions, meanings, kernels of targets, backends.

::

    from etir.plugins import decomposition

    @decomposition("mylib.softclip.default")
    def softclip(b, x, limit):
        return b.mul(b.tanh(b.div(x, limit)), limit)

Each kind has a function or decorator that registers one; :class:`Plugin` describes several, for an entry point of the
group ``etir.plugins`` or for :func:`register_plugin`. What is registered counts from the next pass, compilation or
interpretation on, whatever the process has done before. Two of one name are an error (E1303) that says whose they are,
unless the later one is registered with ``replace=True``. :func:`import_plugin` is what ``--import`` of the tools calls.
``docs/guide/plugins.md`` has an example of each.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace as changed
from importlib import import_module
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from etir.diagnostics import EtirError, SourceLocation
from etir.extensions import PluginWarning
from etir.extensions.errors import E1301
from etir.extensions.plugin import Plugin

if TYPE_CHECKING:
    from etir.backends.api.registry import register_backend
    from etir.dialects.context import register_dialect
    from etir.interpret.meanings import meaning
    from etir.libraries import link_library
    from etir.lowering.decompose_aten.decomposition import decomposition
    from etir.passes.infra.registry import register_pass
    from etir.targets.manifest import extend_target

R = TypeVar("R")

__all__ = [
    "Plugin",
    "PluginWarning",
    "decomposition",
    "extend_target",
    "import_plugin",
    "link_library",
    "meaning",
    "register_backend",
    "register_dialect",
    "register_pass",
    "register_plugin",
]

_PLACES: Mapping[str, str] = {
    "decomposition": "etir.lowering.decompose_aten.decomposition",
    "extend_target": "etir.targets.manifest",
    "link_library": "etir.libraries",
    "meaning": "etir.interpret.meanings",
    "register_backend": "etir.backends.api.registry",
    "register_dialect": "etir.dialects.context",
    "register_pass": "etir.passes.infra.registry",
}
"""The module of each name that is imported when it is first asked for."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'etir.plugins' has no attribute '{name}'")
    found = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return found


_registered: list[Plugin] = []


def register_plugin(plugin: Plugin, *, replace: bool = False) -> None:
    """Register everything that a plug-in describes, as if each part were registered by itself. Once more does nothing.

    Raises what the functions of the parts do: E1303 for a name that is taken (unless ``replace``), E0601 and E0602 for
    kernels, and E1301 for a module of decompositions or meanings that cannot be imported.
    """
    if any(known is plugin for known in _registered):
        return
    if plugin.passes:
        from etir.passes.infra.registry import add_pass

        for name, target in plugin.passes.items():
            add_pass(name, target, replace=replace)
    if plugin.dialects:
        from etir.dialects.context import register_dialect

        for name, load in plugin.dialects.items():
            register_dialect(name, load, replace=replace)
    if plugin.kernels:
        from etir.targets.manifest import extend_target

        for target, sources in plugin.kernels.items():
            for source in sources:
                extend_target(target, source, replace=replace)
    if plugin.backends:
        from etir.backends.api.registry import register_backend

        for name, backend in plugin.backends.items():
            register_backend(backend, name, replace=replace)
    for module in (*plugin.decompositions, *plugin.meanings):
        import_plugin(module)
    _registered.append(plugin)


def import_plugin(name: str) -> ModuleType:
    """Import a module for what it registers: ``package.module``, or the path of a file (``passes/mine.py``).

    Every :class:`Plugin` among the module's names is registered, too. Modules beside a file can be imported by it.
    Raises E1301 for what is no module or raises an exception, and what :func:`register_plugin` does.
    """
    if name.endswith(".py") or os.sep in name or Path(name).is_file():
        module = _guarded(name, lambda: _import_file(Path(name)))
    else:
        module = _guarded(name, lambda: _import_module(name))
    for plugin in [value for value in vars(module).values() if isinstance(value, Plugin)]:
        _guarded(name, lambda plugin=plugin: register_plugin(plugin))
    return module


def _import_module(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        file = f"{name.replace('.', os.sep)}.py"
        help = f"name the file: --import {file}" if Path(file).is_file() else None
        raise E1301.error(f"there is no module '{error.name}'", help=help) from None


def _import_file(path: Path) -> ModuleType:
    """The module of a file, under the file's name where no other module has it."""
    package = path / "__init__.py"
    file = (package if path.is_dir() else path).resolve()
    if not file.is_file():
        what = f"'{path}' is a folder without __init__.py" if path.is_dir() else f"there is no file '{path}'"
        raise E1301.error(what)
    name = re.sub(r"\W", "_", path.resolve().stem)
    if name in sys.modules or importlib.util.find_spec(name) is not None:
        other = sys.modules.get(name) or importlib.util.find_spec(name)
        origin = getattr(other, "__file__", None) or getattr(other, "origin", None)
        if origin is None or Path(origin).resolve() != file:
            name = f"etir_import_{name}"
    if name in sys.modules:
        return sys.modules[name]
    # As for a script, what lies beside the file can be imported; it comes last, so that it hides no other module.
    if str(path.resolve().parent) not in sys.path:
        sys.path.append(str(path.resolve().parent))
    loader = SourceFileLoader(name, str(file))
    places = [str(file.parent)] if path.is_dir() else None
    spec = importlib.util.spec_from_file_location(name, file, loader=loader, submodule_search_locations=places)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _guarded(name: str, load: Callable[[], R]) -> R:
    """The result of ``load``; whatever other people's code raises is a diagnostic with its place."""
    try:
        return load()
    except EtirError as error:
        note = f"while importing '{name}'"
        found = [d if d.id is E1301 else changed(d, notes=(*d.notes, note)) for d in error.diagnostics]
        raise EtirError(found) from error.__cause__
    except SyntaxError as error:
        place = None if error.filename is None else SourceLocation(error.filename, error.lineno or 0, error.offset or 0)
        raise E1301.error(
            f"'{name}' is no Python: {error.msg}", place, help="correct the line that is named"
        ) from error
    except (Exception, SystemExit) as error:  # Nothing is known about the code: any exception means the same.
        words = str(error).strip().splitlines()
        said = f"{type(error).__name__}: {words[0]}" if words else type(error).__name__
        raise E1301.error(
            f"importing '{name}' raises {said}",
            _place(error),
            help="correct the line that is named; --debug shows more",
        ) from error


def _place(error: BaseException) -> SourceLocation | None:
    """The first line outside of Python's import system and this file on the way to an exception."""
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename != __file__ and "importlib" not in frame.filename:
            return SourceLocation(frame.filename, frame.lineno or 0)
    return None
