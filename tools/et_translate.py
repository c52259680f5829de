# PYTHON_ARGCOMPLETE_OK
"""``et-translate``: between ``.pt2`` files, text and ``.pte`` files.

::

    et-translate --import-pt2 model.pt2 -o model.mlir      # and model.safetensors beside it
    et-translate --mlir-to-pt2 edge.mlir -o model.pt2      # back to torch, from every level above the executable one
    et-translate --mlir-to-pte model.mlir -o model.pte
    et-translate --pte-to-mlir model.pte -o model.mlir
    et-translate --disassemble model.pte                   # what is in its delegates
    et-translate --bundle model.pte --inputs a.npz --expected ya.npz -o model.bpte    # with test cases
    et-translate --decode-error device.log --program model.pte --debug-info model.debug.json

Text above the executable level is compiled to it first, as et-compile does. .pt2 files need torch; text and .pte
files do not. ``--decode-error`` turns the line that the runtime printed about an error into a sentence.
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
    add_replace_weights,
    check_output,
    read_text,
    run_tool,
    usage_error,
    write_output,
)
from etir.tools.plugin_arguments import add_plugin_arguments

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from etir.tools.decode_error import Origin


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit code."""
    return run_tool(_parser(), _run, argv)


def _parser() -> ToolParser:
    parser = ToolParser("et-translate", "Translate between .pt2 files, text and .pte files.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--import-pt2", action="store_true", help="an exported program to text (needs torch)")
    what.add_argument("--mlir-to-pt2", action="store_true", help="text to an exported program (needs torch)")
    what.add_argument("--mlir-to-pte", action="store_true", help="text to a .pte file, compiled to the end first")
    what.add_argument("--pte-to-mlir", action="store_true", help="any .pte file to text")
    what.add_argument(
        "--disassemble", action="store_true", help="the delegates of a .pte file to text, by the backends of theirs"
    )
    what.add_argument(
        "--bundle", action="store_true", help="a .pte file and arrays to a program with test cases (.bpte)"
    )
    what.add_argument(
        "--decode-error",
        action="store_true",
        help="an error record of the runtime's (a line, a log, JSON) to a sentence",
    )
    parser.add_argument("input", help="the file to read, - for standard input; or an error record itself")
    parser.add_argument("-o", dest="output", default="-", metavar="FILE", help="the file to write (default: -)")
    parser.add_argument(
        "--weights", action="append", default=[], metavar="FILE", help="safetensors beside the text that is read"
    )
    add_replace_weights(parser)
    parser.add_argument(
        "--target",
        help="with --mlir-to-pte: whose kernels the program is for (default: executorch; for text at the executable "
        "level, whichever has them)",
    )
    parser.add_argument(
        "--method",
        metavar="NAME",
        help="with --mlir-to-pt2: the method to export, where there are several; with --bundle: the method that the "
        "cases are of (default: forward)",
    )
    parser.add_argument(
        "--inputs", nargs="+", default=[], metavar="FILE", help="with --bundle: .npz files, one for each case"
    )
    parser.add_argument(
        "--expected", nargs="+", default=[], metavar="FILE", help="with --bundle: .npz files with the outputs, in order"
    )
    parser.add_argument("--program", metavar="FILE", help="with --decode-error: the .pte file that was running")
    parser.add_argument(
        "--debug-info",
        metavar="FILE",
        help="with --decode-error: what knows the program's source lines, the file of et-compile --debug-file or "
        "the program's text at the executable level",
    )
    parser.add_argument(
        "--data", action="append", default=[], metavar="FILE", help=".ptd file with external weights of a .pte file"
    )
    parser.add_argument("--weights-out", metavar="FILE", help="safetensors to write (default: beside the output)")
    parser.add_argument(
        "--print-debuginfo",
        dest="locations",
        action="store_true",
        help="keep locations: in text, or in a .pte file",
    )
    add_plugin_arguments(parser)
    return parser


def _run(arguments: argparse.Namespace, console: Console) -> int:
    for path in (arguments.output, arguments.weights_out):
        check_output(path)
    if arguments.replacements and (arguments.decode_error or arguments.disassemble):
        raise usage_error("--replace-weights is for programs that are translated as a whole")
    if (arguments.inputs or arguments.expected) and not arguments.bundle:
        raise usage_error("--inputs and --expected are for --bundle")
    if arguments.bundle:
        return _bundle(arguments)
    if arguments.import_pt2:
        return _import_pt2(arguments)
    if arguments.mlir_to_pt2:
        return _mlir_to_pt2(arguments, console)
    if arguments.mlir_to_pte:
        return _mlir_to_pte(arguments, console)
    if arguments.decode_error:
        return _decode_error(arguments, console)
    if arguments.disassemble:
        return _disassemble(arguments)
    return _pte_to_mlir(arguments)


def _import_pt2(arguments: argparse.Namespace) -> int:
    from etir.lowering.import_fx import import_program
    from etir.tools.exported import load_exported_program

    module = import_program(load_exported_program(arguments.input))
    _write(arguments, module, locations=True)
    return OK


def _mlir_to_pt2(arguments: argparse.Namespace, console: Console) -> int:
    from etir.dialects.payloads import require_payloads
    from etir.lowering.export_fx import export_program
    from etir.passes.infra.base import methods
    from etir.tools.context import ToolContext
    from etir.tools.exported import save_exported_program
    from etir.tools.files import read_module

    module = read_module(arguments.input, arguments.weights, ToolContext(), console, arguments.replacements)
    require_payloads(module)
    found = [op.sym_name.data for op in methods(module)]
    if arguments.method is None and len(found) > 1:
        raise usage_error(f"the module has the methods {', '.join(found)}: name one with --method")
    program = export_program(module, arguments.method or (found[0] if found else "forward"))
    write_output(arguments.output, save_exported_program(program))
    return OK


def _mlir_to_pte(arguments: argparse.Namespace, console: Console) -> int:
    from etir.emit.to_pte import EmitOptions, emit_program
    from etir.phases import phase_of
    from etir.tools.context import ToolContext
    from etir.tools.files import read_module

    context = ToolContext()
    module = read_module(arguments.input, arguments.weights, context, console, arguments.replacements)
    if phase_of(module) == "et":
        from etir.passes.delegation.lower_delegates import LowerDelegatesPass

        LowerDelegatesPass().run(context, module)
        _verify_executable(module, arguments.target)
    else:
        from etir.driver import compile_program

        module = compile_program(module, target=arguments.target or "executorch").module
    emission = emit_program(module, EmitOptions(debug_info=arguments.locations))
    if emission.external and arguments.output == "-":
        raise usage_error("external weights are files beside the program: name the program's with -o")
    for tag in emission.external:
        write_output(str(Path(arguments.output).with_name(f"{tag}.ptd")), emission.ptd(tag))
    write_output(arguments.output, emission.pte())
    return OK


def _verify_executable(module: ModuleOp, target: str | None) -> None:
    """What a hand may have broken in text at the executable level: calls, and the memory plan."""
    from etir.dialects.context import EtContext
    from etir.passes.et.verify_calls import VerifyCallsPass
    from etir.passes.et.verify_plan import VerifyPlanPass
    from etir.passes.infra.manager import PipelineOptions, run_pipeline

    passes = [VerifyCallsPass(target or ""), VerifyPlanPass(target=target or "")]
    run_pipeline(EtContext(), module, passes, PipelineOptions(collect_errors=True))


def _pte_to_mlir(arguments: argparse.Namespace) -> int:
    from etir.dialects.et.payloads import DelegateOp
    from etir.tools.files import read_pte_module

    module = read_pte_module(arguments.input, arguments.data)
    if any(isinstance(op, DelegateOp) for op in module.body.block.ops):
        from etir.passes.delegation.disassemble_delegates import DisassembleDelegatesPass
        from etir.tools.context import ToolContext

        DisassembleDelegatesPass().run(ToolContext(), module)
    _write(arguments, module, locations=arguments.locations)
    return OK


def _disassemble(arguments: argparse.Namespace) -> int:
    from etir.tools.disassemble import disassemble_delegates
    from etir.tools.files import read_pte_bytes

    name, data = read_pte_bytes(arguments.input)
    write_output(arguments.output, disassemble_delegates(data, name))
    return OK


def _bundle(arguments: argparse.Namespace) -> int:
    from etir.emit.bundled import write_bundled
    from etir.emit.pte.reader import read_pte
    from etir.tools.bundle import bundle
    from etir.tools.files import read_pte_bytes, read_pte_module
    from etir.tools.named_arrays import order_inputs, output_labels, read_arrays
    from etir.tools.signatures import signatures_of

    if not arguments.inputs or not arguments.expected:
        raise usage_error("--bundle needs --inputs, and --expected: what the program should give for them")
    name, data = read_pte_bytes(arguments.input)
    method = arguments.method or "forward"
    plans = {plan.name: plan for plan in read_pte(data, name).execution_plan}
    if method not in plans:
        raise usage_error(f"the program has no method '{method}'; it has {', '.join(plans)}")
    signature = next(s for s in signatures_of(read_pte_module(arguments.input, arguments.data)) if s.name == method)
    takes, gives = ([label for label, _ in part] for part in (signature.inputs, signature.outputs))
    inputs = [order_inputs(read_arrays(path), takes) for path in arguments.inputs]
    expected = [order_inputs(read_arrays(path), output_labels(gives)) for path in arguments.expected]
    write_output(arguments.output, write_bundled(bundle(data, plans[method], inputs, expected)))
    return OK


def _decode_error(arguments: argparse.Namespace, console: Console) -> int:
    from etir.tools.decode_error import decode, source_line
    from etir.tools.error_record import read_records

    text: str = arguments.input
    if not text.startswith(("etir-error ", "{")):
        _, text = read_text(text, console)
    records = read_records(text)
    origin = None if arguments.program is None else _origin(arguments, console)
    if origin is None and arguments.debug_info is not None:
        raise usage_error("--debug-info says nothing without the program: name it with --program")
    parts = [decode(record, origin) for record in records]
    write_output(arguments.output, "".join(f"{part.render(source_line(part.location))}\n" for part in parts))
    return OK


def _origin(arguments: argparse.Namespace, console: Console) -> Origin:
    from etir.emit.debug_file import check_module, of_module, of_program, read_debug_file
    from etir.emit.pte.reader import read_pte
    from etir.tools.context import ToolContext
    from etir.tools.decode_error import Origin
    from etir.tools.files import read_module, read_pte_bytes

    name, data = read_pte_bytes(arguments.program)
    program = read_pte(data, name)
    if arguments.debug_info is None:
        return Origin(program, of_program(program))
    if arguments.debug_info.endswith(".mlir"):
        module = read_module(arguments.debug_info, [], ToolContext(), console)
        check_module(module, program, arguments.debug_info)
        return Origin(program, of_module(module))
    file, text = read_text(arguments.debug_info, console)
    return Origin(program, read_debug_file(text, file, data))


def _write(arguments: argparse.Namespace, module: ModuleOp, *, locations: bool) -> None:
    from etir.tools.files import write_module
    from etir.tools.replacements import replace_weights

    replace_weights(module, arguments.replacements)
    write_module(module, arguments.output, arguments.weights_out, locations=locations)


if __name__ == "__main__":
    sys.exit(main())
