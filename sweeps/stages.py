"""The stages by name: what a worker does with a job.

Everything that can go wrong in one is an :class:`~etir.sweeps.jobs.Outcome`: a diagnostic of etir's, an exception of
the user's code, a disk that is full, memory that is not there. What ends the process is left to whoever started it.
"""

from __future__ import annotations

import errno
import json
import math
import platform
import socket
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

from etir.diagnostics import EtirError
from etir.sweeps.errors import E1906, E1910, E1912
from etir.sweeps.jobs import Job, Outcome
from etir.sweeps.model import Cell, Figure
from etir.sweeps.store import Store

LONGEST = 1000
"""Letters of a figure that is text."""

DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_MEMORY = ("can't allocate memory", "bad_alloc", "not enough memory", "Cannot allocate memory")


@cache
def processor() -> str:
    """The processor's name, as the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    found = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return found or platform.machine()


def run_job(job: Job, store: Store) -> Outcome:
    """Do a job, and note where and for how long."""
    start = time.perf_counter()
    try:
        found = STAGES[job.stage](job, store)
    except Exception as error:
        found = failure(error, job.stage)
    return replace(found, seconds=time.perf_counter() - start, host=socket.gethostname(), processor=processor())


def failure(error: Exception, stage: str) -> Outcome:
    """The outcome of a job that has raised something."""
    text = str(error) if isinstance(error, EtirError) else f"{type(error).__name__}: {error}"
    if isinstance(error, MemoryError) or any(part in text for part in _MEMORY):
        return Outcome("memory", error=E1910.id, message=f"{stage}: {(text.splitlines() or [''])[0]}")
    if isinstance(error, OSError) and error.errno in DISK:
        return Outcome("disk", error=E1906.id, message=f"{stage}: {error.strerror}")
    if isinstance(error, EtirError):
        return Outcome("error", error=error.ids[0], message=str(error))
    place = traceback.extract_tb(error.__traceback__)[-1]
    message = f"{(text.splitlines() or [''])[0]} [{stage}, {Path(place.filename).name}:{place.lineno}]"
    return Outcome("error", error=E1912.id, message=message)


def done_before(job: Job, store: Store) -> Outcome | None:
    """What an earlier sweep has left of a job. Raises ``OSError`` for artefacts that cannot be read."""
    if job.stage == "call" or job.stage == "time" or not store.has(job.key):
        return None
    if job.stage != "cell":
        return Outcome()
    return _outcome(store.read(job.key))


# --- the stages -------------------------------------------------------------------------------------------------------


def _export(job: Job, store: Store) -> Outcome:
    from etir.sweeps.exporting import export_program

    store.write(job.key, export_program(job.given["program"]))
    return Outcome()


def _quantize(job: Job, store: Store) -> Outcome:
    from etir.quantized import quantize_program
    from etir.sweeps.exporting import read_export
    from etir.sweeps.quantizing import KeptStatistics, module_bytes, said_of

    found = read_export(store.read(job.needs[0]))
    given = job.given
    keywords = dict(cast("Mapping[str, Any]", given["recipe"]))
    recipe = keywords.pop("recipe")
    quantized = quantize_program(
        _program(found),
        recipe,
        calibration=found["calibration"],
        target=given["target"],
        delegates=given["delegates"],
        kept=KeptStatistics(store),
        **keywords,
        **given["options"],
    )
    store.write(job.key, module_bytes(quantized.module, said_of(quantized.report)))
    return Outcome()


def _program(found: Mapping[str, Any]) -> Any:
    """The exported program of an artefact."""
    import io

    from etir.lowering.import_fx import require_torch

    return require_torch().export.load(io.BytesIO(found["program"]))


def _cell(job: Job, store: Store) -> Outcome:
    """Compile, run, compare: all figures but the latency."""
    from etir.driver import compile_program
    from etir.sweeps.exporting import read_export
    from etir.sweeps.quantizing import module_of_bytes
    from etir.sweeps.running import runtime_of

    given, cell = job.given, cast("Cell", job.given["cell"])
    measure = given["measure"]
    found = read_export(store.read(job.needs[0]))
    figures: dict[str, Figure] = {}
    notes: list[str] = []
    if given["quantized"]:
        source, said = module_of_bytes(store.read(job.needs[1]))
        figures["layers"] = said.layers
        notes += said.notes
    else:
        source = _program(found)
    options = dict(cell.option_keywords)
    _warm_up(cell.compiled_for)
    start = time.perf_counter()
    program = compile_program(source, target=cell.compiled_for, delegates=cell.delegate_texts, **options)
    data = program.buffer
    seconds = time.perf_counter() - start
    external = program.external
    if "compile_seconds" in measure:
        figures["compile_seconds"] = seconds
    if "bytes" in measure:
        figures["bytes"] = len(data) + sum(map(len, external.values()))
    if "arena" in measure:
        figures["arena"] = arena_bytes(data)
    if "method_memory" in measure and cell.target == "etir":
        figures["method_memory"] = sum(memory.method for memory in program.runtime_memory().values())
    status = "ok"
    if "difference" in measure or "accuracy" in measure:
        run = runtime_of(cell.target, data, list(external.values()))
        figures["ran"] = not isinstance(run, str)
        if isinstance(run, str):
            notes.insert(0, f"compiled, and not run: {run}")
        else:
            outputs = [run([_copied(value) for value in call]) for call in found["calls"]]
            try:
                status = _compare(given, found, outputs, figures, notes)
            except EtirError as error:  # Of the user's metric: the other figures stand.
                return replace(failure(error, job.stage), figures=figures)
    store.write(job.key, data, "pte")
    for tag, weights in external.items():
        store.write(job.key, weights, f"{tag}.ptd")
    outcome = Outcome(status, figures, message="; ".join(notes), host=socket.gethostname(), processor=processor())
    store.write(job.key, json.dumps({name: getattr(outcome, name) for name in _KEPT}).encode())
    return outcome


_KEPT = ("status", "figures", "message", "host", "processor")
"""What is kept of a cell's outcome for later stages and later sweeps."""


def _compare(
    given: Mapping[str, Any],
    found: Mapping[str, Any],
    outputs: list[list[Any]],
    figures: dict[str, Figure],
    notes: list[str],
) -> str:
    """Add figures of outputs, and notes on them; the status."""
    from etir.sweeps.running import difference

    expected: list[list[Any]] = found["expected"]
    worst = max((difference(one, other) for one, other in zip(outputs, expected, strict=True)), default=0.0)
    if "difference" in given["measure"]:
        figures["difference"] = worst
    metric = _metric(given["metric"], found["metric"])
    status = "ok"
    if "accuracy" in given["measure"] and metric is not None:
        figures["accuracy"] = score = _score(metric, outputs)
        if not math.isfinite(score):
            notes.insert(0, f"the metric says {score}")
            status = "wrong"
    tolerance = given["tolerance"] if found["tolerance"] is None else found["tolerance"]
    if not given["quantized"] and "difference" in given["measure"] and not worst <= tolerance:
        notes.insert(0, f"off by {worst:.1e} from eager, {tolerance:.1e} is allowed")
        return "wrong"
    if not any(getattr(value, "numel", lambda: 1)() for call in expected for value in call if value is not None):
        notes.insert(0, "nothing was compared: no call gives a number")
        return "unchecked"
    return status


@cache
def _warm_up(target: str) -> None:
    """Compile something small once in a process: what is imported and read then is no cell's time."""
    import torch

    from etir.driver import compile_program

    with torch.no_grad():
        small = torch.export.export(torch.nn.ReLU(), (torch.zeros(2),))
    _ = compile_program(small, target=target).buffer


def _outcome(data: bytes) -> Outcome:
    return Outcome(**json.loads(data))


def _time(job: Job, store: Store) -> Outcome:
    """The latency; the machine's lock is held by whoever runs the job."""
    from etir.sweeps.exporting import read_export
    from etir.sweeps.running import median_seconds, runtime_of

    before = _outcome(store.read(job.needs[1]))
    run = runtime_of(job.given["target"], store.read(job.needs[1], "pte"), store.external(job.needs[1]))
    if isinstance(run, str):
        return before
    figures = dict(before.figures)
    figures["latency"] = median_seconds(run, read_export(store.read(job.needs[0]))["calls"][0])
    if "compile_seconds" in figures and (before.host, before.processor) != (socket.gethostname(), processor()):
        figures["compiled_on"] = f"{before.host}, {before.processor}"
    return Outcome(before.status, figures, message=before.message)


def _call(job: Job, store: Store) -> Outcome:
    """The row of a function of the plan's: figures by name; ``status`` and ``message`` are not figures."""
    from etir.sweeps.calls import imported

    try:
        given = imported(job.given["function"])(job.given["cell"])
    except (EtirError, MemoryError):
        raise
    except OSError as error:
        if error.errno in DISK:
            raise
        raise E1912.error(f"{job.given['function']}: {type(error).__name__}: {error}") from error
    except Exception as error:  # The user's code.
        message = f"{job.given['function']}: {type(error).__name__}: {error}"
        if any(part in message for part in _MEMORY):
            raise
        raise E1912.error(message) from error
    if not isinstance(given, Mapping):
        raise E1912.error(f"{job.given['function']} gives a {type(given).__name__}, not figures by name")
    figures = {name: _plain(value) for name, value in cast("Mapping[str, Any]", given).items()}
    for name, value in figures.items():
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise E1912.error(f"{job.given['function']}: the name of a figure is a {type(name).__name__}")
        if isinstance(value, str) and len(value) > LONGEST:
            raise E1912.error(f"{job.given['function']}: figure '{name}' has {len(value):,} letters")
        if not isinstance(value, bool | int | float | str | None):
            raise E1912.error(f"{job.given['function']}: figure '{name}' is a {type(value).__name__}")
    status, message = str(figures.pop("status", "ok")), str(figures.pop("message", ""))
    if status not in ("ok", "wrong", "unchecked", "error"):
        raise E1912.error(f"{job.given['function']}: status '{status}' is none of ok, wrong, unchecked, error")
    return Outcome(status, figures, message=message)


STAGES: Mapping[str, Callable[[Job, Store], Outcome]] = {
    "export": _export,
    "quantize": _quantize,
    "cell": _cell,
    "time": _time,
    "call": _call,
}


# --- figures ----------------------------------------------------------------------------------------------------------


def arena_bytes(data: bytes) -> int:
    """Bytes of planned memory of all methods of a ``.pte`` file."""
    from etir.emit.pte.reader import read_pte

    return sum(sum(plan.non_const_buffer_sizes[1:]) for plan in read_pte(data).execution_plan)


def _metric(named: str | None, given: Any) -> Any:
    if named is None:
        return given
    from etir.sweeps.calls import imported

    return imported(named)


def _score(metric: Any, outputs: list[list[Any]]) -> float:
    import numpy as np

    arrays = [[np.asarray(value) for value in call] for call in outputs]
    try:
        return float(metric(arrays))
    except Exception as error:  # The user's code.
        raise E1912.error(f"the metric: {type(error).__name__}: {error}") from error


def _plain(value: Any) -> Any:
    """A number of NumPy or torch as Python has it, everything else as it is."""
    item = getattr(value, "item", None)
    if not callable(item) or getattr(value, "ndim", None) != 0:
        return value
    return item()


def _copied(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else value
