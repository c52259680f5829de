"""The native module, loaded at first use: everything else works where it could not be built."""

from __future__ import annotations

import functools
from importlib import import_module
from types import ModuleType

from etir.runtime.errors import E1201, usage_failure


@functools.cache
def _load() -> ModuleType | str:
    try:
        _native = import_module("etir.runtime._native")
    except ImportError as error:
        return str(error)
    return _native


def native() -> ModuleType:
    """The native module. Raises error E1201 where it is not installed."""
    found = _load()
    if isinstance(found, str):
        raise usage_failure(E1201, f"etir was installed without its native runtime ({found})")
    return found


def is_available() -> bool:
    """Whether the native runtime is installed."""
    return not isinstance(_load(), str)


def operators() -> tuple[str, ...]:
    """Full names of the operators that the native runtime has kernels for. Raises error E1201."""
    return tuple(native().operators())
