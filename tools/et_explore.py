# PYTHON_ARGCOMPLETE_OK
"""``et-explore``: one HTML file that shows a program, where its time goes, and what fills its memory.

::

    et-explore model.trace -o model.html
    et-explore model.trace --profile run.etdp --values run.bin -o model.html
    et-explore model.pte -o model.html
    et-explore model.trace --profile run.etdp --format perfetto -o run.json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from etir.tools.common import (
    OK,
    Console,
    ToolParser,
    check_output,
    read_head,
    run_tool,
    usage_error,
    write_output,
)
from etir.tools.trace_arguments import add_record_argument, opened_trace

if TYPE_CHECKING:
    from etir.devtools.trace.read import Trace


SUFFIXES = {"perfetto": ".perfetto.json", "model-explorer": ".graph.json", "svg": ".svg"}
"""Of the files that other viewers open, by format."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit code."""
    return run_tool(_parser(), _run, argv)


def _parser() -> ToolParser:
    parser = ToolParser("et-explore", "Write one HTML file that shows a program at every level, its times and memory.")
    parser.add_argument("input", nargs="?", help="a trace, or a .pte file")
    parser.add_argument("-o", "--output", metavar="FILE", help="the page (default: the input's name with .html)")
    parser.add_argument("--trace", metavar="FILE", help="the same as the input")
    add_record_argument(parser)
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
    parser.add_argument(
        "--format",
        choices=("html", *SUFFIXES),
        default="html",
        help="a page (default), events for Perfetto, graphs for Model Explorer, or a picture of the memory plan",
    )
    parser.add_argument("--method", help="svg: whose memory plan (default: the first one)")
    parser.add_argument("--title", default="", metavar="TEXT", help="name of the page (default: that of the file)")
    return parser


def _run(arguments: argparse.Namespace, console: Console) -> int:
    from etir.devtools.page.explore import explore

    given = [path for path in (arguments.input, arguments.trace) if path is not None]
    if len(given) != 1:
        raise usage_error("pass one trace or .pte file")
    if arguments.output is None:
        suffix = SUFFIXES.get(arguments.format, ".html")
        arguments.output = f"page{suffix}" if given[0] == "-" else str(Path(given[0]).with_suffix(suffix))
    check_output(arguments.output)
    for path in (*arguments.profile, arguments.values, arguments.compare):
        if path is not None:
            read_head(path)
    trace = opened_trace(given[0], arguments.record, arguments.data)
    if arguments.format != "html":
        write_output(arguments.output, _exported(arguments, trace))
        return OK
    page = explore(
        trace,
        profile=arguments.profile,
        values=arguments.values,
        compare=arguments.compare,
        sources=[] if arguments.no_sources else arguments.sources,
        title=arguments.title,
    )
    write_output(arguments.output, page)
    return OK


def _exported(arguments: argparse.Namespace, trace: Trace) -> str:
    from etir.devtools import exports
    from etir.devtools.memory_picture import memory_svg
    from etir.devtools.page.explore import inspectors_of

    if arguments.format == "svg":
        methods = list(trace.memory)
        method = arguments.method or next(iter(methods), "forward")
        if method not in methods:
            raise usage_error(f"there is no method '{method}'; there is {', '.join(methods) or 'none'}")
        return memory_svg(trace, method)
    inspectors = inspectors_of(trace, arguments.profile)
    if arguments.format == "perfetto":
        return exports.perfetto(trace, inspectors)
    return exports.model_explorer(trace, inspectors, arguments.title or Path(trace.name).name)


if __name__ == "__main__":
    sys.exit(main())
