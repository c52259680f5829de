"""Reading and writing modules as text.

:class:`EtParser` adds two things to xDSL's parser: every operation gets the file, line and column where it stands
(unless the text gives a location), and the text of a ``tensor<...>`` type is parsed once, which halves parsing time.
Errors come out as diagnostics with id, position and caret instead of exceptions with tracebacks.
"""

from __future__ import annotations

import gc
import re
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue, TypeAttribute
from xdsl.irdl import AttributeInvT
from xdsl.parser import UnresolvedOperand
from xdsl.parser.core import ForwardDeclaredValue
from xdsl.parser.generic_parser import ParserState
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

from etir.diagnostics import EtirError, SourceLocation
from etir.dialects.context import EtContext
from etir.dialects.dense_literals import DenseLiteralParser
from etir.dialects.errors import E0101, E0102, E0302
from etir.dialects.et.program import SchemaDeclOp
from etir.dialects.et.weights import BlobAttr, WeightFile
from etir.dialects.parse_errors import complete_attribute, complete_message, similar_operations, unregistered_name
from etir.dialects.schema import SchemaError


class EtLexer(MLIRLexer):
    """xDSL's lexer with a string literal that fails in linear time when its closing quote is missing.

    The inherited expression nests repetitions, which makes it try every way to cut the rest of a line into pieces.
    """

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')


class EtParser(DenseLiteralParser):
    """xDSL's parser with source locations and shared tensor types."""

    def __init__(self, ctx: EtContext, text: str, name: str = "<stdin>", first_line: int = 1):
        super().__init__(ctx, "", name)
        self._line_starts = [0] + [i + 1 for i, c in enumerate(text) if c == "\n"]
        self._file = StringAttr(name)
        self._first_line = first_line
        self._tensor_types: dict[str, TypeAttribute] = {}
        self.forward_uses: dict[str, int] = {}
        """Where each value that was used before its definition was first used so."""
        self.failed_at: int | None = None
        """Start of the innermost operation whose parsing raised, or None."""
        self._text, self._name = text, name

    def start(self) -> None:
        """Read the first token. Raises ``ParseError``, as every other method that reads."""
        self._parser_state = ParserState(EtLexer(Input(self._text, self._name)))

    def line_and_column(self, position: int) -> tuple[int, int]:
        """Line and column, from 1, of a character position; the line counts from ``first_line``."""
        line = bisect_right(self._line_starts, position)
        return line - 1 + self._first_line, position - self._line_starts[line - 1] + 1

    def location_of(self, position: int) -> SourceLocation:
        """File, line and column of a character position."""
        return SourceLocation(self._file.data, *self.line_and_column(position))

    @property
    def at_end(self) -> bool:
        """Whether nothing but white space and comments is left."""
        return self._current_token.kind is MLIRTokenKind.EOF

    def parse_operation(self) -> Operation:
        """Parse one operation and stamp where it stands."""
        start = self.pos
        try:
            op = super().parse_operation()
        except (ParseError, VerifyException, ValueError, TypeError):
            if self.failed_at is None:
                self.failed_at = start
            raise
        if isinstance(op, SchemaDeclOp) and isinstance(self.ctx, EtContext):
            try:
                self.ctx.declare_schema(op.schema.data)
            except SchemaError as error:
                self.raise_error(str(error), start, self.pos)
        if isinstance(op.location, UnknownLoc):
            line, column = self.line_and_column(start)
            op.location = FileLineColLoc(self._file, IntAttr(line), IntAttr(column))
        return op

    def _parse_block(self) -> Block:
        """Parse a block. xDSL forgets that a block was defined when a jump had named it before."""
        token = self._current_token
        if token.kind is MLIRTokenKind.CARET_IDENT:
            known = self.blocks.get(token.text[1:])
            if known is not None and known[1] is None and token.text[1:] not in self.forward_block_references:
                self.raise_error(f"block {token.text} is defined twice", token.span)
        return super()._parse_block()

    def resolve_operand(self, operand: UnresolvedOperand, type: AttributeInvT) -> SSAValue[AttributeInvT]:
        """Resolve an operand, remembering where a value is used before its definition."""
        value = super().resolve_operand(operand, type)
        if isinstance(value, ForwardDeclaredValue):
            self.forward_uses.setdefault(operand.operand_name, operand.span.start)
        return value

    def _parse_location(self) -> LocationAttr:
        """Parse a location. xDSL prints ``fused<metadata>[...]`` and cannot read it."""
        token = self._current_token
        if token.kind is not MLIRTokenKind.BARE_IDENT or token.text != "fused":
            return super()._parse_location()
        self.parse_keyword("fused")
        metadata: Attribute = NoneAttr()
        if self.parse_optional_punctuation("<") is not None:
            metadata = self.parse_attribute()
            self.parse_punctuation(">")
        parts = self.parse_comma_separated_list(self.Delimiter.SQUARE, self._parse_location)
        return FusedLoc(ArrayAttr(parts), metadata)

    def parse_optional_type(self) -> TypeAttribute | None:
        """Parse a type; a tensor type whose text was met before is not parsed again."""
        token = self._current_token
        if token.kind is not MLIRTokenKind.BARE_IDENT or token.text != "tensor":
            return super().parse_optional_type()
        content = self.lexer.input.content
        start = token.span.end
        if start >= len(content) or content[start] != "<":
            return super().parse_optional_type()
        end = self._raw_scan_balanced(start + 1) + 1
        text = content[start:end]
        known = self._tensor_types.get(text)
        if known is None:
            known = super().parse_optional_type()
            assert known is not None
            self._tensor_types[text] = known
            return known
        self.lexer.pos = end
        self._parser_state.current_token = self.lexer.lex()
        return known


FRAMES = 5_000
"""Calls in calls while text is read or written: regions that are nested some 700 deep."""


@contextmanager
def deep_regions() -> Iterator[None]:
    """More frames for Python in the block than it has otherwise."""
    frames = sys.getrecursionlimit()
    sys.setrecursionlimit(max(frames, FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(frames)


def parse_module(
    text: str,
    ctx: EtContext | None = None,
    *,
    name: str = "<stdin>",
    weights: Iterable[WeightFile] = (),
    expected: Iterable[str] = (),
    first_line: int = 1,
) -> ModuleOp:
    """Read a module. It is *not* verified: that is ``verify_module``'s, which reports all problems at once.

    ``weights`` supply the bytes of blobs, ``expected`` names files for the message when none does; text without any
    operation is an empty module. Raises error E0101 (or E0102 for an unknown operation) at the place of the first
    syntax error, or E0302 for each value that is never defined.
    """
    parser = EtParser(ctx or EtContext(), text, name, first_line)
    collecting = gc.isenabled()
    gc.disable()
    try:
        with deep_regions():
            parser.start()
            module = ModuleOp([]) if parser.at_end else parser.parse_module()
    except (ParseError, VerifyException, ValueError, TypeError, RecursionError) as error:
        raise parse_error(parser, error, text) from None
    finally:
        if collecting:
            gc.enable()
    files = list(weights)
    searched = (*(str(file.path) for file in files), *expected)
    for blob in attach_weights(module, files) if searched else ():
        blob.data.searched = searched
    return module


def parse_error(parser: EtParser, error: Exception, text: str) -> EtirError:
    """What the parser raised, as diagnostics at the places that it is about."""
    if isinstance(error, ParseError):
        if error.msg.startswith("values used but not defined"):
            uses = [(name, at) for name, at in parser.forward_uses.items() if name in parser.forward_ssa_references]
            return EtirError(
                [E0302.diagnostic(f"there is no value %{name} here", parser.location_of(at)) for name, at in uses]
            )
        position, message = error.span.start, complete_message(error.msg, error.span.text, text, error.span.start)
    else:
        position = parser.pos if parser.failed_at is None else parser.failed_at
        deep = isinstance(error, RecursionError)
        message = "regions are nested too deeply" if deep else str(error) or type(error).__name__
    message = message.split("\n")[0].rstrip(".")
    position = min(position, len(text))
    if (unknown := unregistered_name(message)) is None:
        return E0101.error(complete_attribute(message, parser.ctx), parser.location_of(position))
    if not unknown:
        opening = text.rfind('""', 0, position)
        place = parser.location_of(position if opening < 0 else opening)
        return E0102.error("the name of an operation is empty", place)
    named_at = text.find(unknown, parser.failed_at or 0)
    place = parser.location_of(position if named_at < 0 else named_at)
    return E0102.error(message + similar_operations(unknown, parser.ctx), place)


def attach_weights(module: ModuleOp, files: Iterable[WeightFile]) -> list[BlobAttr]:
    """Supply the bytes of every blob in ``module`` that has none; returns the blobs that no file has."""
    missing: list[BlobAttr] = []
    files = list(files)
    for op in module.walk():
        for attribute in op.properties.values():
            if (
                isinstance(attribute, BlobAttr)
                and not attribute.data.has_data
                and not any(file.supply(attribute.data) for file in files)
            ):
                missing.append(attribute)
    return missing


class _Printer(Printer):
    """Gives each value a name that no other has.

    The base class numbers the values of one hint without a look at other hints: ``a``, its second ``a_1``, and ``a_1``
    of a value whose hint that is.
    """

    def print_ssa_value(self, value: SSAValue) -> str:
        hint, names = value.name_hint, self.ssa_names
        if hint and value not in self._ssa_values:
            index = names.get(hint, 0)
            name = f"{hint}_{index}" if index else hint
            while index and name in names:
                index += 1
                name = f"{hint}_{index}"
            names[name] = 1
            names[hint] = index + 1
            self._ssa_values[value] = name
        return super().print_ssa_value(value)


def print_module(op: Operation, *, generic: bool = False, locations: bool = False) -> str:
    """The text of a module or of any operation, with a final newline."""
    stream = StringIO()
    printer = _Printer(stream=stream, print_generic_format=generic, print_debuginfo=locations)
    with deep_regions():
        printer.print_op(op)
    return stream.getvalue() + "\n"


def source_location(location: Attribute) -> SourceLocation | None:
    """File, line and column of a location attribute: the first file position inside names and fusions, or None.

    A name around it is the path of the module that the importer found the operation in.
    """
    # Classes by identity: ``isinstance`` of an attribute's class that it is not asks Python code, three calls each.
    if type(location) is FileLineColLoc:
        return SourceLocation(location.filename.data, location.line.data, location.column.data)
    if type(location) is NameLoc:
        found = source_location(location.location)
        return found if found is None or found.module else replace(found, module=location.desc.data)
    if type(location) is CallSiteLoc:
        return source_location(location.callee)
    if type(location) is FusedLoc and type(location.locations) is ArrayAttr:
        for part in location.locations.data:
            if (found := source_location(part)) is not None:
                return found
    return None
