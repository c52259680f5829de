"""``et-compile``: an exported program (``.pt2``) to a ``.pte`` file in one go, with a report of what happened.

::

    et-compile model.pt2 -o model.pte --target executorch --report

The same as ``etir.compile(torch.export.load("model.pt2"), ...)``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from etir.tools.common import OK, Console, ToolParser, run_tool
from etir.tools.errors import E0903


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit code."""
    return run_tool(_parser(), _run, argv)


def _parser() -> ToolParser:
    parser = ToolParser("et-compile", "Compile an exported program (.pt2) to a .pte file.")
    parser.add_argument("input", help="what torch.export.save wrote")
    parser.add_argument("-o", dest="output", required=True, metavar="FILE", help="the .pte file to write")
    parser.add_argument("--target", default="executorch", help="whose kernels to link against (default: executorch)")
    parser.add_argument(
        "--delegate", action="append", default=[], metavar="NAME", help="a backend to hand work to; in this order"
    )
    parser.add_argument("--dump-dir", metavar="DIR", help="write the IR after every pass, in numbered files")
    parser.add_argument(
        "--report", nargs="?", const="text", choices=("text", "json"), help="print what the program is made of"
    )
    return parser


def _run(arguments: argparse.Namespace, console: Console) -> int:
    from etir.driver import compile_program
    from etir.tools.exported import load_exported_program

    program = compile_program(
        load_exported_program(arguments.input),
        target=arguments.target,
        delegates=arguments.delegate,
        dump_dir=arguments.dump_dir,
    )
    try:
        program.save(arguments.output)
    except OSError as error:
        raise E0903.error(f"cannot write '{arguments.output}': {error.strerror or error}") from None
    if arguments.report is not None:
        report = program.report()
        print(report.to_json() if arguments.report == "json" else str(report))
    return OK


if __name__ == "__main__":
    sys.exit(main())
