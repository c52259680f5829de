# PYTHON_ARGCOMPLETE_OK
"""``et-run``: execute a program, a ``.pte`` file or text at any level, on inputs from an ``.npz`` file.

::

    et-run model.pte --inputs x.npz --outputs y.npz
    et-run model.pte --inputs x.npz --profile
    et-run model.pte --list
    et-run module.mlir --inputs x.npz --evaluator numpy

A ``.pte`` file runs on the native runtime (``etir.runtime``) where that is installed; text is interpreted, and so is a
file with ``--interpret`` or ``--evaluator``. The level does not matter: the same inputs can be run before and after any
pass and the outputs compared. Arrays are matched to inputs by name where the program has names; ``--list`` shows them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from etir.diagnostics import EtirError, SourceLocation
from etir.tools.common import (
    OK,
    Console,
    ToolParser,
    add_replace_weights,
    check_output,
    read_head,
    run_tool,
    usage_error,
)
from etir.tools.errors import E0903
from etir.tools.kinds import refuse_others
from etir.tools.named_arrays import MethodSignature, Names, order_inputs, output_labels, read_arrays
from etir.tools.plugin_arguments import add_plugin_arguments

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from etir.runtime import Program


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit code."""
    return run_tool(_parser(), _run, argv)


def _parser() -> ToolParser:
    parser = ToolParser("et-run", "Execute a program on inputs from an .npz file.")
    parser.add_argument("input", help="a .pte file, or text at any level")
    parser.add_argument("--inputs", metavar="FILE", help=".npz with the inputs, by the method's names or in order")
    parser.add_argument("--outputs", metavar="FILE", help=".npz to write the outputs to")
    parser.add_argument("--method", default="forward", help="the method to execute (default: forward)")
    parser.add_argument("--list", action="store_true", help="print the methods, what they take and what they return")
    parser.add_argument("--interpret", action="store_true", help="interpret a .pte file instead of executing it")
    parser.add_argument(
        "--evaluator",
        "--oracle",
        choices=("auto", "numpy", "torch"),
        help="what computes operators when interpreting (default: auto)",
    )
    parser.add_argument(
        "--data", action="append", default=[], metavar="FILE", help=".ptd file with external weights of a .pte file"
    )
    parser.add_argument("--profile", action="store_true", help="print the time of each operator (native runtime)")
    parser.add_argument(
        "--native", action="store_true", help="run machine code that the file brings along (native runtime)"
    )
    parser.add_argument("--threads", type=int, metavar="N", help="threads for one run (native runtime; default: 1)")
    parser.add_argument(
        "--weights", action="append", default=[], metavar="FILE", help="safetensors with the bytes of weights"
    )
    add_replace_weights(parser)
    add_plugin_arguments(parser, runs=True)
    return parser


def _run(arguments: argparse.Namespace, console: Console) -> int:
    native = _is_native(arguments)
    check_output(arguments.outputs)
    if arguments.list:
        for signature in _native_signatures(arguments) if native else _signatures(_load(arguments, console)):
            print(signature)
        return OK
    outputs, names = _execute(arguments) if native else _interpret(arguments, console)
    labels = output_labels(names)
    if arguments.outputs is not None:
        _save_outputs(arguments.outputs, dict(zip(labels, outputs, strict=True)))
    elif not arguments.profile:
        for label, value in zip(labels, outputs, strict=True):
            print(_describe(label, value))
    return OK


def _is_native(arguments: argparse.Namespace) -> bool:
    """Whether the native runtime executes the input. Raises error E0901 for options that only it has."""
    interpreted = not arguments.input.endswith(".pte") or arguments.interpret or arguments.evaluator is not None
    options = ("profile", "threads", "native", "data", "load_library")
    only_native = [name.replace("_", "-") for name in options if getattr(arguments, name) not in (None, False, [])]
    if arguments.replacements and arguments.input.endswith(".pte"):
        raise usage_error("--replace-weights is for text; a .pte file has its weights in it, or in .ptd files (--data)")
    if not interpreted:
        from etir.runtime import is_available

        # What has to be native fails later, with the reason why it is not installed.
        return is_available() or bool(only_native)
    if only_native:
        raise usage_error(
            f"--{only_native[0]} is for .pte files on the native runtime, '{arguments.input}' is interpreted",
            help="leave the option out, or pass a .pte file without --interpret and --evaluator",
        )
    return False


def _native_signatures(arguments: argparse.Namespace) -> list[MethodSignature]:
    with _errors_of(arguments.input):
        program = _load_native(arguments)
        signatures = [program.signature(name) for name in program.methods]
    return [
        MethodSignature(s.name, tuple((i.name, str(i)) for i in s.inputs), tuple((o.name, str(o)) for o in s.outputs))
        for s in signatures
    ]


def _execute(arguments: argparse.Namespace) -> tuple[list[Any], Names]:
    """Outputs of the native runtime and what the program calls them."""
    with _errors_of(arguments.input):
        method = _load_native(arguments)[arguments.method]
        inputs = order_inputs(_load_inputs(arguments.inputs), [info.name for info in method.inputs])
        names = [info.name for info in method.outputs]
        if not arguments.profile:
            return method(*inputs), names
        profile = method.profile(*inputs)
    print(profile)
    return profile.outputs, names


def _load_native(arguments: argparse.Namespace) -> Program:
    from etir.runtime import load, load_library

    if head := read_head(arguments.input):
        refuse_others(arguments.input, head, "a .pte file")
    for library in arguments.load_library:
        load_library(library)
    threads = 1 if arguments.threads is None else arguments.threads
    policy = "trusted" if arguments.native else "refuse"
    return load(arguments.input, arguments.data, threads=threads, native=policy)


@contextmanager
def _errors_of(path: str) -> Iterator[None]:
    """Errors of the runtime get the file as their location."""
    from etir.runtime import RuntimeFailure

    try:
        yield
    except RuntimeFailure as error:
        raise EtirError([replace(d, location=SourceLocation(path)) for d in error.diagnostics]) from None


def _interpret(arguments: argparse.Namespace, console: Console) -> tuple[list[Any], Names]:
    """Outputs of the interpreter, and what the module calls them."""
    from etir.backends.api.registry import backend_of_runtime_id
    from etir.interpret import run_module

    module = _load(arguments, console)
    found = [signature for signature in _signatures(module) if signature.name == arguments.method]
    takes = [name for name, _ in found[0].inputs] if found else []
    inputs = order_inputs(_load_inputs(arguments.inputs), takes)
    evaluator = arguments.evaluator or "auto"
    results = run_module(module, inputs, method=arguments.method, evaluator=evaluator, runner_of=backend_of_runtime_id)
    outputs = [_to_numpy(value) for value in results]
    return outputs, [name for name, _ in found[0].outputs] if found else [None] * len(outputs)


def _signatures(module: ModuleOp) -> list[MethodSignature]:
    from etir.tools.signatures import signatures_of

    return signatures_of(module)


def _load(arguments: argparse.Namespace, console: Console) -> ModuleOp:
    if arguments.input.endswith(".pte"):
        from etir.tools.files import read_pte_module

        return read_pte_module(arguments.input)
    from etir.dialects.payloads import require_payloads
    from etir.tools.context import ToolContext
    from etir.tools.files import read_module

    module = read_module(arguments.input, arguments.weights, ToolContext(), console, arguments.replacements)
    require_payloads(module)
    return module


def _load_inputs(path: str | None) -> dict[str, Any]:
    """The arrays of an ``.npz`` file in file order."""
    return {} if path is None else read_arrays(path)


def _to_numpy(value: Any) -> Any:
    """A tensor of either evaluator as a NumPy array; what NumPy has no type for (bfloat16) is widened to float32."""
    if not hasattr(value, "detach"):
        return value
    tensor = value.detach()
    try:
        return tensor.numpy()
    except TypeError:
        return tensor.float().numpy()


def _describe(label: str, value: Any) -> str:
    """One output for people: dtype and shape, and its values, shortened when there are many."""
    import numpy as np

    if not isinstance(value, np.ndarray):
        return f"{label} = {value!r}"
    text = np.array2string(value, threshold=16, precision=6, separator=", ")
    return f"{label}: {value.dtype}{list(value.shape)}\n{text}"


def _save_outputs(path: str, outputs: dict[str, Any]) -> None:
    """Write the outputs, whole or not at all. ``None`` and strings have no place in an ``.npz`` file: left out."""
    from io import BytesIO

    import numpy as np

    from etir.dialects.et.weights import write_atomically

    arrays = {name: np.asarray(value) for name, value in outputs.items() if not isinstance(value, str | None)}
    stream = BytesIO()
    np.savez(stream, **arrays)  # pyright: ignore[reportArgumentType]
    try:
        write_atomically(path, [stream.getbuffer()])
    except OSError as error:
        raise E0903.error(f"cannot write '{path}': {error.strerror or error}") from None


if __name__ == "__main__":
    sys.exit(main())
