"""A quantized program beside the float program that it was made from: what each layer loses by itself, in dB.

Layers are told by their places in the source (``layer_places.py``). Integers are compared as the numbers they stand
for, with the scale and zero point of the operator that made them. The measure is the signal to quantization noise ratio
(SQNR): a bar for single numbers says little of a tensor of which every element is rounded. A layer is judged by what it
makes of the values that it was given: the float program runs once more, with what the quantized program has at each
place for what comes after it. So what earlier layers lose does not count.

Passes that equalize channels scale them by powers of two, and the layers that follow undo that. Channels that are off
by such a factor are taken for equalized, unless what follows is right only without it.

Inside of delegates a runtime shows nothing. There the nodes of the blob are interpreted, from what the runtime gave to
the delegate, and what it made of that is compared with what the nodes make of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from etir.devtools.comparison.findings import Comparison, Finding, Row, Stage
from etir.devtools.comparison.inside import Inside, fitting, inside_of_delegates
from etir.devtools.comparison.layer_places import FloatRun, Place, Seen, quantized_values, where
from etir.devtools.comparison.links import TraceLinks
from etir.devtools.comparison.stages import Subject, raise_if_no_memory, recorded_values
from etir.devtools.trace.changes import origin_numbers
from etir.devtools.trace.read import Trace
from etir.devtools.values.interpreted import Key
from etir.devtools.values.recorded import RecordedRun, Runtime
from etir.devtools.values.replayed import method_of
from etir.diagnostics import EtirError
from etir.dialects.et.instructions import CallOp, DelegateCallOp
from etir.dialects.et.origin import number_origins, origins_in
from etir.emit.to_pte import instructions_of, operator_of

WRONG = 20.0
"""dB below which a layer of 8 bits is wrong by itself, and not only inexact: healthy ones of the model zoo have 29 and
more (``test/interop/test_comparison_quantized.py``), but for one with 20.1: MobileNetV2, ``weight-int8``, XNNPACK."""
COARSE = 8.0
"""The same for layers whose weights have 4 bits: healthy ones have 16 and more."""
LOST = 3.0
"""dB below which outputs are wrong though no layer is: errors of many layers add up, 6.5 dB inside of MobileNetV2."""
ANOTHER = 10.0
"""dB below which a delegate computes something else than what is written in it. Its nodes may round in another order,
and one step in the first of them is another number in all that follow: 26 dB for the whole of MobileNetV2."""
NEAR = 0.1
"""How near to a whole number the binary logarithm of the factor of an equalized channel is."""
SHOWN = 12
"""Layers of a stage that are printed, the worst ones."""


def is_of_quantized(trace: Trace, source: ModuleOp) -> bool:
    """Whether a trace begins with a program that ``etir.quantize`` has made, and not with ``source``, which torch
    exported.
    """
    first = next(iter(trace.levels), "")
    wanted = trace.origins[-1].number if trace.origins else 0
    return not first.endswith("-aten") and number_origins(source.clone()) != wanted


@dataclass
class Layers(Comparison):
    """What each layer loses: sizes of the noise over those of the signal. ``accumulated`` of a row is beside the float
    program, ``local`` beside what the layer should make of the values before it. A row without the first is a delegate,
    beside what its nodes are in the interpreter.
    """

    def table(self) -> str:
        """What is wrong first, the outputs of each stage, and its worst layers."""
        first = f"nothing is wrong in '{self.method}': every layer is right for the values that it was given"
        lines = [first if self.finding is None else str(self.finding), f"reference: {self.reference}"]
        for stage in self.stages:
            if stage.failure:
                lines.append(f"{stage.name}: {stage.failure}")
                continue
            outputs = ", ".join(_decibels(row.accumulated) for row in stage.outputs)
            lines.append(f"{stage.name}: outputs {outputs}; {stage.compared} of {stage.total} layers seen")
            delegates = [f"{row.what} {_decibels(row.local)}" for row in stage.rows if row.accumulated is None]
            if delegates:
                lines.append(f"  beside their nodes in the interpreter: {', '.join(delegates)}")
            rows = sorted((r for r in stage.rows if r.accumulated is not None), key=lambda row: -(row.local or 0.0))
            lines += [f"  {'by itself':>9} {'so far':>9}"] if rows else []
            for row in rows[:SHOWN]:
                lines.append(f"  {_decibels(row.local):>9} {_decibels(row.accumulated):>9}  {row.what}, {row.where}")
            if len(rows) > SHOWN:
                lines.append(f"  and {len(rows) - SHOWN} more")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)]) + "\n"


def _ratio(decibels: float) -> float:
    return float(10 ** (-decibels / 20))


def _decibels(noise: float | None) -> str:
    noise = noise or 0.0
    return "equal" if noise == 0 else "no number" if not math.isfinite(noise) else f"{-20 * math.log10(noise):.1f} dB"


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
    seen: dict[Key, Seen] = {}
    for inputs in samples:
        wanted = FloatRun(module, method, inputs)
        seen = quantized_values(trace, method, wanted.values)
        if not seen:
            return None
        for stage, runtime in zip(stages, runtimes.values(), strict=True):
            _add(stage, runtime, data, final, trace, seen, wanted)
    layers = {layer.place for layer in seen.values()}
    for stage in stages:
        stage.compared, stage.total = sum(row.accumulated is not None for row in stage.rows), len(layers)
    finding = next((found for stage in stages if (found := _finding(stage)) is not None), None)
    found = Layers(method, "the float program, in the interpreter", len(samples), stages, finding)
    named = {(row.what, row.where) for stage in stages for row in stage.rows}
    hidden = {key[0]: layer.what for key, layer in seen.items() if (layer.what, where(layer.place)) not in named}
    found.notes += [f"not seen: {text}" for text in _hidden(hidden, trace, final, method)]
    found.notes.append("to compare single operations, give the quantized program itself as the source")
    return found


def _hidden(layers: Mapping[int, str], trace: Trace, final: ModuleOp, method: str) -> list[str]:
    """For each reason why layers, by an origin of theirs, are not seen: their names and the reason."""
    whole = method_of(final, method)
    maker: dict[int, str] = {}
    for op in [] if whole is None else instructions_of(whole):
        if isinstance(op, DelegateCallOp):
            symbol = op.delegate.root_reference.data
            nodes = trace.delegates.get(symbol)
            inside = [] if nodes is None else [o for row in range(len(nodes)) for o in nodes.several("origins", row)]
            text = f"inside of delegate {symbol}, fused into other nodes or in no form to compare"
            maker |= dict.fromkeys((*origin_numbers(op.location), *inside), text)
        elif isinstance(op, CallOp):
            text = f"computed together with what follows by {operator_of(op.kernel.data).full_name}"
            maker |= dict.fromkeys(origin_numbers(op.location), text)
    reasons: dict[str, dict[str, None]] = {}
    for origin, name in layers.items():
        reasons.setdefault(maker.get(origin, "part of another operation of the file"), {})[name] = None
    return [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]


def _add(
    stage: Stage,
    runtime: Runtime,
    data: bytes,
    final: ModuleOp,
    trace: Trace,
    seen: Mapping[Key, Seen],
    wanted: FloatRun,
) -> None:
    """What a sample adds to the rows of a runtime."""
    method = wanted.method
    try:
        run = runtime(data, method, wanted.inputs)
    except EtirError as error:
        raise_if_no_memory(error)
        stage.failure, stage.broken = f"not run: {error.diagnostics[0].message}", True
        return
    delegates = inside_of_delegates(run, final, method, trace)
    numbers = _numbers(run, delegates, final, trace, seen, wanted)
    rows = {(row.what, row.where): row for row in stage.rows}
    for layer, origin, so_far, by_itself in _judged(seen, numbers, wanted):
        limit = _ratio(COARSE if layer.coarse else WRONG)
        made = Row(layer.what, where(layer.place), origin, allowed=limit)
        rows.setdefault((layer.what, made.where), made).add(so_far, by_itself)
    for one in delegates:
        name = f"delegate {one.symbol}"
        row = rows.setdefault((name, ""), Row(name, allowed=_ratio(ANOTHER)))
        row.add(None, max((_noise(made, got) for got, made in one.results), default=0.0))
    stage.rows = list(rows.values())
    if not stage.outputs:
        stage.outputs = [Row(f"output {i}", allowed=_ratio(LOST)) for i in range(len(wanted.outputs))]
    for row, want, got in zip(stage.outputs, wanted.outputs, run.outputs, strict=False):
        row.add(_noise(want, got), None)


def _numbers(
    run: RecordedRun,
    delegates: Sequence[Inside],
    final: ModuleOp,
    trace: Trace,
    seen: Mapping[Key, Seen],
    wanted: FloatRun,
) -> dict[Place, Any]:
    """By place what the quantized program has there, in order."""
    subject = Subject(wanted.method, [wanted.inputs], [], TraceLinks(trace))
    by_key = recorded_values(run, final, wanted.method, subject)
    made = _last_made(run, final, wanted.method)
    found: dict[Place, Any] = {}
    for key, layer in seen.items():
        want = wanted.values[layer.place]
        left = _numbers_among(by_key.get(key, ()))
        array = left[-1] if left else made.get(key[0])
        if array is not None and np.shape(array) == np.shape(want):
            found[layer.place] = layer.numbers(array)
            continue
        forms = [form for one in delegates for array in _nodes_of(one, key) for form in fitting(array, want)]
        if forms:
            found[layer.place] = min(forms, key=partial(_noise, want))
    return found


def _judged(
    seen: Mapping[Key, Seen], numbers: Mapping[Place, Any], wanted: FloatRun
) -> list[tuple[Seen, int, float, float]]:
    """For each place an origin, its noise so far, and its noise for the values before it, in order."""
    equalized = {p: n * factors for p, n in numbers.items() if (factors := _factors(wanted.values[p], n)) is not None}
    held = {**numbers, **equalized}
    alone = _noises(wanted.led(held), held)
    layers = {layer.place: (layer, key[0]) for key, layer in seen.items() if layer.place in held}
    bar = {place: _ratio(COARSE if layer.coarse else WRONG) for place, (layer, _) in layers.items()}
    wrong = next((place for place in layers if not alone[place] <= bar[place]), None)
    order = list(layers)
    before = [place for place in order[: order.index(wrong)] if place in equalized] if wrong is not None else []
    if wrong is not None and before:
        # Nothing has undone a factor where what follows is right only without it.
        others = {**held, before[-1]: numbers[before[-1]]}
        if _noises(wanted.led(others), others)[wrong] <= bar[wrong]:
            held = others
            alone = {**alone, before[-1]: _noise(wanted.values[before[-1]], numbers[before[-1]]), wrong: 0.0}
    return [
        (layer, origin, _noise(wanted.values[place], held[place]), alone[place])
        for place, (layer, origin) in layers.items()
    ]


def _noises(wanted: Mapping[Place, Any], got: Mapping[Place, Any]) -> dict[Place, float]:
    return {place: _noise(wanted[place], array) for place, array in got.items()}


def _factors(want: Any, got: Any) -> Any:
    """Powers of two for the channels of ``got`` that make it like ``want``, of its shape but for the other dims of size
    1; None where there are none but 1.
    """
    wide = np.asarray(want, np.float64)
    best: Any = None
    least = _noise(wide, got) / 2
    for axis in dict.fromkeys((min(1, wide.ndim - 1), wide.ndim - 1)) if wide.ndim > 1 else ():
        others = tuple(d for d in range(wide.ndim) if d != axis)
        power = np.sum(got * got, axis=others, keepdims=True)
        ratio = np.sum(wide * got, axis=others, keepdims=True) / np.where(power > 0, power, 1.0)
        exponent = np.log2(np.where(ratio > 0, ratio, 1.0))
        whole = np.rint(exponent)
        factors = np.where(np.abs(exponent - whole) < NEAR, 2.0**whole, 1.0)
        noise = _noise(wide, got * factors)
        if noise < least and bool((factors != 1).any()):
            best, least = factors, noise
    return best


def _nodes_of(delegate: Inside, key: Key) -> list[Any]:
    """What a node inside of a delegate computes, if it is the value of a key."""
    found = delegate.values.get(key)
    if found is None and key[1] == 0:
        found = delegate.by_origin.get(key[0])
    return [] if found is None else [found]


def _last_made(run: RecordedRun, final: ModuleOp, method: str) -> dict[int, Any]:
    """By origin what the last instruction left that comes from it, if it comes from it alone.

    Passes that put values into another order in memory take their marks away, though the numbers are the same.
    """
    found: dict[int, Any] = {}
    whole = method_of(final, method)
    ops = [] if whole is None else instructions_of(whole)
    for (number, _), arrays in run.values.items():
        origins = origins_in(ops[number].location) if isinstance(ops[number], CallOp) else None
        made = _numbers_among(arrays)
        numbers = origins.numbers if origins is not None and made else ()
        if len(numbers) == 1:
            found[numbers[0]] = made[-1]
        else:
            for one in numbers:
                found.pop(one, None)
    return found


def _numbers_among(arrays: Sequence[Any]) -> list[Any]:
    """What may stand for numbers of a layer: not the places of a maximum, which a kernel gives beside it."""
    return [array for array in arrays if array is not None and np.asarray(array).dtype != np.int64]


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
        if row.is_wrong:
            beside = "what its nodes are in the interpreter" if row.accumulated is None else "the float program"
            why = f"{_decibels(row.local)} from {beside}, for the values that it was given"
            return Finding(stage.name, f"{row.what} at {runtime}", row.where, why, row)
    for row in stage.outputs:
        if row.accumulated is not None and not row.accumulated <= row.allowed:
            why = f"{_decibels(row.accumulated)} from the float program; no layer is wrong by itself: errors add up"
            return Finding(stage.name, f"{row.what} at {runtime}", "", why, row)
    return None
