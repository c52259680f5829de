"""What ``et-explore`` and ``et-inspect`` open: a trace, or a ``.pte`` file with or without its ETRecord."""

from __future__ import annotations

from typing import TYPE_CHECKING

from etir.tools.common import ToolParser, read_bytes, read_head

if TYPE_CHECKING:
    from etir.devtools.trace.read import Trace


def add_record_argument(parser: ToolParser) -> None:
    """Add ``--record``."""
    parser.add_argument("--record", metavar="FILE", help="the ETRecord of a .pte file of the stock pipeline")


def opened_trace(path: str, record: str | None) -> Trace:
    """The trace of a file that a command line names. Raises error E0902 for a file that cannot be read."""
    from etir.devtools.trace.open import open_trace

    if record is not None:
        read_head(record)
    name, data = read_bytes(path)
    return open_trace(data, name, record)
