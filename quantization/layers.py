"""Layers whose weights are going to be integers, or are integers already, and what their weights stand for then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from etir.dialects.dtypes import f32
from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import dims_of, tensor_of, tensor_type
from etir.dialects.experts import EXPERT_LINEAR
from etir.dialects.quant.ops import ObserveOp, UniformAttr
from etir.dialects.quantized import DEQUANTIZE_PER_CHANNEL, DEQUANTIZE_PER_GROUP
from etir.interpret.interpreter import Interpreter
from etir.passes.analysis.constants import ConstantStore
from etir.passes.infra.base import methods
from etir.quantization.calibration import run_observed
from etir.quantization.passes.annotate_quantization import WEIGHT
from etir.quantization.passes.materialize_quantization import least_scales
from etir.quantization.weights import stored_weight

COMPUTING = ("aten.linear.default", "aten.convolution.default")


def layers_with_weights(module: ModuleOp) -> Iterator[EdgeOp]:
    """The operators with mark ``quant.weight``, in order."""
    for method in methods(module):
        for op in method.walk():
            if isinstance(op, EdgeOp) and isinstance(op.attributes.get(WEIGHT), UniformAttr):
                yield op


def layers_with_inputs(module: ModuleOp) -> Iterator[EdgeOp]:
    """Those of :func:`layers_with_weights` that multiply an input by their weight: no tables that are looked up."""
    return (op for op in layers_with_weights(module) if op.op_name in COMPUTING)


def layers_with_rows(module: ModuleOp) -> Iterator[EdgeOp]:
    """Those of :func:`layers_with_inputs`, and layers of experts, of which each row is multiplied by a matrix."""
    return (op for op in layers_with_weights(module) if op.op_name in (*COMPUTING, EXPERT_LINEAR))


def weight_of(op: EdgeOp) -> SSAValue:
    """The weight of a layer."""
    return cast(SSAValue, op.arg("weight"))


def encoding_of(op: EdgeOp) -> UniformAttr:
    """How the weight of a layer is going to be stored."""
    return cast(UniformAttr, op.attributes[WEIGHT])


def as_stored(op: EdgeOp, weight: np.ndarray, store: ConstantStore) -> tuple[np.ndarray, np.ndarray]:
    """The integers and the scales that a layer is going to have for its weight, each number rounded to the nearest."""
    return stored_weight(weight, encoding_of(op).data, least_scales(op, store))


def integers_of(op: EdgeOp, store: ConstantStore) -> tuple[np.ndarray, np.ndarray] | None:
    """The integers and the scales of a layer whose weight is integers already; None for one in floating point."""
    source = weight_of(op).owner
    if not isinstance(source, EdgeOp) or source.op_name not in (DEQUANTIZE_PER_CHANNEL, DEQUANTIZE_PER_GROUP):
        return None
    values = [cast(SSAValue, source.arg(name)) for name in ("input", "scales")]
    types = [tensor_of(value) for value in values]
    arrays = [
        np.frombuffer(store.data(value), dtype).reshape(type.get_shape())
        for value, type, dtype in zip(values, types, (np.int8, np.float32), strict=True)
    ]
    return arrays[0], arrays[1]


def collect_inputs(
    module: ModuleOp,
    layers: Callable[[ModuleOp], Iterable[EdgeOp]],
    samples: Sequence[Sequence[Any]],
    look: Callable[[int, np.ndarray], None],
    method: str = "forward",
    choose: Callable[[int, np.ndarray], None] | None = None,
) -> None:
    """Run ``module`` on all samples, and show ``look`` the input of each layer, by its index in ``layers(module)``;
    before that of a layer of experts, ``choose`` the numbers of its rows' matrices. Values are freed after their last
    use.
    """
    probe = module.clone()
    indices: dict[ObserveOp, int] = {}
    choices: dict[ObserveOp, int] = {}
    for index, op in enumerate(list(layers(probe))):
        if op.op_name == EXPERT_LINEAR and choose is not None:
            numbers = cast(SSAValue, op.arg("experts"))
            floats = edge.dim_order_ops._to_dim_order_copy.default.make(
                {"self": numbers, "dtype": f32, "dim_order": [0]}, [tensor_type(f32, dims_of(tensor_of(numbers)))]
            )
            seen = ObserveOp(floats.results[0])
            Rewriter.insert_op([floats, seen], InsertPoint.before(op))
            choices[seen] = index
        value = cast(SSAValue, op.arg("input"))
        observe = ObserveOp(value)
        Rewriter.insert_op(observe, InsertPoint.before(op))
        op.operands[op.operands.index(value)] = observe.result
        indices[observe] = index

    def hear(observe: ObserveOp, value: Any) -> None:
        if observe in choices and choose is not None:
            choose(choices[observe], np.asarray(value).astype(np.int64))
        elif observe in indices:
            look(indices[observe], np.asarray(value, np.float32))

    interpreter = Interpreter(probe)
    for index, sample in enumerate(samples):
        run_observed(interpreter, sample, method, hear, index)
