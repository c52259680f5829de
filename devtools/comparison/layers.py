"""A quantized program beside the float program that it was made from: what each layer loses, in dB.

``etir.quantize`` makes another program, so origins say nothing across it; what does is the place in the source. The
value of a place is the last one that is computed there, in the float program as in the quantized one: of a convolution
with its batch norm and clamp the result of the clamp. Integers are compared as the numbers they stand for, with the
scale and zero point of the operator that made them. The measure is the signal to quantization noise ratio (SQNR): a
bar for single numbers says little of a tensor of which every element is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, FusedLoc, LocationAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, OpResult, SSAValue

from etir.devtools.comparison.findings import Comparison, Finding, Row, Stage
from etir.devtools.comparison.levels import context
from etir.devtools.comparison.links import TraceLinks
from etir.devtools.comparison.stages import Subject, raise_if_no_memory, recorded_values
from etir.devtools.trace.places import relative_path
from etir.devtools.trace.read import Trace
from etir.devtools.values.interpreted import Key, marks_of, observe
from etir.devtools.values.recorded import RecordedRun, Runtime
from etir.devtools.values.replayed import method_of
from etir.diagnostics import EtirError
from etir.dialects.et.instructions import CallOp
from etir.dialects.et.origin import number_origins, origins_in, plain
from etir.dialects.literals import scalar_of
from etir.dialects.text import parse_module, source_location
from etir.emit.to_pte import instructions_of

WRONG = 6.0
"""dB below which a layer is wrong, and not only inexact: the noise has half the size of the signal."""
SHOWN = 12
"""Layers of a stage that are printed, the worst ones."""

Place = tuple[str, str, int]
"""Path of the module, file, line."""


def is_of_quantized(trace: Trace) -> bool:
    """Whether a trace begins with a program that ``etir.quantize`` has made, and not with what torch exported."""
    first = next(iter(trace.levels), "")
    return not first.endswith("-aten") and any("quantize" in origin.op for origin in trace.origins)


@dataclass
class Layers(Comparison):
    """What each layer loses; ``accumulated`` of a row is the size of the noise over that of the signal."""

    def table(self) -> str:
        """What is wrong first, the outputs of each stage, and its worst layers."""
        first = f"nothing is wrong in '{self.method}': every layer is above {WRONG:g} dB"
        lines = [first if self.finding is None else str(self.finding), f"reference: {self.reference}"]
        for stage in self.stages:
            if stage.failure:
                lines.append(f"{stage.name}: {stage.failure}")
                continue
            outputs = ", ".join(_decibels(row) for row in stage.outputs)
            lines.append(f"{stage.name}: outputs {outputs}; {stage.compared} of {stage.total} layers seen")
            rows = sorted(stage.rows, key=lambda row: -(row.accumulated or 0.0))
            lines += [f"  {_decibels(row):>8}  {row.what}, {row.where}" for row in rows[:SHOWN]]
            if len(rows) > SHOWN:
                lines.append(f"  and {len(rows) - SHOWN} more")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)]) + "\n"


def _decibels(row: Row) -> str:
    noise = row.accumulated or 0.0
    return "equal" if noise == 0 else "no number" if not math.isfinite(noise) else f"{-20 * math.log10(noise):.1f} dB"


@dataclass(frozen=True)
class _Seen:
    """A value of the quantized program that stands for a float one: the place, and how integers are read."""

    place: Place
    what: str
    scale: float = 1.0
    zero_point: float = 0.0

    def numbers(self, array: Any) -> Any:
        return (np.asarray(array).astype(np.float64) - self.zero_point) * self.scale


def compare_layers(
    source: ModuleOp,
    trace: Trace,
    data: bytes,
    final: ModuleOp,
    samples: Sequence[Sequence[Any]],
    method: str,
    runtimes: Mapping[str, Runtime],
) -> Layers | None:
    """Compare a file of a quantized program with the float program, layer by layer; None when they share no place.

    ``final`` is the program of the file with the marks of the trace. Raises what the interpreter does.
    """
    module = source.clone()
    number_origins(module)
    stages = [Stage(f"et/{name}") for name in runtimes]
    layers: dict[Place, _Seen] = {}
    for inputs in samples:
        wanted, outputs = _of_float(module, inputs, method)
        seen = _of_quantized(trace, method, list(wanted))
        layers = {found.place: found for found in seen.values()}
        if not layers:
            return None
        for stage, (name, runtime) in zip(stages, runtimes.items(), strict=True):
            del name
            _add(stage, runtime, data, final, inputs, method, TraceLinks(trace), seen, wanted, outputs)
    for stage in stages:
        stage.compared, stage.total = len(stage.rows), len(layers)
    finding = next((found for stage in stages if (found := _finding(stage)) is not None), None)
    found = Layers(method, "the float program, in the interpreter", len(samples), stages, finding)
    if any(stage.compared < stage.total for stage in stages):
        found.notes.append("layers that are not seen are inside of delegates, or computed together with the next one")
    found.notes.append("to compare single operations, give the quantized program itself as the source")
    return found


def _add(
    stage: Stage,
    runtime: Runtime,
    data: bytes,
    final: ModuleOp,
    inputs: Sequence[Any],
    method: str,
    links: TraceLinks,
    seen: Mapping[Key, _Seen],
    wanted: Mapping[Place, Any],
    outputs: Sequence[Any],
) -> None:
    """What a sample adds to the rows of a runtime."""
    try:
        run = runtime(data, method, inputs)
    except EtirError as error:
        raise_if_no_memory(error)
        stage.failure, stage.broken = f"not run: {error.diagnostics[0].message}", True
        return
    rows = {row.what: row for row in stage.rows}
    by_key = recorded_values(run, final, method, Subject(method, [inputs], [], links))
    made = _last_made(run, final, method)
    for key, layer in seen.items():
        array = by_key[key][-1] if key in by_key else made.get(key[0])
        want = wanted[layer.place]
        if array is None or np.shape(array) != np.shape(want):
            continue
        got = layer.numbers(array)
        if layer.what not in rows:
            rows[layer.what] = Row(layer.what, _where(layer.place), key[0], allowed=10 ** (-WRONG / 20))
        rows[layer.what].add(_noise(want, got), None)
    stage.rows = list(rows.values())
    if not stage.outputs:
        stage.outputs = [Row(f"output {i}", allowed=10 ** (-WRONG / 20)) for i in range(len(outputs))]
    for row, want, got in zip(stage.outputs, outputs, run.outputs, strict=False):
        row.add(_noise(want, got), None)


def _last_made(run: RecordedRun, final: ModuleOp, method: str) -> dict[int, Any]:
    """By origin what the last instruction left that comes from it alone.

    Passes that put values into another order in memory take their marks away, though the numbers are the same.
    """
    found: dict[int, Any] = {}
    whole = method_of(final, method)
    ops = [] if whole is None else instructions_of(whole)
    for (number, _), arrays in run.values.items():
        origins = origins_in(ops[number].location) if isinstance(ops[number], CallOp) else None
        if origins is not None and len(origins.numbers) == 1 and arrays and arrays[-1] is not None:
            found[origins.numbers[0]] = arrays[-1]
    return found


def _noise(wanted: Any, got: Any) -> float:
    """The size of the error over that of what is wanted."""
    want, have = np.asarray(wanted, np.float64), np.asarray(got, np.float64)
    if want.shape != have.shape:
        return math.inf
    signal, noise = float(np.sum(want * want)), float(np.sum((want - have) ** 2))
    found = math.sqrt(noise / signal) if signal else (0.0 if noise == 0 else math.inf)
    return found if found == found else math.inf


def _finding(stage: Stage) -> Finding | None:
    runtime = f"runtime {stage.name.partition('/')[2]}"
    if stage.broken:
        return Finding(stage.name, f"{runtime} does not run", "", stage.failure)
    for row in [*stage.rows, *stage.outputs]:
        if row.accumulated is not None and not row.accumulated <= row.allowed:
            why = f"{_decibels(row)} from the float program"
            return Finding(stage.name, f"{row.what} at {runtime}", row.where, why, row)
    return None


# --- places ----------------------------------------------------------------------------------------------------------


def _where(place: Place) -> str:
    _, file, line = place
    return f"{file}:{line}"


def _places(location: LocationAttr) -> list[Place]:
    """All places that a location says."""
    location = plain(location)
    parts = (
        location.locations.data if isinstance(location, FusedLoc) and isinstance(location.locations, ArrayAttr) else ()
    )
    found = [source_location(part) for part in (parts or (location,)) if isinstance(part, LocationAttr)]
    return [(one.module, relative_path(one.file), one.line) for one in found if one is not None]


def _of_float(module: ModuleOp, inputs: Sequence[Any], method: str) -> tuple[dict[Place, Any], list[Any]]:
    """By place the last floating-point value that the float program computes there, in order; and the outputs."""
    run = observe(module, inputs, method)
    found: dict[Place, Any] = {}
    for key, arrays in run.values.items():
        value = run.values_of[key]
        if not isinstance(value, OpResult) or np.asarray(arrays[-1]).dtype.kind != "f":
            continue
        for place in _places(value.owner.location)[:1]:
            found.pop(place, None)
            found[place] = arrays[-1]
    return found, run.outputs


def _of_quantized(trace: Trace, method: str, order: Sequence[Place]) -> dict[Key, _Seen]:
    """Values of the quantized program that are the last ones at their place, and integers that stand for those."""
    level = next(iter(trace.levels))
    module = parse_module(trace.text(level), context(), name=level)
    rank = {place: i for i, place in enumerate(order)}
    places: dict[SSAValue, Place] = {}
    last: dict[Place, SSAValue] = {}
    ops: list[Operation] = []
    for func in module.body.block.ops:
        if isinstance(func, FuncOp) and func.sym_name.data == method:
            ops = [op for op in func.walk() if op is not func]
    for op in ops:
        known = [place for place in _places(op.location) if place in rank]
        if not known or "quantize" in op.name or not op.operands:
            continue
        for result in op.results:
            places[result] = max(known, key=rank.__getitem__)
            last[places[result]] = result
    found: dict[Key, _Seen] = {}
    for op in ops:
        for result in op.results:
            source: SSAValue = result
            scale, zero_point = 1.0, 0.0
            if ".quantize_per_tensor." in op.name:
                numbers = [op.properties.get(name) for name in ("scale", "zero_point")]
                if None in numbers:
                    continue
                scale, zero_point = (float(scalar_of(number)) for number in numbers)  # type: ignore[arg-type]
                source = op.operands[0]
            place = places.get(source)
            if place is None or last[place] is not source:
                continue
            name = place[0] or str(source.name_hint or getattr(source.owner, "name", ""))
            for mark in marks_of(result):
                found[mark.origin, mark.result] = _Seen(place, name, scale, zero_point)
    return found
