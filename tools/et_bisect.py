# PYTHON_ARGCOMPLETE_OK
"""``et-bisect``: the pass, and in it the rewrite, after which a program computes something else.

::

    et-bisect model.mlir --compile-to=et --inputs x.npz
    et-bisect edge.mlir -p 'fold-batch-norm,cse' --inputs a.npz --inputs b.npz --tolerance 1e-3

What the program gives before the first pass is what it should give. The module before and after the guilty rewrite is
written with its weights, and the command that reruns it is printed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from etir.phases import PHASES
from etir.tools.common import FAILED, OK, Console, ToolParser, make_folder, run_tool, usage_error
from etir.tools.plugin_arguments import add_plugin_arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit code."""
    return run_tool(_parser(), _run, argv)


def _parser() -> ToolParser:
    parser = ToolParser("et-bisect", "Find the pass and the rewrite after which a program computes something else.")
    parser.add_argument("input", help="a module's text, at any level")
    parser.add_argument("-p", "--pass-pipeline", dest="pipeline", metavar="TEXT", help="the passes: a,b{option=1}")
    parser.add_argument("--compile-to", metavar="PHASE", choices=PHASES, help="or all passes up to a phase")
    parser.add_argument("--target", default="executorch", help="whose kernels the phases lower for")
    parser.add_argument(
        "--delegate",
        action="append",
        default=[],
        metavar="NAME{OPTIONS}",
        help="a backend that the phases hand work to",
    )
    parser.add_argument(
        "--inputs", action="append", default=[], metavar="FILE", help=".npz with inputs; every file is a sample"
    )
    parser.add_argument("--method", default="forward", help="the method that is run (default: forward)")
    parser.add_argument(
        "--tolerance",
        type=float,
        default=1e-4,
        help="the largest difference, relative to the largest number of an output (default: 1e-4)",
    )
    parser.add_argument(
        "--output-dir", default="bisect", metavar="DIR", help="where before.mlir and after.mlir go (default: bisect)"
    )
    parser.add_argument("--weights", action="append", default=[], metavar="FILE", help="the bytes of weights")
    add_plugin_arguments(parser)
    return parser


def _run(arguments: argparse.Namespace, console: Console) -> int:
    from etir.devtools.bisect import bisect
    from etir.devtools.checks import SameNumbers
    from etir.tools.context import ToolContext
    from etir.tools.files import read_module
    from etir.tools.named_arrays import order_inputs, read_arrays
    from etir.tools.search_arguments import passes_of
    from etir.tools.signatures import signatures_of

    if not arguments.inputs:
        raise usage_error("name what to run the program on: --inputs FILE.npz, once for each sample")
    ctx = ToolContext()
    module = read_module(arguments.input, arguments.weights, ctx, console)
    passes = passes_of(arguments, module)
    signatures = [s for s in signatures_of(module) if s.name == arguments.method]
    names = [name for name, _ in signatures[0].inputs] if signatures else []
    samples = [order_inputs(read_arrays(path), names) for path in arguments.inputs]
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
    print(f"wrote {folder / 'before.mlir'} {folder / 'after.mlir'}   rerun: {found.rerun}")
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
