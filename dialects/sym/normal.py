"""``SymExpr``: symbolic integer expressions that are always in normal form.

Every constructor here returns the normal form, so that equality is a comparison of tuples and a type with symbolic dims
can be compared like any other. The rules:

* sums of products are expanded, equal terms collected;
* ``floordiv`` by a constant ``k``: multiples of ``k`` move out, common factors cancel, the constant of the dividend
  lies in ``(-k, 0]`` (a convolution's ``(s0 - 1) floordiv 2 + 1`` stays as it is, ``(s0 + 1) floordiv 2`` becomes the
  same), a dividend with only negative coefficients is turned round, ``(a floordiv b) floordiv k`` is
  ``a floordiv (b * k)``;
* ``mod`` by a constant: coefficients are reduced to ``(-k/2, k/2]``, common factors move out, inner ``mod`` by a
  multiple of ``k`` disappears;
* a symbolic divisor: polynomial division where it makes the dividend simpler, common factors cancel;
* ``min`` and ``max`` are flat, sorted, without duplicates, with one constant, and without operands that never win.

An expression has the value of what it was built from wherever that is defined. It may be defined at more points, as
``(s0 * s1) floordiv s0`` becomes ``s1``. Semantics are Python's: ``floordiv`` rounds down, ``mod`` follows the divisor.
Two expressions that are equal everywhere can still differ in form (``s0 - s0 floordiv 2`` and ``(s0 + 1) floordiv 2``):
:func:`etir.dialects.sym.bounds.prove_equal` decides more, given ranges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias, cast

from etir.dialects.sym import intervals, poly
from etir.dialects.sym.atoms import EVALUATE, KEYWORDS, SYMBOL_NAME, Atom, AtomPolynomial, Kind
from etir.dialects.sym.errors import E0112, E0113
from etir.dialects.sym.poly import Monomial, Terms

MAX_OPERANDS = 64
"""Largest number of operands of one ``min`` or ``max``."""
CACHE_SIZE = 4096
"""Results kept per constructor: a program builds the same few sizes over and over."""


class SymExpr(AtomPolynomial):
    """An integer expression over named symbols, immutable, hashable and in normal form.

    Made with :func:`const`, :func:`symbol`, ``+ - * // % **``, :func:`sym_min`, :func:`sym_max` and :func:`ceildiv`;
    operands may be Python ints. ``==`` compares normal forms, and a constant equals the int of its value. ``str()`` is
    the canonical text.
    """

    __slots__ = ()

    def __floordiv__(self, other: SymExpr | int) -> SymExpr:
        if not isinstance(other, (SymExpr, int)):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        return floordiv(self, other)

    def __rfloordiv__(self, other: int) -> SymExpr:
        return floordiv(other, self)

    def __mod__(self, other: SymExpr | int) -> SymExpr:
        if not isinstance(other, (SymExpr, int)):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        return mod(self, other)

    def __rmod__(self, other: int) -> SymExpr:
        return mod(other, self)

    def substitute(self, values: Mapping[str, SymExpr | int]) -> SymExpr:
        """The expression with the named symbols replaced, all at once; symbols that are not named stay.

        Raises E0112 when a divisor becomes zero.
        """
        if not any(name in values for name in self.symbols):
            return self
        total = ZERO
        for monomial, coefficient in self.terms:
            product = const(coefficient)
            for atom in monomial:
                product *= _substitute(atom, values)
            total += product
        return total


ExprLike: TypeAlias = SymExpr | int


@lru_cache(maxsize=CACHE_SIZE)
def const(value: int) -> SymExpr:
    """A constant. Raises E0113 when it is longer than 1024 bits."""
    value = poly.check_coefficient(int(value))
    return SymExpr((((), value),) if value else ())


ZERO = const(0)


@lru_cache(maxsize=CACHE_SIZE)
def symbol(name: str) -> SymExpr:
    """The symbol ``name``: letters, digits, ``_``, ``$`` and ``.``, not starting with a digit.

    Raises ``ValueError`` for any other name and for a word of the syntax (``mod``, ``floordiv``, ``min`` ...).
    """
    if SYMBOL_NAME.fullmatch(name) is None or name in KEYWORDS:
        raise ValueError(f"'{name}' is not a name for a symbol")
    return of_atom(Atom(Kind.SYMBOL, name))


def as_expr(value: ExprLike) -> SymExpr:
    """``value`` as an expression."""
    return value if isinstance(value, SymExpr) else const(value)


@lru_cache(maxsize=CACHE_SIZE)
def floordiv(dividend: ExprLike, divisor: ExprLike) -> SymExpr:
    """``dividend // divisor``, rounded down. Raises E0112 when the divisor is the constant zero."""
    dividend, divisor = as_expr(dividend), as_expr(divisor)
    if not divisor.terms:
        raise E0112.error(f"'{dividend} floordiv 0' divides by zero")
    if not dividend.terms:
        return ZERO
    if divisor.is_const:
        return _floordiv_by_constant(dividend, int(divisor))
    if divisor.terms[0][1] < 0:
        dividend, divisor = -dividend, -divisor
    division = poly.divide(dividend.terms, divisor.terms)
    if division is not None and division[0]:
        return SymExpr(division[0]) + floordiv(SymExpr(division[1]), divisor)
    dividend, divisor, common = _cancel(dividend, divisor)
    return of_atom(Atom(Kind.FLOORDIV, dividend, divisor)) if common == 1 else floordiv(dividend, divisor)


@lru_cache(maxsize=CACHE_SIZE)
def mod(dividend: ExprLike, divisor: ExprLike) -> SymExpr:
    """``dividend % divisor``, with the sign of the divisor. Raises E0112 when the divisor is the constant zero."""
    dividend, divisor = as_expr(dividend), as_expr(divisor)
    if not divisor.terms:
        raise E0112.error(f"'{dividend} mod 0' divides by zero")
    if divisor.terms[0][1] < 0:
        return -mod(-dividend, -divisor)
    if divisor.is_const:
        return _mod_by_constant(dividend, int(divisor))
    division = poly.divide(dividend.terms, divisor.terms)
    if division is not None and division[0]:
        return mod(SymExpr(division[1]), divisor)
    if not dividend.terms:
        return ZERO
    dividend, divisor, common = _cancel(dividend, divisor)
    return of_atom(Atom(Kind.MOD, dividend, divisor)) if common == 1 else mod(dividend, divisor) * common


def ceildiv(dividend: ExprLike, divisor: ExprLike) -> SymExpr:
    """``dividend / divisor`` rounded up, through ``floordiv``."""
    return -floordiv(-as_expr(dividend), divisor)


def sym_min(first: ExprLike, *others: ExprLike) -> SymExpr:
    """The smallest of one or more operands."""
    return _extremum(Kind.MIN, (first, *others))


def sym_max(first: ExprLike, *others: ExprLike) -> SymExpr:
    """The largest of one or more operands."""
    return _extremum(Kind.MAX, (first, *others))


_REBUILD: dict[Kind, Callable[..., SymExpr]] = {
    Kind.FLOORDIV: floordiv,
    Kind.MOD: mod,
    Kind.MIN: sym_min,
    Kind.MAX: sym_max,
}


def operands_of(atom: Atom) -> tuple[SymExpr, ...]:
    """The operands of an operation; none for a symbol."""
    return cast(tuple[SymExpr, ...], atom.operands)


def single_atom(monomial: Monomial, kind: Kind) -> Atom | None:
    """The only factor of ``monomial`` when it is an atom of ``kind``."""
    return monomial[0] if len(monomial) == 1 and monomial[0].kind is kind else None


def _substitute(atom: Atom, values: Mapping[str, ExprLike]) -> SymExpr:
    if atom.kind is Kind.SYMBOL:
        value = values.get(atom.text)
        return of_atom(atom) if value is None else as_expr(value)
    return _REBUILD[atom.kind](*[e.substitute(values) for e in operands_of(atom)])


def of_atom(atom: Atom) -> SymExpr:
    """The expression that is ``atom`` alone."""
    return SymExpr((((atom,), 1),))


def _is_bounded(expr: SymExpr) -> bool:
    """Whether the interval of ``expr`` without ranges can be finite, and so is worth computing."""
    return all(atom.kind is not Kind.SYMBOL for monomial, _ in expr.terms for atom in monomial)


def _split_constant(terms: Terms) -> tuple[Terms, int]:
    """The terms without the constant one, and the constant."""
    return (terms[:-1], terms[-1][1]) if terms and not terms[-1][0] else (terms, 0)


def _cancel(dividend: SymExpr, divisor: SymExpr) -> tuple[SymExpr, SymExpr, SymExpr]:
    """Both operands divided by their greatest common term, and that term."""
    monomial, factor = poly.common_factor(dividend.terms + divisor.terms)
    if not monomial and factor == 1:
        return dividend, divisor, const(1)
    dividend, divisor = (SymExpr(poly.divide_exact(e.terms, monomial, factor)) for e in (dividend, divisor))
    return dividend, divisor, SymExpr(((monomial, factor),))


def _floordiv_by_constant(dividend: SymExpr, divisor: int) -> SymExpr:
    if divisor < 0:
        dividend, divisor = -dividend, -divisor
    if divisor == 1:
        return dividend
    terms, constant = _split_constant(dividend.terms)
    quotient: list[tuple[Monomial, int]] = []
    rest: list[tuple[Monomial, int]] = []
    for monomial, coefficient in terms:
        whole = poly.truncated_quotient(coefficient, divisor)
        if whole:
            quotient.append((monomial, whole))
            coefficient -= whole * divisor
        if coefficient:
            rest.append((monomial, coefficient))
    # floor((g * n + c) / (g * k)) == floor((n + floor(c / g)) / k); without other terms g is the divisor itself.
    common = math.gcd(divisor, *[coefficient for _, coefficient in rest])
    divisor, constant = divisor // common, constant // common
    sign = 1
    if rest and all(coefficient < 0 for _, coefficient in rest):
        # floor((c - n) / k) == -ceil((n - c) / k) == -floor((n - c + k - 1) / k)
        sign, constant = -1, divisor - 1 - constant
    offset = -(-constant // divisor)
    reduced = tuple((monomial, sign * coefficient // common) for monomial, coefficient in rest)
    result = _floordiv_reduced(SymExpr(poly.add_constant(reduced, constant - offset * divisor)), divisor)
    return SymExpr(poly.add(tuple(quotient), (result + offset).terms, sign))


def _floordiv_reduced(dividend: SymExpr, divisor: int) -> SymExpr:
    """``floordiv`` of a dividend from which no multiple of the divisor can be split off any more."""
    if divisor == 1:
        return dividend
    terms, constant = _split_constant(dividend.terms)
    if len(terms) == 1 and terms[0][1] == 1:
        inner = single_atom(terms[0][0], Kind.FLOORDIV)
        if inner is not None:
            numerator, denominator = operands_of(inner)
            return floordiv(numerator + denominator * constant, denominator * divisor)
    for monomial, coefficient in terms:
        inner = single_atom(monomial, Kind.MOD)
        if inner is None or not inner.operands[1].is_const:
            continue
        numerator, period = operands_of(inner)
        if coefficient * int(period) % divisor == 0:
            # n mod p == n - p * (n floordiv p), where p moves out: s0 - s0 mod 4 is a multiple of 4.
            unrolled = dividend + (numerator - of_atom(inner)) * coefficient
            if len(unrolled.terms) < len(dividend.terms):
                return floordiv(unrolled, divisor) - (numerator // period) * (coefficient * int(period) // divisor)
    if _is_bounded(dividend):
        quotient = intervals.constant_quotient(dividend.interval({}), divisor)
        if quotient is not None:
            return const(quotient)
    return of_atom(Atom(Kind.FLOORDIV, dividend, const(divisor)))


def _mod_by_constant(dividend: SymExpr, divisor: int) -> SymExpr:
    residues: list[tuple[Monomial, int]] = []
    for monomial, coefficient in dividend.terms:
        residue = coefficient % divisor
        if residue:
            residues.append((monomial, residue if 2 * residue <= divisor else residue - divisor))
    reduced = SymExpr(tuple(residues))
    if reduced.is_const:
        return const(int(reduced) % divisor)
    terms, constant = _split_constant(reduced.terms)
    for monomial, coefficient in terms:
        inner = single_atom(monomial, Kind.MOD)
        if inner is not None and inner.operands[1].is_const and coefficient * int(inner.operands[1]) % divisor == 0:
            return _mod_by_constant(reduced + (operands_of(inner)[0] - of_atom(inner)) * coefficient, divisor)
    common = math.gcd(divisor, *[coefficient for _, coefficient in terms])
    if common > 1:
        # (g * n + g * q + t) mod (g * k) == g * ((n + q) mod k) + t for 0 <= t < g
        whole, rest = divmod(constant, common)
        scaled = SymExpr(poly.divide_exact(terms, (), common)) + whole
        return _mod_by_constant(scaled, divisor // common) * common + rest
    if _is_bounded(reduced):
        quotient = intervals.constant_quotient(reduced.interval({}), divisor)
        if quotient is not None:
            return reduced - quotient * divisor
    return of_atom(Atom(Kind.MOD, reduced, const(divisor)))


@lru_cache(maxsize=CACHE_SIZE)
def _extremum(kind: Kind, operands: tuple[ExprLike, ...]) -> SymExpr:
    flat: dict[SymExpr, None] = {}
    constants: list[int] = []
    for operand in map(as_expr, operands):
        (monomial, coefficient) = operand.terms[0] if len(operand.terms) == 1 else ((), 0)
        inner = single_atom(monomial, kind) if coefficient == 1 else None
        for e in (operand,) if inner is None else operands_of(inner):
            if e.is_const:
                constants.append(int(e))
            else:
                flat[e] = None
    if len(flat) > MAX_OPERANDS:
        raise E0113.error(f"'{kind.value}' of {len(flat)} operands is longer than the limit of {MAX_OPERANDS}")
    if flat and all(coefficient < 0 for e in flat for monomial, coefficient in e.terms if monomial):
        opposite = Kind.MAX if kind is Kind.MIN else Kind.MIN
        return -_extremum(opposite, (*(-e for e in flat), *(-c for c in constants)))
    candidates = sorted(flat, key=str)
    if constants:
        candidates.append(const(EVALUATE[kind](constants)))
    kept = [e for i, e in enumerate(candidates) if not _is_dominated(kind, e, i, candidates)]
    return kept[0] if len(kept) == 1 else of_atom(Atom(kind, *kept))


def _is_dominated(kind: Kind, operand: SymExpr, position: int, candidates: Sequence[SymExpr]) -> bool:
    """Whether another candidate wins over ``operand`` for every value of the symbols; of equals the first one stays."""
    for i, other in enumerate(candidates):
        if i == position:
            continue
        lead = other - operand if kind is Kind.MAX else operand - other
        if _is_bounded(lead):
            low, high = lead.interval({})
            if low > 0 or (low == 0 and (i < position or high != 0)):
                return True
    return False
