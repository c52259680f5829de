"""Layers whose weights are going to be integers, or are integers already, and what their weights stand for then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from etir.dialects.edge.base import EdgeOp
from etir.dialects.quant.ops import Uniform, UniformAttr
from etir.passes.infra.base import methods
from etir.quantization.passes.annotate_quantization import WEIGHT
from etir.quantization.weights import multiplied_out, stored_weight


def layers_with_weights(module: ModuleOp) -> Iterator[EdgeOp]:
    """The operators with mark ``quant.weight``, in order."""
    for method in methods(module):
        for op in method.walk():
            if isinstance(op, EdgeOp) and isinstance(op.attributes.get(WEIGHT), UniformAttr):
                yield op


def weight_of(op: EdgeOp) -> SSAValue:
    """The weight of a layer."""
    return cast(SSAValue, op.arg("weight"))


def encoding_of(op: EdgeOp) -> UniformAttr:
    """How the weight of a layer is going to be stored."""
    return cast(UniformAttr, op.attributes[WEIGHT])


def as_stored(weight: np.ndarray, how: Uniform) -> np.ndarray:
    """What the integers of a weight stand for, float32, when each number is rounded to the nearest one."""
    return multiplied_out(*stored_weight(weight, how), how)
