"""The file of a trace: a zip that is the same for the same contents, and that a reader treats as hostile.

Writing: entries in order, deflated, with one date. Reading: a list of names that a trace can have, a limit on how many
entries there are and how large they become, so that a small file cannot fill the memory.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Mapping

from etir.devtools.errors import E1401, E1403
from etir.diagnostics import SourceLocation

DATE = (1980, 1, 1, 0, 0, 0)
ETRECORD = "ETRECORD_V0"
"""The entry that says of a zip file that it is an ETRecord."""
MAX_ENTRIES = 4096
MAX_BYTES = 2 << 30
"""Of one entry and of all together, unpacked."""

_NAME = re.compile(r"[a-z]+\.json|(?:levels|changes|passes|sources)/[\w.+-]{1,200}|weights\.safetensors")


def pack(entries: Mapping[str, str | bytes]) -> bytes:
    """The bytes of a trace with these entries."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, data in entries.items():
            info = zipfile.ZipInfo(name, DATE)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            info.create_system = 3
            archive.writestr(info, data)
    return stream.getvalue()


class Container:
    """The entries of a trace's bytes, unpacked when they are asked for. Raises errors E1401 and E1403."""

    def __init__(self, data: bytes, name: str):
        self.name = name
        if not data.startswith(b"PK"):
            raise E1401.error("it is no zip file", SourceLocation(name))
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(data))
            infos = self._archive.infolist()
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, EOFError) as error:
            raise E1403.error(f"the list of its entries cannot be read: {error}", SourceLocation(name)) from None
        self._sizes: dict[str, int] = {}
        if len(infos) > MAX_ENTRIES:
            raise E1401.error(f"it has {len(infos)} entries, a trace has up to {MAX_ENTRIES}", SourceLocation(name))
        if any(info.filename == ETRECORD for info in infos):
            raise E1401.error(
                "it is an ETRecord, which goes with a program",
                SourceLocation(name),
                help=f"pass the .pte file, and this one with --record {name}",
            )
        for info in infos:
            if _NAME.fullmatch(info.filename) is None or info.filename in self._sizes:
                raise E1401.error(f"its entry {info.filename!r} is none of a trace", SourceLocation(name))
            self._sizes[info.filename] = info.file_size
        if sum(self._sizes.values()) > MAX_BYTES:
            raise E1403.error(f"it unpacks to more than {MAX_BYTES} bytes", SourceLocation(name))

    @property
    def names(self) -> list[str]:
        """The entries, in the order of the file."""
        return list(self._sizes)

    def read(self, name: str) -> bytes:
        """One entry. Raises error E1403 when it is not there or damaged."""
        if name not in self._sizes:
            raise E1403.error(f"it has no entry '{name}'", SourceLocation(self.name))
        try:
            with self._archive.open(name) as file:
                data = file.read(self._sizes[name] + 1)
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            ValueError,
            OSError,
            NotImplementedError,
            RuntimeError,
        ) as error:
            raise E1403.error(f"its entry '{name}' cannot be unpacked: {error}", SourceLocation(self.name)) from None
        if len(data) != self._sizes[name]:
            message = f"its entry '{name}' does not have the {self._sizes[name]} bytes that it says"
            raise E1403.error(message, SourceLocation(self.name))
        return data
