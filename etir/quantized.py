"""From a float program to one on integers, and a report: ``etir.quantize``.

The program is brought to the edge level as a compilation for the same target and delegates would bring it there, so
that what calibration sees is what runs: batch norms are folded, operators are in core form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.ir import SSAValue

from etir.backends.api.quantization import CHOOSES, CLAMPS, MOVES
from etir.backends.api.quantization import DYNAMIC as DYNAMIC_ROW
from etir.backends.api.registry import backend_dialects, parse_delegate
from etir.dialects.context import EtContext
from etir.dialects.dtypes import f32
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import tensor_of
from etir.dialects.quant.ops import ObserveOp, UniformAttr
from etir.dialects.text import source_location
from etir.driver import compile_program, module_of
from etir.interpret.interpreter import Interpreter
from etir.options import CompileKeywords, CompileOptions, compile_options
from etir.passes.analysis.constants import ConstantStore
from etir.passes.aten.gather_quantized_rows import GatherQuantizedRowsPass
from etir.passes.delegation.decompose_preserved import DecomposePreservedPass
from etir.passes.infra.base import methods
from etir.passes.infra.manager import PipelineOptions, run_pipeline
from etir.phases import phase_of
from etir.pipeline import pipeline
from etir.program import Program
from etir.quantization.calibration import Statistics, calibrate, run_observed
from etir.quantization.encodings import METHODS, clipped_share, encoding
from etir.quantization.errors import E1501, E1502, E1503, E1506
from etir.quantization.passes.annotate_quantization import (
    DYNAMIC,
    INTEGERS,
    WEIGHT,
    WHY,
    AnnotateQuantizationPass,
    result_of,
    rows_of,
)
from etir.quantization.passes.materialize_quantization import MaterializeQuantizationPass, least_scales
from etir.quantization.passes.correct_bias import correct_bias as correct_biases
from etir.quantization.passes.products_to_layers import ProductsToLayersPass
from etir.quantization.preparation import FEW, prepared
from etir.quantization.recipes import Recipe, recipe_of
from etir.quantization.report import Layer, QuantizationReport, sqnr
from etir.quantization.samples import Calibration, samples_of
from etir.quantization.weights import multiplied_out, stored_bytes, stored_weight

if TYPE_CHECKING:
    from etir.driver import Source

METHOD = "forward"
"""The method that calibration runs."""


@dataclass(frozen=True)
class Quantized:
    """A program on integers: its module at the edge level, what became of each layer, and what it is compiled for.

    ``observed`` is the module before integers were written: ranges and scales stand in its text.
    """

    module: ModuleOp
    observed: ModuleOp
    report: QuantizationReport
    options: CompileOptions

    def compile(self) -> Program:
        """The ``.pte`` file. Raises what ``etir.compile`` does."""
        return compile_program(self.module, self.options)


def quantize_program(
    program: Source,
    recipe: str = "static-int8",
    *,
    calibration: Calibration = (),
    encodings: str = "minmax",
    skip: Sequence[str] = (),
    equalize: bool | None = None,
    correct_bias: bool = False,
    options: CompileOptions | None = None,
    **keywords: Unpack[CompileKeywords],
) -> Quantized:
    """Quantize an exported program, or a module at the edge level or above it.

    ``recipe`` is ``static-int8`` (activations and weights, for delegates that compute on int8), ``dynamic-int8`` (the
    inputs of layers when they run, and weights), ``8da4w`` (the same with weights of 4 bits), ``weight-int8`` or
    ``weight-int4``.
    ``calibration`` has the inputs of some calls, each a sequence of tensors or arrays of the shapes and dtypes that the
    program takes, or is the path of an ``.npz`` file of arrays with a sample in each index of their first dims.
    ``encodings`` says how a range is chosen: ``minmax``, ``percentile``, ``mse``, ``entropy``. ``skip`` are shell
    patterns of source modules and operators that stay in float32. ``equalize`` says whether channels are scaled between
    layers (`equalize-channels`), None for where it loses less; ``correct_bias`` takes the mean error of rounded weights
    off the biases (`correct-bias`, needs ``calibration``). The other keywords are those of ``etir.compile``; the same
    go for :meth:`Quantized.compile`.

    Raises E1501 to E1506, and what ``etir.compile`` does.
    """
    chosen = compile_options(options, keywords, ()).resolved()
    how = recipe_of(recipe)
    recipe = how.name
    if encodings not in METHODS:
        raise E1501.error(f"there is no method '{encodings}' to choose scales; there are {', '.join(METHODS)}")
    if how.integers:
        _check_backends(how, chosen)
    module = module_of(program, chosen)
    samples = samples_of(calibration, next((m for m in methods(module) if m.sym_name.data == METHOD), None))
    if (how.activations or correct_bias) and not samples:
        what = f"'{recipe}'" if how.activations else "bias correction"
        raise E1503.error(f"{what} needs to see inputs")
    ctx = EtContext(dialects=backend_dialects())

    def run(on: ModuleOp, *passes: Any) -> None:
        run_pipeline(ctx, on, list(passes), PipelineOptions(collect_errors=True))

    def observe(on: ModuleOp, samples: Sequence[Sequence[Any]]) -> dict[ObserveOp, Statistics]:
        """Observers with their scales."""
        run(on, AnnotateQuantizationPass(recipe, chosen.delegates, tuple(skip), bool(samples)))
        _check_marked(on)
        statistics = calibrate(on, samples, METHOD) if samples else {}
        for op, seen in statistics.items():
            if how.activations and op.encoding is None and seen.samples:
                op.properties["as"] = UniformAttr(encoding(seen, encodings))
        return statistics

    def loss(on: ModuleOp) -> float | None:
        """dB of a module that is quantized for a few samples."""
        observe(on, samples[:FEW])
        stored = on.clone()
        run(stored, MaterializeQuantizationPass(keep=True))
        return _measure(on, stored, samples[:FEW])[1]

    run(module, *pipeline(chosen, phase_of(module), "edge"), ProductsToLayersPass())
    notes: list[str] = []
    if how.activations:
        module, notes = prepared(module, samples, equalize, loss)
    statistics = observe(module, samples)
    reference = module.clone()
    if correct_bias:
        notes.append(f"biases of {correct_biases(module, samples, METHOD)} layers corrected")
    stored = module.clone()
    run(stored, MaterializeQuantizationPass(keep=True))
    losses, total = _measure(reference, stored, samples)
    layers = tuple(_layers(module, statistics, dict(zip(_observers(module), losses, strict=True))))
    observed = module.clone()
    run(module, MaterializeQuantizationPass(), GatherQuantizedRowsPass(chosen.target, chosen.link_libraries))
    if not chosen.delegates:
        run(module, DecomposePreservedPass(target=chosen.target, libraries=chosen.link_libraries))
    return Quantized(module, observed, QuantizationReport(recipe, layers, len(samples), total, tuple(notes)), chosen)


def _check_marked(module: ModuleOp) -> None:
    marks = INTEGERS, DYNAMIC, WEIGHT
    if not any(mark in op.attributes for m in methods(module) for op in m.walk() for mark in marks):
        told = (op.attributes.get(WHY) for m in methods(module) for op in m.walk())
        reasons = [reason.data for reason in told if isinstance(reason, StringAttr)]
        raise E1506.error("; ".join(dict.fromkeys(reasons)) or "no operator of it has a row that computes on int8")


def _check_backends(how: Recipe, options: CompileOptions) -> None:
    if any(row.scheme == how.scheme for row in rows_of(how, options.delegates)):
        return
    named = ", ".join(f"'{parse_delegate(text).backend.name}'" for text in options.delegates)
    who = f"none of the delegates {named} computes" if named else f"no kernel of target '{options.target}' computes"
    found = " with scales that are found at run time" if how.scheme == DYNAMIC_ROW else ""
    raise E1502.error(f"{how.name}: {who} on int8{found}")


def _measure(
    module: ModuleOp, stored: ModuleOp, samples: Sequence[Sequence[Any]]
) -> tuple[list[float | None], float | None]:
    """The loss of each observed value on the first sample, and that of the outputs over all samples."""
    if not samples:
        return [None for _ in _observers(module)], None
    interpreters = Interpreter(module), Interpreter(stored)
    pairs = dict(zip(_observers(stored), _observers(module), strict=True))
    losses: dict[ObserveOp, float] = {}
    first: dict[ObserveOp, np.ndarray] = {}
    wanted: list[np.ndarray] = []
    found: list[np.ndarray] = []
    for index, sample in enumerate(samples):

        def keep(op: ObserveOp, value: Any, index: int = index) -> None:
            if not index:
                first[op] = np.array(value, np.float32)

        def compare(op: ObserveOp, value: Any, index: int = index) -> None:
            if not index:
                losses[pairs[op]] = sqnr(first.pop(pairs[op]), np.asarray(value, np.float32))

        for interpreter, hook, outputs in zip(interpreters, (keep, compare), (wanted, found), strict=True):
            results = run_observed(interpreter, sample, METHOD, hook, index)
            outputs += [np.array(v, np.float32).reshape(-1) for v in results if interpreter.evaluator.is_tensor(v)]
    total = sqnr(np.concatenate(wanted), np.concatenate(found)) if wanted else None
    return [losses.get(op) for op in _observers(module)], total


def _observers(module: ModuleOp) -> list[ObserveOp]:
    return [op for op in module.walk() if isinstance(op, ObserveOp)]


def _layers(
    module: ModuleOp, statistics: dict[ObserveOp, Statistics], losses: dict[ObserveOp, float | None]
) -> Iterable[Layer]:
    store = ConstantStore(module)
    for method in methods(module):
        for op in method.walk():
            if isinstance(op, EdgeOp) and (layer := _layer(op, store, statistics, losses)) is not None:
                yield layer


def _layer(
    op: EdgeOp, store: ConstantStore, statistics: dict[ObserveOp, Statistics], losses: dict[ObserveOp, float | None]
) -> Layer | None:
    """The row of an operator that computes on floats; None for one that has no say: moves, clamps after a layer."""
    place = source_location(op.location)
    name = (place.module or str(place)) if place is not None else ""
    name = name or op.results[0].name_hint or ""
    why = op.attributes.get(WHY)
    weight = cast("SSAValue | None", op.args().get("weight"))
    size = _bytes(weight)
    if isinstance(why, StringAttr):
        return Layer(name, op.op_name, "float32", weight_bytes=size, reason=why.data)
    encoded = op.attributes.get(WEIGHT)
    if INTEGERS not in op.attributes and encoded is None:
        return None if _says_nothing(op) else Layer(name, op.op_name, "float32", reason="no row computes it on int8")
    loss = None
    kind = "int8" if INTEGERS in op.attributes else "int8 at run time" if DYNAMIC in op.attributes else "int8 weights"
    if isinstance(encoded, UniformAttr) and weight is not None and store.is_constant(weight):
        how = encoded.data
        array = np.frombuffer(store.data(weight), np.float32).reshape(tensor_of(weight).get_shape())
        integers, scales = stored_weight(array, how, least_scales(op, store))
        loss, size = sqnr(array, multiplied_out(integers, scales, how)), stored_bytes(integers, scales, how)
        if how.bits != 8:
            kind = f"int{how.bits} weights" if kind == "int8 weights" else f"{kind}, int{how.bits} weights"
    observe = result_of(op)
    seen = None if observe is None else statistics.get(observe)
    if observe is None or seen is None or not seen.samples:
        return Layer(name, op.op_name, kind, weight_sqnr=loss, weight_bytes=size)
    clipped = None if observe.encoding is None else clipped_share(seen, observe.encoding.data)
    return Layer(name, op.op_name, kind, seen.low, seen.high, clipped, loss, losses.get(observe), size)


def _bytes(weight: Any) -> int:
    count = 4
    for size in tensor_of(weight).get_shape() if weight is not None else (0,):
        count *= size
    return count


def _says_nothing(op: EdgeOp) -> bool:
    moves = op.op_name in MOVES or op.op_name in CHOOSES or op.op_name in CLAMPS or op.op_name == "aten.cat.default"
    type = op.results[0].type if op.results else None
    return moves or not isinstance(type, TensorType) or type.element_type != f32
