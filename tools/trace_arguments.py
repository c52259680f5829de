"""What ``et-explore`` and ``et-inspect`` open: a trace, or a ``.pte`` file with or without its ETRecord."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from etir.tools.common import ToolParser, read_bytes, read_head

if TYPE_CHECKING:
    from etir.devtools.trace.read import Trace


def add_record_argument(parser: ToolParser) -> None:
    """Add ``--record`` and ``--data``."""
    parser.add_argument(
        "--data", action="append", default=[], metavar="FILE", help=".ptd file with external weights of a .pte file"
    )
    parser.add_argument("--record", metavar="FILE", help="the ETRecord of a .pte file of the stock pipeline")


def opened_trace(path: str, record: str | None, external: Sequence[str] = ()) -> Trace:
    """The trace of a file that a command line names; ``external`` are its ``.ptd`` files.

    Raises error E0902 for a file that cannot be read.
    """
    from etir.devtools.trace.open import open_trace
    from etir.emit.ptd.reader import read_ptd

    if record is not None:
        read_head(record)
    name, data = read_bytes(path)
    return open_trace(data, name, record, {file: read_ptd(read_bytes(file)[1], file) for file in external})
