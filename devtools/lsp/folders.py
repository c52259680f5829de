"""Texts that no editor has open: the ``.mlir`` files of a project that name a line of a Python program.

Files are looked through for the name of the program before any is parsed; what was parsed is kept until it changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from etir.devtools.lsp.actions import NewContext
from etir.devtools.lsp.document import Document

MOST_FILES = 500
"""Texts of a project that are looked through."""
LARGEST = 16 << 20
"""Bytes of a text that is looked through."""
_ASIDE = frozenset({"node_modules", "site-packages", "__pycache__"})


class Folders:
    """The texts below some folders."""

    def __init__(self, new_context: NewContext):
        self._new_context = new_context
        self._known: dict[Path, tuple[tuple[int, int], Document]] = {}

    def naming(self, program: Path, folders: Sequence[Path], but: Iterable[Path]) -> Iterator[tuple[Path, Document]]:
        """The texts, in order, that have locations in a file of the program's name; ``but`` are left out."""
        wanted, left_out = f'{program.name}":'.encode(), {*but}
        for path in _texts(folders):
            if path in left_out:
                continue
            try:
                stat = path.stat()
                key = (stat.st_mtime_ns, stat.st_size)
                known = self._known.get(path)
                if known is not None and known[0] == key:
                    yield path, known[1]
                    continue
                data = path.read_bytes() if stat.st_size <= LARGEST else b""
            except OSError:
                continue
            if wanted in data:
                document = Document(data.decode("utf-8", "replace"), self._new_context)
                self._known[path] = (key, document)
                yield path, document


def _texts(folders: Sequence[Path]) -> list[Path]:
    found: dict[Path, None] = {}
    for folder in folders:
        for at, names, files in os.walk(folder):
            names[:] = sorted(n for n in names if not n.startswith(".") and n not in _ASIDE)
            for name in sorted(files):
                if name.endswith(".mlir"):
                    found[Path(at) / name] = None
                if len(found) >= MOST_FILES:
                    return list(found)
    return list(found)
