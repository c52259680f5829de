"""One entry of the zoo in one process: built, exported, compiled, run on both runtimes, compared with eager.

Seconds are processor time of the process, with one thread of torch: what else a machine does changes them little.
Figures are those of one cold compilation, from an ``ExportedProgram`` in memory to the bytes of the file, without the
compiler's imports; the peak is the high-water mark of resident memory above a process that holds the
``ExportedProgram`` and has imported both compilers.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import importlib
import statistics
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from etir_testing.models.registry import relative_difference
from etir_testing.models.zoo_entry import Built, Entry

RUN_SECONDS = 1.0
"""How long a program is run at least to time it, in all, when one run is shorter."""


@dataclass
class Figures:
    """What one process found out about one entry; fields stay None where the work did not get there.

    Bytes, seconds; ``arena`` sums the planned pools of all methods. ``*_difference`` is the largest relative difference
    from eager on etir's runtime and on the wheel's, of etir's files in an ``etir`` process and of the stock pipeline's
    file (wheel only) in a ``stock`` process. ``error`` is the text of what failed, at ``stage``.
    """

    name: str
    compiler: str
    stage: str = "build"
    error: str | None = None
    parameters: int = 0
    export_seconds: float | None = None
    compile_seconds: float | None = None
    peak_bytes: int | None = None
    file_bytes: int | None = None
    arena_bytes: int | None = None
    own_compile_seconds: float | None = None
    own_arena_bytes: int | None = None
    own_run_seconds: float | None = None
    own_difference: float | None = None
    wheel_run_seconds: float | None = None
    wheel_difference: float | None = None


def work(entry: Entry, compiler: str, *, wheel: bool = True, timed: bool = True) -> Figures:
    """The figures of ``entry`` with ``etir`` or ``stock`` as compiler; never raises for what the entry does.

    ``wheel`` False leaves the wheel's runtime out; ``timed`` False runs no program more often than it has calls.
    """
    figures = Figures(entry.name, compiler)
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if entry.shape_only:
                _shape_only(entry, compiler, figures)
            else:
                _whole(entry, compiler, figures, wheel, timed)
        except Exception as error:  # the report of a zoo has every entry's error, whatever it is
            figures.error = _text(error, figures.stage)
    return figures


def _text(error: Exception, stage: str) -> str:
    from etir.diagnostics import EtirError

    if isinstance(error, EtirError):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} [{stage}, {Path(place.filename).name}:{place.lineno}]"


def _export(built: Built, figures: Figures) -> torch.export.ExportedProgram:
    figures.parameters = sum(parameter.numel() for parameter in built.module.parameters())
    figures.stage = "export"
    start = time.process_time()
    with torch.no_grad():
        program = torch.export.export(built.module, built.inputs, dynamic_shapes=built.dynamic_shapes)
    figures.export_seconds = time.process_time() - start
    return program


def _whole(entry: Entry, compiler: str, figures: Figures, wheel: bool, timed: bool) -> None:
    built = entry.build()
    calls = [built.inputs, *built.more]
    # Modules keep state from call to call, and may write into their inputs.
    expected = _outputs_of_module(entry.build().module, calls)
    if not all(tensor.isfinite().all() for outputs in expected for tensor in outputs):
        figures.error = "eager's outputs are not finite"
        return
    program = _export(built, figures)
    flat = [[_dense(leaf) for leaf in pytree.tree_leaves(call)] for call in calls]
    figures.stage = "compile"
    if compiler == "stock":
        data = _measured(lambda: _stock_buffer(program), "executorch.exir", figures)
    else:
        data = _measured(lambda: _etir_buffer(program, "executorch"), "etir.driver", figures)
    figures.file_bytes, figures.arena_bytes = len(data), _arena(data)
    if wheel:
        figures.stage = "run on the wheel's runtime"
        run = _wheel_method(data)
        figures.wheel_difference = _difference(run, flat, expected)
        figures.wheel_run_seconds = _seconds(run, flat[-1]) if timed else None
    if compiler == "etir":
        figures.stage = "compile for etir's runtime"
        start = time.process_time()
        data = _etir_buffer(program, "etir")
        figures.own_compile_seconds = time.process_time() - start
        figures.own_arena_bytes = _arena(data)
        figures.stage = "run on etir's runtime"
        run = _own_method(data)
        figures.own_difference = _difference(run, flat, expected)
        figures.own_run_seconds = _seconds(run, flat[-1]) if timed else None
    figures.stage = "done"


def _shape_only(entry: Entry, compiler: str, figures: Figures) -> None:
    """Export on fake tensors and compile up to the memory plan: no byte of a weight exists."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    if compiler == "stock":
        figures.error = "not tried: the stock pipeline writes the weights' bytes"
        return
    with FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True):
        program = _export(entry.build(), figures)
    figures.stage = "compile"
    module = _measured(lambda: _planned(program, "executorch"), "etir.driver", figures)
    figures.arena_bytes = _planned_bytes(module)
    start = time.process_time()
    figures.own_arena_bytes = _planned_bytes(_planned(program, "etir"))
    figures.own_compile_seconds = time.process_time() - start
    figures.stage = "done"


def _planned(program: torch.export.ExportedProgram, target: str) -> Any:
    import etir
    from etir.dialects.context import EtContext
    from etir.options import CompileOptions
    from etir.passes.infra.manager import run_pipeline
    from etir.pipeline import pipeline

    module = etir.import_program(program)
    run_pipeline(EtContext(), module, pipeline(CompileOptions(target=target)))
    return module


def _planned_bytes(module: Any) -> int:
    from etir.dialects.et.executable import MethodOp

    methods = (op for op in module.body.block.ops if isinstance(op, MethodOp))
    return sum(sum((method.pool_sizes or ())[1:]) for method in methods)


def _etir_buffer(program: torch.export.ExportedProgram, target: str) -> bytes:
    import etir

    return etir.compile(program, target=target).buffer


def _stock_buffer(program: torch.export.ExportedProgram) -> bytes:
    from executorch.exir import to_edge

    return to_edge(program).to_executorch().buffer


def _measured(compile: Callable[[], Any], package: str, figures: Figures) -> Any:
    """Result of ``compile``, which needs ``package``; its seconds and its peak go into ``figures``."""
    importlib.import_module(package)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = _resident("VmRSS")
    start = time.process_time()
    result = compile()
    figures.compile_seconds = time.process_time() - start
    figures.peak_bytes = _resident("VmHWM") - before
    return result


def _resident(key: str) -> int:
    """Bytes of ``VmRSS``, resident memory now, or ``VmHWM``, its high-water mark."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key + ":"))


def _arena(data: bytes) -> int:
    from etir.emit.pte.reader import read_pte

    return sum(sum(plan.non_const_buffer_sizes[1:]) for plan in read_pte(data).execution_plan)


Run = Callable[[list[Any]], list[Any]]


def _wheel_method(data: bytes) -> Run:
    from executorch.runtime import Runtime

    program = Runtime.get().load_program(data)
    method = program.load_method("forward")

    def run(inputs: list[Any], keep: Any = (program, data)) -> list[Any]:
        return [o.clone() if isinstance(o, torch.Tensor) else o for o in method.execute(tuple(inputs))]

    return run


def _own_method(data: bytes) -> Run:
    from etir import runtime

    method = runtime.load(data).forward
    return lambda inputs: method(*inputs)


def _dense(value: Any) -> Any:
    return value.contiguous() if isinstance(value, torch.Tensor) else value


def _tensors(values: Sequence[Any]) -> list[torch.Tensor]:
    return [torch.as_tensor(value).detach() for value in values if value is not None]


def _outputs_of_module(module: torch.nn.Module, calls: Sequence[tuple[Any, ...]]) -> list[list[torch.Tensor]]:
    calls = copy.deepcopy(calls)
    with torch.no_grad():
        return [[t.clone() for t in _tensors(pytree.tree_leaves(module(*call)))] for call in calls]


def _difference(run: Run, calls: Sequence[list[Any]], expected: Sequence[list[torch.Tensor]]) -> float:
    """The largest relative difference of all calls, made in order on private copies of their inputs."""
    worst = 0.0
    for call, wanted in zip(calls, expected, strict=True):
        outputs = _tensors(run(copy.deepcopy(call)))
        worst = max(worst, relative_difference(outputs, wanted))
    return worst


def _seconds(run: Run, call: list[Any]) -> float:
    """Median processor seconds of a run; one run when it takes long."""
    found: list[float] = []
    while sum(found) < RUN_SECONDS and len(found) < 20:
        start = time.process_time()
        run(call)
        found.append(time.process_time() - start)
    return statistics.median(found)
