"""Bounds of expressions and proofs about them, given the ranges of their symbols.

The plain interval of an expression is sound but takes every occurrence of a symbol as independent: with s0 in [1, 64],
``s0 - s0 floordiv 2`` would end at 64 although it never exceeds 32. The remedies, all of them sound:

* **Unrolling**: ``n floordiv k == (n - n mod k) / k``. With the divisors multiplied out, equal terms of the dividend
  and of the rest cancel: ``2 * (s0 - s0 floordiv 2) == s0 + s0 mod 2``. The inverse, **rolling up**, makes
  ``s0 + (-s0) mod 8``, a size padded to a multiple, eight times one ``floordiv``.
* **Nesting**: ``n floordiv 6`` is ``q floordiv 3`` of ``q = n floordiv 2``, unrolled over ``q`` where that occurs, too:
  pairs of the frames that a window of two samples gives, say, are no more than the frames.
* **Monotonicity**: where an expression never falls in a symbol, its lowest value has that symbol at the lower end of
  its range. Direction comes from the structure, or from the sign of the difference ``e(s + 1) - e(s)``, which is what
  makes ``s0 * s0 - s0`` exact.
* **Cases**: ``s0 - min(s0, 10)`` is ``max(0, s0 - 10)``.
* **Trying all values** of the last symbol, when it has few.

Symbols that a mapping does not name are unbounded; ranges include both ends, None is no bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from etir.diagnostics import EtirError
from etir.dialects.sym import intervals
from etir.dialects.sym.atoms import Atom, Kind
from etir.dialects.sym.intervals import Interval
from etir.dialects.sym.normal import (
    CACHE_SIZE,
    ExprLike,
    SymExpr,
    as_expr,
    const,
    mod,
    of_atom,
    operands_of,
    single_atom,
    symbol,
)

MAX_CASES = 16
"""Largest number of combinations of operands of ``min`` and ``max`` that are looked at one by one."""
MAX_TRIED_VALUES = 256
"""Largest number of values of a symbol that are tried one by one."""

Ranges: TypeAlias = Mapping[str, tuple[int | None, int | None]]


def bounds(expr: ExprLike, ranges: Ranges) -> tuple[int | None, int | None]:
    """The lowest and the highest value that ``expr`` can have, None where there is no bound.

    Sound always; exact when every symbol occurs once under ``+ - * floordiv min max``, for one symbol with at most 256
    values, and where the expression is found to be monotone in each symbol that occurs more often. Points that divide
    by zero do not count. Raises ``ValueError`` for a range whose lower end is above its upper end.
    """
    expr = as_expr(expr)
    box = [(name, intervals.from_optional(ranges[name])) for name in expr.symbols if name in ranges]
    return intervals.to_optional(_bounds(expr, tuple(box)))


def prove_equal(a: ExprLike, b: ExprLike, ranges: Ranges) -> bool | None:
    """True when ``a == b`` everywhere in the ranges, False when nowhere, None when undecided; see :func:`bounds`."""
    low, high = bounds(as_expr(a) - b, ranges)
    if low == 0 and high == 0:
        return True
    return False if (low is not None and low > 0) or (high is not None and high < 0) else None


def prove_le(a: ExprLike, b: ExprLike, ranges: Ranges) -> bool | None:
    """True when ``a <= b`` everywhere in the ranges, False when nowhere, None when undecided; see :func:`bounds`."""
    low, high = bounds(as_expr(b) - a, ranges)
    if low is not None and low >= 0:
        return True
    return False if high is not None and high < 0 else None


@lru_cache(maxsize=CACHE_SIZE)
def _bounds(expr: SymExpr, box_items: tuple[tuple[str, Interval], ...], cases: int = MAX_CASES) -> Interval:
    box = dict(box_items)
    if not _has_repeated_symbols(expr):
        return expr.interval(box)
    tried = _try_values(expr, box)
    if tried is not None:
        return tried
    result = _interval_of_forms(_forms(expr), box)
    if not _may_divide_by_zero(expr, box):
        lowest, highest = (_pin(expr, box, highest=highest) for highest in (False, True))
        ends = _interval_at_end(lowest, box)[0], _interval_at_end(highest, box)[1]
        result = intervals.intersect(result, ends)
        if not _has_repeated_symbols(lowest) and not _has_repeated_symbols(highest):
            return result
    split = _split_extremum(expr)
    if split is not None and len(split[1]) <= cases:
        combine, operands = split
        result = intervals.intersect(
            result, combine(*[_bounds(e, box_items, cases // len(operands)) for e in operands])
        )
    return result


def _pin(expr: SymExpr, box: Mapping[str, Interval], *, highest: bool) -> SymExpr:
    """``expr`` with each symbol in which it is monotone at the end of its range where ``expr`` is extreme."""
    changed = True
    while changed:
        changed = False
        for name in expr.symbols:
            low, high = box.get(name, intervals.EVERYTHING)
            direction = 1 if low == high else _direction(expr, name, box)
            end = high if (direction > 0) == highest else low
            if direction and isinstance(end, int):
                try:
                    expr = expr.substitute({name: end})
                except EtirError:  # a coefficient past the size limit; leaving the symbol is sound
                    continue
                changed = True
    return expr


def _interval_at_end(expr: SymExpr, box: Mapping[str, Interval]) -> Interval:
    """The interval of a pinned expression, by trying all values of the last symbol if its occurrences are dependent."""
    tried = _try_values(expr, box) if _has_repeated_symbols(expr) else None
    return _interval_of_forms(_forms(expr), box) if tried is None else tried


def _split_extremum(expr: SymExpr) -> tuple[Callable[..., Interval], list[SymExpr]] | None:
    """``rest + c * min(a, b)`` as ``min(rest + c * a, rest + c * b)``, where a symbol of ``min`` is in ``rest`` too."""
    for monomial, coefficient in expr.terms:
        for kind, combine, opposite in _EXTREMA:
            atom = single_atom(monomial, kind)
            if atom is None:
                continue
            rest = expr - of_atom(atom) * coefficient
            if set(atom.symbols).isdisjoint(rest.symbols):
                continue
            try:
                cases = [rest + e * coefficient for e in operands_of(atom)]
            except EtirError:  # past the size limits of expressions; bounds without the cases are sound
                return None
            return combine if coefficient > 0 else opposite, cases
    return None


_EXTREMA = (
    (Kind.MIN, intervals.minimum, intervals.maximum),
    (Kind.MAX, intervals.maximum, intervals.minimum),
)


def _try_values(expr: SymExpr, box: Mapping[str, Interval]) -> Interval | None:
    """The exact interval by evaluation, for one symbol with few values; None for any other expression."""
    if len(expr.symbols) != 1:
        return None
    (name,) = expr.symbols
    low, high = box.get(name, intervals.EVERYTHING)
    if isinstance(low, float) or isinstance(high, float) or high - low >= MAX_TRIED_VALUES:
        return None
    values: list[int] = []
    for value in range(low, high + 1):
        try:
            values.append(expr.value_at({name: value}))
        except ZeroDivisionError:
            continue
    return (min(values), max(values)) if values else None


Form: TypeAlias = tuple[SymExpr, int]
"""An expression and the positive number that it is to be divided by."""


@lru_cache(maxsize=CACHE_SIZE)
def _forms(expr: SymExpr) -> tuple[Form, ...]:
    """Equal ways to write ``expr`` whose intervals differ: itself, rolled up, unrolled, and nested."""
    try:
        forms = (expr, 1), (_roll_up(expr), 1), _unroll(expr), _nested(expr)
    except EtirError:  # past the size limits of expressions; the one form alone is sound
        return ((expr, 1),)
    return tuple(dict.fromkeys(forms))


def _roll_up(expr: SymExpr) -> SymExpr:
    """``expr`` with every ``n mod k`` of a constant ``k`` that is a term replaced by ``n - k * (n floordiv k)``."""
    for monomial, coefficient in expr.terms:
        atom = single_atom(monomial, Kind.MOD)
        if atom is not None and atom.operands[1].is_const:
            dividend, divisor = operands_of(atom)
            expr += (dividend - divisor * (dividend // divisor) - of_atom(atom)) * coefficient
    return expr


@lru_cache(maxsize=CACHE_SIZE)
def _forms_of_step(expr: SymExpr, name: str) -> tuple[Form, ...]:
    """The forms of ``expr`` at ``name + 1`` minus ``expr`` at ``name``; none past the size limits of expressions."""
    try:
        return _forms(expr.substitute({name: symbol(name) + 1}) - expr)
    except EtirError:
        return ()


def _unroll(expr: SymExpr) -> Form:
    """``expr`` with every ``n floordiv k`` of a constant ``k`` outside of atoms replaced by ``(n - n mod k) / k``."""
    scale = 1
    while True:
        periods = [math.prod(_constant_divisor(atom) for atom in monomial) for monomial, _ in expr.terms]
        period = math.lcm(*periods)
        if period == 1:
            return expr, scale
        total = const(0)
        for (monomial, coefficient), own in zip(expr.terms, periods, strict=True):
            product = const(coefficient * (period // own))
            for atom in monomial:
                divisor = _constant_divisor(atom)
                product *= of_atom(atom) if divisor == 1 else operands_of(atom)[0] - mod(operands_of(atom)[0], divisor)
            total += product
        expr, scale = total, scale * period


def _nested(expr: SymExpr) -> Form:
    """``expr`` with every ``n floordiv k`` outside of atoms replaced by ``(q - q mod m) / m``, where ``q`` is ``n
    floordiv d`` for the least ``d`` for which that is outside of atoms as well and ``k = d m``.
    """
    divisors: dict[SymExpr, list[int]] = {}
    for monomial, _ in expr.terms:
        for atom in monomial:
            if _constant_divisor(atom) > 1:
                divisors.setdefault(operands_of(atom)[0], []).append(_constant_divisor(atom))

    def inner(atom: Atom) -> int:
        """``d`` of an atom, 1 where there is none."""
        k = _constant_divisor(atom)
        return min((d for d in divisors[operands_of(atom)[0]] if d < k and k % d == 0), default=1) if k > 1 else 1

    found = [[(atom, inner(atom)) for atom in monomial] for monomial, _ in expr.terms]
    periods = [math.prod(_constant_divisor(atom) // d for atom, d in atoms if d > 1) for atoms in found]
    period = math.lcm(*periods)
    if period == 1:
        return expr, 1
    total = const(0)
    for atoms, (_, coefficient), own in zip(found, expr.terms, periods, strict=True):
        product = const(coefficient * (period // own))
        for atom, d in atoms:
            if d == 1:
                product *= of_atom(atom)
            else:
                quotient = operands_of(atom)[0] // d
                product *= quotient - mod(quotient, _constant_divisor(atom) // d)
        total += product
    return total, period


def _constant_divisor(atom: Atom) -> int:
    """The divisor of a ``floordiv`` by a constant, 1 for every other atom."""
    return int(atom.operands[1]) if atom.kind is Kind.FLOORDIV and atom.operands[1].is_const else 1


def _interval_of_forms(forms: Iterable[Form], box: Mapping[str, Interval]) -> Interval:
    result = intervals.EVERYTHING
    for expr, scale in forms:
        low, high = expr.interval(box)
        scaled = -(-low // scale) if isinstance(low, int) else low, high // scale if isinstance(high, int) else high
        result = intervals.intersect(result, scaled)
    return result


def _has_repeated_symbols(expr: SymExpr) -> bool:
    """Whether a symbol occurs more than once, so that the plain interval may be too wide; a power is one occurrence."""
    counts: dict[str, int] = {}
    _count_symbols(expr, counts)
    return any(count > 1 for count in counts.values())


def _count_symbols(expr: SymExpr, counts: dict[str, int]) -> None:
    for monomial, _ in expr.terms:
        for atom in dict.fromkeys(monomial):
            if atom.kind is Kind.SYMBOL:
                counts[atom.text] = counts.get(atom.text, 0) + 1
            for operand in operands_of(atom):
                _count_symbols(operand, counts)


def _may_divide_by_zero(expr: SymExpr, box: Mapping[str, Interval]) -> bool:
    """Whether some divisor may be zero: then values at the ends of a range say nothing about those between."""
    for atom in expr.atoms():
        operands = operands_of(atom)
        if atom.kind in (Kind.FLOORDIV, Kind.MOD):
            low, high = operands[1].interval(box)
            if low <= 0 <= high:
                return True
        if any(_may_divide_by_zero(operand, box) for operand in operands):
            return True
    return False


def _direction(expr: SymExpr, name: str, box: Mapping[str, Interval]) -> int:
    """1 when ``expr`` never falls as ``name`` grows within ``box``, -1 when it never rises, 0 when neither is known."""
    direction = _structural_direction(expr, name, box)
    if direction is not None:
        return direction
    low, high = box.get(name, intervals.EVERYTHING)
    low, high = _interval_of_forms(_forms_of_step(expr, name), {**box, name: (low, high - 1)})
    return 1 if low >= 0 else -1 if high <= 0 else 0


def _structural_direction(expr: SymExpr, name: str, box: Mapping[str, Interval]) -> int | None:
    """As :func:`_direction` from the shape of the expression; None when unknown, 0 when ``name`` has no influence."""
    effects: list[int | None] = []
    for monomial, coefficient in expr.terms:
        if not any(name in atom.symbols for atom in monomial):
            continue
        signs = [_sign(atom.interval(box)) for atom in monomial]
        for i, atom in enumerate(monomial):
            effect = _direction_of_atom(atom, name, box)
            others = math.prod(signs[:i] + signs[i + 1 :]) * (1 if coefficient > 0 else -1)
            effects.append(0 if effect == 0 else effect * others if effect is not None and others else None)
    return _combine(effects)


def _direction_of_atom(atom: Atom, name: str, box: Mapping[str, Interval]) -> int | None:
    if name not in atom.symbols:
        return 0
    if atom.kind is Kind.SYMBOL:
        return 1
    if atom.kind is Kind.MOD:
        return None
    operands = operands_of(atom)
    effects = [_structural_direction(operand, name, box) for operand in operands]
    if atom.kind is Kind.FLOORDIV:
        # n / d follows n for positive d, and goes against d for positive n.
        signs = (_sign(operands[1].interval(box)), -_sign(operands[0].interval(box)))
        effects = [0 if e == 0 else e * s if e is not None and s else None for e, s in zip(effects, signs, strict=True)]
    return _combine(effects)


def _sign(interval: Interval) -> int:
    """1 when nothing in the interval is negative, -1 when nothing is positive, 0 when both may be."""
    return 1 if interval[0] >= 0 else -1 if interval[1] <= 0 else 0


def _combine(effects: Sequence[int | None]) -> int | None:
    """The common direction of several influences, None when they disagree or one is unknown."""
    known = [effect for effect in effects if effect != 0]
    if None in known or (1 in known and -1 in known):
        return None
    return known[0] if known else 0
