"""What quantization has cost: the loss of each observed value, alone and accumulated, and a row of the report for each
operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.ir import SSAValue

from etir.backends.api.quantization import CHOOSES, CLAMPS, MOVES
from etir.dialects.dtypes import f32
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import tensor_of
from etir.dialects.quant.ops import ObserveOp, UniformAttr
from etir.dialects.text import source_location
from etir.interpret.interpreter import Interpreter
from etir.passes.analysis.constants import ConstantStore
from etir.passes.infra.base import methods
from etir.quantization.calibration import Statistics, run_observed
from etir.quantization.encodings import clipped_share
from etir.quantization.layers import as_stored, integers_of, layers_with_weights, weight_of
from etir.quantization.parameters import Parameters
from etir.quantization.passes.annotate_quantization import DYNAMIC, INTEGERS, WEIGHT, WHY, result_of
from etir.quantization.report import Layer, sqnr
from etir.quantization.weights import multiplied_out, stored_bytes

METHOD = "forward"
"""The method that calibration runs."""


@dataclass(frozen=True)
class Loss:
    """dB of one observed value on the first sample: by the operator that makes it ``alone``, from inputs in floating
    point, and by everything up to it.
    """

    alone: float | None = None
    accumulated: float | None = None


def measure(module: ModuleOp, stored: ModuleOp, samples: Sequence[Sequence[Any]]) -> tuple[list[Loss], float | None]:
    """The loss of each observed value of ``module`` in ``stored``, and that of the outputs over all samples."""
    names = observers(module)
    if not samples:
        return [Loss() for _ in names], None
    first: dict[ObserveOp, np.ndarray] = {}
    pairs = dict(zip(observers(stored), names, strict=True))
    accumulated: dict[ObserveOp, float] = {}
    alone: dict[ObserveOp, float] = {}
    outputs: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])

    def keep(op: ObserveOp, value: Any) -> None:
        first[op] = np.asarray(value, np.float32).copy()

    def compare(found: dict[ObserveOp, float]) -> Callable[[ObserveOp, Any], None]:
        def look(op: ObserveOp, value: Any) -> None:
            found[pairs[op]] = sqnr(first[pairs[op]], np.asarray(value, np.float32))

        return look

    def instead(result: SSAValue, _value: Any) -> Any:
        """Who reads an observed value reads it in floating point."""
        owner = result.owner
        return replaced.evaluator.from_user(first[pairs[owner]]) if isinstance(owner, ObserveOp) else None

    interpreters = Interpreter(module), Interpreter(stored)
    replaced = Interpreter(stored, watch=instead)
    for index, sample in enumerate(samples):
        hooks = (_ignore, _ignore) if index else (keep, compare(accumulated))
        for interpreter, hook, found in zip(interpreters, hooks, outputs, strict=True):
            results = run_observed(interpreter, sample, METHOD, hook, index)
            found += [np.asarray(v, np.float32).flatten() for v in results if interpreter.evaluator.is_tensor(v)]
        if not index:
            run_observed(replaced, sample, METHOD, compare(alone))
            first.clear()
    total = sqnr(*(np.concatenate(found) for found in outputs)) if outputs[0] else None
    return [Loss(alone.get(op), accumulated.get(op)) for op in names], total


def _ignore(_op: ObserveOp, _value: Any) -> None:
    """Nothing is to be looked at."""


def observers(module: ModuleOp) -> list[ObserveOp]:
    """All observed values, in order."""
    return [op for op in module.walk() if isinstance(op, ObserveOp)]


@dataclass(frozen=True)
class Measured:
    """What rows of a report are made from: what calibration has seen, the losses of observed values, and the weights
    of layers in floating point.
    """

    store: ConstantStore
    statistics: dict[ObserveOp, Statistics]
    losses: dict[ObserveOp, Loss]
    weights: dict[EdgeOp, np.ndarray]


def layers_of(
    module: ModuleOp, reference: ModuleOp, statistics: dict[ObserveOp, Statistics], losses: Sequence[Loss]
) -> Iterable[Layer]:
    """The rows of the operators of ``module``, which is ``reference`` with weights that may be integers by now."""
    parameters = Parameters(reference)
    pairs = zip(layers_with_weights(module), layers_with_weights(reference), strict=True)
    weights = {
        op: parameters.array(weight_of(before)) for op, before in pairs if parameters.is_known(weight_of(before))
    }
    by_observer = dict(zip(observers(module), losses, strict=True))
    measured = Measured(ConstantStore(module), statistics, by_observer, weights)
    for method in methods(module):
        for op in method.walk():
            if isinstance(op, EdgeOp) and (layer := _layer(op, measured)) is not None:
                yield layer


def _layer(op: EdgeOp, measured: Measured) -> Layer | None:
    """The row of an operator that computes on floats; None for one that has no say: moves, clamps after a layer."""
    place = source_location(op.location)
    name = (place.module or str(place)) if place is not None else ""
    name = name or op.results[0].name_hint or ""
    why = op.attributes.get(WHY)
    size = _bytes(op.args().get("weight"))
    if isinstance(why, StringAttr):
        return Layer(name, op.op_name, "float32", weight_bytes=size, reason=why.data)
    encoded = op.attributes.get(WEIGHT)
    if INTEGERS not in op.attributes and encoded is None:
        return None if _says_nothing(op) else Layer(name, op.op_name, "float32", reason="no row computes it on int8")
    loss = None
    kind = "int8" if INTEGERS in op.attributes else "int8 at run time" if DYNAMIC in op.attributes else "int8 weights"
    if isinstance(encoded, UniformAttr) and op in measured.weights:
        how = encoded.data
        array = measured.weights[op]
        integers, scales = integers_of(op, measured.store) or as_stored(op, array, measured.store)
        loss, size = sqnr(array, multiplied_out(integers, scales, how)), stored_bytes(integers, scales, how)
        bits = 7 if how.reduced else how.bits
        if bits != 8:
            kind = f"int{bits} weights" if kind == "int8 weights" else f"{kind}, int{bits} weights"
    observe = result_of(op)
    seen = None if observe is None else measured.statistics.get(observe)
    if observe is None or seen is None or not seen.samples:
        return Layer(name, op.op_name, kind, weight_sqnr=loss, weight_bytes=size)
    clipped = None if observe.encoding is None else clipped_share(seen, observe.encoding.data)
    lost = measured.losses[observe]
    return Layer(
        name, op.op_name, kind, seen.low, seen.high, clipped, loss, lost.accumulated, size, alone_sqnr=lost.alone
    )


def _bytes(weight: Any) -> int:
    count = 4
    for size in tensor_of(weight).get_shape() if weight is not None else (0,):
        count *= size
    return count


def _says_nothing(op: EdgeOp) -> bool:
    if op.op_name.startswith(("quantized_decomposed.", "etir.int")):
        return True  # What quantizes, and what an earlier recipe has made of a layer.
    moves = op.op_name in MOVES or op.op_name in CHOOSES or op.op_name in CLAMPS or op.op_name == "aten.cat.default"
    type = op.results[0].type if op.results else None
    return moves or not isinstance(type, TensorType) or type.element_type != f32
