"""The source files that a trace names, where they are found on this machine.

A trace is somebody's file: its paths are looked up below the given folders only, and nothing but Python is read.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Sequence
from pathlib import Path

LARGEST = 2 << 20
"""Bytes of a file that is shown."""


def default_roots() -> list[Path]:
    """Where the paths of a trace begin: the working directory and the folders of installed packages."""
    found = [Path.cwd(), *(Path(sysconfig.get_path(name)) for name in ("purelib", "platlib"))]
    return list(dict.fromkeys(found))


def source_lines(path: str, roots: Sequence[Path]) -> list[str] | None:
    """The lines of a file, or None when it is not below one of the folders."""
    if not path.endswith(".py") or "\0" in path:
        return None
    for root in roots:
        try:
            base = root.resolve()
            file = (base / path).resolve()
            if not file.is_relative_to(base) or not file.is_file() or file.stat().st_size > LARGEST:
                continue
            return file.read_text(encoding="utf-8", errors="replace").splitlines()
        except (OSError, RuntimeError, ValueError):
            continue
    return None
