"""From a float program to one on integers, and a report: ``etir.quantize``.

The program is brought to the edge level as a compilation for the same target and delegates would bring it there, so
that what calibration sees is what runs: batch norms are folded, operators are in core form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from xdsl.dialects.builtin import ModuleOp, StringAttr

from etir.backends.api.quantization import DYNAMIC as DYNAMIC_ROW
from etir.backends.api.registry import backend_dialects, parse_delegate
from etir.dialects.context import EtContext
from etir.dialects.quant.ops import ObserveOp, UniformAttr
from etir.driver import compile_program, module_of
from etir.options import CompileKeywords, CompileOptions, checked, compile_options
from etir.passes.aten.gather_quantized_rows import GatherQuantizedRowsPass
from etir.passes.delegation.decompose_preserved import DecomposePreservedPass
from etir.passes.infra.base import methods
from etir.passes.infra.manager import PipelineOptions, run_pipeline
from etir.phases import phase_of
from etir.pipeline import pipeline
from etir.program import Program
from etir.quantization.aimet import encodings_text
from etir.quantization.calibration import Kept, Statistics, calibrate
from etir.quantization.encodings import METHODS, encoding
from etir.quantization.errors import E1501, E1502, E1503, E1506, E1507, E1508
from etir.quantization.measured import METHOD, layers_of, measure
from etir.quantization.passes.annotate_quantization import (
    DYNAMIC,
    FLOAT,
    INTEGERS,
    WEIGHT,
    WHY,
    AnnotateQuantizationPass,
    rows_of,
    unfitting,
)
from etir.quantization.passes.contiguous_values import ContiguousValuesPass
from etir.quantization.passes.correct_bias import correct_bias as correct_biases
from etir.quantization.passes.experts_to_layers import ExpertsToLayersPass
from etir.quantization.passes.lower_expert_layers import LowerExpertLayersPass
from etir.quantization.passes.materialize_quantization import MaterializeQuantizationPass
from etir.quantization.passes.products_to_layers import ProductsToLayersPass
from etir.quantization.passes.round_weights import check_rounding, round_weights
from etir.quantization.passes.search_precision import Metric, search_precision
from etir.quantization.preparation import FEW, prepared
from etir.quantization.qdq import QdqWeights
from etir.quantization.ranges import is_onnx, read_ranges
from etir.quantization.recipes import Recipe, recipe_of
from etir.quantization.report import QuantizationReport
from etir.quantization.samples import Calibration, samples_of
from etir.quantization.unseen import leave_unseen
from etir.quantization.weights import BLOCK
from etir.recording import Detail

if TYPE_CHECKING:
    from etir.driver import Source


HINTS: dict[str, Any] = {
    "recipe": str,
    "block": int,
    "reduce_range": bool,
    "encodings": str,
    "skip": tuple[str, ...],
    "smooth": float | None,
    "equalize": bool | None,
    "rounding": str | None,
    "correct_bias": bool,
    "budget": float | None,
}
"""What options take."""


@dataclass(frozen=True)
class Quantized:
    """A program on integers: its module at the edge level, what became of each layer, and what it is compiled for.

    ``observed`` is the module before integers were written: ranges and scales stand in its text.
    """

    module: ModuleOp
    observed: ModuleOp
    report: QuantizationReport
    options: CompileOptions

    def compile(self, *, trace: bool | Detail = False) -> Program:
        """The ``.pte`` file; ``trace`` is that of ``etir.compile``. Raises what that does."""
        return compile_program(self.module, self.options, trace=trace)

    def save_encodings(self, path: str | PathLike[str]) -> None:
        """Write the scales and zero points as AIMET's JSON, which ``ranges=`` reads after you have edited it."""
        from etir.dialects.et.weights import write_atomically

        write_atomically(Path(path), [encodings_text(self.observed).encode()])


def quantize_program(
    program: Source,
    recipe: str = "static-int8",
    *,
    calibration: Calibration = (),
    block: int = BLOCK,
    reduce_range: bool = False,
    encodings: str = "minmax",
    skip: str | Sequence[str] = (),
    ranges: str | PathLike[str] | None = None,
    smooth: float | None = None,
    equalize: bool | None = None,
    rounding: str | None = None,
    correct_bias: bool = False,
    budget: float | None = None,
    metric: Metric | None = None,
    kept: Kept | None = None,
    options: CompileOptions | None = None,
    **keywords: Unpack[CompileKeywords],
) -> Quantized:
    """Quantize an exported program, or a module at the edge level or above it.

    ``recipe`` is ``static-int8`` (activations and weights, for delegates that compute on int8), ``dynamic-int8`` (the
    inputs of layers when they run, and weights), ``8da4w`` (the same with weights of 4 bits), ``weight-int8`` or
    ``weight-int4``.
    ``calibration`` has the inputs of some calls, each a sequence of tensors or arrays of the shapes and dtypes that the
    program takes, or is the path of an ``.npz`` file of arrays with a sample in each index of their first dims.
    ``block`` is how many weights of ``weight-int4`` share a scale, 0 all of an output channel, of convolutions as well.
    ``reduce_range`` rounds weights that integers are multiplied by to -63 to 63 instead of -127 to 127, for x86
    processors without VNNI: they are faster by it, and results a few dB further from float32.
    ``encodings`` says how a range is chosen: ``minmax``, ``percentile``, ``mse``, ``entropy``. ``skip`` are shell
    patterns of source modules and operators that stay in float32. ``ranges`` is a file of encodings
    (:meth:`Quantized.save_encodings`) whose scales and zero points of activations are taken instead, or an ONNX model
    (``.onnx``) on quantize and dequantize operators that was exported from the same program, whose weights are taken as
    well; with either, ``static-int8`` needs no calibration data. ``smooth`` moves
    the sizes of channels from activations into weights (`smooth-activations`, with calibration data), 0.5 half of
    them. ``equalize`` says whether channels are scaled between
    layers (`equalize-channels`), None for where it loses less. ``rounding`` is how integers of weights are chosen
    (`round-weights`): ``nearest``, ``mse``, ``hqq``, or with calibration data ``gptq``, ``awq``. ``correct_bias`` takes
    the mean error of rounded weights off the biases (`correct-bias`, with calibration data). ``budget`` is how good the
    outputs have to be, in dB from float32, or how much ``metric``, a function from the outputs of all samples to a
    number that is larger for better ones, may lose: layers are put back to float32 until that holds, and the report
    says so if it cannot (`search-precision`, with calibration data). ``kept`` is a mapping, empty at first, in which
    what calibration sees is kept: a program that is quantized in several ways runs once where they observe the same
    values. The other keywords are those of ``etir.compile``;
    the same go for :meth:`Quantized.compile`.

    Raises E0914 for an option that is of another kind, E1501 to E1508, and what ``etir.compile`` does.
    """
    given = locals()
    for name, hint in HINTS.items():
        checked(name, given[name], hint)
    skip = (skip,) if isinstance(skip, str) else tuple(skip)
    chosen = compile_options(options, keywords, ()).resolved()
    how = recipe_of(recipe)
    recipe = how.name
    if encodings not in METHODS:
        raise E1501.error(f"there is no method '{encodings}' to choose scales; there are {', '.join(METHODS)}")
    if how.integers:
        _check_backends(how, chosen)
    module = module_of(program, chosen)
    samples = samples_of(calibration, next((m for m in methods(module) if m.sym_name.data == METHOD), None))
    if metric is not None and budget is None:
        raise E1507.error("a metric without a budget: how much it may lose")
    check_rounding(rounding or "nearest", bool(samples))
    if ranges is not None and not how.activations and not is_onnx(ranges):
        raise E1502.error(f"'{recipe}' has no scales of activations, for which a file of encodings is")
    if ranges is not None and is_onnx(ranges):
        if equalize or smooth is not None:
            raise E1508.error(f"'{fspath(ranges)}' has integers of channels as they are, which are to be scaled")
        if reduce_range:
            raise E1508.error(f"'{fspath(ranges)}' has integers of weights, whose range is to be reduced")
        equalize = False
    needs = {f"'{recipe}'": how.activations and ranges is None, "bias correction": correct_bias}
    needs["a budget"] = budget is not None
    needs["smoothing"] = smooth is not None
    for what in (what for what, is_needed in needs.items() if is_needed and not samples):
        raise E1503.error(f"{what} needs to see inputs")
    others = [f"'{m.sym_name.data}'" for m in methods(module) if m.sym_name.data != METHOD]
    if how.activations and others:
        raise E1503.error(
            f"'{recipe}' needs to see inputs of every method, and calibration runs '{METHOD}' alone: "
            f"{', '.join(others)} would stay without scales",
            help="quantize a program of that method alone, or take a recipe without calibration",
        )
    ctx = EtContext(dialects=backend_dialects())

    def run(on: ModuleOp, *passes: Any) -> None:
        run_pipeline(ctx, on, list(passes), PipelineOptions(collect_errors=True))

    def observe(on: ModuleOp, samples: Sequence[Sequence[Any]]) -> dict[ObserveOp, Statistics]:
        """Observers with their scales."""
        run(
            on,
            AnnotateQuantizationPass(
                recipe,
                chosen.delegates,
                skip,
                bool(samples),
                block,
                chosen.target,
                chosen.link_libraries,
                reduce_range,
            ),
        )
        _check_marked(on)
        statistics = calibrate(on, samples, METHOD, kept=kept) if samples else {}
        for op, seen in statistics.items():
            if how.activations and op.encoding is None and seen.samples and FLOAT not in op.attributes:
                op.properties["as"] = UniformAttr(encoding(seen, encodings))
        if statistics and not any(seen.samples for seen in statistics.values()):
            raise E1503.error("the samples have no numbers: a dim of them is 0")
        return statistics

    def loss(on: ModuleOp) -> float | None:
        """dB of a module that is quantized for a few samples."""
        observe(on, samples[:FEW])
        leave_unseen(on)
        stored = on.clone()
        run(stored, MaterializeQuantizationPass(keep=True))
        return measure(on, stored, samples[:FEW])[1]

    run(module, *pipeline(chosen, phase_of(module), "edge"), ContiguousValuesPass(), ProductsToLayersPass())
    run(module, ExpertsToLayersPass())
    notes: list[str] = []
    if samples or equalize:
        module, notes = prepared(module, samples, equalize, loss, smooth)
    statistics = observe(module, samples)
    notes += [f"nothing fits '{pattern}', which was to be skipped" for pattern in unfitting(module, skip)]
    weights: QdqWeights | None = None
    if ranges is not None:
        told, weights = read_ranges(ranges, module, activations=how.activations, seen=bool(samples))
        notes.append(told)
    unseen = leave_unseen(module) if samples else 0
    if unseen:
        _check_marked(module)
        some = "1 operator that no sample ran stays" if unseen == 1 else f"{unseen} operators that no sample ran stay"
        notes.append(f"{some} float32: give inputs that take every branch")
    if budget is not None:
        notes.append(str(search_precision(module, samples, budget, metric, METHOD)))
    reference = module.clone()
    if weights is not None:
        notes.append(weights.write(module))
    if rounding is not None:
        notes.append(f"weights of {round_weights(module, rounding, samples, METHOD)} layers rounded by {rounding}")
    if correct_bias:
        notes.append(f"biases of {correct_biases(module, samples, METHOD, reference)} layers corrected")
    stored = module.clone()
    run(stored, MaterializeQuantizationPass(keep=True))
    losses, total = measure(reference, stored, samples)
    layers = tuple(layers_of(module, reference, statistics, losses))
    observed = module.clone()
    run(module, MaterializeQuantizationPass(), GatherQuantizedRowsPass(chosen.target, chosen.link_libraries))
    run(module, LowerExpertLayersPass(chosen.target, chosen.link_libraries))
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
    rows = rows_of(how, options.delegates, target=options.target, libraries=options.link_libraries)
    if any(row.scheme == how.scheme for row in rows):
        return
    named = ", ".join(f"'{parse_delegate(text).backend.name}'" for text in options.delegates)
    who = f"none of the delegates {named} computes" if named else f"no kernel of target '{options.target}' computes"
    found = " with scales that are found at run time" if how.scheme == DYNAMIC_ROW else ""
    raise E1502.error(f"{how.name}: {who} on int8{found}")
