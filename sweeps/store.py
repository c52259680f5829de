"""Artefacts in a folder, named by the digest of all that they were made from.

A file is there whole or not at all, so that any number of sweeps, on any number of machines that share the folder, may
use it at the same time. ``KEY.bin`` is what later stages read, ``KEY.pte`` the file that a cell has made, with its
external weights in ``KEY.TAG.ptd``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path


class Store:
    """The folder. Reading raises ``OSError`` for what is not there, writing for a disk that is full."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def path(self, key: str, suffix: str = "bin") -> Path:
        """Where an artefact is, or would be."""
        return self.folder / key[:2] / f"{key}.{suffix}"

    def has(self, key: str) -> bool:
        """Whether a job of that key was done."""
        return self.path(key).is_file()

    def read(self, key: str, suffix: str = "bin") -> bytes:
        """The bytes."""
        return self.path(key, suffix).read_bytes()

    def write(self, key: str, data: bytes, suffix: str = "bin") -> None:
        """Add an artefact; what has the same key has the same bytes."""
        from etir.dialects.et.weights import write_atomically  # A worker of cells that write nothing needs no xDSL.

        path = self.path(key, suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, [data])

    def suffixes(self, key: str) -> list[str]:
        """The suffixes of all artefacts of a key, ``bin`` last: where it is, the others are."""
        found = sorted(path.name.removeprefix(f"{key}.") for path in self.path(key).parent.glob(f"{key}.*"))
        return sorted(found, key=lambda suffix: suffix == "bin")

    def external(self, key: str) -> list[bytes]:
        """The files of external weights of the program that a cell has made."""
        return [self.read(key, suffix) for suffix in self.suffixes(key) if suffix.endswith(".ptd")]

    def check(self) -> None:
        """Make the folder. Raises ``OSError`` when that, or a file in it, cannot be made."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # A name of its own: sweeps in threads of one process, or on machines that share the folder, probe at once.
        with tempfile.NamedTemporaryFile(dir=self.folder, prefix=".probe-") as probe:
            probe.write(b"x")
            probe.flush()
