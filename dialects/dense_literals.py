"""``dense<...>`` literals whose floats are given by their bits: ``dense<0xff800000> : tensor<f32>`` is -inf.

xDSL prints infinities and NaN so, as MLIR does, but reads the digits as an integer and converts that. Only the element
type, which comes after the literal, says whether a hexadecimal literal is a number or the bits of one: it is
kept as :class:`_Bits` until then. MLIR refuses a sign before bits, and so does this parser.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import AnyFloat, ComplexType, FloatAttr, IndexType, IntegerAttr, IntegerType
from xdsl.parser import Parser
from xdsl.parser.attribute_parser import AttrParser
from xdsl.utils.lexer import Span
from xdsl.utils.mlir_lexer import MLIRTokenKind

# pyright: reportPrivateUsage=false
# The methods that read one element are xDSL's own; there is no public place to change the meaning of one token.


class _Bits(int):
    """An integer literal in hexadecimal."""


class _Element(AttrParser._TensorLiteralElement):
    """One number of a literal."""

    def to_type(self, parser: AttrParser, type: AnyFloat | IntegerType | IndexType | ComplexType) -> Any:
        """The number as an element of ``type``. Raises ``ParseError`` if ``type`` has no such number."""
        if isinstance(type, AnyFloat) and isinstance(self.value, _Bits):
            return self._decoded(self.value, type, parser)
        if isinstance(type, ComplexType) and isinstance(self.value, tuple) and isinstance(type.element_type, AnyFloat):
            return tuple(self._decoded(part, type.element_type, parser) for part in self.value)
        return super().to_type(parser, type)

    def _decoded(self, part: float, type: AnyFloat, parser: AttrParser) -> float:
        if not isinstance(part, _Bits):
            return float(part)
        if part < 0:
            parser.raise_error("the bits of a float have no sign beside them", self.span)
        if part >> 8 * type.compile_time_size:
            parser.raise_error(f"{type} has {8 * type.compile_time_size} bits, the literal has more", self.span)
        return next(type.iter_unpack(part.to_bytes(type.compile_time_size, "little")))


class DenseLiteralParser(Parser):
    """xDSL's parser, for which a hexadecimal literal in a ``dense<...>`` of floats is the bits of a float."""

    def _parse_optional_bool_int_or_float(self) -> Any:
        """A number and where it stands, or None."""
        parsed = super()._parse_optional_bool_int_or_float()
        if parsed is None or type(parsed[0]) is not int or "x" not in parsed[1].text:
            return parsed
        return _Bits(parsed[0]), parsed[1]

    def _parse_optional_complex(self) -> Any:
        """The two parts of a complex number, of which only one may be bits, and where it stands; or None."""
        opening = self._parse_optional_token(MLIRTokenKind.L_PAREN)
        if opening is None:
            return None
        parts = [self._parse_bool_int_or_float()[0]]
        self.parse_punctuation(",")
        parts.append(self._parse_bool_int_or_float()[0])
        closing = self._parse_token(MLIRTokenKind.R_PAREN, "Expected ')' after the parts of a complex number")
        span = Span(opening.span.start, closing.span.end, opening.span.input)
        if len({type(part) for part in parts if not isinstance(part, _Bits)}) > 1:
            self.raise_error("Complex value must be either (float, float) or (int, int)", span)
        return tuple(parts), span

    def _parse_tensor_literal_element(self) -> Any:
        """One number of a literal."""
        element = super()._parse_tensor_literal_element()
        return _Element(element.is_negative, element.value, element.span)

    def parse_optional_builtin_int_or_float_attr(self) -> IntegerAttr | FloatAttr | None:
        """A number outside of a ``dense`` literal. xDSL reads the bits of a float there, but does not count them."""
        start = self.pos
        try:
            return super().parse_optional_builtin_int_or_float_attr()
        except OverflowError:
            self.raise_error("the literal has more bits than its type", start, self.pos)
