"""Small programs on every executor: eager, the interpreter at every level (both oracles), and the stock runtime.

:func:`check_program` exports a module, takes it through the pipeline pass by pass, interprets what every level says,
runs the file on the stock runtime, and compares all outputs with eager, over several calls on one loaded method. Inputs
that the module mutates are compared too: the caller's own tensor has to change.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from executorch.extension.pybindings import portable_lib
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import ModuleOp

from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.verify import verify_module
from etir.driver import compile_program
from etir.interpret.interpreter import Interpreter
from etir.lowering.import_fx import import_program
from etir.passes.infra.manager import run_pipeline
from etir.pipeline import pipeline
from etir.program import Program

Calls = Sequence[tuple[Any, ...]]


@dataclass
class Trace:
    """What the calls of one executor gave: flat outputs, and the inputs as they are afterwards, per call."""

    outputs: list[list[Any]] = field(default_factory=list)
    inputs: list[list[Any]] = field(default_factory=list)


def plain(value: Any) -> Any:
    """A copy of an output that shares no memory; numbers, strings and None as they are."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if not hasattr(value, "__array__"):
        return value
    array = np.asarray(value)
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def fresh(values: Any) -> Any:
    """A copy in which no two tensors share memory, whatever the original does."""
    return pytree.tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, values)


def trace(call: Callable[[list[Any]], Sequence[Any]], calls: Calls) -> Trace:
    """Run ``call`` with copies of the inputs of every call."""
    found = Trace()
    for given in calls:
        flat = pytree.tree_leaves(fresh(given), is_leaf=lambda v: v is None)
        found.outputs.append([plain(v) for v in call(flat)])
        found.inputs.append([plain(v) for v in flat])
    return found


def eager(module: torch.nn.Module, calls: Calls) -> Trace:
    """The module itself. Its outputs are flattened as the runtime's are: None is a value."""
    module = copy.deepcopy(module)
    found = Trace()
    with torch.no_grad():
        for given in calls:
            own = fresh(given)
            result = module(*own)
            found.outputs.append([plain(v) for v in pytree.tree_leaves(result, is_leaf=lambda v: v is None)])
            found.inputs.append([plain(v) for v in pytree.tree_leaves(own, is_leaf=lambda v: v is None)])
    return found


def stock(data: bytes, calls: Calls, method: str = "forward") -> Trace:
    """The stock runtime; ``data`` has to outlive the loaded program."""
    loaded = portable_lib._load_for_executorch_from_buffer(data)
    return trace(lambda flat: loaded.run_method(method, tuple(flat)), calls)


def interpreted(module: ModuleOp, calls: Calls, oracle: str, method: str = "forward") -> Trace:
    """The interpreter, on a copy of the module."""
    interpreter = Interpreter(module.clone(), oracle)
    return trace(lambda flat: interpreter.run(flat, method), calls)


def assert_same(got: Trace, expected: Trace, where: str, tolerance: float) -> None:
    """Equal shapes, dtypes, kinds and values within ``tolerance``; 0 means to the last bit."""
    for step, (a, b) in enumerate(zip(got.outputs, expected.outputs, strict=True)):
        assert len(a) == len(b), f"{where}, call {step}: {len(a)} outputs for {len(b)}"
        for index, (x, y) in enumerate(zip(a, b, strict=True)):
            _assert_value(x, y, f"{where}, call {step}, output {index}", tolerance)
    for step, (a, b) in enumerate(zip(got.inputs, expected.inputs, strict=True)):
        for index, (x, y) in enumerate(zip(a, b, strict=True)):
            _assert_value(x, y, f"{where}, call {step}, input {index} afterwards", tolerance)


def _assert_value(got: Any, expected: Any, where: str, tolerance: float) -> None:
    if not isinstance(expected, torch.Tensor):
        assert type(got) is type(expected) and got == expected, f"{where}: {got!r} for {expected!r}"
        return
    assert isinstance(got, torch.Tensor), f"{where}: {got!r} is not a tensor"
    torch.testing.assert_close(
        got, expected, rtol=tolerance, atol=tolerance, equal_nan=True, msg=lambda text: f"{where}: {text}"
    )


class Function(torch.nn.Module):
    """A module from a function, which may know the module's ``buffers``."""

    def __init__(self, function: Callable[..., Any], **buffers: torch.Tensor):
        super().__init__()
        self.function = function
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def f32(*shape: int, seed: int = 0) -> torch.Tensor:
    """Standard-normal float32 numbers, the same for the same seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def i64(high: int, *shape: int, seed: int = 0) -> torch.Tensor:
    """Integers from 0 to ``high - 1``, the same for the same seed."""
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(seed))


def exported(module: torch.nn.Module, args: tuple[Any, ...], **options: Any) -> torch.export.ExportedProgram:
    """The exported program of a copy of ``module``, made functional by torch: what comes after that is tested."""
    with torch.no_grad():
        program = torch.export.export(copy.deepcopy(module).eval(), fresh(args), **options)
        return program.run_decompositions()


def check_program(
    module: torch.nn.Module,
    calls: Calls,
    *,
    example: tuple[Any, ...] | None = None,
    dynamic_shapes: Any = None,
    tolerance: float = 1e-5,
    oracles: Sequence[str] = ("torch", "numpy"),
    runtime: bool = True,
    options: Mapping[str, Any] | None = None,
) -> Program:
    """Compile ``module`` and compare every executor with eager. Returns the compiled program.

    ``example`` are the inputs to export with (default: those of the first call). The torch oracle runs the module after
    every pass, NumPy's operators from the edge level on.
    """
    module = module.eval()
    expected = eager(module, calls)
    program = exported(module, calls[0] if example is None else example, dynamic_shapes=dynamic_shapes)
    options = dict(options or {})
    check_levels(import_program(program), calls, expected, tolerance, oracles)
    compiled = compile_program(program, **options)
    check_executable(compiled, calls, expected, tolerance, oracles, runtime)
    return compiled


def check_levels(
    module: ModuleOp, calls: Calls, expected: Trace, tolerance: float, oracles: Sequence[str], method: str = "forward"
) -> None:
    """Interpret after every pass down to the backend level."""
    ctx = EtContext()
    verify_module(module, require_locations=True)
    if "torch" in oracles:
        assert_same(interpreted(module, calls, "torch", method), expected, "torch oracle on import", tolerance)
    edge = False
    for p in pipeline(stop="backend"):
        run_pipeline(ctx, module, [p])
        edge = edge or p.name == "aten-to-edge"
        if p.name.startswith("verify") and p.name != "verify-link":
            continue
        for oracle in oracles:
            if oracle == "torch" or edge:
                where = f"{oracle} oracle after {p.name}"
                assert_same(interpreted(module, calls, oracle, method), expected, where, tolerance)


def check_executable(
    program: Program,
    calls: Calls,
    expected: Trace,
    tolerance: float,
    oracles: Sequence[str],
    runtime: bool,
    method: str = "forward",
) -> None:
    """Interpret the planned method, and run the file."""
    for oracle in oracles:
        where = f"{oracle} oracle at the executable level"
        assert_same(interpreted(program.module, calls, oracle, method), expected, where, tolerance)
    if runtime:
        data = program.buffer
        assert_same(stock(data, calls, method), expected, "stock runtime", tolerance)


def error_of(function: Callable[[], Any]) -> EtirError:
    """The error that ``function`` raises."""
    try:
        function()
    except EtirError as error:
        return error
    raise AssertionError("no error was raised")
