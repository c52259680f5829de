"""Atoms, and polynomials over them: the data of a symbolic expression, its text, value and interval.

An atom is a symbol, or ``floordiv``, ``mod``, ``min`` or ``max`` of expressions; an expression is a polynomial with
integer coefficients over atoms. What an operation means is one row in the tables below. Which of several equal
expressions is the normal form is decided in ``normal.py``, whose ``SymExpr`` is the only subclass of
:class:`AtomPolynomial`; nothing else makes atoms of operations.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from itertools import groupby
from typing import Any, NoReturn, Self, cast
from weakref import WeakValueDictionary

from etir.dialects.sym import intervals, poly
from etir.dialects.sym.errors import E0111, E0112, E0113
from etir.dialects.sym.intervals import Interval
from etir.dialects.sym.poly import Terms

MAX_DEPTH = 32
"""How deeply ``floordiv``, ``mod``, ``min`` and ``max`` nest."""
MAX_TEXT = 1 << 16
"""Length of the longest text of an atom. Shared parts are written out in it, so it bounds the work on the tree."""


class Kind(StrEnum):
    """What an atom is; the value is its keyword in text."""

    SYMBOL = "symbol"
    FLOORDIV = "floordiv"
    MOD = "mod"
    MIN = "min"
    MAX = "max"


KEYWORDS = frozenset({"floordiv", "ceildiv", "mod", "min", "max"})
"""Words of the syntax, which no symbol may be called."""
SYMBOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
"""A bare identifier of MLIR."""

EVALUATE: dict[Kind, Callable[..., int]] = {
    Kind.FLOORDIV: operator.floordiv,
    Kind.MOD: operator.mod,
    Kind.MIN: min,
    Kind.MAX: max,
}
_INTERVAL: dict[Kind, Callable[..., Interval]] = {
    Kind.FLOORDIV: intervals.floordiv,
    Kind.MOD: intervals.mod,
    Kind.MIN: intervals.minimum,
    Kind.MAX: intervals.maximum,
}
_INFIX_RANK = 2
_RANK = {Kind.SYMBOL: 0, Kind.MIN: 1, Kind.MAX: 1, Kind.FLOORDIV: _INFIX_RANK, Kind.MOD: _INFIX_RANK}
"""Printing order of terms of one degree: ``s0 - s0 floordiv 2``. Infix operations, the last rank, need parentheses."""


class _Frozen:
    """Rejects assignment; constructors set the slots with ``object.__setattr__``."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")


_set = object.__setattr__


class Atom(_Frozen):
    """A symbol, or an operation on ``operands``. ``text`` is canonical; ``symbols`` are the sorted names in it.

    Equal atoms are one object: ``Atom(...)`` returns the existing one with that text, so dictionaries of monomials hash
    and compare addresses. ``key`` orders atoms; ``depth`` is 0 for a symbol. Raises E0113 above :data:`MAX_DEPTH` and
    :data:`MAX_TEXT`.
    """

    __slots__ = ("__weakref__", "depth", "key", "kind", "operands", "symbols", "text")
    kind: Kind
    text: str
    key: tuple[int, str]
    operands: tuple[AtomPolynomial, ...]
    symbols: tuple[str, ...]
    depth: int

    def __new__(cls, kind: Kind, *operands: AtomPolynomial | str) -> Self:
        """``Atom(Kind.SYMBOL, name)``, or an operation on two or more expressions."""
        expressions = tuple(e for e in operands if isinstance(e, AtomPolynomial))
        if kind is Kind.SYMBOL:
            text = str(operands[0])
        elif _RANK[kind] == _INFIX_RANK:
            text = f"{_format_operand(expressions[0])} {kind.value} {_format_operand(expressions[1])}"
        else:
            text = f"{kind.value}({', '.join(map(str, expressions))})"
        known = _ATOMS.get(text)
        if isinstance(known, cls):
            return known
        depth = 1 + max((a.depth for e in expressions for a in e.atoms()), default=-1)
        if depth > MAX_DEPTH or len(text) > MAX_TEXT:
            raise E0113.error(f"an expression that begins with '{text[:60]}' is too long or nested too deeply")
        atom = object.__new__(cls)
        _set(atom, "kind", kind)
        _set(atom, "text", text)
        _set(atom, "key", (_RANK[kind], text))
        _set(atom, "operands", expressions)
        _set(atom, "symbols", tuple(sorted({s for e in expressions for s in e.symbols})) if expressions else (text,))
        _set(atom, "depth", depth)
        return cast(Self, _ATOMS.setdefault(text, atom))

    def __reduce__(self) -> tuple[Any, ...]:
        return Atom, (self.kind, *(self.operands or (self.text,)))

    def __repr__(self) -> str:
        return f"Atom({self.text!r})"

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The value at a point. Raises ``KeyError`` for a missing symbol and ``ZeroDivisionError``."""
        if self.kind is Kind.SYMBOL:
            return values[self.text]
        return EVALUATE[self.kind](*[e.value_at(values) for e in self.operands])

    def interval(self, ranges: Mapping[str, Interval]) -> Interval:
        """An interval around all values, operands taken as independent."""
        if self.kind is Kind.SYMBOL:
            return ranges.get(self.text, intervals.EVERYTHING)
        return _INTERVAL[self.kind](*[e.interval(ranges) for e in self.operands])


_ATOMS: WeakValueDictionary[str, Atom] = WeakValueDictionary()
"""Every living atom by its text."""


class AtomPolynomial(_Frozen):
    """A polynomial with integer coefficients over atoms: a sum of products. ``terms`` is as in ``poly.py``."""

    __slots__ = ("_hash", "_symbols", "_text", "terms")
    terms: Terms
    _hash: int
    _text: str
    _symbols: tuple[str, ...]

    def __new__(cls, terms: Terms) -> Self:
        expr = object.__new__(cls)
        _set(expr, "terms", terms)
        return expr

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.terms,)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, AtomPolynomial):
            return self.terms == other.terms
        if isinstance(other, int):
            return self.is_const and int(self) == other
        return NotImplemented

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            _set(self, "_hash", hash(int(self)) if self.is_const else hash(self.terms))
            return self._hash

    def __str__(self) -> str:
        try:
            return self._text
        except AttributeError:
            _set(self, "_text", _format_terms(self.terms))
            return self._text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    @property
    def symbols(self) -> tuple[str, ...]:
        """The names of all symbols, sorted."""
        try:
            return self._symbols
        except AttributeError:
            _set(self, "_symbols", tuple(sorted({s for atom in self.atoms() for s in atom.symbols})))
            return self._symbols

    @property
    def is_const(self) -> bool:
        """Whether the expression has no symbols; then ``int(expr)`` is its value."""
        return not self.terms or not self.terms[0][0]

    def __int__(self) -> int:
        if not self.is_const:
            raise ValueError(f"'{self}' is not a constant")
        return self.terms[0][1] if self.terms else 0

    def atoms(self) -> list[Atom]:
        """The atoms of the polynomial itself, not those inside atoms, in order of appearance."""
        return list(dict.fromkeys(atom for monomial, _ in self.terms for atom in monomial))

    def __add__(self, other: Self | int) -> Self:
        if isinstance(other, int):
            return type(self)(poly.add_constant(self.terms, int(other)))
        if not isinstance(other, AtomPolynomial):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        return type(self)(poly.add(self.terms, other.terms))

    def __sub__(self, other: Self | int) -> Self:
        if isinstance(other, int):
            return type(self)(poly.add_constant(self.terms, -other))
        if not isinstance(other, AtomPolynomial):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        return type(self)(poly.add(self.terms, other.terms, -1))

    def __mul__(self, other: Self | int) -> Self:
        if isinstance(other, int):
            return type(self)(poly.scale(self.terms, int(other)))
        if not isinstance(other, AtomPolynomial):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        return type(self)(poly.multiply(self.terms, other.terms))

    def __neg__(self) -> Self:
        return type(self)(poly.scale(self.terms, -1))

    def __rsub__(self, other: int) -> Self:
        return -self + other

    __radd__ = __add__
    __rmul__ = __mul__

    def __pow__(self, exponent: int) -> Self:
        """A repeated product. Raises ``ValueError`` for a negative exponent and E0113 for a large one."""
        if exponent < 0:
            raise ValueError(f"'{self}' to the power of {exponent} is not an integer expression")
        if self in (0, 1) and exponent:
            return self
        result = type(self)((((), 1),))
        for _ in range(exponent):
            result *= self
        return result

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The value at a point. Raises E0111 when a symbol has no value and E0112 when a divisor is zero there."""
        missing = [name for name in self.symbols if name not in values]
        if missing:
            raise E0111.error(f"no value for {', '.join(missing)} in '{self}'")
        try:
            return self.value_at(values)
        except ZeroDivisionError:
            point = ", ".join(f"{name} = {values[name]}" for name in self.symbols)
            raise E0112.error(f"'{self}' divides by zero at {point}") from None

    def value_at(self, values: Mapping[str, int]) -> int:
        """:meth:`evaluate` without diagnostics: raises ``KeyError`` and ``ZeroDivisionError``."""
        total = 0
        for monomial, coefficient in self.terms:
            for atom in monomial:
                coefficient *= atom.evaluate(values)
            total += coefficient
        return total

    def interval(self, ranges: Mapping[str, Interval]) -> Interval:
        """A sound interval that takes every occurrence of a symbol as independent: ``bounds`` is tighter."""
        total: Interval = (0, 0)
        for monomial, coefficient in self.terms:
            product: Interval = (coefficient, coefficient)
            for atom, run in groupby(monomial):
                product = intervals.multiply(product, intervals.power(atom.interval(ranges), len(list(run))))
            total = intervals.add(total, product)
        return total


def _format_operand(expr: AtomPolynomial) -> str:
    """An operand of ``floordiv`` or ``mod``: bare when it is a symbol, a function call or a number without sign."""
    text = str(expr)
    if expr.is_const:
        return text if int(expr) >= 0 else f"({text})"
    (monomial, coefficient), *others = expr.terms
    bare = not others and coefficient == 1 and len(monomial) == 1 and monomial[0].key[0] != _INFIX_RANK
    return text if bare else f"({text})"


def _format_terms(terms: Terms) -> str:
    """``2 * s0 * s1 - s0 floordiv 2 + 1``: products first, the constant last, signs between terms."""
    if not terms:
        return "0"
    parts: list[str] = []
    for monomial, coefficient in terms:
        magnitude = abs(coefficient)
        factors = [] if magnitude == 1 and monomial else [str(magnitude)]
        lone = not factors and len(monomial) == 1 and (coefficient > 0 or bool(parts))
        for rank, text in (atom.key for atom in monomial):
            factors.append(text if lone or rank != _INFIX_RANK else f"({text})")
        sign = (" - " if coefficient < 0 else " + ") if parts else "-" if coefficient < 0 else ""
        parts.append(sign + " * ".join(factors))
    return "".join(parts)
