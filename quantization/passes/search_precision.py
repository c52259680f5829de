"""`search-precision`: layers that lose most compute in floating point again, until the program is as good as wanted.

Before, of a program whose results are 12 dB from those in float32::

    %y = edge.aten.convolution.default(%0, %w, ...) {quant.weight = #quant.uniform<i8, axis = 0>, quant.integers} : ...

After ``search-precision{budget=30 data=seen.npz}``, for a layer whose weights may stay integers and one that may not::

    %y = edge.aten.convolution.default(%x, %w, ...) {quant.weight = #quant.uniform<i8, axis = 0>} : ...
    %z = edge.aten.convolution.default(%y, %v, ...) {quant.why = "quantized alone it leaves 3.1 dB"} : ...

Every layer is quantized alone, and what the results lose by it is its noise. Layers are put back in the order of their
noise, to integers for the weights only where that takes most of it away, and to floating point otherwise. How many have
to be is found by bisection. Observers that nothing on integers needs any more go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from etir.backends.api.quantization import CHOOSES, CLAMPS, MOVES
from etir.dialects.context import EtContext
from etir.dialects.edge.base import EdgeOp
from etir.dialects.quant.ops import ObserveOp
from etir.interpret.interpreter import Interpreter
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.quantization.calibration import run_observed
from etir.quantization.errors import E1503, E1507
from etir.quantization.passes.annotate_quantization import DYNAMIC, INTEGERS, WEIGHT, WHY
from etir.quantization.passes.materialize_quantization import MaterializeQuantizationPass
from etir.quantization.report import sqnr
from etir.quantization.samples import samples_of

Metric: TypeAlias = "Callable[[list[list[Any]]], float]"
"""From the outputs of each sample (NumPy arrays) to a number that is larger for better ones."""

ALONE = 2
"""Samples that tell what a layer loses alone."""


class Precision(IntEnum):
    """How a layer computes."""

    FLOAT = 0
    WEIGHTS = 1
    INTEGERS = 2


@dataclass(frozen=True)
class Found:
    """What the search found: ``reached`` says whether the budget is held, ``value`` by how much (dB, or the metric)."""

    floats: int
    weights: int
    layers: int
    value: float
    reached: bool

    def __str__(self) -> str:
        kept = f"{self.floats} of {self.layers} layers in float32, {self.weights} with integers for weights only"
        missed = "" if self.reached else "the budget cannot be met; the best that was found: "
        return f"{missed}{kept}: {self.value:.4g}"


@register_pass
@dataclass(frozen=True)
class SearchPrecisionPass(Pass):
    """Put layers back to floating point until results are ``budget`` dB from those in float32.

    ``data`` is an ``.npz`` file of arrays with a sample in each index of their first dims.
    """

    name = "search-precision"
    budget: float = 30.0
    data: str = ""

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E1503 without data, E1504 for data that does not fit."""
        func = next(iter(methods(module)), None)
        samples = samples_of(self.data, func) if self.data else []
        if not samples or func is None:
            raise E1503.error("search-precision needs to see inputs: search-precision{data=FILE.npz}")
        search_precision(module, samples, self.budget, method=func.sym_name.data)


def search_precision(
    module: ModuleOp,
    samples: Sequence[Sequence[Any]],
    budget: float,
    metric: Metric | None = None,
    method: str = "forward",
) -> Found:
    """Change the marks of ``module``, which is annotated and calibrated, until it holds the budget.

    Without ``metric`` that is the SQNR of the outputs in dB, at least; with one it is what the metric may lose against
    floating point, at most. Raises E1507 for a budget that is no number or a metric that fails.
    """
    return _Search(module, samples, budget, metric, method).run()


class _Search:
    def __init__(
        self,
        module: ModuleOp,
        samples: Sequence[Sequence[Any]],
        budget: float,
        metric: Metric | None,
        method: str,
    ):
        """Raises E1507 for a budget that is no number."""
        self.module, self.samples, self.budget, self.metric, self.method = module, samples, budget, metric, method
        if not np.isfinite(budget) or (metric is not None and budget < 0):
            raise E1507.error(f"a budget of {budget}")
        self.count = len(_layers(module))
        self.wanted = self._outputs([Precision.FLOAT] * self.count, samples)
        self.best = self._score(self.wanted)
        if np.isnan(self.best):
            raise E1507.error("the metric gave nan for the outputs in float32")

    def run(self) -> Found:
        alone = [
            {level: self._alone(index, level) for level in (Precision.INTEGERS, Precision.WEIGHTS)}
            for index in range(self.count)
        ]
        steps = self._steps(alone)
        values = {0: self._value([Precision.INTEGERS] * self.count)}
        low, high = 0, len(steps)
        if self._holds(values[0]):
            high = 0
        while low < high:
            middle = (low + high) // 2
            values[middle] = self._value(self._after(steps[:middle]))
            low, high = (low, middle) if self._holds(values[middle]) else (middle + 1, high)
        if low not in values:
            values[low] = self._value(self._after(steps[:low]))
        reached = self._holds(values[low])
        chosen = low if reached else max(values, key=lambda k: (values[k], -k))
        levels = self._after(steps[:chosen])
        _set(self.module, levels, [f"quantized alone it leaves {each[Precision.INTEGERS]:.1f} dB" for each in alone])
        floats, weights = (sum(level == wanted for level in levels) for wanted in (Precision.FLOAT, Precision.WEIGHTS))
        return Found(floats, weights, self.count, values[chosen], reached)

    def _steps(self, alone: list[dict[Precision, float]]) -> list[tuple[int, Precision]]:
        """Which layer is put back to what, in this order. Noises add up, so that the largest one goes first."""
        steps: list[tuple[float, int, Precision]] = []
        for index, by in enumerate(alone):
            integers, weights = by[Precision.INTEGERS], by[Precision.WEIGHTS]
            if weights >= integers + 6.0 and _weight(_layers(self.module)[index]):
                steps.append((integers, index, Precision.WEIGHTS))
                steps.append((weights, index, Precision.FLOAT))
            else:
                steps.append((integers, index, Precision.FLOAT))
        return [(index, level) for _, index, level in sorted(steps, key=lambda step: step[:2])]

    def _after(self, steps: Sequence[tuple[int, Precision]]) -> list[Precision]:
        levels = [Precision.INTEGERS] * self.count
        for index, level in steps:
            levels[index] = level
        return levels

    def _alone(self, index: int, level: Precision) -> float:
        """dB of the outputs when only one layer is quantized."""
        levels = [level if i == index else Precision.FLOAT for i in range(self.count)]
        samples = self.samples[:ALONE]
        return sqnr(_flat(self.wanted[: len(samples)]), _flat(self._outputs(levels, samples)))

    def _outputs(self, levels: Sequence[Precision], samples: Sequence[Sequence[Any]]) -> list[list[Any]]:
        module = self.module.clone()
        _set(module, levels)
        MaterializeQuantizationPass().run(EtContext(), module)
        interpreter = Interpreter(module)
        found: list[list[Any]] = []
        for index, sample in enumerate(samples):
            results = run_observed(interpreter, sample, self.method, lambda _op, _value: None, index)
            found.append([np.asarray(v).copy() if interpreter.evaluator.is_tensor(v) else v for v in results])
        return found

    def _score(self, outputs: list[list[Any]]) -> float:
        if self.metric is None:
            return 0.0
        try:
            return float(self.metric(outputs))
        except (TypeError, ValueError, IndexError, KeyError, ArithmeticError) as error:
            raise E1507.error(f"the metric raised {type(error).__name__}: {error}") from error

    def _value(self, levels: Sequence[Precision]) -> float:
        outputs = self._outputs(levels, self.samples)
        value = sqnr(_flat(self.wanted), _flat(outputs)) if self.metric is None else self._score(outputs)
        return -np.inf if np.isnan(value) else value

    def _holds(self, value: float) -> bool:
        return value >= self.budget if self.metric is None else value >= self.best - self.budget


def _flat(outputs: list[list[Any]]) -> np.ndarray:
    arrays = [v.astype(np.float64).reshape(-1) for sample in outputs for v in sample if isinstance(v, np.ndarray)]
    return np.concatenate(arrays or [np.zeros(0)])


def _layers(module: ModuleOp) -> list[EdgeOp]:
    """The operators that are going to have integers, in order."""
    every = (op for method in methods(module) for op in method.walk() if isinstance(op, EdgeOp))
    return [op for op in every if INTEGERS in op.attributes or WEIGHT in op.attributes]


def _weight(op: EdgeOp) -> bool:
    return WEIGHT in op.attributes and any(mark in op.attributes for mark in (INTEGERS, DYNAMIC))


def _set(module: ModuleOp, levels: Sequence[Precision], reasons: Sequence[str] = ()) -> None:
    for index, (op, level) in enumerate(zip(_layers(module), levels, strict=True)):
        if level is Precision.INTEGERS:
            continue
        for mark in (INTEGERS, DYNAMIC):
            op.attributes.pop(mark, None)
        if level is Precision.FLOAT:
            op.attributes.pop(WEIGHT, None)
            op.attributes[WHY] = StringAttr(reasons[index] if reasons else "")
    for observe in [op for op in module.walk() if isinstance(op, ObserveOp)]:
        if not _is_needed(observe):
            observe.result.replace_all_uses_with(observe.input)
            Rewriter.erase_op(observe)


def _is_needed(observe: ObserveOp) -> bool:
    """Whether the operator that makes a value, or one that reads it, computes on integers, or nothing was chosen."""
    if observe.encoding is None:
        return True
    owner = observe.input.owner
    while isinstance(owner, EdgeOp) and owner.op_name in CLAMPS and INTEGERS not in owner.attributes:
        owner = owner.operands[0].owner
    return (isinstance(owner, EdgeOp) and INTEGERS in owner.attributes) or _is_read(observe.result)


def _is_read(value: SSAValue) -> bool:
    for use in value.uses:
        user = use.operation
        if not isinstance(user, EdgeOp):
            continue
        if INTEGERS in user.attributes:
            return True
        if user.op_name in MOVES | CHOOSES and any(_is_read(result) for result in user.results):
            return True
    return False
