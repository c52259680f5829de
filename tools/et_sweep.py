# PYTHON_ARGCOMPLETE_OK
"""``et-sweep``: every cell of a plan compiled, run and measured, and what came of it.

::

    et-sweep plan.toml
    et-sweep plan.toml -o zoo.sqlite --ray 10.0.0.1:6379
    et-sweep report zoo.sqlite
    et-sweep report zoo.sqlite --against before.sqlite --format html -o zoo.html
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from etir.tools.common import OK, Console, ToolParser, check_output, run_tool, usage_error, write_output

UNFINISHED = 1
"""Exit code when a cell is not ok and ``--check`` asks for it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["report"]:
        return run_tool(_report_parser(), _report, words[1:])
    return run_tool(_parser(), _run, words)


def _parser() -> ToolParser:
    parser = ToolParser(
        "et-sweep",
        "Run every cell of a plan: programs, targets, delegates, recipes and options.",
        "et-sweep report RESULTS shows what came of it; et-sweep report --help lists its arguments.",
    )
    parser.add_argument("plan", help="a TOML file")
    parser.add_argument(
        "-o",
        "--output",
        default="results.sqlite",
        metavar="FILE",
        help="the results; cells whose rows are there are not run again (default: results.sqlite)",
    )
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="worker processes; 0 is this process (default: one for each core)"
    )
    parser.add_argument("--ray", metavar="ADDRESS", help="run on the Ray cluster at HOST:PORT, or auto")
    parser.add_argument(
        "--store", metavar="DIR", help="the folder of artefacts (default: that of the results, with .d)"
    )
    parser.add_argument(
        "--shared-store", action="store_true", help="all nodes of the cluster see the folder of artefacts: use it there"
    )
    parser.add_argument("--only", metavar="PATTERN", help="cells whose names fit: 'digits/*/none/*'")
    parser.add_argument("--retry", action="store_true", help="run cells again that ended in anything but ok")
    parser.add_argument("--list", action="store_true", help="print the names of the cells, and run none")
    parser.add_argument("--quiet", action="store_true", help="say nothing of single cells")
    parser.add_argument("--check", action="store_true", help="exit with 1 unless every row of the plan is ok")
    return parser


def _report_parser() -> ToolParser:
    parser = ToolParser("et-sweep report", "Show results: a table, CSV, or a page with the Pareto front.")
    parser.add_argument("results", help="the file that et-sweep has written")
    parser.add_argument("--against", metavar="FILE", help="results of another sweep: what is different")
    parser.add_argument(
        "--format",
        choices=("table", "csv", "html"),
        help="default: html for -o FILE.html, csv for FILE.csv, else table",
    )
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="default: standard output")
    parser.add_argument("--only", metavar="PATTERN", help="cells whose names fit")
    parser.add_argument(
        "--plan", metavar="PLAN", help="the rows of this plan as this compiler makes them, not the last of each cell"
    )
    parser.add_argument("--title", default="", metavar="TEXT", help="name of the page (default: that of the plan)")
    return parser


def _run(arguments: argparse.Namespace, console: Console) -> int:
    from etir.sweeps.jobs import Outcome
    from etir.sweeps.reader import read_plan
    from etir.sweeps.run import sweep
    from etir.tools.common import read_text

    read_text(arguments.plan, console, may_be_empty=False)
    plan = read_plan(arguments.plan, only=arguments.only)
    if arguments.list:
        print("\n".join(cell.name for _, cell in plan.cells()))
        return OK
    if arguments.shared_store and arguments.ray is None:
        raise usage_error("--shared-store goes with --ray ADDRESS")
    check_output(arguments.output)

    def watch(name: str, outcome: Outcome) -> None:
        first = (outcome.message.splitlines() or [""])[0]
        print(f"{name}: {outcome.status}{f', {first}' if first else ''}", file=sys.stderr, flush=True)

    try:
        found = sweep(
            plan,
            arguments.output,
            jobs=arguments.jobs,
            ray=arguments.ray,
            store=arguments.store,
            shared=arguments.shared_store,
            retry=arguments.retry,
            watch=None if arguments.quiet else watch,
        )
    except KeyboardInterrupt:
        print("stopped; rows that are there stay, and the same command goes on with the others", file=sys.stderr)
        raise
    print(found)
    if not arguments.check:
        return OK
    return OK if all(row.is_good for row in found.rows()) else UNFINISHED


def _report(arguments: argparse.Namespace, console: Console) -> int:
    from fnmatch import fnmatchcase

    from etir.sweeps.reader import read_plan
    from etir.sweeps.report import changes, changes_text, csv_text, table
    from etir.sweeps.results import Results, Row
    from etir.sweeps.run import ids_of

    def rows_of(path: str, ids: frozenset[str] | None = None) -> list[Row]:
        with Results(path, read_only=True) as results:
            found = results.rows(ids=ids)
            return [row for row in found if arguments.only is None or fnmatchcase(row.name, arguments.only)]

    suffixes = {"html": "html", "csv": "csv"}
    form = arguments.format or suffixes.get(arguments.output.rpartition(".")[2], "table")
    check_output(None if arguments.output == "-" else arguments.output)
    rows = rows_of(arguments.results, None if arguments.plan is None else ids_of(read_plan(arguments.plan)))
    against = None if arguments.against is None else rows_of(arguments.against)
    if form == "html":
        from etir.sweeps.page import sweep_page

        text = sweep_page(rows, against, arguments.title)
    elif against is not None:
        if form == "csv":
            raise usage_error("--against prints text or makes a page; CSV files of both sweeps can be joined by column")
        text = changes_text(changes(rows, against), rows, against) + "\n"
    else:
        text = csv_text(rows) if form == "csv" else table(rows) + "\n"
    write_output(arguments.output, text)
    return OK


if __name__ == "__main__":
    sys.exit(main())
