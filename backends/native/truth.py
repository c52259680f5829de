"""Truth values inside of bodies: comparisons, what joins them, and numbers that are made of them.

In a body a truth value is a number, 0.0 or 1.0, so that it can be kept, viewed and read as any other tensor of a
function. What chooses by one that the same body has made reads the comparison itself (:meth:`Body.holds`): ``where(x >
0, x, y)`` is one comparison and one choice. At the boundary of a function truth values are bytes (``flags.py``).
"""

from __future__ import annotations

import math as m
from collections.abc import Callable
from typing import Any

from xdsl.dialects import math

from etir.backends.native.body import Body, Expand, Number

COMPARISONS = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
"""Operator to the predicate of ``arith.cmpf``: with NaN, ``ne`` alone holds."""
BOTH = ("aten.logical_and.default", "aten.bitwise_and.Tensor")
EITHER = ("aten.logical_or.default", "aten.bitwise_or.Tensor")
ONE_OF = ("aten.logical_xor.default", "aten.bitwise_xor.Tensor")
NOT = ("aten.logical_not.default", "aten.bitwise_not.default")
CONNECTIVES = (*BOTH, *EITHER, *ONE_OF, *NOT)
"""Truth values of truth values."""
CAST = "dim_order_ops._to_dim_order_copy.default"


def _test(predicate: str, x: Callable[[Any], Number], y: Callable[[Any], Number]) -> Expand:
    return lambda b, op: b.truth(predicate, x(op), y(op))


def _self(op: Any) -> Any:
    return op.arg("self")


def _other(op: Any) -> Any:
    return op.arg("other")


def _not(b: Body, x: Number) -> Any:
    return b.choose(x, 0.0, 1.0)


def _cast(b: Body, op: Any) -> Any:
    """Numbers of truth values are what they are; the truth value of a number is whether it differs from 0."""
    was, is_ = (str(v.type.element_type) for v in (op.arg("self"), op.results[0]))
    return b.truth("une", op.arg("self"), 0.0) if (was, is_) == ("f32", "i1") else b.of(op.arg("self"))


TRUTH: dict[str, Expand] = {
    **{f"aten.{name}.Scalar": _test(predicate, _self, _other) for name, predicate in COMPARISONS.items()},
    **{f"aten.{name}.Tensor": _test(predicate, _self, _other) for name, predicate in COMPARISONS.items()},
    "aten.isnan.default": _test("une", _self, _self),
    "aten.isinf.default": lambda b, op: b.truth("oeq", b.make(math.AbsFOp, op.arg("self")), m.inf),
    **dict.fromkeys(BOTH, lambda b, op: b.choose(op.arg("self"), op.arg("other"), 0.0)),
    **dict.fromkeys(EITHER, lambda b, op: b.choose(op.arg("self"), 1.0, op.arg("other"))),
    **dict.fromkeys(ONE_OF, lambda b, op: b.choose(op.arg("self"), _not(b, op.arg("other")), op.arg("other"))),
    **dict.fromkeys(NOT, lambda b, op: _not(b, op.arg("self"))),
    CAST: _cast,
}  # fmt: skip
"""Operator, without its level, to what builds its element."""
