"""Text of symbolic expressions: MLIR's affine syntax plus products of symbols, ``min`` and ``max``.

    expr    ::= product (('+' | '-') product)*
    product ::= factor (('*' | 'floordiv' | 'ceildiv' | 'mod') factor)*
    factor  ::= '-' factor | INTEGER | SYMBOL | '(' expr ')' | ('min' | 'max') '(' expr (',' expr)* ')'

All infix operators associate to the left, and ``*``, ``floordiv``, ``ceildiv`` and ``mod`` bind equally strongly, as in
affine maps. ``str(expr)`` prints this syntax, with parentheses wherever a reader might ask; ``parse(str(e)) == e``.
Every token is one of MLIR's, and brackets are balanced, so the text may stand in the body of any attribute.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from etir.diagnostics import EtirError
from etir.dialects.sym.atoms import KEYWORDS, SYMBOL_NAME
from etir.dialects.sym.normal import SymExpr, ceildiv, const, floordiv, mod, sym_max, sym_min, symbol

MAX_NESTING = 80
"""Depth of parentheses that is read; canonical text stays below it, because expressions nest less."""
MAX_DIGITS = 309
"""Length of the longest integer that is read: enough for a coefficient of 1024 bits, far beyond any size."""

_TOKEN = re.compile(r"\s*(?:(?P<integer>[0-9]+)|(?P<identifier>[A-Za-z_][A-Za-z0-9_$.]*)|(?P<punctuation>\S)|$)")
_INTEGER = re.compile(r"[0-9]+")
_PRODUCTS: dict[str, Callable[[SymExpr, SymExpr], SymExpr]] = {
    "*": SymExpr.__mul__,
    "floordiv": floordiv,
    "ceildiv": ceildiv,
    "mod": mod,
}
_FUNCTIONS: dict[str, Callable[..., SymExpr]] = {"min": sym_min, "max": sym_max}


class ExprParseError(ValueError):
    """Text that is not an expression. ``position`` counts characters of a string, or tokens of a stream, from 0."""

    def __init__(self, message: str, position: int):
        super().__init__(f"{message} at position {position}")
        self.message = message
        self.position = position


def _tokenize(text: str) -> Iterator[tuple[int, str]]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            return
        yield match.start(match.lastgroup), match[match.lastgroup]
        position = match.end()


class ExprParser:
    """Reads expressions from a string, or from a stream of ``(kind, text)`` tokens of any lexer.

    Only the text of a token is looked at. The stream is pulled one token ahead and no further: after
    :meth:`parse_expression` the last token pulled is the first one that does not belong to the expression. A generator
    that yields a host parser's current token and advances that parser when it is resumed therefore leaves it there.
    """

    def __init__(self, source: str | Iterable[tuple[object, str]]):
        if isinstance(source, str):
            self._tokens = _tokenize(source)
            self._end = len(source)
        else:
            self._tokens = ((index, text) for index, (_, text) in enumerate(source))
            self._end = None
        self._position = -1
        self._text: str | None = None
        self._nesting = 0

    @property
    def position(self) -> int:
        """Where the next token is: its first character in a string, its number in a stream."""
        self.peek()
        return self._position

    def peek(self) -> str:
        """The text of the next token, empty at the end."""
        if self._text is None:
            token = next(self._tokens, None)
            if token is not None:
                self._position, self._text = token
            else:
                self._position, self._text = self._position + 1 if self._end is None else self._end, ""
        return self._text

    def accept(self, text: str) -> bool:
        """Consume the next token when it is ``text``."""
        if self.peek() != text:
            return False
        self._text = None
        return True

    def expect_end(self) -> None:
        """Raises :class:`ExprParseError` unless everything is consumed."""
        if self.peek():
            raise ExprParseError(f"unexpected '{self.peek()}' after an expression", self._position)

    def parse_expression(self) -> SymExpr:
        """Parse the longest expression from here.

        Raises :class:`ExprParseError` for bad syntax, a divisor that is the constant zero, and expressions past the
        limits of ``poly.py`` and ``atoms.py``.
        """
        try:
            return self._parse_sum()
        except EtirError as error:
            raise ExprParseError(error.diagnostics[0].message, self.position) from error

    def _parse_sum(self) -> SymExpr:
        total = self._parse_product()
        while self.peek() in ("+", "-"):
            if self.accept("+"):
                total = total + self._parse_product()
            else:
                self.accept("-")
                total = total - self._parse_product()
        return total

    def _parse_product(self) -> SymExpr:
        product = self._parse_factor()
        while (operation := _PRODUCTS.get(self.peek())) is not None:
            self._text = None
            product = operation(product, self._parse_factor())
        return product

    def _parse_factor(self) -> SymExpr:
        negative = False
        while self.accept("-"):
            negative = not negative
        token = self.peek()
        if token == "(":
            factor = self._parse_operands()[0]
        elif token in _FUNCTIONS:
            self._text = None
            factor = _FUNCTIONS[token](*self._parse_operands(","))
        else:
            factor = self._parse_leaf(token)
        return -factor if negative else factor

    def _parse_leaf(self, token: str) -> SymExpr:
        if _INTEGER.fullmatch(token):
            if len(token) > MAX_DIGITS:
                raise ExprParseError(f"an integer of {len(token)} digits is too long", self._position)
            self._text = None
            return const(int(token))
        if SYMBOL_NAME.fullmatch(token) and token not in KEYWORDS:
            self._text = None
            return symbol(token)
        found = f"'{token}'" if token else "the end"
        raise ExprParseError(f"expected an integer, a symbol, '(', 'min' or 'max', found {found}", self._position)

    def _parse_operands(self, separator: str | None = None) -> list[SymExpr]:
        """Expressions in parentheses: one, or several between separators."""
        self._expect("(")
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise ExprParseError(f"more than {MAX_NESTING} nested parentheses", self.position)
        operands = [self._parse_sum()]
        while separator is not None and self.accept(separator):
            operands.append(self._parse_sum())
        self._expect(")")
        self._nesting -= 1
        return operands

    def _expect(self, text: str) -> None:
        if not self.accept(text):
            found = f"'{self.peek()}'" if self.peek() else "the end"
            raise ExprParseError(f"expected '{text}', found {found}", self._position)


def parse(text: str) -> SymExpr:
    """The expression that ``text`` spells, in normal form. Raises :class:`ExprParseError`, a ``ValueError``."""
    parser = ExprParser(text)
    expr = parser.parse_expression()
    parser.expect_end()
    return expr
