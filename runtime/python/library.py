"""The native module, loaded at first use: everything else works where it could not be built. What else is native:
libraries of kernels and backends, and the headers and libraries for C++ applications."""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from etir.runtime.errors import E1201, E1203, E1214, E1215, RuntimeFailure, usage_failure


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
    """Full names of the operators that the native runtime has kernels for, those of loaded libraries first.

    Raises error E1201.
    """
    return tuple(dict.fromkeys(native().operators()))


@dataclass(frozen=True)
class Library:
    """What a library of kernels and backends has, by name."""

    operators: tuple[str, ...]
    backends: tuple[str, ...]


def load_library(path: str | os.PathLike[str]) -> Library:
    """Load a shared library with kernels or backends of your own (docs/guide/cpp.md), for as long as the process runs.

    Programs that are loaded from then on find them, before those that are built in and those of libraries that were
    loaded earlier; programs that are loaded already do not change. A library that is loaded already is left as it is.

    Raises RuntimeFailure: E1203 where there is no such file, E1214 for a file that is no library of etir's or was built
    against another version, E1201.
    """
    file = os.fspath(path)
    module = native()
    if not Path(file).is_file():
        raise usage_failure(E1203, f"there is no library '{file}'", help="pass the path of a shared library")
    try:
        operators, backends = module.load_library(file)
    except RuntimeFailure as error:
        raise usage_failure(E1214, error.diagnostics[0].message) from None
    return Library(tuple(operators), tuple(backends))


def cmake_dir() -> Path:
    """The folder of etir's CMake package, for ``cmake -Detir_DIR=...`` or ``CMAKE_PREFIX_PATH``.

    ``python -m etir --cmake-dir`` prints it. Raises error E1215 where etir was installed without the C++ half.
    """
    found = _load()
    # The whole package's folders: an editable installation has more than one.
    places = [Path(entry) for entry in sys.modules[__name__.partition(".")[0]].__path__]
    if not isinstance(found, str) and found.__file__ is not None:
        places.append(Path(found.__file__).resolve().parents[1])
    for place in places:
        folder = place / "share" / "cmake" / "etir"
        if (folder / "etir-config.cmake").is_file():
            return folder
    raise usage_failure(E1215, "this etir has no C++ headers and libraries")
