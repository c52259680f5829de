# PYTHON_ARGCOMPLETE_OK
"""``et-reduce``: from a program that fails to the smallest one that still does.

::

    et-reduce bisect/before.mlir -p 'fold-batch-norm' --inputs x.npz -o small.mlir
    et-reduce model.mlir --compile-to=et --error E0505 -o small.mlir
    et-reduce model.mlir --check './fails.sh {}' -o small.mlir

What fails is said by one of three: passes change what the program computes (``--inputs``), passes raise an error
(``--error``), or a command ends with 0 (``--check``: exit code 0 means "still fails"; ``{}`` is the file, ``{inputs}``
are the samples). Parts of a program read what is not in them as inputs, which are written beside the result.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from etir.tools.common import OK, Console, ToolParser, check_output, run_tool, usage_error
from etir.tools.errors import E0903
from etir.tools.search_arguments import add_search_arguments, module_and_samples, passes_of, require_inputs_that_fit

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from etir.devtools.reduction import StillFails
    from etir.dialects.context import EtContext


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit code."""
    return run_tool(_parser(), _run, argv)


def _parser() -> ToolParser:
    parser = ToolParser("et-reduce", "Make a program that fails as small as it can be and still fail.")
    parser.add_argument("-o", dest="output", required=True, metavar="FILE", help="the text to write, with its weights")
    parser.add_argument("--error", metavar="ID", help="the program fails when the passes raise this error")
    parser.add_argument(
        "--check", metavar="COMMAND", help="the program fails when this ends with 0; {} is the file, {inputs} samples"
    )
    add_search_arguments(parser)
    return parser


def _run(arguments: argparse.Namespace, console: Console) -> int:
    from etir.devtools.failures import write_candidate
    from etir.devtools.reduction import reduce
    from etir.tools.context import ToolContext

    check_output(arguments.output)
    ctx = ToolContext()
    module, samples = module_and_samples(arguments, ctx, console)
    start = time.monotonic()
    require_inputs_that_fit(module, samples, arguments.method)
    found = reduce(module, _failure(arguments, ctx, module), samples, arguments.method)
    try:
        inputs = write_candidate(found.candidate, Path(arguments.output))
    except OSError as error:
        raise E0903.error(f"cannot write '{arguments.output}': {error.strerror or error}") from None
    print(f"{found}, {time.monotonic() - start:.0f} s")
    print(f"wrote {' '.join([arguments.output, *map(str, inputs)])}")
    return OK


def _failure(arguments: argparse.Namespace, ctx: EtContext, module: ModuleOp) -> StillFails:
    from etir.devtools.failures import ChangesNumbers, Command, Raises

    if arguments.check is not None:
        if arguments.error is not None or arguments.pipeline is not None or arguments.compile_to is not None:
            raise usage_error("--check is a check of its own: leave out --error, -p and --compile-to")
        return Command(arguments.check)
    passes = _passes(arguments, module)
    if arguments.error is not None:
        return Raises(ctx, passes, arguments.error, arguments.method)
    if not arguments.inputs:
        raise usage_error("say what fails: --inputs FILE.npz to compare numbers, --error ID, or --check COMMAND")
    return ChangesNumbers(ctx, passes, arguments.method, arguments.tolerance)


def _passes(arguments: argparse.Namespace, module: ModuleOp) -> tuple[ModulePass, ...]:
    if arguments.error is not None and arguments.pipeline is None and arguments.compile_to is None:
        return ()
    return passes_of(arguments, module)


if __name__ == "__main__":
    sys.exit(main())
