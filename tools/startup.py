"""A faster start of the command line tools.

The framework defines some 260 dataclasses, and Python writes and compiles the source of 1,200 methods for them each
time a process starts: two fifths of what a tool takes to start. :func:`keep_dataclass_code` keeps the compiled methods
in a file of the user's cache folder, by their source, as Python itself does for modules. What is executed is the same
code.

Two more things help: imports make many objects and no garbage, so there is no point in looking for some every 700 of
them.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import dataclasses
import gc
import marshal
import os
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

COLLECT_EVERY = 200_000
"""New container objects between two runs of Python's collector in a tool; a large module has some millions."""

MOST_METHODS = 5_000
"""Methods that the file keeps; all of the framework and etir have some 1,500 different ones."""


def fast_start() -> None:
    """Prepare the process of a tool; call it before anything heavy is imported."""
    gc.set_threshold(COLLECT_EVERY)
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    keep_dataclass_code(Path(folder) / "etir" / f"dataclasses.{sys.implementation.cache_tag}.bin")


def keep_dataclass_code(path: Path) -> None:
    """Let the ``dataclasses`` module take the code of generated methods from a file, and keep new code there at exit.

    A file that is missing or damaged is ignored and written again; one that cannot be written does no harm.
    """
    if "exec" in vars(dataclasses):
        return
    known = _read(path)
    found = len(known)
    used: dict[str, None] = {}

    def execute(source: str, globals: dict[str, Any] | None = None, locals: dict[str, Any] | None = None) -> None:
        used[source] = None
        code = known.get(source)
        if code is None:
            code = known[source] = compile(source, "<string>", "exec")
        _execute(code, globals, locals)

    # The module calls the builtin by its name, so that a global of that name comes first.
    dataclasses.__dict__["exec"] = execute

    def keep() -> None:
        if len(known) > found:
            # Code of versions that are gone is dropped when it has become too much.
            _write(path, known if len(known) <= MOST_METHODS else {source: known[source] for source in used})

    atexit.register(keep)


_execute: Callable[..., None] = builtins.exec


def _read(path: Path) -> dict[str, CodeType]:
    try:
        content = path.read_bytes()
        if int.from_bytes(content[:4], "little") != zlib.crc32(content[4:]):
            return {}
        data = marshal.loads(content[4:])
    except (OSError, ValueError, EOFError, TypeError):
        return {}
    if not isinstance(data, dict) or not all(isinstance(code, CodeType) for code in data.values()):
        return {}
    return data


def _write(path: Path, known: dict[str, CodeType]) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = marshal.dumps(known)
        temporary.write_bytes(zlib.crc32(data).to_bytes(4, "little") + data)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
