"""Symbolic expressions from sympy's, as ``torch.export`` writes sizes.

Objects are recognized by the names of their classes, so that neither sympy nor torch is imported. What appears in sizes
besides sympy's own classes is in ``torch.utils._sympy.functions``: ``FloorDiv``, ``Mod``, ``PythonMod``, ``Max``,
``TruncToInt(1.5 * ToFloat(s0))`` and so on.

Every sub-expression becomes a fraction of two integer expressions, so ``floor``, ``ceil``, ``trunc`` and ``round`` of
any ratio are exact integer divisions. Floating point is followed only as far as it agrees with exact arithmetic for
every value: a division of two integers below 2**53 does, and so does a factor such as 1.5 with few bits. Any other
factor is accepted when the ranges of the symbols are finite and trying all values confirms a fraction:
``TruncToInt(0.3 * s0)`` is ``(3 * s0) floordiv 10`` for s0 in [8, 256]. All else is error E0110, not an approximation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from etir.diagnostics import EtirError
from etir.dialects.sym.bounds import Ranges, bounds
from etir.dialects.sym.errors import E0110
from etir.dialects.sym.normal import SymExpr, ceildiv, const, sym_max, sym_min, symbol

MAX_EXACT_BITS = 20
"""Bits of the numerator and of the denominator of a short factor: times a size below 2**33 it is an exact double."""
MAX_TRIED_VALUES = 1 << 16
"""How many values of a size are tried to confirm a fraction for an inexact factor."""
_DENOMINATORS = (1000, 1000000)
"""Largest denominators of the fractions to try, in order: scale factors are short decimals or ratios of sizes."""

_ONE = const(1)


@dataclass(frozen=True)
class _Ratio:
    """``numerator / denominator``; ``rounded`` when the program has a double for it that may differ from the ratio.

    ``is_float`` when the program has a double at all: it must go through a rounding function before it is a size.
    """

    numerator: SymExpr
    denominator: SymExpr = _ONE
    is_float: bool = False
    rounded: bool = False


def from_sympy(expr: Any, ranges: Ranges | None = None) -> SymExpr:
    """The expression of a sympy expression of integer value, or of an int.

    ``ranges`` (both ends included, by symbol name) and the assumptions of sympy's symbols serve floating-point factors
    and ``trunc``. A fraction like ``s0/2``, which sympy does not know to be fractional, is taken as an exact division.
    Raises E0110 for what cannot be expressed exactly, naming it.
    """
    if isinstance(expr, int):
        return const(expr)
    importer = _Import(expr, ranges or {})
    ratio = importer.ratio(expr)
    if ratio.is_float or expr.is_integer is False:
        raise E0110.error(f"'{expr}' is not an integer")
    return ratio.numerator // ratio.denominator


class _Import:
    def __init__(self, whole: Any, ranges: Ranges):
        self.whole = whole
        self.ranges: dict[str, tuple[int | None, int | None]] = dict(ranges)
        for s in sorted(whole.free_symbols, key=str):
            low, high = self.ranges.get(s.name, (None, None))
            assumed = 1 if s.is_positive else 0 if s.is_nonnegative else None
            self.ranges[s.name] = max((b for b in (low, assumed) if b is not None), default=None), high

    def error(self, what: str, help: str | None = None) -> EtirError:
        return E0110.error(f"the size '{self.whole}' has {what}", help=help)

    def ratio(self, expr: Any) -> _Ratio:
        """The exact value of a sub-expression."""
        if expr.is_Rational:
            return _Ratio(const(int(expr.p)), const(int(expr.q)))
        if expr.is_Float:
            numerator, denominator = float(expr).as_integer_ratio()
            if not _is_short(numerator) or not _is_short(denominator):
                raise self.error(f"the factor {float(expr)}, whose products are rounded")
            return _Ratio(const(numerator), const(denominator), is_float=True)
        name = type(expr).__name__
        if name == "Symbol":
            return _Ratio(self.symbol(expr.name))
        if name in _ROUNDINGS:
            return _Ratio(self.rounding(name, expr.args[0]))
        if name in ("Pow", "PowByNatural"):
            return self.power(*expr.args)
        rule = _RULES.get(name)
        if rule is None:
            raise self.error(f"'{name}'" if expr.args else f"'{expr}'")
        ratio = rule(self, [self.ratio(arg) for arg in expr.args])
        if ratio.denominator == 1:
            return ratio
        quotient = ratio.numerator // ratio.denominator
        return _Ratio(quotient, is_float=ratio.is_float) if quotient * ratio.denominator == ratio.numerator else ratio

    def symbol(self, name: str) -> SymExpr:
        try:
            return symbol(name)
        except ValueError:
            raise self.error(f"a symbol called '{name}', which is not a name in the text") from None

    def power(self, base: Any, exponent: Any) -> _Ratio:
        if not exponent.is_Integer:
            raise self.error(f"the exponent '{exponent}'")
        factor, count = self.ratio(base), int(exponent)
        if count < 0:
            factor, count = replace(factor, numerator=factor.denominator, denominator=factor.numerator), -count
        if factor.rounded and count != 1:
            raise self.error("a power of a rounded quotient")
        return replace(factor, numerator=factor.numerator**count, denominator=factor.denominator**count)

    def rounding(self, name: str, argument: Any) -> SymExpr:
        """``floor``, ``ceil``, ``trunc`` or ``round`` of a number that need not be an integer."""
        long = [f for f in argument.args if f.is_Float and not all(map(_is_short, float(f).as_integer_ratio()))]
        if type(argument).__name__ != "Mul" or len(long) != 1:
            return _ROUNDINGS[name][0](self, self.ratio(argument))
        factor = float(long[0])
        size = _multiply(self, [self.ratio(f) for f in argument.args if f is not long[0]])
        if size.denominator != 1:
            raise self.error(f"the factor {factor} of a fraction, whose products are rounded")
        fraction = self.confirmed_fraction(name, factor, size.numerator)
        return _ROUNDINGS[name][0](self, _Ratio(size.numerator * fraction.numerator, const(fraction.denominator)))

    def confirmed_fraction(self, name: str, factor: float, size: SymExpr) -> Fraction:
        """A fraction that gives the same as ``factor`` in double precision, for every value of ``size``."""
        low, high = bounds(size, self.ranges)
        if low is None or high is None or high - low >= MAX_TRIED_VALUES:
            raise self.error(
                f"the factor {factor} of '{size}', which has too many values to confirm a fraction for it",
                help=f"export with an upper bound on the dimensions in '{size}', or use a factor such as 0.5 or 1.25",
            )
        function = _ROUNDINGS[name][1]
        for denominator in _DENOMINATORS:
            fraction = Fraction(factor).limit_denominator(denominator)
            if all(function(factor * value) == function(fraction * value) for value in range(low, high + 1)):
                return fraction
        raise self.error(f"the factor {factor}, whose rounding for '{size}' in [{low}, {high}] is no fraction's")

    def common_denominator(self, ratios: Sequence[_Ratio]) -> tuple[list[SymExpr], int]:
        """The numerators over one positive denominator, and that denominator."""
        for ratio in ratios:
            if not ratio.denominator.is_const:
                raise self.error(f"a quotient by '{ratio.denominator}' inside of 'Mod', 'Min', 'Max', 'Abs' or 'round'")
        common = math.lcm(*(int(r.denominator) for r in ratios))
        return [r.numerator * (common // int(r.denominator)) for r in ratios], common


def _is_short(value: int) -> bool:
    return value.bit_length() <= MAX_EXACT_BITS


def _add(importer: _Import, terms: list[_Ratio]) -> _Ratio:
    is_float, rounded = any(t.is_float for t in terms), [t for t in terms if t.rounded]
    if len(rounded) > 1 or (rounded and any(t.denominator != 1 for t in terms if not t.rounded)):
        raise importer.error("a sum of rounded quotients")
    numerator, denominator = terms[0].numerator, terms[0].denominator
    for term in terms[1:]:
        if term.denominator == denominator:
            numerator += term.numerator
        else:
            numerator = numerator * term.denominator + term.numerator * denominator
            denominator *= term.denominator
    return _Ratio(numerator, denominator, is_float, bool(rounded))


def _multiply(importer: _Import, factors: list[_Ratio]) -> _Ratio:
    rounded = [f for f in factors if f.rounded]
    if rounded and not all(f is rounded[0] or _is_power_of_two(f) for f in factors):
        raise importer.error("a product of a rounded quotient")
    numerator = math.prod((f.numerator for f in factors), start=_ONE)
    denominator = math.prod((f.denominator for f in factors), start=_ONE)
    return _Ratio(numerator, denominator, any(f.is_float for f in factors), bool(rounded))


def _is_power_of_two(ratio: _Ratio) -> bool:
    """Whether multiplying a double by ``ratio`` is exact."""
    return all(e.is_const and abs(int(e)).bit_count() == 1 for e in (ratio.numerator, ratio.denominator))


def _true_division(importer: _Import, operands: list[_Ratio]) -> _Ratio:
    if any(o.rounded for o in operands):
        raise importer.error("a quotient of a rounded quotient")
    a, b = operands
    numerator, denominator = a.numerator * b.denominator, a.denominator * b.numerator
    exact = denominator.is_const and abs(int(denominator)).bit_count() == 1
    return _Ratio(numerator, denominator, is_float=True, rounded=not exact)


def _floor_division(importer: _Import, operands: list[_Ratio]) -> _Ratio:
    if any(o.rounded for o in operands):
        raise importer.error("a quotient of a rounded quotient")
    a, b = operands
    return _Ratio((a.numerator * b.denominator) // (a.denominator * b.numerator))


def _modulo(importer: _Import, operands: list[_Ratio]) -> _Ratio:
    if any(o.is_float for o in operands):
        raise importer.error("a remainder of floating-point numbers")
    (dividend, divisor), common = importer.common_denominator(operands)
    return _Ratio(dividend % divisor, const(common))


def _modular_indexing(importer: _Import, operands: list[_Ratio]) -> _Ratio:
    return _modulo(importer, [_floor_division(importer, operands[:2]), operands[2]])


def _extremum(function: Callable[..., SymExpr]) -> Callable[[_Import, list[_Ratio]], _Ratio]:
    def rule(importer: _Import, operands: list[_Ratio]) -> _Ratio:
        numerators, common = importer.common_denominator(operands)
        is_float, rounded = any(o.is_float for o in operands), any(o.rounded for o in operands)
        return _Ratio(function(*numerators), const(common), is_float, rounded)

    return rule


def _absolute(importer: _Import, operands: list[_Ratio]) -> _Ratio:
    (numerator,), common = importer.common_denominator(operands)
    return replace(operands[0], numerator=sym_max(numerator, -numerator), denominator=const(common))


def _identity(importer: _Import, operands: list[_Ratio]) -> _Ratio:
    return operands[0]


def _to_float(importer: _Import, operands: list[_Ratio]) -> _Ratio:
    return replace(operands[0], is_float=True)


_RULES: dict[str, Callable[[_Import, list[_Ratio]], _Ratio]] = {
    "Add": _add,
    "Mul": _multiply,
    "FloorDiv": _floor_division,
    "CleanDiv": _floor_division,
    "IntTrueDiv": _true_division,
    "FloatTrueDiv": _true_division,
    "Mod": _modulo,
    "PythonMod": _modulo,
    "ModularIndexing": _modular_indexing,
    "Max": _extremum(sym_max),
    "Min": _extremum(sym_min),
    "Abs": _absolute,
    "Identity": _identity,
    "ToFloat": _to_float,
}
"""What the classes of sympy and torch mean on exact values of their arguments."""


def _floor(importer: _Import, ratio: _Ratio) -> SymExpr:
    return ratio.numerator // ratio.denominator


def _ceil(importer: _Import, ratio: _Ratio) -> SymExpr:
    return ceildiv(ratio.numerator, ratio.denominator)


def _trunc(importer: _Import, ratio: _Ratio) -> SymExpr:
    floor = _floor(importer, ratio)
    low, _ = bounds(floor, importer.ranges)
    return floor if low is not None and low >= 0 else sym_max(floor, 0) + sym_min(_ceil(importer, ratio), 0)


def _round(importer: _Import, ratio: _Ratio) -> SymExpr:
    """To the nearest integer, halves to the even one: rounds halves up, then takes 1 off the odd results of a tie."""
    (numerator,), denominator = importer.common_denominator([ratio])
    doubled = 2 * numerator + denominator
    rounded = doubled // (2 * denominator)
    if denominator % 2:
        return rounded
    is_tie = 1 - sym_min(doubled % (2 * denominator), 1)
    return rounded - is_tie * (rounded % 2)


_ROUNDINGS: dict[str, tuple[Callable[[_Import, _Ratio], SymExpr], Callable[[Any], int]]] = {
    "floor": (_floor, math.floor),
    "FloorToInt": (_floor, math.floor),
    "ceiling": (_ceil, math.ceil),
    "CeilToInt": (_ceil, math.ceil),
    "TruncToInt": (_trunc, math.trunc),
    "RoundToInt": (_round, round),
}
"""Classes that make an integer of any number: on a ratio, and on a Python scalar."""
