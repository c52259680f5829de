"""Functions of the user's by name, ``module:function``, and the folders that they are imported from."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module, invalidate_caches
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from etir.diagnostics import EtirError
from etir.sweeps.errors import E1912

_IMPORTED: dict[str, tuple[str, int, int] | None] = {}
"""Modules that were imported by name, each with its file as it was then: path, time of change in ns, bytes."""


def imported(name: str) -> Callable[..., Any]:
    """The function. Raises error E1912 when its module cannot be imported, or has none of that name."""
    module, _, attribute = name.partition(":")
    try:
        with _without_bytecode():
            found = import_module(module)
        if module not in _IMPORTED:
            origin = found.__spec__.origin if found.__spec__ is not None else None
            _IMPORTED[module] = _stamp(origin)
        return getattr(found, attribute)
    except EtirError:
        raise
    except Exception as error:  # Importing runs the user's code.
        raise E1912.error(f"cannot import '{name}': {type(error).__name__}: {error}") from error


@contextmanager
def _without_bytecode() -> Iterator[None]:
    """Leave no bytecode of the user's modules: Python takes it for that of a file which was changed within the same
    second and is as long as before, and the next process would run what no longer stands in the file.
    """
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def _stamp(file: str | None) -> tuple[str, int, int] | None:
    try:
        status = os.stat(file or "")
    except OSError:
        return None
    return str(file), status.st_mtime_ns, status.st_size


def forget_changed(module: str, folder: str) -> None:
    """Have a module imported again that :func:`imported` has imported for an earlier plan of this process, when its
    file was changed since, or when ``folder``, that of another plan, has another module of its name.

    The ids of rows have the contents of files: what runs has to be what is in them.
    """
    before = _IMPORTED.get(module)
    if before is None:
        return
    package = sys.modules.get(module.rpartition(".")[0])
    with with_paths([folder]):
        spec = PathFinder.find_spec(module, None if package is None else package.__path__)
    if spec is not None and _stamp(spec.origin) != before:
        sys.modules.pop(module, None)
        del _IMPORTED[module]
        invalidate_caches()


@contextmanager
def with_paths(folders: Sequence[str]) -> Iterator[None]:
    """Let modules in these folders be found, after those of Python's path."""
    added = [folder for folder in folders if folder not in sys.path]
    sys.path.extend(added)
    try:
        yield
    finally:
        for folder in added:
            sys.path.remove(folder)


def source_of(module: str, folder: str) -> Path | None:
    """The file of a module's source, which is not imported; None where it has none. ``folder`` is beside the plan."""
    try:
        with with_paths([folder]):
            spec = sys.modules[module].__spec__ if module in sys.modules else find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return None
    origin = None if spec is None else spec.origin
    return Path(origin) if origin is not None and Path(origin).is_file() else None
