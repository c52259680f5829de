"""Functions of the user's by name, ``module:function``, and the folders that they are imported from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from etir.diagnostics import EtirError
from etir.sweeps.errors import E1912


def imported(name: str) -> Callable[..., Any]:
    """The function. Raises error E1912 when its module cannot be imported, or has none of that name."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except EtirError:
        raise
    except Exception as error:  # Importing runs the user's code.
        raise E1912.error(f"cannot import '{name}': {type(error).__name__}: {error}") from error


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


@cache
def source_of(module: str, folder: str) -> Path | None:
    """The file of a module's source, which is not imported; None where it has none. ``folder`` is beside the plan."""
    try:
        with with_paths([folder]):
            spec = sys.modules[module].__spec__ if module in sys.modules else find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return None
    origin = None if spec is None else spec.origin
    return Path(origin) if origin is not None and Path(origin).is_file() else None
