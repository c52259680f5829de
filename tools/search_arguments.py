"""What ``et-bisect`` and ``et-reduce`` look at: a module, samples, and passes, a pipeline or all up to a phase."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from etir.phases import PHASES
from etir.tools.common import Console, ToolParser, usage_error
from etir.tools.plugin_arguments import add_plugin_arguments

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from etir.dialects.context import EtContext


def add_search_arguments(parser: ToolParser) -> None:
    """Add what both tools have, except for their outputs and checks of their own."""
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
    parser.add_argument("--method", default="forward", help="the method that is looked at (default: forward)")
    parser.add_argument(
        "--tolerance",
        type=float,
        default=1e-4,
        help="how much results may differ, relative to the largest number of an output (default: 1e-4)",
    )
    parser.add_argument("--weights", action="append", default=[], metavar="FILE", help="the bytes of weights")
    add_plugin_arguments(parser)


def module_and_samples(
    arguments: argparse.Namespace, ctx: EtContext, console: Console
) -> tuple[ModuleOp, list[list[Any]]]:
    """The module that the command line names, and its samples in the order of the method's inputs."""
    from etir.tools.files import read_module
    from etir.tools.named_arrays import order_inputs, read_arrays
    from etir.tools.signatures import signatures_of

    module = read_module(arguments.input, arguments.weights, ctx, console)
    names = [name for s in signatures_of(module) if s.name == arguments.method for name, _ in s.inputs]
    return module, [order_inputs(read_arrays(path), names) for path in arguments.inputs]


def require_inputs_that_fit(module: ModuleOp, samples: Sequence[Sequence[Any]], method: str) -> None:
    """Raises error E1002 for a sample that a function does not take: no part of the program would run on it.

    Whether the program runs is not asked: that it does not may be what is looked for.
    """
    from xdsl.dialects.func import FuncOp

    from etir.interpret.interpreter import Interpreter

    interpreter = Interpreter(module, "auto")
    func = interpreter.symbols.get(method)
    if isinstance(func, FuncOp):
        for sample in samples:
            interpreter.check_inputs([argument.type for argument in func.body.block.args], sample)


def passes_of(arguments: argparse.Namespace, module: ModuleOp) -> tuple[ModulePass, ...]:
    """The passes that ``-p`` or ``--compile-to`` name. Raises error E0901 unless it is one of them."""
    from etir.options import CompileOptions
    from etir.passes.delegation.attributes import is_marked
    from etir.passes.infra.pipeline import parse_pipeline
    from etir.phases import phase_of
    from etir.pipeline import pipeline

    if (arguments.pipeline is None) == (arguments.compile_to is None):
        raise usage_error("say which passes: -p TEXT, or --compile-to PHASE")
    if arguments.pipeline is not None:
        return parse_pipeline(arguments.pipeline)
    options = CompileOptions(target=arguments.target, delegates=tuple(arguments.delegate))
    return pipeline(options, phase_of(module), arguments.compile_to, marked=is_marked(module))
