# PYTHON_ARGCOMPLETE_OK
"""``et-inspect``: where the time of a run went, what fills the memory, what became of a line of the program.

::

    et-inspect run.etdp --trace model.trace --by line --top 3
    et-inspect old.etdp new.etdp --trace model.trace
    et-inspect model.trace --explain model.py:41
    et-inspect model.trace --memory plan.svg
    et-inspect model.pte --size --by op
    et-inspect run.etdp --trace stock.pte --record stock.etrecord
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
    read_bytes,
    read_head,
    run_tool,
    usage_error,
    write_output,
)
from etir.tools.trace_arguments import add_record_argument, opened_trace

if TYPE_CHECKING:
    from etir.devtools.inspector import Inspector
    from etir.devtools.trace.read import Trace


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit code."""
    return run_tool(_parser(), _run, argv)


def _parser() -> ToolParser:
    parser = ToolParser("et-inspect", "Say where time and memory of a program go, and what became of its parts.")
    parser.add_argument(
        "inputs", nargs="+", metavar="input", help="a profile (.etdp), two of them, a trace, or a .pte file"
    )
    parser.add_argument("--trace", metavar="FILE", help="what et-compile --trace wrote, or the .pte file")
    add_record_argument(parser)
    parser.add_argument(
        "--by",
        default="line",
        metavar="WHAT",
        help="line (default), op, module, operator, instruction, origin, delegate, level:NAME",
    )
    parser.add_argument("--top", type=int, default=20, metavar="N", help="rows to print; 0 for all (default: 20)")
    parser.add_argument("--tsv", action="store_true", help="all rows, with tabs between the columns")
    parser.add_argument("--json", action="store_true", help="all rows as JSON")
    parser.add_argument("--chrome", metavar="FILE", help="write a timeline for Perfetto, speedscope or Chromium")
    parser.add_argument("--memory", metavar="FILE", help="write a picture of the memory plan (.svg)")
    parser.add_argument("--size", action="store_true", help="print what the bytes of planned memory are for")
    parser.add_argument(
        "--method",
        metavar="NAME",
        help="for --memory and --size, and whose profile it is where the file does not say (default: forward; of "
        "profiles the first method with such instructions)",
    )
    parser.add_argument(
        "--explain", metavar="WHAT", help="what became of a source line, a node, an operator or a module"
    )
    return parser


def _run(arguments: argparse.Namespace, console: Console) -> int:
    from etir.devtools.differences import compare_profiles

    for path in (arguments.chrome, arguments.memory):
        check_output(path)
    first = arguments.inputs[0]
    if arguments.record is not None:
        read_head(arguments.record)
    if read_head(first).startswith(b"PK") or read_head(first)[4:8] == b"ET12":
        return _of_trace(arguments, opened_trace(first, arguments.record, arguments.data))
    if len(arguments.inputs) > 2:
        raise usage_error(f"one profile is shown, or two are compared; there are {len(arguments.inputs)}")
    if len(arguments.inputs) == 2:
        old, new = (_inspector(path, arguments) for path in arguments.inputs)
        sys.stdout.write(compare_profiles(old, new, arguments.by, arguments.top or None))
        return OK
    inspector = _inspector(first, arguments)
    if arguments.chrome is not None:
        write_output(arguments.chrome, inspector.chrome_trace())
    if arguments.tsv or arguments.json:
        sys.stdout.write((inspector.to_json if arguments.json else inspector.to_tsv)(arguments.by))
    elif arguments.chrome is None:
        print(inspector.table(arguments.by, arguments.top or None))
    if arguments.memory is not None or arguments.size or arguments.explain is not None:
        if inspector.program.trace is None:
            raise usage_error("--memory, --size and --explain need a trace: --trace FILE")
        return _of_trace(arguments, inspector.program.trace)
    return OK


def _of_trace(arguments: argparse.Namespace, trace: Trace) -> int:
    from etir.devtools.explain import explain
    from etir.devtools.memory_picture import memory_svg
    from etir.devtools.sizes import size_table

    if arguments.memory is None and not arguments.size and arguments.explain is None:
        raise usage_error(f"'{trace.name}' is no profile: say what of it, --explain, --memory or --size")
    method = arguments.method or "forward"
    if (arguments.memory is not None or arguments.size) and method not in trace.memory:
        raise usage_error(f"there is no method '{method}'; the trace has {', '.join(trace.memory)}")
    if arguments.memory is not None:
        write_output(arguments.memory, memory_svg(trace, method))
    if arguments.size:
        sys.stdout.write(size_table(trace, method, arguments.by, arguments.top or None))
    if arguments.explain is not None:
        sys.stdout.write(explain(trace, arguments.explain))
    return OK


def _inspector(path: str, arguments: argparse.Namespace) -> Inspector:
    from etir.devtools.inspector import Inspector, program_of
    from etir.devtools.profile.from_etdump import read_profile
    from etir.emit.ptd.reader import read_ptd

    name, data = read_bytes(path)
    trace = arguments.trace
    if trace is not None:
        read_head(trace)
    program, pte = program_of(
        None if trace is None else Path(trace),
        arguments.record,
        {file: read_ptd(read_bytes(file)[1], file) for file in arguments.data},
    )
    return Inspector.of(read_profile(data, pte, method=arguments.method or "", name=name), program)


if __name__ == "__main__":
    sys.exit(main())
