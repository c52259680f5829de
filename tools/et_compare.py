# PYTHON_ARGCOMPLETE_OK
"""``et-compare``: which instruction, pass and line of a model is wrong first.

::

    et-compare model.pt2 model.pte --trace model.trace --inputs a.npz b.npz --runtime etir,stock
    et-compare model.mlir model.pte --trace model.trace --inputs a.npz
    et-compare prefill=a.pt2 decode=b.pt2 model.pte --method decode --inputs b.npz
    et-compare stock.etrecord stock.pte --inputs a.npz --runtime etir,stock
    et-compare model.pte --inputs a.npz --runtime etir,stock

The reference is eager torch for an exported program, and the interpreter for text. With a trace every level is
interpreted; every runtime that is named runs the file. *accumulated* is how far a value is from the reference's,
*local* how far it is when the operation has right inputs: on a runtime, what the interpreter makes of the inputs that
it had. Without a source, runtimes are compared with the interpreter alone. The exit code is 1 when something is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etir.tools.common import (
    FAILED,
    OK,
    Console,
    ToolParser,
    check_output,
    read_bytes,
    read_head,
    run_tool,
    usage_error,
    write_output,
)
from etir.tools.plugin_arguments import add_plugin_arguments

if TYPE_CHECKING:
    from etir.devtools.comparison import Comparison


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit code."""
    return run_tool(_parser(), _run, argv)


def _parser() -> ToolParser:
    parser = ToolParser("et-compare", "Say which instruction, pass and line of a model is wrong first.")
    parser.add_argument(
        "files",
        nargs="+",
        metavar="file",
        help="what was compiled (.pt2, .mlir, or .etrecord of the stock pipeline; several as METHOD=FILE.pt2; may be "
        "left out), and the .pte file",
    )
    parser.add_argument("--trace", metavar="FILE", help="what et-compile --trace wrote for the .pte file")
    parser.add_argument(
        "--inputs", nargs="+", default=[], metavar="FILE", help=".npz files with inputs; every file is a sample"
    )
    parser.add_argument(
        "--method", action="append", metavar="NAME", help="the method to run; may be repeated (default: forward)"
    )
    parser.add_argument(
        "--runtime", default="etir", metavar="NAMES", help="what runs the file: etir (default), stock, etir,stock, none"
    )
    parser.add_argument("--tolerance", type=float, default=1e-4, help="relative to the largest number (default: 1e-4)")
    parser.add_argument("--data", action="append", default=[], metavar="FILE", help=".ptd file with external weights")
    parser.add_argument(
        "--tap", action="store_true", help="look into delegates: compile once more with what they compute as outputs"
    )
    parser.add_argument("--no-search", action="store_true", help="do not search the passes where a level is wrong")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("-o", "--output", metavar="FILE", help="write everything as JSON, which et-explore shows")
    add_plugin_arguments(parser, runs=True)
    return parser


def _run(arguments: argparse.Namespace, console: Console) -> int:
    from etir.devtools.comparison import compare
    from etir.devtools.trace.read import Trace
    from etir.tools.files import read_pte_bytes, read_pte_module
    from etir.tools.named_arrays import order_inputs, read_arrays
    from etir.tools.signatures import signatures_of

    *sources, path = arguments.files
    if len(sources) > 1 and not all("=" in source for source in sources):
        raise usage_error(f"there are {len(sources)} sources: name the method of each, METHOD=FILE.pt2")
    if not arguments.inputs:
        raise usage_error("name what to run the program on: --inputs FILE.npz, once for each sample")
    check_output(arguments.output)
    if arguments.load_library:
        from etir.runtime import load_library

        for library in arguments.load_library:
            load_library(library)
    _, data = read_pte_bytes(path)
    trace = None if arguments.trace is None else Trace(read_bytes(arguments.trace)[1], arguments.trace)
    source = _sources(sources, console)
    external = [bytes(read_bytes(file)[1]) for file in arguments.data]
    program = read_pte_module(path, arguments.data)
    signatures = {s.name: s for s in signatures_of(program)}
    found: list[Comparison] = []
    for method in arguments.method or ["forward"]:
        names = [name for name, _ in signatures[method].inputs] if method in signatures else []
        found.append(
            compare(
                source,
                data,
                inputs=[order_inputs(read_arrays(file), names) for file in arguments.inputs],
                trace=trace,
                method=method,
                runtime=() if arguments.runtime == "none" else arguments.runtime,
                tolerance=arguments.tolerance,
                external=external,
                search=not arguments.no_search,
                taps=arguments.tap,
            )
        )
    if arguments.output is not None:
        write_output(arguments.output, "".join(one.to_json() for one in found))
    for one in found:
        sys.stdout.write(one.to_json() if arguments.json else one.table())
    return OK if all(one.is_good for one in found) else FAILED


def _sources(paths: Sequence[str], console: Console) -> Any:
    """What was compiled: one thing, exported programs by method, or None."""
    if not paths:
        return None
    if len(paths) == 1 and ("=" not in paths[0] or Path(paths[0]).exists()):
        return _source(paths[0], console)
    from etir.tools.exported import load_exported_program

    return {method: load_exported_program(file) for method, _, file in (path.partition("=") for path in paths)}


def _source(path: str, console: Console) -> Any:
    """The exported program or the module of a file; an ETRecord stays a path."""
    import zipfile

    if not read_head(path).startswith(b"PK"):
        from etir.tools.context import ToolContext
        from etir.tools.files import read_module

        return read_module(path, [], ToolContext(), console)
    if zipfile.is_zipfile(path):  # a damaged file is told of by what reads programs
        with zipfile.ZipFile(path) as archive:
            if any(name.startswith("ETRECORD_V") for name in archive.namelist()):
                return path
    from etir.tools.exported import load_exported_program

    return load_exported_program(path)


if __name__ == "__main__":
    sys.exit(main())
