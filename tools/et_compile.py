# PYTHON_ARGCOMPLETE_OK
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
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etir.tools.common import (
    OK,
    Console,
    ToolParser,
    add_replace_weights,
    check_output,
    make_folder,
    read_head,
    run_tool,
    usage_error,
    write_output,
)
from etir.tools.errors import E0903
from etir.tools.plugin_arguments import add_plugin_arguments
from etir.tools.quantize_arguments import add_quantize_arguments, quantized_source
from etir.tools.remark_arguments import RemarkOutput, add_remark_arguments

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from xdsl.dialects.builtin import ModuleOp

    from etir.options import CompileKeywords, CompileOptions


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit code."""
    return run_tool(_parser(), _run, argv)


def _parser() -> ToolParser:
    parser = ToolParser("et-compile", "Compile an exported program (.pt2), or the text of a module, to a .pte file.")
    parser.add_argument("input", help="what torch.export.save wrote, or a module's text at any level")
    parser.add_argument("-o", dest="output", metavar="FILE", help="the .pte file to write")
    parser.add_argument("--target", default="executorch", help="whose kernels to link against (default: executorch)")
    parser.add_argument(
        "--delegate", action=_Delegate, default=[], metavar="NAME", help="a backend to hand work to; in this order"
    )
    parser.add_argument(
        "--delegate-option",
        action=_DelegateOption,
        default=argparse.SUPPRESS,
        metavar="KEY=VALUE",
        help="a compile option of the backend named before it",
    )
    parser.add_argument(
        "--link-backend",
        action="append",
        default=[],
        metavar="NAME",
        help="a backend, as the file names it, that is linked into the runtime besides those of the target",
    )
    parser.add_argument(
        "--link-library",
        action="append",
        default=[],
        metavar="NAME",
        help="a kernel library of the target that is linked into the runtime besides those that always are: custom_ops",
    )
    parser.add_argument(
        "--partition-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of pass partition: min-ops=3, own-state=true, exclude=aten.add.Tensor; shared-constants=pass",
    )
    parser.add_argument(
        "--fallback",
        choices=("allow", "refuse"),
        default="allow",
        help="whether what no backend claims may run on the target's kernels (default: allow)",
    )
    parser.add_argument(
        "--what-if", action="store_true", help="report what each operator that a backend rejects would be worth to it"
    )
    parser.add_argument(
        "--weights",
        action="append",
        default=[],
        metavar="FILE",
        help="the weights of a module's text (default: INPUT with the suffix .safetensors)",
    )
    add_replace_weights(parser)
    for what, meant in (("weights", "the weights"), ("state", "the initial values of state")):
        parser.add_argument(
            f"--external-{what}",
            action="append",
            default=[],
            metavar="NAME[=PATTERN,...]",
            help=f"write {meant} to NAME.ptd beside the program: all, or those of fitting names",
        )
    parser.add_argument(
        "--optimizer",
        metavar="NAME{OPTION=VALUE ...}",
        help="let a joint graph of forward and backward update its parameters itself: sgd{lr=0.1 momentum=0.9}, "
        "adam{lr=0.001}, adamw",
    )
    parser.add_argument(
        "--state-methods",
        nargs="?",
        const="",
        metavar="PATTERN,...",
        help="add methods that read and write the state from outside, of fitting names or of all",
    )
    parser.add_argument(
        "--unbounded",
        choices=("refuse", "allocate"),
        default="refuse",
        help="what becomes of tensors without an upper bound: an error, or memory that is allocated at run time, which "
        "target etir has (default: refuse)",
    )
    parser.add_argument(
        "--prefer",
        choices=("size", "speed"),
        default="size",
        help="whether weights of integers that nothing computes on stay small in the file, or are multiplied out in it "
        "and not in each run (default: size)",
    )
    parser.add_argument("--dump-dir", metavar="DIR", help="write the IR of every phase, in numbered files")
    parser.add_argument("--trace", metavar="FILE", help="record what the compiler does, for the developer tools")
    parser.add_argument(
        "--trace-detail",
        choices=("levels", "passes"),
        default="levels",
        help="what the trace has the text of: ends of phases (default), or all passes that change something",
    )
    parser.add_argument(
        "--print-pipeline", action="store_true", help="print the passes as et-opt -p takes them; needs no -o"
    )
    parser.add_argument(
        "--report", nargs="?", const="text", choices=("text", "json"), help="print what the program is made of"
    )
    parser.add_argument(
        "--debug-file", metavar="FILE", help="write where each instruction comes from, for et-translate --decode-error"
    )
    parser.add_argument(
        "--memory-header", metavar="FILE", help="write the memory that etir's runtime takes, as a C header"
    )
    parser.add_argument(
        "--native-c",
        metavar="DIR",
        help="write the code of delegate native, and its weights, as C that a build links; the .pte file then has "
        "neither. For one processor: --delegate native --delegate-option cpus=cortex-m55",
    )
    add_remark_arguments(parser)
    add_quantize_arguments(parser)
    add_plugin_arguments(parser)
    return parser


def _run(arguments: argparse.Namespace, console: Console) -> int:
    from etir.backends.native.errors import E1171
    from etir.driver import compile_program, module_of, remaining_stages
    from etir.passes.infra.instrumentation import watching
    from etir.passes.infra.pipeline import pipeline_text
    from etir.tools.progress import showing_passes

    options = _options(arguments)
    remarks = RemarkOutput(arguments)
    for path in (
        arguments.output,
        arguments.debug_file,
        arguments.memory_header,
        arguments.trace,
        arguments.remarks_output_file,
    ):
        check_output(path)
    make_folder(arguments.dump_dir)
    make_folder(arguments.native_c)
    source = quantized_source(arguments, _load(arguments, console, options), options)
    if arguments.print_pipeline:
        source = module_of(source, options.resolved())
        found = remaining_stages(source, options)
        print(pipeline_text([step.run for stage in found for step in stage.steps], with_defaults=True))
        if arguments.output is None:
            return OK
    elif arguments.output is None:
        raise usage_error("name the file to write with -o FILE, or ask for the pipeline only with --print-pipeline")
    with showing_passes(f"et-compile {arguments.input}"):
        trace = False if arguments.trace is None else arguments.trace_detail
        try:
            with nullcontext() if remarks.instrument is None else watching(remarks.instrument):
                program = compile_program(source, options, dump_dir=arguments.dump_dir, trace=trace)
        finally:
            remarks.finish()
        _ = program.buffer
    if arguments.native_c is not None and not program.build_files:
        raise E1171.error("no part of the program is code of the delegate 'native': there is no C to write")
    console.report(program.warnings)
    try:
        program.save(arguments.output)
    except OSError as error:
        raise E0903.error(f"cannot write '{arguments.output}': {error.strerror or error}") from None
    if program.trace is not None and arguments.trace is not None:
        write_output(arguments.trace, program.trace.data)
    if arguments.debug_file is not None:
        write_output(arguments.debug_file, program.debug_file())
    if arguments.native_c is not None:
        for name, data in program.build_files.items():
            write_output(str(Path(arguments.native_c) / name), data)
    if arguments.memory_header is not None:
        from etir.emit.runtime_memory import memory_header

        write_output(arguments.memory_header, memory_header(program.runtime_memory()))
    if arguments.report is not None or arguments.what_if:
        report = program.report()
        print(report.to_json() if arguments.report == "json" else str(report))
    return OK


def _options(arguments: argparse.Namespace) -> CompileOptions:
    from etir.backends.api.registry import delegate_text
    from etir.options import compile_options

    if arguments.native_c is not None:
        chosen = [options for name, options in arguments.delegate if name == "native"]
        if not chosen:
            raise usage_error("--native-c writes the code of the delegate 'native': name it, --delegate native")
        for options in chosen:
            options.append("linked=true")
    keywords: CompileKeywords = {
        "target": arguments.target,
        "delegates": [delegate_text(name, options) for name, options in arguments.delegate],
        "fallback": arguments.fallback,
        "partition": _partition_options(arguments),
        "link_backends": arguments.link_backend,
        "link_libraries": arguments.link_library,
        "external_weights": _files(arguments.external_weights),
        "external_state": _files(arguments.external_state),
        "optimizer": arguments.optimizer,
        "state_methods": _patterns(arguments.state_methods),
        "unbounded": arguments.unbounded,
        "prefer": arguments.prefer,
    }
    return compile_options(None, keywords)


class _Delegate(argparse.Action):
    """``--delegate NAME``: a new entry, whose options follow."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        namespace.delegate = [*namespace.delegate, (values, [])]


class _DelegateOption(argparse.Action):
    """``--delegate-option KEY=VALUE``: an option of the last backend that was named."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        if not namespace.delegate:
            parser.error(f"{option_string} {values} stands before the first --delegate")
        namespace.delegate[-1][1].append(values)


def _partition_options(arguments: argparse.Namespace) -> dict[str, object]:
    """Options of pass `partition`; one without a value is a flag."""
    options: dict[str, object] = {"what_if": True} if arguments.what_if else {}
    for text in arguments.partition_option:
        key, _, value = text.partition("=")
        options[key] = tuple(value.split(",")) if value else True
    return options


def _files(texts: Sequence[str]) -> dict[str, Sequence[str]]:
    """Patterns of names by the tag of their file."""
    split = (text.partition("=") for text in texts)
    return {tag: tuple(names.split(",")) if names else () for tag, _, names in split}


def _patterns(text: str | None) -> bool | Sequence[str]:
    return text.split(",") if text else text is not None


def _load(arguments: argparse.Namespace, console: Console, options: CompileOptions) -> ExportedProgram | ModuleOp:
    """The program of the input: an exported program by its suffix or its first bytes, text otherwise."""
    is_exported = Path(arguments.input).suffix == ".pt2" or (
        arguments.input != "-" and read_head(arguments.input).startswith(b"PK")
    )
    if is_exported:
        from etir.tools.exported import load_exported_program

        program = load_exported_program(arguments.input)
        if not arguments.replacements:
            return program
        from etir.driver import module_of
        from etir.tools.replacements import replace_weights

        module = module_of(program, options.resolved())
        replace_weights(module, arguments.replacements)
        return module
    from etir.tools.context import ToolContext
    from etir.tools.files import read_module

    return read_module(arguments.input, arguments.weights, ToolContext(), console, arguments.replacements)


if __name__ == "__main__":
    sys.exit(main())
