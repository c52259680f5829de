"""Comparisons of sizes that hold for all sizes in their ranges, which torch's own solver does not see.

While torch lays out a tensor it compares strides, which are products of sizes: ``s0 < s0 * Min(s1, s2)``, or
``Mod(s0, s0 * (s1//2 + 1)) != 0``. A difference is factored, and each factor has a sign that its range tells; a
remainder is not 0 where the dividend lies between 0 and the divisor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy
from torch.utils._sympy.functions import Mod, PythonMod
from torch.utils._sympy.value_ranges import bound_sympy

Ranges = dict[Any, Any]
"""torch's value ranges of its symbols."""


def always_holds(asked: Any, ranges: Ranges) -> bool:
    """Whether a comparison of sympy's holds for all values in the ranges."""
    if isinstance(asked, sympy.And):
        return all(always_holds(part, ranges) for part in asked.args)
    if isinstance(asked, sympy.Or):
        return any(always_holds(part, ranges) for part in asked.args)
    if not isinstance(asked, sympy.core.relational.Relational):
        return False
    left: Any = asked.args[0]
    right: Any = asked.args[1]
    relation: str = getattr(asked, "rel_op", "")
    match relation:
        case ">":
            return _is_positive(left - right, ranges)
        case "<":
            return _is_positive(right - left, ranges)
        case ">=":
            return _has_sign(left - right, ranges, lambda low: low >= 0)
        case "<=":
            return _has_sign(right - left, ranges, lambda low: low >= 0)
        case "!=":
            return _differs(left, right, ranges)
        case _:
            return False


def _is_positive(difference: Any, ranges: Ranges) -> bool:
    return _has_sign(difference, ranges, lambda low: low > 0)


def _has_sign(difference: Any, ranges: Ranges, fits: Callable[[Any], bool]) -> bool:
    """Whether the lower ends of all factors fit, of which an even number may be negative."""
    factored: Any = sympy.factor(difference)
    is_positive = True
    for factor in sympy.Mul.make_args(factored):
        span = bound_sympy(factor, ranges)
        if fits(span.lower):
            continue
        if not fits(-span.upper):
            return False
        is_positive = not is_positive
    return is_positive


def _differs(left: Any, right: Any, ranges: Ranges) -> bool:
    for term, other in ((left, right), (right, left)):
        if isinstance(term, (Mod, PythonMod)) and other == 0:
            dividend: Any = term.args[0]
            divisor: Any = term.args[1]
            return _is_positive(dividend, ranges) and _is_positive(divisor - dividend, ranges)
    return _is_positive(left - right, ranges) or _is_positive(right - left, ranges)
