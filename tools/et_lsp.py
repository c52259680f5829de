# PYTHON_ARGCOMPLETE_OK
"""``et-lsp``: the language server, which an editor starts. Needs the extra ``etir[lsp]``; see docs/guide/editors.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from etir.tools.common import OK, Console, ToolParser, run_tool, tool_version

_DESCRIPTION = """\
Serve an editor that has the text of programs open (.mlir), over the language server protocol.

An editor starts it and speaks with it on standard input and output; docs/guide/editors.md has the settings for VS Code,
Neovim and Emacs.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit code."""
    return run_tool(_parser(), _run, argv)


def _parser() -> ToolParser:
    parser = ToolParser("et-lsp", _DESCRIPTION)
    parser.add_argument("--stdio", action="store_true", help="speak on standard input and output: always so")
    return parser


def _run(arguments: argparse.Namespace, console: Console) -> int:
    try:
        from etir.devtools.lsp.features import make_server
        from etir.devtools.lsp.server import serve
    except ModuleNotFoundError as error:
        from etir.devtools.errors import E1431

        if error.name is None or error.name.partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise E1431.error(f"the Python package '{error.name}' is missing") from None
    from etir.tools.context import ToolContext

    serve(make_server(ToolContext, tool_version()))
    return OK


if __name__ == "__main__":
    sys.exit(main())
