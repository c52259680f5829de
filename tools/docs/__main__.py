"""``python -m etir.tools.docs PART``: print a generated part of the documentation as markdown."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from etir.tools.common import OK, Console, ToolParser, run_tool
from etir.tools.docs import PARTS, part


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit code."""
    return run_tool(_parser(), _run, argv)


def _parser() -> ToolParser:
    parser = ToolParser("etir.tools.docs", "Print a part of the documentation that the site generates, as markdown.")
    parser.add_argument("part", choices=list(PARTS), help="the part")
    return parser


def _run(arguments: argparse.Namespace, console: Console) -> int:
    sys.stdout.write(part(arguments.part))
    return OK


if __name__ == "__main__":
    sys.exit(main())
