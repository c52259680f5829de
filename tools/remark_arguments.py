"""``--remarks-filter`` and its kin, of ``et-opt`` and ``et-compile``: what passes did, and what they left alone."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, Any

from etir.tools.common import usage_error, write_output

if TYPE_CHECKING:
    from etir.passes.infra.remarks import Kind, Remark, Remarks

_HELP = {
    "": "say what passes rewrote and left alone, of passes and patterns (PASS:PATTERN) that the expression fits",
    "-passed": "the same of rewrites only",
    "-missed": "the same of what was left alone: near misses of patterns, what backends refuse",
    "-failed": "the same of passes that failed",
}


def add_remark_arguments(parser: Any) -> None:
    """The options, to a parser or a group of one."""
    for suffix, text in _HELP.items():
        parser.add_argument(f"--remarks-filter{suffix}", metavar="REGEX", help=text)
    parser.add_argument(
        "--remark-format",
        "--remarks-format",
        choices=("emitRemark", "text", "yaml", "json"),
        default="emitRemark",
        help="lines of text (default), LLVM's optimization records, or JSON lines",
    )
    parser.add_argument("--remarks-output-file", metavar="FILE", help="where remarks go (default: standard error)")


class RemarkOutput:
    """Remarks as the options want them: at once to standard error, or to a file at the end."""

    def __init__(self, arguments: argparse.Namespace):
        self._path: str | None = arguments.remarks_output_file
        self._format = "emitRemark" if arguments.remark_format == "text" else arguments.remark_format
        self._lines: list[str] = []
        self.instrument = self._made(arguments)

    def _made(self, arguments: argparse.Namespace) -> Remarks | None:
        given = {suffix: getattr(arguments, f"remarks_filter{suffix}".replace("-", "_")) for suffix in _HELP}
        if all(text is None for text in given.values()):
            if self._path is not None:
                raise usage_error("--remarks-output-file needs a filter: --remarks-filter=REGEX")
            return None
        from etir.passes.infra.remarks import KINDS, Remarks

        filters: dict[Kind, re.Pattern[str]] = {}
        for kind in KINDS:
            text = given[f"-{kind}"] if given[f"-{kind}"] is not None else given[""]
            if text is None:
                continue
            try:
                filters[kind] = re.compile(text)
            except re.error as error:
                raise usage_error(f"the filter of remarks '{text}' is no regular expression: {error}") from None
        return Remarks(filters, self._tell)

    def _tell(self, remark: Remark) -> None:
        text = remark.render(self._format)
        if self._path is None:
            sys.stderr.write(text)
        else:
            self._lines.append(text)

    def finish(self) -> None:
        """Write the file, if one was asked for. Raises error E0903."""
        if self._path is not None:
            write_output(self._path, "".join(self._lines))
