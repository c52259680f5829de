"""Delegation to XNNPACK beside the stock pipeline: what is delegated, what crosses the boundaries, time, latency.

    python benchmarks/delegation.py                        every model
    python benchmarks/delegation.py resnet50 --json        one model, as JSON
    python benchmarks/delegation.py --cache FOLDER         keep the stock pipeline's files, which take minutes to make

Both pipelines start from the same exported program and both files run on the stock runtime:

* *delegates*, *nodes*, *transposes*, *boundary bytes* and *kernels* (instructions outside of delegates) are read from
  the files by one reader, etir's; dynamic dims count at their upper bound. Boundary bytes are those of the tensors that
  one run passes to and from delegates.
* *source operators* are those of the exported program, which both pipelines start from, by what became of them:
  *delegated* (all of it inside of delegates), *left* (some of it outside), *gone* (folded into others). These counts
  are compared; ``delegation_sources.py`` says how they are taken. ``--left`` names the operators that are left.
* *operators* are what each partitioner says that it delegated and left. The two count different graphs (etir's has
  batch norms folded, one scale in attention instead of two, no expand of equal shapes), so they are only printed.
* *seconds* go from an ``ExportedProgram`` to bytes, imports of the compilers included; *compile ratio* is etir's over
  stock's.
* *latency* is measured in turns on the two loaded methods, and the ratio is the median of the ratios of neighbors, so
  that a noisy machine slows both; beside it the ratio of the fastest runs. What is loaded first is a percent or two
  slower, whatever it is (a file beside itself shows it), so half of the runs are with either file first, and the ratio
  is the geometric mean of the two.
* *difference* is the largest absolute one from eager, over the largest magnitude of the output.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import statistics
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))

import torch
from delegation_models import CASES
from delegation_sources import SourceCounts, number, of_etir, of_stock

from etir_testing.models.registry import ModelCase, relative_difference
from stock import independent_copy, run_stock_runtime

COMPILE_BAR, LATENCY_BAR, DIFFERENCE_BAR = 0.2, 1.02, 1e-3


@dataclass
class FileFigures:
    """What one file consists of. ``operators`` and ``left`` are counts of the partitioner's graph, ``sources`` those of
    the exported program; seconds are wall.
    """

    sources: SourceCounts
    delegates: int
    operators: int
    left: int
    nodes: int
    transposes: int
    boundary_bytes: int
    kernels: int
    file_bytes: int
    seconds: float
    difference: float


@dataclass
class Row:
    """One model under both compilers."""

    name: str
    etir: FileFigures
    stock: FileFigures
    latency_ms: tuple[float, float]
    """Medians of etir's file and of the stock pipeline's."""
    latency_ratio: float
    fastest_ratio: float

    @property
    def missed(self) -> list[str]:
        """The bars that the row misses."""
        pairs = (
            ("delegates", self.etir.delegates <= self.stock.delegates),
            ("source operators left", self.etir.sources.left <= self.stock.sources.left),
            ("transposes", self.etir.transposes <= self.stock.transposes),
            ("boundary", self.etir.boundary_bytes <= self.stock.boundary_bytes),
            ("compile time", self.etir.seconds <= COMPILE_BAR * self.stock.seconds),
            ("latency", self.latency_ratio <= LATENCY_BAR),
            ("difference", self.etir.difference <= DIFFERENCE_BAR),
        )
        return [name for name, holds in pairs if not holds]


def file_figures(
    data: bytes, sources: SourceCounts, operators: int, left: int, seconds: float, difference: float
) -> FileFigures:
    """Read the figures of a file's first method; the other ones are given."""
    from etir.backends.xnnpack.blob_reader import read_blob
    from etir.emit.pte import model
    from etir.emit.pte.reader import read_pte

    plan = read_pte(data).execution_plan[0]
    nodes: Counter[str] = Counter()
    for delegate in plan.delegates:
        nodes.update(node.kind.name for node in read_blob(delegate.data).nodes)
    calls = [i for i in plan.chains[0].instructions if isinstance(i, model.DelegateCall)]
    kernels = sum(isinstance(i, model.KernelCall) for i in plan.chains[0].instructions)
    values = [plan.values[v] for call in calls for v in call.args]
    boundary = sum(v.nbytes for v in values if isinstance(v, model.Tensor))
    return FileFigures(
        sources,
        delegates=len(calls),
        operators=operators,
        left=left,
        nodes=nodes.total(),
        transposes=nodes["static_transpose"],
        boundary_bytes=boundary,
        kernels=kernels,
        file_bytes=len(data),
        seconds=seconds,
        difference=difference,
    )


def difference_of(case: ModelCase, data: bytes) -> float:
    """How far the file's outputs are from eager's, over all steps of the case."""
    outputs = run_stock_runtime(data, [case.inputs(step) for step in range(case.steps)])
    expected = case.reference()
    return max(relative_difference(out, wanted) for out, wanted in zip(outputs, expected, strict=True))


def compile_etir(case: ModelCase, repeats: int) -> tuple[bytes, FileFigures]:
    """etir's file; the fastest of ``repeats`` runs, because the machine is shared."""
    import etir

    seconds: list[float] = []
    data, operators, left = b"", 0, 0
    for _ in range(repeats):
        exported = case.export()
        start = time.perf_counter()
        program = etir.compile(exported, delegates=["xnnpack"])
        data = program.buffer
        seconds.append(time.perf_counter() - start)
        assert program.delegation is not None
        (backend,) = program.delegation.backends
        operators, left = backend.operators, program.delegation.operators - backend.operators
    sources = of_etir(case.export())
    return data, file_figures(data, sources, operators, left, min(seconds), difference_of(case, data))


def compile_stock(case: ModelCase, cache: Path | None) -> tuple[bytes, FileFigures]:
    """The stock pipeline's file with default options, from ``cache`` if it is there."""
    path = None if cache is None else cache / f"{case.name}.stock.pte"
    notes = None if path is None else path.with_suffix(".json")
    if path is not None and notes is not None and path.exists() and notes.exists():
        data, found = path.read_bytes(), json.loads(notes.read_text())
    else:
        data, found = _run_stock(case)
        if path is not None and notes is not None:
            path.write_bytes(data)
            notes.write_text(json.dumps(found))
    sources = SourceCounts(**found["sources"])
    counts = int(found["operators"]), int(found["left"])
    return data, file_figures(data, sources, *counts, found["seconds"], difference_of(case, data))


def _run_stock(case: ModelCase) -> tuple[bytes, dict[str, Any]]:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.devtools.backend_debug import get_delegation_info
    from executorch.exir import to_edge_transform_and_lower

    exported = independent_copy(case.export())
    names = number(exported)
    start = time.perf_counter()
    edge = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    seconds = time.perf_counter() - start
    info = get_delegation_info(edge.exported_program().graph_module)
    sources = of_stock(names, edge.exported_program().graph)
    start = time.perf_counter()
    data = edge.to_executorch().buffer
    seconds += time.perf_counter() - start
    notes: dict[str, Any] = {"operators": info.num_delegated_nodes, "left": info.num_non_delegated_nodes}
    return data, {**notes, "seconds": seconds, "sources": asdict(sources)}


def latency(files: Sequence[bytes], inputs: Sequence[torch.Tensor], runs: int) -> list[list[float]]:
    """Milliseconds of ``runs`` calls of each file, in turns; the first calls, which set up, are not counted."""
    from executorch.runtime import Runtime

    programs = [Runtime.get().load_program(data) for data in files]
    loaded: list[Any] = [program.load_method("forward") for program in programs]
    times: list[list[float]] = [[] for _ in files]
    for run in range(runs + 3):
        # Who comes first alternates: the second finds its inputs in the cache.
        order = range(len(files)) if run % 2 else reversed(range(len(files)))
        for i in order:
            start = time.perf_counter()
            loaded[i].execute(list(inputs))
            if run >= 3:
                times[i].append(1e3 * (time.perf_counter() - start))
    return times


def measure(case: ModelCase, runs: int, repeats: int, cache: Path | None) -> Row:
    """Both compilers on one case."""
    data, etir_figures = compile_etir(case, repeats)
    stock_data, stock_figures = compile_stock(case, cache)
    half = (runs + 1) // 2
    first = latency((data, stock_data), case.inputs(0), half)
    second = latency((stock_data, data), case.inputs(0), half)[::-1]
    ratios = [statistics.median(a / b for a, b in zip(*times, strict=True)) for times in (first, second)]
    mine, theirs = (a + b for a, b in zip(first, second, strict=True))
    medians = (statistics.median(mine), statistics.median(theirs))
    fastest = min(mine) / min(theirs)
    return Row(case.name, etir_figures, stock_figures, medians, math.sqrt(math.prod(ratios)), fastest)


def text_of(row: Row, *, name_left: bool = False) -> str:
    """A few lines for one model, with the operators of the exported program that are left."""
    lines = [f"{row.name}: {', '.join('misses ' + name for name in row.missed) or 'all bars met'}"]
    for name, f in (("etir", row.etir), ("stock", row.stock)):
        lines.append(
            f"  {name:5}  {f.delegates:3} delegates  source operators {f.sources.delegated:4} delegated, "
            f"{f.sources.gone:3} gone, {f.sources.left:3} left  (operators {f.operators:4}, {f.left:3} left)  "
            f"{f.nodes:4} nodes  "
            f"{f.transposes:3} transposes  {f.boundary_bytes:>10,} boundary bytes  {f.kernels:3} kernels  "
            f"{f.file_bytes:>11,} bytes  {f.seconds:6.2f} s  difference {f.difference:.1e}"
        )
    lines.append(
        f"  compile ratio {row.etir.seconds / row.stock.seconds:.3f}   latency {row.latency_ms[0]:.2f} ms beside "
        f"{row.latency_ms[1]:.2f} ms, ratio {row.latency_ratio:.3f} (fastest {row.fastest_ratio:.3f})"
    )
    if name_left:
        for name, f in (("etir", row.etir), ("stock", row.stock)):
            lines += [f"  {name:5}  leaves {operator}" for operator in f.sources.left_names]
    return "\n".join(lines)


def main() -> int:
    """Measure the models that are named; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(CASES)}; all by default")
    parser.add_argument("--runs", type=int, default=50, help="calls of each file for the latency")
    parser.add_argument("--repeats", type=int, default=2, help="compilations by etir; the fastest counts")
    parser.add_argument("--cache", type=Path, help="folder that keeps the stock pipeline's files")
    parser.add_argument("--left", action="store_true", help="name the operators that are left")
    parser.add_argument("--json", action="store_true", help="one JSON object for each model")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.models if name not in CASES]
    if unknown:
        parser.error(f"unknown model '{unknown[0]}'; there are {', '.join(CASES)}")
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    missed = False
    for name in arguments.models or CASES:
        case = CASES[name]
        if case.missing():
            print(f"{name}: needs {', '.join(case.missing())}")
            continue
        row = measure(case, arguments.runs, arguments.repeats, arguments.cache)
        missed |= bool(row.missed)
        print(json.dumps(asdict(row)) if arguments.json else text_of(row, name_left=arguments.left), flush=True)
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
