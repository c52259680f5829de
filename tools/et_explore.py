# PYTHON_ARGCOMPLETE_OK
"""``et-explore``: one HTML file that shows a program, where its time goes, and what fills its memory.

::

    et-explore model.trace -o model.html
    et-explore model.trace --profile run.etdp --values run.bin -o model.html
    et-explore model.pte -o model.html
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from etir.tools.common import OK, Console, ToolParser, check_output, read_bytes, read_head, run_tool, write_output


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit code."""
    return run_tool(_parser(), _run, argv)


def _parser() -> ToolParser:
    parser = ToolParser("et-explore", "Write one HTML file that shows a program at every level, its times and memory.")
    parser.add_argument("input", nargs="?", help="a trace, or a .pte file")
    parser.add_argument("-o", "--output", metavar="FILE", help="the page (default: the input's name with .html)")
    parser.add_argument("--trace", metavar="FILE", help="the same as the input")
    parser.add_argument("--record", metavar="FILE", help="the ETRecord of a .pte file of the stock pipeline")
    parser.add_argument(
        "--profile", action="append", default=[], metavar="FILE", help="an ETDump; repeat it for several methods"
    )
    parser.add_argument("--values", metavar="FILE", help="the values that the first profile was written with")
    parser.add_argument("--compare", metavar="FILE", help="results of a comparison, as JSON")
    parser.add_argument(
        "--sources",
        action="append",
        metavar="DIR",
        help="where source files are looked for (default: here, and in the installed packages)",
    )
    parser.add_argument("--no-sources", action="store_true", help="keep the texts of source files out of the page")
    parser.add_argument("--title", default="", metavar="TEXT", help="name of the page (default: that of the file)")
    return parser


def _run(arguments: argparse.Namespace, console: Console) -> int:
    from etir.devtools.page.explore import explore, open_trace

    given = [path for path in (arguments.input, arguments.trace) if path is not None]
    if len(given) != 1:
        from etir.tools.common import usage_error

        raise usage_error("pass one trace or .pte file")
    if arguments.output is None:
        arguments.output = "page.html" if given[0] == "-" else str(Path(given[0]).with_suffix(".html"))
    check_output(arguments.output)
    for path in (*arguments.profile, arguments.values, arguments.compare, arguments.record):
        if path is not None:
            read_head(path)
    name, data = read_bytes(given[0])
    page = explore(
        open_trace(data, name, arguments.record),
        profile=arguments.profile,
        values=arguments.values,
        compare=arguments.compare,
        sources=[] if arguments.no_sources else arguments.sources,
        title=arguments.title,
    )
    write_output(arguments.output, page)
    return OK


if __name__ == "__main__":
    sys.exit(main())
