"""`correct-bias`: what rounding the weights moves a layer's results by, on average, comes off its bias.

Before::

    %y = edge.aten.linear.default(%x, %w, %b) {quant.weight = #quant.uniform<i8, axis = 0>} : ...

After ``correct-bias{data=seen.npz}``::

    %y = edge.aten.linear.default(%x, %w, %b_corrected) {quant.weight = #quant.uniform<i8, axis = 0>} : ...

For a layer with weight W that is stored as V, the mean of (W - V) x over the calibration data is added to the bias,
channel by channel. Layers are corrected for their own weights only, with inputs in floating point, so that one run of
the program on each sample is enough (the fast form of Nagel et al., *Data-Free Quantization through Weight Equalization
and Bias Correction*, ICCV 2019).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from etir.dialects.context import EtContext
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import tensor_of
from etir.dialects.et.program import GetWeightOp
from etir.dialects.quant.ops import ObserveOp
from etir.interpret.interpreter import Interpreter
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.quantization.calibration import run_observed
from etir.quantization.channels import LINEAR
from etir.quantization.errors import E1503
from etir.quantization.layers import as_stored, encoding_of, integers_of, layers_with_inputs, weight_of
from etir.quantization.parameters import Parameters
from etir.quantization.samples import samples_of
from etir.quantization.weights import multiplied_out


@dataclass(frozen=True)
class _Error:
    """The sum of the errors of each channel, over ``count`` numbers of it."""

    total: np.ndarray
    count: int

    @property
    def mean(self) -> np.ndarray:
        return self.total / self.count


@register_pass
@dataclass(frozen=True)
class CorrectBiasPass(Pass):
    """Take the mean error of rounded weights off the biases of their layers.

    ``data`` is an ``.npz`` file of arrays with a sample in each index of their first dims.
    """

    name = "correct-bias"
    data: str = ""

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E1503 without data, E1504 for data that does not fit."""
        func = next(iter(methods(module)), None)
        samples = samples_of(self.data, func) if self.data else []
        if not samples or func is None:
            raise E1503.error("correct-bias needs to see inputs: correct-bias{data=FILE.npz}")
        correct_bias(module, samples, func.sym_name.data)


def correct_bias(
    module: ModuleOp,
    samples: Sequence[Sequence[Any]],
    method: str = "forward",
    reference: ModuleOp | None = None,
) -> int:
    """Correct the biases of all layers whose weights are going to be integers; how many have changed.

    ``reference`` is the module with weights in floating point, where ``module`` has integers already.
    """
    parameters = Parameters(module)
    stored = [_stored(op, parameters) for op in layers_with_inputs(module)]
    errors = _mean_errors(module if reference is None else reference, stored, samples, method)
    changed = 0
    layers = list(layers_with_inputs(module))
    for op, error in zip(layers, _shared(layers, errors), strict=True):
        bias = op.arg("bias")
        known = parameters.is_known(bias)
        if error is None or not error.any() or not (bias is None or known):
            continue
        before = parameters.array(bias) if known else np.zeros(len(error), np.float32)
        parameters.replaced(op, "bias", before + error, "corrected")
        changed += 1
    return changed


def _shared(layers: Sequence[EdgeOp], errors: Sequence[_Error | None]) -> list[np.ndarray | None]:
    """The mean errors of layers. Those of one weight and one bias, the steps of a recurrent net, stay such: theirs is
    that over all that they see.
    """
    found: dict[object, _Error] = {}
    names: list[object] = [_parameters_of(op) for op in layers]
    for name, error in zip(names, errors, strict=True):
        if error is not None:
            known = found.get(name)
            found[name] = error if known is None else _Error(known.total + error.total, known.count + error.count)
    return [found[name].mean if name in found else None for name in names]


def _parameters_of(op: EdgeOp) -> object:
    """The names of the weight and the bias of a layer, if it has one, where both are weights of the program."""
    weight, given = weight_of(op).owner, op.arg("bias")
    bias = given.owner if isinstance(given, SSAValue) else None
    while isinstance(weight, EdgeOp) and weight.op_name.startswith("quantized_decomposed.dequantize_"):
        weight = weight.operands[0].owner
    if not isinstance(weight, GetWeightOp) or not (given is None or isinstance(bias, GetWeightOp)):
        return op
    name = bias.symbol.root_reference.data if isinstance(bias, GetWeightOp) else None
    return op.op_name, weight.symbol.root_reference.data, name


def _stored(op: EdgeOp, parameters: Parameters) -> np.ndarray | None:
    """What the weight of a layer is going to stand for; None where its bytes are not there."""
    weight = weight_of(op)
    if parameters.is_known(weight):
        written = as_stored(op, parameters.array(weight), parameters.store)
    else:
        written = integers_of(op, parameters.store)
    return None if written is None else multiplied_out(*written, encoding_of(op).data)


def _mean_errors(
    module: ModuleOp, stored: Sequence[np.ndarray | None], samples: Sequence[Sequence[Any]], method: str
) -> list[_Error | None]:
    """``(W - V) x`` for each channel, by layer; None for a layer that no sample has reached."""
    probe = module.clone()
    parameters = Parameters(probe)
    layers = list(layers_with_inputs(probe))
    observers = [_error_of(op, weight, parameters) for op, weight in zip(layers, stored, strict=True)]
    after = {o: _dims_after(op) for o, op in zip(observers, layers, strict=True) if o is not None}
    sums: dict[ObserveOp, np.ndarray] = {}
    counts: dict[ObserveOp, int] = {}

    def add(observe: ObserveOp, value: Any) -> None:
        if observe not in after:
            return
        numbers = np.asarray(value, np.float64)
        channels = numbers.ndim - 1 - after[observe]
        total = numbers.sum(axis=tuple(d for d in range(numbers.ndim) if d != channels))
        sums[observe] = sums.get(observe, np.zeros_like(total)) + total
        counts[observe] = counts.get(observe, 0) + numbers.size // total.size

    interpreter = Interpreter(probe)
    for index, sample in enumerate(samples):
        run_observed(interpreter, sample, method, add, index)
    return [None if o is None or not counts.get(o) else _Error(sums[o], counts[o]) for o in observers]


def _dims_after(op: EdgeOp) -> int:
    """The number of dims after the channels of a layer's result."""
    return 0 if op.op_name == LINEAR else tensor_of(weight_of(op)).get_num_dims() - 2


def _error_of(op: EdgeOp, stored: np.ndarray | None, parameters: Parameters) -> ObserveOp | None:
    """An observer of what the layer would give with the error of its weight instead of the weight."""
    weight = weight_of(op)
    if not parameters.is_known(weight) or stored is None:
        return None
    error = parameters.constant(op, parameters.array(weight) - stored, weight, "error")
    copy = op.with_args([r.type for r in op.results], weight=error, bias=None)
    observe = ObserveOp(copy.results[0])
    for made in (copy, observe):
        Rewriter.insert_op(made, InsertPoint.before(op))
    return observe
