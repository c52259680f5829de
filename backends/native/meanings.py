"""What the operations of bodies mean on arrays: computed in float64 where there is a choice, and rounded to their
precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Operation


def _erf(x: Any) -> Any:
    from math import erf

    return np.vectorize(erf, otypes=[np.float64])(x)


_IN_DOUBLE: dict[type[Operation], Callable[..., Any]] = {
    math.ExpOp: np.exp,
    math.ExpM1Op: np.expm1,
    math.TanhOp: np.tanh,
    math.ErfOp: _erf,
    math.SqrtOp: np.sqrt,
    math.LogOp: np.log,
    math.Log1pOp: np.log1p,
    math.SinOp: np.sin,
    math.CosOp: np.cos,
    math.PowFOp: np.power,
}
_IN_FLOAT: dict[type[Operation], Callable[..., Any]] = {
    arith.AddfOp: np.add,
    arith.SubfOp: np.subtract,
    arith.MulfOp: np.multiply,
    arith.DivfOp: np.divide,
    arith.NegfOp: np.negative,
    arith.MaximumfOp: np.maximum,
    arith.MinimumfOp: np.minimum,
    math.AbsFOp: np.abs,
    math.FloorOp: np.floor,
    math.CeilOp: np.ceil,
    math.TruncOp: np.trunc,
    math.RoundEvenOp: np.rint,
    arith.SelectOp: np.where,
}
_COMPARISONS: dict[str, Callable[..., Any]] = {
    "oeq": np.equal,
    "one": lambda x, y: (x < y) | (x > y),
    "une": np.not_equal,
    "olt": np.less,
    "ole": np.less_equal,
    "ogt": np.greater,
    "oge": np.greater_equal,
}


def evaluate(op: Operation, operands: Sequence[Any]) -> Any:
    """The result of one operation of a body."""
    with np.errstate(all="ignore"):
        if isinstance(op, arith.ConstantOp):
            assert isinstance(op.value, FloatAttr)
            return np.float32(op.value.value.data)
        if isinstance(op, arith.CmpfOp):
            return _COMPARISONS[arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]](*operands)
        if type(op) in _IN_DOUBLE:
            given = [np.asarray(x) for x in operands]
            return _IN_DOUBLE[type(op)](*(x.astype(np.float64) for x in given)).astype(given[0].dtype)
        return _IN_FLOAT[type(op)](*operands)
