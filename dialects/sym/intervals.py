"""Interval arithmetic on integers: the smallest interval that holds a result, operands taken as independent.

An interval is ``(low, high)``, both ends included; ``-inf`` and ``inf`` stand for no bound. Every function is sound:
the result holds for every choice of operands at which the operation is defined (a divisor of zero is not a choice).
Bounds are exact Python integers of any length, so infinities never meet them in arithmetic, only in comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

Bound: TypeAlias = int | float
"""An integer or one of the two infinities."""
Interval: TypeAlias = tuple[Bound, Bound]

EVERYTHING: Interval = (-math.inf, math.inf)


def _sum(a: Bound, b: Bound) -> Bound:
    return a if isinstance(a, float) else b if isinstance(b, float) else a + b


def _product(a: Bound, b: Bound) -> Bound:
    if not a or not b:
        return 0
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    return math.inf if (a > 0) == (b > 0) else -math.inf


def _quotient(a: Bound, b: Bound) -> Bound:
    """``a // b`` for ``b >= 1``, as a limit where an end is infinite."""
    if isinstance(a, float):
        return a
    if isinstance(b, float):
        return 0 if a >= 0 else -1
    return a // b


def add(a: Interval, b: Interval) -> Interval:
    """``a + b``."""
    return _sum(a[0], b[0]), _sum(a[1], b[1])


def negate(a: Interval) -> Interval:
    """``-a``."""
    return -a[1], -a[0]


def multiply(a: Interval, b: Interval) -> Interval:
    """``a * b``."""
    ends = [_product(x, y) for x in a for y in b]
    return min(ends), max(ends)


def power(a: Interval, exponent: int) -> Interval:
    """``a ** exponent`` for a positive exponent: an even power of an interval around zero starts at zero."""
    low: Bound = 1
    high: Bound = 1
    for _ in range(exponent):
        low, high = _product(low, a[0]), _product(high, a[1])
    if exponent % 2 == 0 and a[0] < 0:
        return (0, max(low, high)) if a[1] > 0 else (high, low)
    return low, high


def hull(a: Interval, b: Interval) -> Interval:
    """The smallest interval around both."""
    return min(a[0], b[0]), max(a[1], b[1])


def intersect(a: Interval, b: Interval) -> Interval:
    """What two sound answers to the same question agree on."""
    return max(a[0], b[0]), min(a[1], b[1])


def _by_sign_of_divisor(
    a: Interval, b: Interval, positive: Callable[[Interval, Interval], Interval], negates_result: bool
) -> Interval:
    parts: list[Interval] = []
    if b[1] >= 1:
        parts.append(positive(a, (max(b[0], 1), b[1])))
    if b[0] <= -1:
        mirrored = positive(negate(a), negate((b[0], min(b[1], -1))))
        parts.append(negate(mirrored) if negates_result else mirrored)
    if not parts:
        return EVERYTHING
    return parts[0] if len(parts) == 1 else hull(parts[0], parts[1])


def _floordiv_positive(a: Interval, b: Interval) -> Interval:
    low = _quotient(a[0], b[1] if a[0] >= 0 else b[0])
    high = _quotient(a[1], b[0] if a[1] >= 0 else b[1])
    return low, high


def _mod_positive(a: Interval, b: Interval) -> Interval:
    low, high = a
    if b[0] == b[1] and isinstance(low, int) and isinstance(high, int) and low // b[0] == high // b[0]:
        return low % b[0], high % b[0]
    if low >= 0 and high < b[0]:
        return a
    largest = _sum(b[1], -1)
    return 0, min(high, largest) if low >= 0 else largest


def floordiv(a: Interval, b: Interval) -> Interval:
    """``a // b``, rounded down as in Python."""
    return _by_sign_of_divisor(a, b, _floordiv_positive, negates_result=False)


def mod(a: Interval, b: Interval) -> Interval:
    """``a % b``, with the sign of the divisor as in Python."""
    return _by_sign_of_divisor(a, b, _mod_positive, negates_result=True)


def constant_quotient(a: Interval, divisor: int) -> int | None:
    """``a // divisor`` when it is the same for all of ``a``; ``divisor`` is positive."""
    low, high = a
    if isinstance(low, float) or isinstance(high, float) or low // divisor != high // divisor:
        return None
    return low // divisor


def from_optional(bounds: tuple[int | None, int | None]) -> Interval:
    """The interval with None for a missing bound. Raises ``ValueError`` when it is empty."""
    low, high = bounds
    if low is not None and high is not None and low > high:
        raise ValueError(f"[{low}, {high}] is an empty range")
    return -math.inf if low is None else low, math.inf if high is None else high


def to_optional(a: Interval) -> tuple[int | None, int | None]:
    """The inverse of :func:`from_optional`."""
    low, high = a
    return None if isinstance(low, float) else low, None if isinstance(high, float) else high


def minimum(*operands: Interval) -> Interval:
    """``min`` of one or more operands."""
    return min(low for low, _ in operands), min(high for _, high in operands)


def maximum(*operands: Interval) -> Interval:
    """``max`` of one or more operands."""
    return max(low for low, _ in operands), max(high for _, high in operands)
