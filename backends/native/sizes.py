"""Sizes that are known when code is called: numbers of the ``tile`` level that are expressions.

A dim, a stride, an offset or a count of ``tile`` is an int, or a :class:`Size`: an expression over the symbols of the
program's dims, each between two bounds. Sums, products, quotients and remainders of sizes are sizes, or ints where
nothing of a symbol is left, so that whatever computes with numbers computes with sizes. What cannot be decided for all
values raises: ``n < 4`` of a size is a ``TypeError``, and :func:`at_least` asks whether it is proven.

In C a size is the text ``<|EXPRESSION|>``, for which ``print_c`` puts the number that the call has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from etir.dialects.sym.expr import SymExpr, as_expr, bounds, parse

Range = tuple[int, int]
PLACEHOLDER = re.compile(r"<\|(.*?)\|>")
"""A size in the text of a template."""
UNSPECIALIZED = 2
"""Lower bounds up to this one are those of torch's guards: programs take smaller sizes, too."""


class Undecided(TypeError):
    """Something asks of a size what is not the same for all of its values."""


class Size(int):
    """An expression over symbols with their least and greatest values; as an int, its greatest value."""

    expr: SymExpr
    ranges: tuple[tuple[str, Range], ...]
    """The bounds of its symbols, sorted by name."""

    def __new__(cls, expr: SymExpr, ranges: Mapping[str, Range]) -> Size:
        _, high = bounds(expr, ranges)
        if high is None:
            raise ValueError(f"'{expr}' has no upper bound")
        found = super().__new__(cls, high)
        found.expr = expr
        found.ranges = tuple((name, ranges[name]) for name in expr.symbols)
        return found

    def __str__(self) -> str:
        return f"<|{self.expr}|>"

    __repr__ = __str__

    def __format__(self, format_spec: str) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.expr == other.expr

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.expr)

    def __bool__(self) -> bool:
        return True

    def __add__(self, other: int) -> int:
        return _made(self, other, expr_of(self) + expr_of(other))

    def __radd__(self, other: int) -> int:
        return self + other

    def __sub__(self, other: int) -> int:
        return _made(self, other, expr_of(self) - expr_of(other))

    def __rsub__(self, other: int) -> int:
        return _made(self, other, expr_of(other) - expr_of(self))

    def __mul__(self, other: int) -> int:
        return _made(self, other, expr_of(self) * expr_of(other))

    def __rmul__(self, other: int) -> int:
        return self * other

    def __floordiv__(self, other: int) -> int:
        return _made(self, other, expr_of(self) // expr_of(other))

    def __rfloordiv__(self, other: int) -> int:
        return _made(self, other, expr_of(other) // expr_of(self))

    def __mod__(self, other: int) -> int:
        return _made(self, other, expr_of(self) % expr_of(other))

    def __rmod__(self, other: int) -> int:
        return _made(self, other, expr_of(other) % expr_of(self))

    def __neg__(self) -> int:
        return _made(self, 0, -expr_of(self))

    def _undecided(self, other: object) -> NoReturn:
        raise Undecided(f"'{self.expr}' is known at run time only")

    def __lt__(self, other: int) -> bool:
        self._undecided(other)

    def __le__(self, other: int) -> bool:
        self._undecided(other)

    def __gt__(self, other: int) -> bool:
        self._undecided(other)

    def __ge__(self, other: int) -> bool:
        self._undecided(other)

    def __index__(self) -> int:
        self._undecided(None)


def expr_of(n: int) -> SymExpr:
    """A number as an expression."""
    return n.expr if isinstance(n, Size) else as_expr(n)


def ranges_of(numbers: Iterable[int]) -> dict[str, Range]:
    """The symbols of numbers, with their bounds."""
    return {name: range for n in numbers if isinstance(n, Size) for name, range in n.ranges}


def _made(one: int, other: int, expr: SymExpr) -> int:
    return size(expr, ranges_of((one, other)))


def size(expr: SymExpr | int, ranges: Mapping[str, Range]) -> int:
    """The number of an expression: an int where it has no symbol. Raises ``ValueError`` for one without a bound."""
    expr = as_expr(expr)
    return int(expr) if expr.is_const else Size(expr, ranges)


def is_known(numbers: Iterable[int]) -> bool:
    """Whether all numbers are ints."""
    return Size not in map(type, numbers)


def most(n: int) -> int:
    """The greatest value of a number."""
    return int.__int__(n)


def at_least(n: int, bound: int) -> bool:
    """Whether ``n >= bound`` is proven, for symbols of at least 1: in what is empty there is nothing to do."""
    if not isinstance(n, Size) and not isinstance(bound, Size):
        return n >= bound
    there = {name: (max(low, 1), max(high, 1)) for name, (low, high) in ranges_of((n, bound)).items()}
    low, _ = bounds(expr_of(n) - expr_of(bound), there)
    return low is not None and low >= 0


def valued(n: int, values: Mapping[str, int]) -> int:
    """The number where symbols have these values."""
    return n.expr.evaluate(values) if isinstance(n, Size) else n


# --- text -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """Rows of numbers with the bounds of the symbols in them."""

    rows: tuple[tuple[int, ...], ...]

    def text(self) -> str:
        """``[s0, 64], [64, 1], s0 = 0 to 31``"""
        parts = [f"[{', '.join(str(expr_of(n)) for n in row)}]" for row in self.rows]
        ranges = ranges_of(n for row in self.rows for n in row)
        parts += [f"{name} = {low} to {high}" for name, (low, high) in sorted(ranges.items())]
        return ", ".join(parts)


_RANGE = re.compile(r"\s*([^\s=]+)\s*=\s*(\d+)\s+to\s+(\d+)\s*")


def read_sizes(text: str) -> Sizes:
    """The rows of a text. Raises ``ValueError`` with what is wrong."""
    rows: list[list[SymExpr]] = []
    rest = text.strip()
    while rest.startswith("["):
        body, bracket, rest = rest[1:].partition("]")
        if not bracket:
            raise ValueError("'[' has no closing bracket")
        rows.append([parse(part.strip()) for part in _split(body)])
        rest = rest.strip().removeprefix(",").strip()
    ranges: dict[str, Range] = {}
    for part in rest.split(",") if rest else []:
        found = _RANGE.fullmatch(part)
        if found is None or int(found[2]) > int(found[3]):
            raise ValueError(f"'{part.strip()}' are no bounds of a symbol: s0 = 0 to 31")
        ranges[found[1]] = (int(found[2]), int(found[3]))
    unknown = {name: None for row in rows for expr in row for name in expr.symbols if name not in ranges}
    if unknown:
        raise ValueError(f"{', '.join(unknown)} has no bounds")
    return Sizes(tuple(tuple(size(expr, ranges) for expr in row) for row in rows))


def _split(text: str) -> list[str]:
    parts: list[str] = []
    depth = start = 0
    for i, c in enumerate(text):
        depth += {"(": 1, ")": -1}.get(c, 0)
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]] if text.strip() else []
