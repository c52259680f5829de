# PYTHON_ARGCOMPLETE_OK
"""``et-bisect``: the pass, and in it the rewrite, after which a program computes something else.

::

    et-bisect model.mlir --compile-to=et --inputs x.npz
    et-bisect edge.mlir -p 'fold-batch-norm,cse' --inputs a.npz --inputs b.npz --tolerance 1e-3

What the program gives before the first pass is what it should give. The module before and after the guilty rewrite is
written with its weights, and the command that reruns it is printed. Of a delegate it is the function alone, where its
backend lowers that by passes, which are searched like the others.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from etir.tools.common import FAILED, OK, Console, ToolParser, make_folder, run_tool, usage_error
from etir.tools.search_arguments import add_search_arguments, module_and_samples, passes_of


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit code."""
    return run_tool(_parser(), _run, argv)


def _parser() -> ToolParser:
    parser = ToolParser("et-bisect", "Find the pass and the rewrite after which a program computes something else.")
    parser.add_argument(
        "--output-dir", default="bisect", metavar="DIR", help="where before.mlir and after.mlir go (default: bisect)"
    )
    add_search_arguments(parser)
    return parser


def _run(arguments: argparse.Namespace, console: Console) -> int:
    from etir.devtools.bisect import bisect
    from etir.devtools.checks import SameNumbers
    from etir.tools.context import ToolContext

    if not arguments.inputs:
        raise usage_error("name what to run the program on: --inputs FILE.npz, once for each sample")
    ctx = ToolContext()
    module, samples = module_and_samples(arguments, ctx, console)
    passes = passes_of(arguments, module)
    start = time.monotonic()
    check = SameNumbers.of(module, samples, arguments.method, arguments.tolerance)
    found = bisect(ctx, module, passes, check)
    asked = f"{check.count} checks, {time.monotonic() - start:.0f} s"
    if found is None:
        print(f"{len(passes)} passes leave the results as they are, within {arguments.tolerance:g} ({asked})")
        return OK
    folder = Path(arguments.output_dir)
    make_folder(arguments.output_dir)
    found.write(folder)
    print(f"{found} ({asked})")
    if found.function and found.inside is None:
        print(
            f"note: '{found.function}' is lowered in one piece; et-compare of the program and its file looks at every "
            "operation inside of it"
        )
    print(f"wrote {folder / 'before.mlir'} {folder / 'after.mlir'}   rerun: {found.rerun}")
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
