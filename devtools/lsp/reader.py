"""Reading text with mistakes in it: every operation that can be read, and a diagnostic for each that cannot.

The parser stops at the first mistake. Here an operation that cannot be read becomes a :class:`BrokenOp`, its text is
skipped up to where the next one begins, and values that it would have defined are no mistakes elsewhere. What was read
before is kept by the text of its line (:class:`~etir.devtools.lsp.memo.Memo`): an operation on one line without regions
whose operands have the types that they had is not parsed, and, being the same object, not verified again.
"""

from __future__ import annotations

import gc
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, LocationAttr, ModuleOp, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, OpTraits, Region, SSAValue
from xdsl.parser import UnresolvedOperand
from xdsl.parser.generic_parser import ParserState
from xdsl.traits import HasParent, IsolatedFromAbove, IsTerminator
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Span, Token
from xdsl.utils.mlir_lexer import MLIRTokenKind, PunctuationSpelling

from etir.devtools.lsp.memo import Known, Memo
from etir.diagnostics import Diagnostic, EtirError
from etir.dialects.context import EtContext
from etir.dialects.errors import E0101, E0302
from etir.dialects.et.program import SchemaDeclOp
from etir.dialects.text import EtLexer, EtParser, deep_regions, parse_error

MOST_FAULTS = 100
"""Mistakes after which the rest of a text is not read."""

_WHITE = " \t\r\n"
"""What the lexer skips, which is less than what Python takes for white space."""

_OF_XDSL = ("builtin", "func", "pdl", "arith", "math", "memref")
"""Dialects whose verifiers also look at parents and users of an operation, which its line does not tell."""

_KIND = MLIRTokenKind
_ALIASES = (_KIND.HASH_IDENT, _KIND.EXCLAMATION_IDENT)
RESULTS = re.compile(r"%[\w$.-]+(?::\d+)?(?:\s*,\s*%[\w$.-]+(?::\d+)?)*(?=\s*=)")
_NAME = re.compile(r"%([\w$.-]+)")
_UNDEFINED = re.compile(r"%([\w$.-]+) is used before it is defined")
_SYMBOL = re.compile(r"@(?:([\w$.-]+)|\"([^\"\n]*)\")")
_MARK = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|[{}\n]')
_STARTS = re.compile(r"[ \t\r]*(?:%|\"|\^|\}|//|#|!|\n|\Z|[A-Za-z_][\w$]*\.[\w.$]+)")
"""How a line begins that goes on with something new."""


class BrokenOp(Operation):
    """Stands for text that could not be read, or defines values that nothing defines. It may end a block."""

    name = "lsp.broken"
    traits = OpTraits(lambda: (IsTerminator(),))

    def verify_(self) -> None:
        """Nothing more can be said of it."""


class _Lexer(EtLexer):
    """Skips what is no token and says so: the token after it is read while the parser is at the one before."""

    def __init__(self, text: str, name: str, tell: Callable[[ParseError], object]):
        super().__init__(Input(text, name))
        self._tell = tell

    def lex(self) -> Token[MLIRTokenKind]:
        """The next token."""
        while True:
            try:
                return super().lex()
            except ParseError as error:
                self._tell(error)
                content = self.input.content
                after = max(error.span.start + 1, self.pos)
                if not error.msg.startswith("Unexpected character"):
                    end = content.find("\n", error.span.start)
                    after = len(content) if end < 0 else end
                self.pos = min(after, len(content))


@dataclass(frozen=True, slots=True)
class Spot:
    """An operation and where it stands: characters of the text, the end possibly with what follows up to the next."""

    start: int
    end: int
    op: Operation
    written: LocationAttr
    """The location that the text gives, or an unknown one."""


class Reader(EtParser):
    """Reads one module. ``faults`` are the mistakes, ``spots`` the operations in the order of their ends."""

    def __init__(self, ctx: EtContext, text: str, name: str, first_line: int = 1, memo: Memo | None = None):
        super().__init__(ctx, text, name, first_line)
        self.faults: list[Diagnostic] = []
        self.spots: list[Spot] = []
        self.lost_symbols: dict[str, None] = {}
        """Names of symbols that text may define which could not be read."""
        self.doubtful: list[tuple[int, int]] = []
        """Characters of the text of which nothing can be said: a block that nothing can jump to."""
        self.memo = Memo()
        """For the next reading."""
        self._old = memo or Memo()
        self._lost: dict[str, None] = {}
        self._defined: list[str] = []
        self._named: list[UnresolvedOperand] = []
        self._marks: tuple[list[int], list[int]] | None = None
        self._missing: list[Block] = []
        self._told: dict[int | None, None] = {}
        self._closing = False

    def read(self) -> ModuleOp:
        """The module, whatever the text is."""
        with _without_collecting(), deep_regions():
            found = self._top_level()
            self._define_the_undefined()
        self._old.forget()
        schemas = [op.schema.data for op in found if isinstance(op, SchemaDeclOp)]
        whole = len(found) == 1 and isinstance(found[0], ModuleOp)
        module = found[0] if whole else ModuleOp(found)
        assert isinstance(module, ModuleOp)
        if whole:
            schemas = [op.schema.data for op in module.body.ops if isinstance(op, SchemaDeclOp)]
        self.memo.schemas = tuple(schemas)
        if self.memo.schemas or self.attribute_aliases:
            # What a line means depends on other lines.
            self.memo.lines = {}
        return module

    # --- the module --------------------------------------------------------------------------------------------------

    def _top_level(self) -> list[Operation]:
        found: list[Operation] = []
        position = -1
        self._parser_state = ParserState(_Lexer(self._text, self._name, self._fault))
        while not self.at_end:
            if self.pos <= position:  # Nothing was read: what stands here begins nothing.
                self._go_on_at(position, self._next_line(self.pos))
                continue
            position = self.pos
            try:
                if self._current_token.kind in _ALIASES:
                    self._parse_alias_def()
                elif self._current_token.kind is _KIND.FILE_METADATA_BEGIN:
                    self._parse_file_metadata_dictionary()
                elif (op := self.parse_optional_operation()) is not None:
                    found.append(op)
                else:
                    self.raise_error("Could not parse entire input!")
            except Exception as error:
                self._fault(error)
                self._go_on_at(position, self._next_line(max(position, self.pos)))
        return found

    def _define_the_undefined(self, known: Sequence[str] = ()) -> None:
        """A mistake for each value that nothing defines, and a definition before each use, so that it is one only.

        Those of the names ``known`` may still be defined.
        """
        for name in [name for name in self.forward_ssa_references if name not in known]:
            values = self.forward_ssa_references.pop(name)
            if name not in self._lost:
                at = self.location_of(self.forward_uses.get(name, 0))
                self.faults.append(E0302.diagnostic(f"there is no value %{name} here", at))
            for value in values.values():
                for use in list(value.uses):
                    self._define_before(use.operation, use.index, value.type)

    @staticmethod
    def _define_before(op: Operation, index: int, type: Attribute) -> None:
        made = BrokenOp(result_types=[type])
        if op.parent is not None:
            op.parent.insert_op_before(made, op)
        op.operands[index] = made.results[0]

    # --- operations --------------------------------------------------------------------------------------------------

    def parse_operation(self) -> Operation:
        """An operation, known or read; a :class:`BrokenOp` for one that cannot be read."""
        start = self.pos
        defined, named = len(self._defined), len(self._named)
        depth = len(self._parser_state.dialect_stack)
        block_state = self.blocks, self.forward_block_references
        waiting = tuple(self.forward_ssa_references)
        try:
            known = self._known_at(start)
            if known is not None:
                return known
            op = super().parse_operation()
        except Exception as error:
            self.failed_at = start if self.failed_at is None else self.failed_at
            position = self._fault(error)
            del self._parser_state.dialect_stack[depth:]
            self.blocks, self.forward_block_references = block_state
            for name in self._defined[defined:]:
                self.ssa_values.pop(name, None)
            del self._defined[defined:]
            return self._broken(start, position)
        self._note(op, start)
        if op.regions and op.has_trait(IsolatedFromAbove):
            self._define_the_undefined(waiting)
        self._remember(op, start, named, defined)
        return op

    def _note(self, op: Operation, start: int) -> None:
        at = op.location
        line, column = self.line_and_column(start)
        written: LocationAttr = UnknownLoc()
        stamped = isinstance(at, FileLineColLoc) and at.filename is self._file and at.line.data == line
        if not stamped:
            written = at
            op.location = FileLineColLoc(self._file, IntAttr(line), IntAttr(column))
        self.spots.append(Spot(start, self.pos, op, written))

    def _remember(self, op: Operation, start: int, named: int, defined: int) -> None:
        """Keep an operation that one line says all about."""
        names, self._named[named:] = self._named[named:], []
        if op.regions or op.successors or op.name.partition(".")[0] in _OF_XDSL:
            return
        if op.has_trait(HasParent) or op.has_trait(IsTerminator) or self.line_and_column(start)[0] in self._told:
            return
        text = self._text[start : self.pos].rstrip(_WHITE)
        if "\n" in text or "//" in text or op.name not in text or isinstance(op, SchemaDeclOp):
            return
        if self.pos < len(self._text) and "\n" not in self._text[start + len(text) : self.pos]:
            return
        values: list[SSAValue] = []
        for name in names:
            found = self._value(name.operand_name, name.index)
            if found is None:
                return
            values.append(found)
        try:
            operands = tuple(_index(values, operand) for operand in op.operands)
        except ValueError:
            return
        results: list[tuple[str, int, int]] = []
        given = RESULTS.match(text)
        if given is not None:
            for part in re.finditer(r"%([\w$.-]+)(?::(\d+))?", given[0]):
                results.append((part[1], int(part[2] or 1), part.start()))
        if [name for name, _, _ in results] != self._defined[defined:]:
            return
        written = self.spots[-1].written
        known = tuple((n.operand_name, n.index, v.type) for n, v in zip(names, values, strict=True))
        self.memo.lines.setdefault(text, []).append(Known(op, known, operands, tuple(results), written))

    def _value(self, name: str, index: int) -> SSAValue | None:
        values = self.ssa_values.get(name)
        if values is not None:
            return values[index] if index < len(values) else None
        forward = self.forward_ssa_references.get(name)
        return None if forward is None else forward.get(index)

    def _known_at(self, start: int) -> Operation | None:
        """The operation of the last reading that the line at ``start`` says all about, put into this one."""
        if not self._old.lines:
            return None
        end = self._text.find("\n", start)
        end = len(self._text) if end < 0 else end
        text = self._text[start:end].rstrip(_WHITE)
        candidates = self._old.lines.get(text)
        if not candidates:
            return None
        known = candidates[-1]
        values: list[SSAValue] = []
        for name, index, type in known.names:
            value = self.ssa_values.get(name)
            if value is None or index >= len(value) or value[index].type != type:
                return None
            values.append(value[index])
        if any(name in self.ssa_values or name in self.forward_ssa_references for name, _, _ in known.results):
            return None
        token, position = self._current_token, self.lexer.pos
        self.lexer.pos = end
        following = self.lexer.lex()
        if not _begins(following.kind, following.text):
            self._parser_state.current_token, self.lexer.pos = token, position
            return None
        self._parser_state.current_token = following
        candidates.pop()
        op = known.op
        op.detach()
        op.operands = [values[index] for index in known.operands]
        at = 0
        for name, size, offset in known.results:
            span = Span(start + offset, start + offset + len(name) + 1, self.lexer.input)
            self._register_ssa_definition(name, op.results[at : at + size], span)
            at += size
        line, column = self.line_and_column(start)
        op.location = FileLineColLoc(self._file, IntAttr(line), IntAttr(column))
        self.spots.append(Spot(start, self.pos, op, known.written))
        self.memo.lines.setdefault(text, []).append(known)
        self.memo.reused += 1
        return op

    def _broken(self, start: int, position: int) -> BrokenOp:
        """What stands for an operation that could not be read, after its text is skipped."""
        end = self._end_of(start, max(start, position))
        text = self._text[start:end]
        results = RESULTS.match(text)
        names = _NAME.findall(results[0]) if results is not None else []
        self._lost.update(dict.fromkeys(names))
        if results is None and (symbol := _SYMBOL.search(text)) is not None:
            self.lost_symbols[symbol[1] or symbol[2]] = None
        self._go_on_at(start, end)
        made = BrokenOp()
        made.location = FileLineColLoc(self._file, *map(IntAttr, self.line_and_column(start)))
        self.spots.append(Spot(start, end, made, UnknownLoc()))
        return made

    # --- values ------------------------------------------------------------------------------------------------------

    def parse_optional_unresolved_operand(self) -> UnresolvedOperand | None:
        """The name of an operand, remembered."""
        operand = super().parse_optional_unresolved_operand()
        if operand is not None:
            self._named.append(operand)
        return operand

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span) -> None:
        super()._register_ssa_definition(name, values, span)
        self._defined.append(name)

    # --- blocks and regions ------------------------------------------------------------------------------------------

    def _parse_block_body(self, block: Block) -> None:
        """Operations up to a brace or a label; anything else is skipped to the end of its line."""
        while True:
            super()._parse_block_body(block)
            if self._current_token.kind in (_KIND.R_BRACE, _KIND.CARET_IDENT):
                return
            if self._closing:
                return
            position = self.pos
            try:
                self.raise_error("Expected '}'" if self.at_end else "expected an operation")
            except ParseError as error:
                self._fault(error)
            if self.at_end:
                self._closing = True
                return
            self._go_on_at(position, self._next_line(position))

    def _parse_block(self) -> Block:
        """A block. One whose label is wrong has its operations all the same, but nothing is said of them."""
        start = self.pos
        try:
            return super()._parse_block()
        except Exception as error:
            self._fault(error)
        self._go_on_at(start, self._next_line(max(start, self.pos)))
        block = Block()
        self._parse_block_body(block)
        self.doubtful.append((start, self.pos))
        return block

    def parse_optional_region(self, arguments: Iterable[Any] | None = None) -> Region | None:
        """A region; blocks that it jumps to and does not have are added to it."""
        count = len(self._missing)
        region = super().parse_optional_region(arguments)
        if region is not None:
            for block in self._missing[count:]:
                block.add_op(BrokenOp())
                region.add_block(block)
        del self._missing[count:]
        return region

    def parse_optional_punctuation(self, punctuation: PunctuationSpelling) -> PunctuationSpelling | None:
        """A punctuation; where the text is truncated, the brace that would close a region. Only regions ask for one."""
        if punctuation != "}":
            return super().parse_optional_punctuation(punctuation)
        closed = self._closing and self.at_end
        found = "}" if closed else super().parse_optional_punctuation(punctuation)
        if found is not None:
            for name, spans in self.forward_block_references.items():
                self.faults += [
                    E0101.diagnostic(f"there is no block ^{name}", self.location_of(s.start)) for s in spans
                ]
                self._missing.append(self.blocks[name][0])
            self.forward_block_references.clear()
        return found

    # --- going on after a mistake ------------------------------------------------------------------------------------

    def _fault(self, error: Exception) -> int:
        """Note a mistake; returns the character at which it is."""
        failed = self.failed_at
        if len(self.faults) < MOST_FAULTS:
            found = error if isinstance(error, EtirError) else parse_error(self, error, self._text)
            at = self.location_of(min(self.pos if failed is None else failed, len(self._text)))
            for diagnostic in found.diagnostics:
                self._tell(diagnostic.at(at))
        self.failed_at = None
        if isinstance(error, ParseError):
            return error.span.start
        return self.pos if failed is None else failed

    def _tell(self, diagnostic: Diagnostic) -> None:
        """Note what is no mere consequence: of a line the first mistake, none of what a broken line would define."""
        name = _UNDEFINED.match(diagnostic.message)
        if name is not None and name[1] in self._lost:
            return
        line = None if diagnostic.location is None else diagnostic.location.line
        if line not in self._told:
            self._told[line] = None
            self.faults.append(diagnostic)

    def _go_on_at(self, start: int, position: int) -> None:
        """Read the token at ``position``, which is after ``start``; nothing more after too many mistakes."""
        position = len(self._text) if len(self.faults) >= MOST_FAULTS else max(position, start + 1)
        self.lexer.pos = min(position, len(self._text))
        self._parser_state.current_token = self.lexer.lex()

    def _next_line(self, position: int) -> int:
        end = self._text.find("\n", position)
        return len(self._text) if end < 0 else end + 1

    def _end_of(self, start: int, position: int) -> int:
        """Where the text of a broken operation ends that begins at ``start`` and is wrong at ``position``.

        That is at the end of a line on which its braces are closed and after which something else begins, or before a
        brace that closes more than it has opened.
        """
        line = self._text.rfind("\n", 0, position)
        if line > start and not self._text[line:position].strip():
            position = line  # What is wrong is what the line before does not have.
        if self._marks is None:
            self._marks = _braces(self._text)
        places, depths = self._marks
        index = bisect_left(places, start)
        base = depths[index - 1] if index else 0
        while index < len(places):
            place, depth = places[index], depths[index]
            if depth < base:
                return place
            closed = depth == base and place >= position and self._text[place] == "\n"
            if closed and _STARTS.match(self._text, place + 1) is not None:
                return place + 1
            index += 1
        return self._next_line(position)


def _braces(text: str) -> tuple[list[int], list[int]]:
    """Places of braces and ends of lines outside of strings and comments, and how many braces are open after each."""
    places: list[int] = []
    depths: list[int] = []
    depth = 0
    for match in _MARK.finditer(text):
        mark = match[0]
        if mark in "{}\n":
            depth += (mark == "{") - (mark == "}")
            places.append(match.start())
            depths.append(depth)
    return places, depths


def _begins(kind: MLIRTokenKind, text: str) -> bool:
    """Whether a token begins an operation, a block, or ends a region: nothing that could belong to the line before."""
    if kind is _KIND.BARE_IDENT:
        return "." in text
    return kind in (_KIND.PERCENT_IDENT, _KIND.STRING_LIT, _KIND.R_BRACE, _KIND.CARET_IDENT, _KIND.EOF)


def _index(values: list[SSAValue], value: SSAValue) -> int:
    for index, other in enumerate(values):
        if other is value:
            return index
    raise ValueError


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Without looking for garbage: what is read is kept."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
