"""Polynomials with integer coefficients over opaque indeterminates: the arithmetic below ``SymExpr``.

A polynomial is a tuple of ``(monomial, coefficient)`` pairs, sorted by graded lexicographic order with the highest
monomial first and without zero coefficients, so that two equal polynomials are equal tuples. A monomial is the sorted
tuple of its indeterminates, each repeated as often as its power; ``()`` is the monomial of the constant term. The
indeterminates are the atoms of ``atoms.py``: a symbol, or a whole ``floordiv``. Here they only have an order (``key``)
and identity: equal atoms are one object.

Sizes are bounded (:data:`MAX_TERMS` and its neighbors), because products of sums grow exponentially and the text
comes from files; past a bound, error E0113 is raised. Real shapes stay two orders of magnitude below.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from etir.dialects.sym.errors import E0113

if TYPE_CHECKING:
    from etir.dialects.sym.atoms import Atom

MAX_TERMS = 512
"""Largest number of terms of one polynomial."""
MAX_DEGREE = 64
"""Largest number of factors of one monomial."""
MAX_COEFFICIENT_BITS = 1024
"""Largest magnitude of a coefficient, in bits. Sizes are 64-bit; products on the way to them may be longer."""


Monomial: TypeAlias = tuple["Atom", ...]
Terms: TypeAlias = tuple[tuple[Monomial, int], ...]

_atom_key = attrgetter("key")


@lru_cache(maxsize=4096)
def monomial_key(monomial: Monomial) -> tuple[int, tuple[tuple[int, str], ...]]:
    """Sort key: ascending keys are descending monomials in graded lexicographic order."""
    return -len(monomial), tuple(i.key for i in monomial)


def _term_key(term: tuple[Monomial, int]) -> tuple[int, tuple[tuple[int, str], ...]]:
    return monomial_key(term[0])


def from_coefficients(coefficients: dict[Monomial, int]) -> Terms:
    """The polynomial with these coefficients; zeros are dropped. Raises E0113 above :data:`MAX_TERMS`."""
    terms = [term for term in coefficients.items() if term[1]]
    if len(terms) > 1:
        if len(terms) > MAX_TERMS:
            raise E0113.error(f"a sum of {len(terms)} terms is longer than the limit of {MAX_TERMS}")
        terms.sort(key=_term_key)
    return tuple(terms)


def check_coefficient(value: int) -> int:
    """``value``, or E0113 when it is longer than :data:`MAX_COEFFICIENT_BITS`."""
    if value.bit_length() > MAX_COEFFICIENT_BITS:
        raise E0113.error(f"an integer of {value.bit_length()} bits is longer than the limit of {MAX_COEFFICIENT_BITS}")
    return value


def add(a: Terms, b: Terms, scale: int = 1) -> Terms:
    """``a + scale * b``."""
    coefficients = dict(a)
    for monomial, coefficient in b:
        coefficients[monomial] = coefficients.get(monomial, 0) + scale * coefficient
    return from_coefficients(coefficients)


def add_constant(a: Terms, value: int) -> Terms:
    """``a + value``, without sorting: the constant term is always the last one."""
    if a and not a[-1][0]:
        value += a[-1][1]
        a = a[:-1]
    return (*a, ((), value)) if value else a


def scale(a: Terms, factor: int) -> Terms:
    """``factor * a``."""
    return tuple((m, check_coefficient(c * factor)) for m, c in a) if factor else ()


def multiply_monomials(a: Monomial, b: Monomial) -> Monomial:
    """The product of two monomials. Raises E0113 above :data:`MAX_DEGREE`."""
    if not a:
        return b
    if not b:
        return a
    if len(a) + len(b) > MAX_DEGREE:
        raise E0113.error(f"a product of {len(a) + len(b)} factors is longer than the limit of {MAX_DEGREE}")
    return tuple(sorted(a + b, key=_atom_key))


def multiply(a: Terms, b: Terms) -> Terms:
    """The product, distributed over both sums."""
    product: dict[Monomial, int] = {}
    for monomial_a, a_coefficient in a:
        for monomial_b, b_coefficient in b:
            monomial = multiply_monomials(monomial_a, monomial_b)
            product[monomial] = check_coefficient(product.get(monomial, 0) + a_coefficient * b_coefficient)
        if len(product) > MAX_TERMS:
            raise E0113.error(f"a product of more than {MAX_TERMS} terms is longer than the limit")
    return from_coefficients(product)


def divide_monomials(a: Monomial, b: Monomial) -> Monomial | None:
    """``a / b``, or None when ``b`` does not divide ``a``."""
    rest = list(a)
    for atom in b:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def truncated_quotient(a: int, b: int) -> int:
    """``a / b`` rounded towards zero, for ``b > 0``."""
    return a // b if a >= 0 else -(-a // b)


def divide(a: Terms, b: Terms) -> tuple[Terms, Terms] | None:
    """Quotient and remainder with ``a == quotient * b + remainder``, or None when dividing does not make ``a`` simpler.

    ``b`` is not zero and its leading coefficient is positive. This is division by one polynomial as for Gröbner bases,
    with coefficients rounded towards zero. It is refused when the quotient outgrows ``a``, or when ``b`` is a sum and
    the remainder has as many terms as ``a``: ``x * x // (x + y)`` is better left alone.
    """
    (lead, lead_coefficient), *tail = b
    rest = dict(a)
    quotient: dict[Monomial, int] = {}
    remainder: dict[Monomial, int] = {}
    while rest:
        monomial = min(rest, key=monomial_key) if tail else next(iter(rest))
        coefficient = rest.pop(monomial)
        factor_monomial = divide_monomials(monomial, lead)
        factor = 0 if factor_monomial is None else truncated_quotient(coefficient, lead_coefficient)
        if factor_monomial is not None and factor:
            quotient[factor_monomial] = factor
            coefficient -= factor * lead_coefficient
            if len(quotient) > len(a):
                return None
            for tail_monomial, tail_coefficient in tail:
                target = multiply_monomials(factor_monomial, tail_monomial)
                rest[target] = rest.get(target, 0) - factor * tail_coefficient
                if not rest[target]:
                    del rest[target]
        if coefficient:
            remainder[monomial] = coefficient
    if tail and len(remainder) >= len(a):
        return None
    return from_coefficients(quotient), from_coefficients(remainder)


def common_factor(terms: Iterable[tuple[Monomial, int]]) -> tuple[Monomial, int]:
    """The greatest monomial and the greatest positive integer that divide every term; ``terms`` is not empty."""
    monomials, coefficients = zip(*terms, strict=True)
    common: list[Atom] = list(monomials[0])
    for monomial in monomials[1:]:
        if not common:
            break
        available = list(monomial)
        kept: list[Atom] = []
        for atom in common:
            if atom in available:
                available.remove(atom)
                kept.append(atom)
        common = kept
    return tuple(common), math.gcd(*coefficients)


def divide_exact(a: Terms, monomial: Monomial, factor: int) -> Terms:
    """``a / (factor * monomial)`` where every term is divisible."""
    divided: dict[Monomial, int] = {}
    for m, c in a:
        rest = divide_monomials(m, monomial)
        assert rest is not None and c % factor == 0, "the caller divides by a common factor"
        divided[rest] = c // factor
    return from_coefficients(divided)
