"""Reductions as walks over elements: what each of them combines, of what it is given, and what is made of the sums.

A reduction is one walk, as a mean; or several, of which later ones are given the number that an earlier one has found
for the same elements::

    logsumexp(x) = log(sum(exp(x - m))) + m        with m = max(x)
    var(x) = mean((x - m)^2) - mean(x - m)^2       with m = mean(x), times n / (n - correction)

What a walk does with an element before it is combined is the body of its operation, so that no walk has a tensor beside
the one that it reads. The program for the kernels keeps the one operator.
"""

from __future__ import annotations

import math as m
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import math
from xdsl.ir import SSAValue

from etir.backends.api.patterns import operator_of
from etir.backends.native.body import Body
from etir.backends.native.dims import dims
from etir.backends.native.elementwise import power_of
from etir.backends.native.sizes import is_known
from etir.dialects.schema_op import SchemaOp

Each = Callable[[Body, Sequence[SSAValue]], SSAValue]
"""Builds a number of others: an element, or what is combined, first."""


@dataclass(frozen=True)
class Fold:
    """One walk: ``kind`` says how elements are combined, ``each`` what is combined of an element (by default itself)
    and, with ``center``, of what the first walk has found; ``then`` is done with what is found.
    """

    kind: str
    each: Each | None = None
    center: bool = False
    then: Each | None = None


@dataclass(frozen=True)
class Folds:
    """Walks in order; ``result`` is made of what they find (by default what the last one does)."""

    walks: tuple[Fold, ...]
    result: Each | None = None


def reduced_dims(op: SchemaOp) -> list[int]:
    """The dims that a reduction goes along, from 0: all of them where it names none."""
    rank = len(dims(op.arg("self")))
    given = op.arg("dim") if "dim" in op.SCHEMA.index else None
    listed = [given] if isinstance(given, int) else [*(given or ())]
    return sorted({d % rank for d in listed} or range(rank)) if rank else []


def reduced_count(op: SchemaOp) -> int:
    """How many elements are one number."""
    given = dims(op.arg("self"))
    return m.prod(given[d] for d in reduced_dims(op))


def folds_of(op: SchemaOp) -> Folds:
    """The walks of a reduction."""
    return FOLDS[operator_of(op)](op)


def may_be_none(op: SchemaOp) -> bool:
    """Whether a reduction asks for the largest or smallest of numbers of which there may be none."""
    given = dims(op.arg("self"))
    asks = any(walk.kind in ("max", "min") for walk in folds_of(op).walks)
    return asks and not is_known([given[d] for d in reduced_dims(op)])


def _plain(kind: str) -> Callable[[Any], Folds]:
    return lambda op: Folds((Fold(kind),))


# --- norms ------------------------------------------------------------------------------------------------------------


def _abs(b: Body, x: SSAValue) -> SSAValue:
    return b.make(math.AbsFOp, x)


def _norm(op: Any) -> Folds:
    order = float(op.arg("ord"))
    if m.isinf(order):
        return Folds((Fold("max" if order > 0 else "min", lambda b, v: _abs(b, v[0])),))
    if order == 0:
        return Folds((Fold("sum", lambda b, v: b.select("une", v[0], 0.0, 1.0, 0.0)),))
    if order == 1:
        return Folds((Fold("sum", lambda b, v: _abs(b, v[0])),))
    if order == 2:
        return Folds((Fold("sum", lambda b, v: b.mul(v[0], v[0])),), lambda b, v: b.make(math.SqrtOp, v[0]))
    walk = Fold("sum", lambda b, v: power_of(b, _abs(b, v[0]), order))
    return Folds((walk,), lambda b, v: power_of(b, v[0], 1 / order))


# --- statistics -------------------------------------------------------------------------------------------------------


def _variance(op: Any) -> Folds:
    """About the mean. What is left of the mean, which is rounded, is as large as the deviation where numbers are large
    and differ by their last digits: its square is taken away.
    """
    correction = 1.0 if op.arg("correction") is None else float(op.arg("correction"))

    def off(b: Body, v: Sequence[SSAValue]) -> SSAValue:
        return b.sub(v[0], v[1])

    def square(b: Body, v: Sequence[SSAValue]) -> SSAValue:
        found = off(b, v)
        return b.mul(found, found)

    def result(b: Body, v: Sequence[SSAValue]) -> SSAValue:
        found = b.at_least(b.sub(v[2], b.mul(v[1], v[1])), 0.0)
        if not correction:
            return found
        count = reduced_count(op)
        return b.mul(found, count / (count - correction) if count > correction else m.inf)

    return Folds((Fold("mean"), Fold("mean", off, True), Fold("mean", square, True)), result)


def _log_sum_exp(op: Any) -> Folds:
    def finite(b: Body, v: Sequence[SSAValue]) -> SSAValue:
        return b.select("oeq", _abs(b, v[0]), m.inf, 0.0, v[0])

    largest = Fold("max", then=finite)
    total = Fold("sum", lambda b, v: b.make(math.ExpOp, b.sub(v[0], v[1])), True)
    return Folds((largest, total), lambda b, v: b.add(b.make(math.LogOp, v[1]), v[0]))


# --- truth values -----------------------------------------------------------------------------------------------------


def _any(op: Any) -> Folds:
    """Of how many hold: a number of none is 0, unlike the largest of none."""
    return Folds((Fold("sum", then=lambda b, v: b.select("ogt", v[0], 0.0, 1.0, 0.0)),))


def _all(op: Any) -> Folds:
    """Of how many do not hold."""
    return Folds((Fold("sum", lambda b, v: b.sub(1.0, v[0]), then=lambda b, v: b.select("ogt", v[0], 0.0, 0.0, 1.0)),))


FOLDS: dict[str, Callable[[Any], Folds]] = {
    "aten.mean.dim": _plain("mean"),
    "aten.mean.default": _plain("mean"),
    "aten.sum.dim_IntList": _plain("sum"),
    "aten.prod.default": _plain("prod"),
    "aten.prod.dim_int": _plain("prod"),
    "aten.amax.default": _plain("max"),
    "aten.amin.default": _plain("min"),
    "aten.max.dim": _plain("max"),
    "aten.min.dim": _plain("min"),
    "aten.linalg_vector_norm.default": _norm,
    "aten.var.correction": _variance,
    "aten.logsumexp.default": _log_sum_exp,
    "aten.any.dim": _any,
    "aten.any.dims": _any,
    "aten.all.dim": _all,
    "aten.all.dims": _all,
}
"""Operator, without its level, to the walks that it is."""
