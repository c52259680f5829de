"""``et-compile``: an exported program (``.pt2``) to a ``.pte`` file in one go, with a report of what happened.

::

    et-compile model.pt2 -o model.pte --target executorch --report
    et-compile edited.mlir -o model.pte

The same as ``etir.compile(torch.export.load("model.pt2"), ...)``. Text goes on from the level that it is at, so that a
program can be stopped anywhere, edited, and compiled to the end; text at the edge level or below
needs no torch.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from etir.tools.common import OK, Console, ToolParser, run_tool, write_output
from etir.tools.errors import E0902, E0903

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from xdsl.dialects.builtin import ModuleOp


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit code."""
    return run_tool(_parser(), _run, argv)


def _parser() -> ToolParser:
    parser = ToolParser("et-compile", "Compile an exported program (.pt2), or the text of a module, to a .pte file.")
    parser.add_argument("input", help="what torch.export.save wrote, or a module's text at any level")
    parser.add_argument("-o", dest="output", required=True, metavar="FILE", help="the .pte file to write")
    parser.add_argument("--target", default="executorch", help="whose kernels to link against (default: executorch)")
    parser.add_argument(
        "--delegate", action="append", default=[], metavar="NAME", help="a backend to hand work to; in this order"
    )
    parser.add_argument(
        "--weights",
        action="append",
        default=[],
        metavar="FILE",
        help="the weights of a module's text (default: INPUT with the suffix .safetensors)",
    )
    parser.add_argument("--dump-dir", metavar="DIR", help="write the IR after every pass, in numbered files")
    parser.add_argument(
        "--report", nargs="?", const="text", choices=("text", "json"), help="print what the program is made of"
    )
    parser.add_argument(
        "--memory-header", metavar="FILE", help="write the memory that etir's runtime takes, as a C header"
    )
    return parser


def _run(arguments: argparse.Namespace, console: Console) -> int:
    from etir.driver import compile_program

    program = compile_program(
        _load(arguments, console),
        target=arguments.target,
        delegates=arguments.delegate,
        dump_dir=arguments.dump_dir,
    )
    try:
        program.save(arguments.output)
    except OSError as error:
        raise E0903.error(f"cannot write '{arguments.output}': {error.strerror or error}") from None
    if arguments.memory_header is not None:
        from etir.emit.runtime_memory import memory_header

        write_output(arguments.memory_header, memory_header(program.runtime_memory()))
    if arguments.report is not None:
        report = program.report()
        print(report.to_json() if arguments.report == "json" else str(report))
    return OK


def _load(arguments: argparse.Namespace, console: Console) -> ExportedProgram | ModuleOp:
    """The program of the input: an exported program by its suffix or its first bytes, text otherwise."""
    path = Path(arguments.input)
    try:
        is_exported = path.suffix == ".pt2" or (path.is_file() and path.open("rb").read(2) == b"PK")
    except OSError as error:
        raise E0902.error(f"cannot read '{path}': {error.strerror or error}") from None
    if is_exported:
        from etir.tools.exported import load_exported_program

        return load_exported_program(arguments.input)
    from etir.tools.context import ToolContext
    from etir.tools.files import read_module

    return read_module(arguments.input, arguments.weights, ToolContext(), console)


if __name__ == "__main__":
    sys.exit(main())
