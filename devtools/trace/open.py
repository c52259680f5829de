"""The trace of a file, whatever kind it is: one that was recorded, or what a program file and its ETRecord say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from etir.devtools.errors import E1420
from etir.devtools.trace.of_pte import trace_of_pte
from etir.devtools.trace.read import Trace
from etir.diagnostics import SourceLocation
from etir.emit.ptd.model import FlatTensor


def open_trace(
    data: bytes, name: str, record: str | Path | None = None, external: Mapping[str, FlatTensor] | None = None
) -> Trace:
    """The trace in a file, or one of a ``.pte`` file with its ETRecord or by itself.

    ``external`` are the ``.ptd`` files of a program that keeps weights outside of itself.
    Raises error E1420, and E0863 for a file with weights in others that are not given.
    """
    if data.startswith(b"PK"):
        return Trace(data, name)
    if data[4:8] == b"ET12" and record is not None:
        from etir.devtools.trace.of_etrecord import trace_of_etrecord

        return trace_of_etrecord(str(record), data, name, external)
    if data[4:8] == b"ET12":
        return trace_of_pte(data, name, external)
    raise E1420.error("it is neither a trace nor a .pte file", SourceLocation(name))
