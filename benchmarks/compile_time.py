"""Compile time, planned memory, peak memory and file size of etir beside the stock ExecuTorch pipeline.

    python benchmarks/compile_time.py                    every model, both compilers, a table
    python benchmarks/compile_time.py lstm --json        one model, as JSON

How it is measured:

* *Seconds* go from an ``ExportedProgram`` in memory to the bytes of the ``.pte``. Both compilers run in one process,
  each time on a program exported afresh outside the measured time, once to warm up (imports, caches) and then
  ``--repeats`` times in turns, so that a noisy machine slows both. The ratio is that of the medians.
* *Peak* is the high-water mark of resident memory above a process that holds the ``ExportedProgram`` and has imported
  torch only: the compiler's own imports count. Each figure comes from a new process, whose high-water mark is reset
  (``/proc/self/clear_refs``, hence Linux only) when freed memory has been given back to the system.
* *Arena*, instructions and file bytes are read from the files by ExecuTorch's deserializer.

etir compiles for the stock runtime (``target="executorch"``), so both files are for the same machine. The last column
names the bars that a row misses: etir's time at most half of stock's, its arena no larger, its peak at most 1.5 times
the weights plus 64 MiB.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import logging
import multiprocessing
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ParamSpec, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))

import torch
from torch.export import ExportedProgram

from etir_testing.models.registry import MODELS
from stock import PteFigures, pte_figures, run_stock_runtime, stock_buffer

P = ParamSpec("P")
R = TypeVar("R")

MIB = 1 << 20
TIME_BAR = 0.5
PEAK_WEIGHTS_BAR = 1.5
PEAK_FIXED_BAR = 64 * MIB


def etir_buffer(ep: ExportedProgram) -> bytes:
    """The ``.pte`` that etir makes of ``ep``; RuntimeError with etir's diagnostics if it refuses the program."""
    import etir
    from etir.diagnostics import EtirError

    try:
        return bytes(etir.compile(ep, target="executorch").buffer)
    except EtirError as error:
        raise RuntimeError(str(error)) from None


COMPILERS: dict[str, Callable[[ExportedProgram], bytes]] = {"etir": etir_buffer, "stock": stock_buffer}


@dataclass
class CompilerFigures:
    """One compiler on one model. Bytes, seconds; ``imports_bytes`` is the part of the peak reached by importing."""

    seconds: list[float]
    figures: PteFigures
    difference: float | None = None
    peak_bytes: int = 0
    imports_bytes: int = 0

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass
class ModelFigures:
    """All compilers on one model; ``weights_bytes`` counts parameters, buffers and lifted constants once each."""

    model: str
    weights_bytes: int
    compilers: dict[str, CompilerFigures] = field(default_factory=dict)

    def missed_bars(self) -> list[str]:
        """The bars that etir misses on this model, as far as they were measured."""
        etir, stock = self.compilers.get("etir"), self.compilers.get("stock")
        if etir is None:
            return []
        missed = []
        if stock is not None and etir.median > TIME_BAR * stock.median:
            missed.append("time")
        if stock is not None and etir.figures.arena_bytes > stock.figures.arena_bytes:
            missed.append("arena")
        if etir.peak_bytes > PEAK_WEIGHTS_BAR * self.weights_bytes + PEAK_FIXED_BAR:
            missed.append("peak")
        return missed


def weights_bytes(ep: ExportedProgram) -> int:
    """Bytes of the distinct storages of the program's parameters, buffers and constants."""
    values = [*ep.state_dict.values(), *ep.constants.values()]
    storages = [value.untyped_storage() for value in values if isinstance(value, torch.Tensor)]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def measure_time(model: str, compilers: Sequence[str], repeats: int, check: bool) -> ModelFigures:
    """Compile ``model`` with all ``compilers`` in turns; with ``check``, also run the files and compare with eager."""
    case = MODELS[model]
    result = ModelFigures(model, weights_bytes(case.export()))
    for name in compilers:
        buffer = COMPILERS[name](case.export())
        row = CompilerFigures([], pte_figures(buffer))
        if check:
            row.difference = case.check(run_stock_runtime(buffer, [case.inputs(step) for step in range(case.steps)]))
        result.compilers[name] = row
    for _ in range(repeats):
        for name in compilers:
            ep = case.export()
            gc.collect()
            start = time.perf_counter()
            COMPILERS[name](ep)
            result.compilers[name].seconds.append(time.perf_counter() - start)
    return result


def _memory(key: str) -> int:
    """Bytes of one entry of ``/proc/self/status``: ``VmRSS`` is resident memory now, ``VmHWM`` its high-water mark."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {key}")


def measure_peak(model: str, compiler: str) -> tuple[int, int]:
    """(bytes above the start after the compiler's imports, bytes above the start at the peak of one compilation)."""
    ep = MODELS[model].export()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    start = _memory("VmRSS")
    if compiler == "etir":
        import etir  # noqa: F401
    else:
        import executorch.exir  # noqa: F401
    imports = _memory("VmHWM") - start
    COMPILERS[compiler](ep)
    return imports, _memory("VmHWM") - start


def _quiet() -> None:
    """Keep what torch and executorch log while they are imported out of the benchmark's output."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)


def in_new_process(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call ``function`` in a process of its own, started from scratch so that nothing is imported or allocated yet."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=context, initializer=_quiet) as pool:
        return pool.submit(function, *args, **kwargs).result()


def measure(model: str, compilers: Sequence[str], repeats: int, check: bool) -> ModelFigures:
    """All figures of one model, each kind from new processes."""
    result = in_new_process(measure_time, model, compilers, repeats, check)
    for name in compilers:
        row = result.compilers[name]
        row.imports_bytes, row.peak_bytes = in_new_process(measure_peak, model, name)
    return result


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells, the titles first, as aligned lines: the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


COLUMNS: tuple[tuple[str, Callable[[CompilerFigures], str]], ...] = (
    ("seconds", lambda row: f"{row.median:.2f}"),
    ("arena bytes", lambda row: f"{row.figures.arena_bytes:,}"),
    ("instructions", lambda row: f"{row.figures.instructions:,}"),
    ("file bytes", lambda row: f"{row.figures.file_bytes:,}"),
    ("peak MiB", lambda row: f"{row.peak_bytes / MIB:.0f}"),
    ("from eager", lambda row: "-" if row.difference is None else f"{row.difference:.1e}"),
)
"""Title and text of each column that every compiler has."""


def report(results: Sequence[ModelFigures]) -> str:
    """The figures as a text table, one line per model and compiler; etir's has ratio, peak bar and misses."""
    rows = [["model", "compiler", *(title for title, _ in COLUMNS), "time ratio", "peak bar MiB", "missed"]]
    for result in results:
        for name, figures in result.compilers.items():
            ratio = peak_bar = missed = "-"
            if name == "etir":
                peak_bar = f"{(PEAK_WEIGHTS_BAR * result.weights_bytes + PEAK_FIXED_BAR) / MIB:.0f}"
                missed = ",".join(result.missed_bars()) or "-"
                if "stock" in result.compilers:
                    ratio = f"{figures.median / result.compilers['stock'].median:.3f}"
            rows.append([result.model, name, *(text(figures) for _, text in COLUMNS), ratio, peak_bar, missed])
    return table(rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the chosen models and print the table, or JSON with ``--json``; progress goes to stderr.

    A model that a compiler or the runtime fails on is named on stderr, left out, and makes the exit code 1.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"all of: {', '.join(MODELS)}")
    parser.add_argument("--only", choices=tuple(COMPILERS), help="measure one compiler")
    parser.add_argument("--repeats", type=int, default=3, help="measured compilations per compiler (default 3)")
    parser.add_argument("--check", action="store_true", help="also run every file on the stock runtime against eager")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(argv)
    models = options.models or list(MODELS)
    unknown = [model for model in models if model not in MODELS]
    if unknown or options.repeats < 1:
        parser.error(f"unknown model {unknown[0]!r}; known: {', '.join(MODELS)}" if unknown else "--repeats is below 1")
    compilers = [options.only] if options.only else list(COMPILERS)

    results, failed = [], False
    for model in models:
        if missing := MODELS[model].missing():
            print(f"{model}: skipped, not installed: {', '.join(missing)}", file=sys.stderr)
            continue
        print(f"{model} ...", end="", file=sys.stderr, flush=True)
        try:
            result = measure(model, compilers, options.repeats, options.check)
        except RuntimeError as error:
            print(f" failed: {error}", file=sys.stderr, flush=True)
            failed = True
            continue
        medians = (f"{name} {row.median:.2f} s" for name, row in result.compilers.items())
        print(f" {', '.join(medians)}", file=sys.stderr, flush=True)
        results.append(result)
    if options.json:
        print(json.dumps([{**asdict(result), "missed": result.missed_bars()} for result in results], indent=2))
    elif results:
        print(report(results))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
