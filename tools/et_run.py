# PYTHON_ARGCOMPLETE_OK
"""``et-run``: execute a program, a ``.pte`` file or text at any level, on inputs from an ``.npz`` file.

::

    et-run model.pte --inputs x.npz --outputs y.npz
    et-run model.pte --inputs x.npz --profile
    et-run model.pte --inputs x.npz --repeat 20 --etdump run.etdp --values run.bin
    et-run model.pte --inputs x.npz --runtime stock --etdump run.etdp
    et-run model.pte --list
    et-run module.mlir --inputs x.npz --evaluator numpy
    et-run model.bpte --check

A ``.pte`` file runs on the native runtime (``etir.runtime``) where that is installed; text is interpreted, and so is a
file with ``--runtime interpreter``, ``--interpret`` or ``--evaluator``. ``--runtime stock`` is ExecuTorch's own
runtime, where its package is installed. The level does not matter: the same inputs can be run before and after any
pass and the outputs compared. Arrays are matched to inputs by name where the program has names; ``--list`` shows them.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from etir.diagnostics import EtirError, Severity, SourceLocation
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

    from etir.runtime import Profile, Program
    from etir.tools.bundle import Run

RUNTIMES = ("etir", "stock", "interpreter")
_RUNTIME_NAMES = {
    "etir": "the native runtime",
    "stock": "ExecuTorch's runtime",
    "interpreter": "the interpreter",
}
_RUNTIMES_OF = {
    "profile": ("etir",),
    "threads": ("etir",),
    "native": ("etir",),
    "load_library": ("etir",),
    "repeat": ("etir", "stock"),
    "etdump": ("etir", "stock"),
    "values": ("etir", "stock"),
}
"""Options that only some runtimes have, by the names of their arguments."""


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
        "--runtime",
        choices=RUNTIMES,
        help="what executes a .pte file: the native runtime, ExecuTorch's own, or the interpreter (default: etir, "
        "interpreter where that is not installed)",
    )
    parser.add_argument(
        "--evaluator",
        "--oracle",
        choices=("auto", "numpy", "torch"),
        help="what computes operators when interpreting (default: auto)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="run the test cases of a bundled program (.bpte) and compare the outputs with what it expects",
    )
    parser.add_argument("--rtol", type=float, help="with --check: by how much of it outputs may differ (default: 1e-3)")
    parser.add_argument("--atol", type=float, help="with --check: by how much besides (default: 1e-5)")
    parser.add_argument(
        "--data", action="append", default=[], metavar="FILE", help=".ptd file with external weights of a .pte file"
    )
    parser.add_argument("--profile", action="store_true", help="print the time of each operator (native runtime)")
    parser.add_argument(
        "--repeat", type=int, metavar="N", help="run N times, and print the shortest and the median time"
    )
    parser.add_argument(
        "--etdump",
        metavar="FILE",
        help="write a profile of all runs, which et-inspect and ExecuTorch's Inspector read (runtimes etir and stock)",
    )
    parser.add_argument(
        "--values", metavar="FILE", help="write what each instruction left, too; the profile refers to it"
    )
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
    if arguments.check or arguments.input.endswith(".bpte"):
        return _check(arguments)
    if arguments.rtol is not None or arguments.atol is not None:
        raise usage_error("--rtol and --atol are for --check")
    runtime = _runtime(arguments)
    for path in (arguments.outputs, arguments.etdump, arguments.values):
        check_output(path)
    if arguments.list:
        for signature in _native_signatures(arguments) if runtime == "etir" else _signatures(_load(arguments, console)):
            print(signature)
        return OK
    match runtime:
        case "etir":
            outputs, names, seconds = _execute(arguments, console)
        case "stock":
            outputs, names, seconds = _execute_stock(arguments, console)
        case _:
            outputs, names = _interpret(arguments, console)
            seconds = []
    labels = output_labels(names)
    if arguments.outputs is not None:
        _save_outputs(arguments.outputs, dict(zip(labels, outputs, strict=True)))
    elif not arguments.profile:
        for label, value in zip(labels, outputs, strict=True):
            print(_describe(label, value))
    if len(seconds) > 1:
        shortest, median = min(seconds) * 1e6, sorted(seconds)[len(seconds) // 2] * 1e6
        print(f"{len(seconds)} runs: shortest {shortest:.1f} us, median {median:.1f} us")
    return OK


def _check(arguments: argparse.Namespace) -> int:
    """Run the cases of a bundled program."""
    from etir.emit.bundled import read_bundled
    from etir.emit.pte.reader import read_pte
    from etir.tools.bundle import ATOL, RTOL, check
    from etir.tools.common import read_bytes

    if not arguments.check:
        raise usage_error(f"'{arguments.input}' is a bundled program: --check runs its test cases")
    given = [
        name
        for name in ("inputs", "outputs", "profile", "etdump", "values", "repeat", "list")
        if getattr(arguments, name)
    ]
    if given:
        raise usage_error(f"--{given[0]} does not go with --check, which runs the cases of the file")
    name, data = read_bytes(arguments.input)
    refuse_others(name, data, "a bundled program")
    bundled = read_bundled(data, name)
    program = bytes(bundled.program)
    read_pte(program, name)
    tolerances = (
        RTOL if arguments.rtol is None else arguments.rtol,
        ATOL if arguments.atol is None else arguments.atol,
    )
    interpreted = arguments.runtime == "interpreter" or arguments.interpret or arguments.evaluator is not None
    with _errors_of(arguments.input):
        if arguments.runtime == "stock":
            run = _stock_runner(arguments, program)
        else:
            run = _interpreter(arguments, program) if interpreted else _native_runner(arguments, program)
        for line in check(bundled, run, name, rtol=tolerances[0], atol=tolerances[1]):
            print(line)
    return OK


def _native_runner(arguments: argparse.Namespace, data: bytes) -> Run:
    from etir.runtime import load, load_library

    for library in arguments.load_library:
        load_library(library)
    policy = "trusted" if arguments.native else "refuse"
    program = load(data, arguments.data, threads=arguments.threads or 1, native=policy)
    return lambda method, inputs: program[method](*inputs)


def _interpreter(arguments: argparse.Namespace, data: bytes) -> Run:
    from etir.backends.api.registry import backend_of_runtime_id
    from etir.emit.from_pte import read_program
    from etir.emit.ptd.reader import read_ptd
    from etir.interpret import run_module
    from etir.tools.common import read_bytes

    module = read_program(data, {file: read_ptd(read_bytes(file)[1], file) for file in arguments.data})
    evaluator = arguments.evaluator or "auto"

    def run(method: str, inputs: Sequence[Any]) -> Sequence[Any]:
        results = run_module(module, inputs, method=method, evaluator=evaluator, runner_of=backend_of_runtime_id)
        return [_to_numpy(value) for value in results]

    return run


def _stock_runner(arguments: argparse.Namespace, data: bytes) -> Run:
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from etir.devtools.stock_runtime import run_stock
    from etir.emit.pte.reader import read_pte

    def run(method: str, inputs: Sequence[Any]) -> Sequence[Any]:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "model.pte"
            path.write_bytes(data)
            external = arguments.data[0] if arguments.data else None
            return run_stock(str(path), read_pte(data), method, inputs, data=external).outputs

    return run


def _runtime(arguments: argparse.Namespace) -> str:
    """What executes the input, one of :data:`RUNTIMES`. Raises error E0901 for options that it does not have."""
    asked: str | None = arguments.runtime
    if arguments.interpret or arguments.evaluator is not None:
        if asked not in (None, "interpreter"):
            raise usage_error(f"--runtime {asked} does not interpret: leave out --interpret and --evaluator")
        asked = "interpreter"
    if arguments.replacements and arguments.input.endswith(".pte"):
        raise usage_error("--replace-weights is for text; a .pte file has its weights in it, or in .ptd files (--data)")
    if arguments.values is not None and arguments.etdump is None:
        raise usage_error("--values needs --etdump: the profile says where in the file each value is")
    if arguments.repeat is not None and arguments.repeat < 1:
        raise usage_error(f"--repeat {arguments.repeat}: it is a number from 1 on")
    given = [name for name in _RUNTIMES_OF if getattr(arguments, name) not in (None, False, [])]
    if not arguments.input.endswith(".pte"):
        if arguments.data:
            raise usage_error(
                f"--data is for .pte files, '{arguments.input}' is text",
                help="pass the bytes of its weights with --weights, or leave the option out",
            )
        if asked in ("etir", "stock"):
            raise usage_error(f"--runtime {asked} executes .pte files, '{arguments.input}' is interpreted")
        asked = "interpreter"
    if asked is None:
        from etir.runtime import is_available

        # What has to be native fails later, with the reason why it is not installed.
        asked = (
            "etir" if is_available() or any("interpreter" not in _RUNTIMES_OF[name] for name in given) else RUNTIMES[2]
        )
    wrong = next((name for name in given if asked not in _RUNTIMES_OF[name]), None)
    if wrong is not None:
        having = " and ".join(_RUNTIME_NAMES[name] for name in _RUNTIMES_OF[wrong])
        what = "is interpreted" if asked == "interpreter" else f"runs on {_RUNTIME_NAMES[asked]}"
        raise usage_error(
            f"--{wrong.replace('_', '-')} is for .pte files on {having}, '{arguments.input}' {what}",
            help="leave the option out, or pass a .pte file without --interpret, --evaluator and --runtime",
        )
    return asked


def _native_signatures(arguments: argparse.Namespace) -> list[MethodSignature]:
    with _errors_of(arguments.input):
        program = _load_native(arguments)
        signatures = [program.signature(name) for name in program.methods]
    return [
        MethodSignature(s.name, tuple((i.name, str(i)) for i in s.inputs), tuple((o.name, str(o)) for o in s.outputs))
        for s in signatures
    ]


def _execute(arguments: argparse.Namespace, console: Console) -> tuple[list[Any], Names, list[float]]:
    """Outputs of the native runtime, what the program calls them, and the seconds of the runs that were timed."""
    import time

    repeat = arguments.repeat or 1
    with _errors_of(arguments.input), _warnings_on(console):
        method = _load_native(arguments)[arguments.method]
    with _errors_of(arguments.input):
        inputs = order_inputs(_load_inputs(arguments.inputs), [info.name for info in method.inputs])
        names = [info.name for info in method.outputs]
        seconds: list[float] = []
        outputs: list[Any] = []
        if arguments.profile or arguments.etdump is not None:
            profile = method.profile(*inputs, repeat=repeat, values=arguments.values is not None)
            if arguments.profile:
                print(profile)
            if arguments.etdump is not None:
                _save_profile(arguments, profile, console)
            return profile.outputs, names, seconds
        for _ in range(repeat):
            start = time.perf_counter()
            outputs = method(*inputs)
            seconds.append(time.perf_counter() - start)
        return outputs, names, seconds


def _save_profile(arguments: argparse.Namespace, profile: Profile, console: Console) -> None:
    from etir.devtools.errors import E1416
    from etir.dialects.et.weights import write_atomically

    recorded = profile.recorded
    assert recorded is not None
    try:
        write_atomically(arguments.etdump, [recorded.etdump])
        if arguments.values is not None:
            write_atomically(arguments.values, [recorded.value_bytes])
    except OSError as error:
        raise E0903.error(f"cannot write '{arguments.etdump}': {error.strerror or error}") from None
    for count, what in ((recorded.dropped, "records"), (recorded.dropped_values, "values")):
        if count:
            message = f"{count} {what} of '{arguments.method}' did not fit and are missing"
            place = SourceLocation(arguments.etdump)
            console.report([E1416.diagnostic(message, place, severity=Severity.WARNING)])


def _execute_stock(arguments: argparse.Namespace, console: Console) -> tuple[list[Any], Names, list[float]]:
    """The same for ExecuTorch's runtime."""
    from etir.devtools.stock_runtime import run_stock
    from etir.emit.pte.reader import read_pte
    from etir.tools.files import read_pte_bytes

    name, data = read_pte_bytes(arguments.input)
    found = [signature for signature in _signatures(_load(arguments, console)) if signature.name == arguments.method]
    if len(arguments.data) > 1:
        raise usage_error("ExecuTorch's runtime takes one file of external weights")
    takes = [label for label, _ in found[0].inputs] if found else []
    run = run_stock(
        name,
        read_pte(data, name),
        arguments.method,
        order_inputs(_load_inputs(arguments.inputs), takes),
        repeat=arguments.repeat or 1,
        etdump=arguments.etdump,
        values=arguments.values,
        data=arguments.data[0] if arguments.data else None,
    )
    names = [label for label, _ in found[0].outputs] if found else [None] * len(run.outputs)
    return run.outputs, names, run.seconds


def _load_native(arguments: argparse.Namespace) -> Program:
    from etir.runtime import load, load_library

    if head := read_head(arguments.input):
        refuse_others(arguments.input, head, "a .pte file")
    for library in arguments.load_library:
        load_library(library)
    threads = 1 if arguments.threads is None else arguments.threads
    policy = "trusted" if arguments.native else None
    return load(arguments.input, arguments.data, threads=threads, native=policy)


@contextmanager
def _warnings_on(console: Console) -> Iterator[None]:
    """What the runtime warns of is said as tools say it."""
    from etir.runtime import NativeWarning

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", NativeWarning)
        yield
    for warning in found:
        if isinstance(warning.message, NativeWarning) and warning.message.diagnostic is not None:
            console.report([warning.message.diagnostic])
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


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

        return read_pte_module(arguments.input, arguments.data)
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
