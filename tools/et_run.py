"""``et-run``: execute a program, a ``.pte`` file or text at any level, on inputs from an ``.npz`` file.

::

    et-run model.pte --inputs x.npz --outputs y.npz
    et-run model.pte --inputs x.npz --profile
    et-run module.mlir --inputs x.npz --oracle numpy

A ``.pte`` file runs on the native runtime (``etir.runtime``) where that is installed; text is interpreted, and so is a
file with ``--interpret`` or ``--oracle``. The level does not matter: the same inputs can be run before and after any
pass and the outputs compared.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from etir.diagnostics import EtirError, SourceLocation
from etir.tools.common import OK, Console, ToolParser, read_bytes, run_tool, usage_error
from etir.tools.errors import E0902, E0903, E0910

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
    parser.add_argument("--interpret", action="store_true", help="interpret a .pte file instead of executing it")
    parser.add_argument(
        "--oracle", choices=("auto", "numpy", "torch"), help="what computes operators when interpreting (default: auto)"
    )
    parser.add_argument(
        "--data", action="append", default=[], metavar="FILE", help=".ptd file with external weights of a .pte file"
    )
    parser.add_argument(
        "--load-library",
        action="append",
        default=[],
        metavar="FILE",
        help="shared library with kernels or backends of your own (native runtime)",
    )
    parser.add_argument("--profile", action="store_true", help="print the time of each operator (native runtime)")
    parser.add_argument("--threads", type=int, metavar="N", help="threads for one run (native runtime; default: 1)")
    parser.add_argument(
        "--weights", action="append", default=[], metavar="FILE", help="safetensors with the bytes of weights"
    )
    return parser


def _run(arguments: argparse.Namespace, console: Console) -> int:
    native = _is_native(arguments)
    outputs, names = _execute(arguments) if native else _interpret(arguments, console)
    labels = _output_labels(outputs, names)
    if arguments.outputs is not None:
        _save_outputs(arguments.outputs, dict(zip(labels, outputs, strict=True)))
    elif not arguments.profile:
        for label, value in zip(labels, outputs, strict=True):
            print(_describe(label, value))
    return OK


def _is_native(arguments: argparse.Namespace) -> bool:
    """Whether the native runtime executes the input. Raises error E0901 for options that only it has."""
    interpreted = not arguments.input.endswith(".pte") or arguments.interpret or arguments.oracle is not None
    options = ("profile", "threads", "data", "load_library")
    only_native = [name.replace("_", "-") for name in options if getattr(arguments, name) not in (None, False, [])]
    if not interpreted:
        from etir.runtime import is_available

        # What has to be native fails later, with the reason why it is not installed.
        return is_available() or bool(only_native)
    if only_native:
        raise usage_error(
            f"--{only_native[0]} is for .pte files on the native runtime, '{arguments.input}' is interpreted",
            help="leave the option out, or pass a .pte file without --interpret and --oracle",
        )
    return False


def _execute(arguments: argparse.Namespace) -> tuple[list[Any], tuple[str, ...]]:
    """Outputs of the native runtime. Names of outputs are not in the file."""
    from dataclasses import replace

    from etir.runtime import RuntimeFailure, load, load_library

    read_bytes(arguments.input)
    for library in arguments.load_library:
        load_library(library)
    try:
        program: Program = load(
            arguments.input, arguments.data, threads=1 if arguments.threads is None else arguments.threads
        )
        method = program[arguments.method]
        names = [info.name for info in method.inputs]
        known = tuple(name for name in names if name is not None)
        inputs = _order_inputs(_load_inputs(arguments.inputs), known if len(known) == len(names) else ())
        if not arguments.profile:
            return method(*inputs), ()
        profile = method.profile(*inputs)
    except RuntimeFailure as error:
        raise EtirError([replace(d, location=SourceLocation(arguments.input)) for d in error.diagnostics]) from None
    print(profile)
    return profile.outputs, ()


def _interpret(arguments: argparse.Namespace, console: Console) -> tuple[list[Any], tuple[str, ...]]:
    """Outputs of the interpreter, and what the module calls them."""
    from etir.interpret import run_module

    module = _load(arguments, console)
    names = _method_names(module, arguments.method, "input_names")
    inputs = _order_inputs(_load_inputs(arguments.inputs), names)
    oracle = arguments.oracle or "auto"
    outputs = [_to_numpy(v) for v in run_module(module, inputs, method=arguments.method, oracle=oracle)]
    return outputs, _method_names(module, arguments.method, "output_names")


def _load(arguments: argparse.Namespace, console: Console) -> ModuleOp:
    if arguments.input.endswith(".pte"):
        from etir.tools.files import read_pte_module

        return read_pte_module(arguments.input)
    from etir.dialects.payloads import require_payloads
    from etir.tools.context import ToolContext
    from etir.tools.files import read_module

    module = read_module(arguments.input, arguments.weights, ToolContext(), console)
    require_payloads(module)
    return module


def _method_names(module: ModuleOp, method: str, what: str) -> tuple[str, ...]:
    """The names of a method's inputs or outputs, empty when the module does not have them."""
    from xdsl.dialects.builtin import ArrayAttr, StringAttr
    from xdsl.dialects.func import FuncOp

    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == method:
            names = op.attributes.get(f"et.{what}")
            if isinstance(names, ArrayAttr):
                return tuple(n.data for n in names.data if isinstance(n, StringAttr))
    return ()


def _load_inputs(path: str | None) -> dict[str, Any]:
    """The arrays of an ``.npz`` file in file order."""
    if path is None:
        return {}
    import zipfile

    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, AttributeError, zipfile.BadZipFile) as error:
        raise E0902.error(f"cannot read the inputs '{path}': {error}", help="write them with numpy.savez") from None


def _order_inputs(arrays: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    """The arrays in the order of the method's inputs: by name when all are named like inputs, else as they stand.

    Raises error E0910 when some are named like inputs and others not.
    """
    known = [name for name in arrays if name in names]
    if not known:
        return list(arrays.values())
    missing = [name for name in names if name not in arrays]
    strange = [name for name in arrays if name not in names]
    if missing or strange:
        parts = [f"missing {', '.join(missing)}"] if missing else []
        parts += [f"unknown {', '.join(strange)}"] if strange else []
        raise E0910.error(f"the inputs do not fit: {'; '.join(parts)}; the method takes {', '.join(names)}")
    return [arrays[name] for name in names]


def _to_numpy(value: Any) -> Any:
    """A tensor of either oracle as a NumPy array; what NumPy has no type for (bfloat16) is widened to float32."""
    if not hasattr(value, "detach"):
        return value
    tensor = value.detach()
    try:
        return tensor.numpy()
    except TypeError:
        return tensor.float().numpy()


def _output_labels(outputs: Sequence[Any], names: Sequence[str]) -> list[str]:
    return list(names) if len(names) == len(outputs) else [f"output_{i}" for i in range(len(outputs))]


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
