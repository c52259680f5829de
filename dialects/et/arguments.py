"""The argument list of an instruction: literals in place, operands by position.

A kernel call in a ``.pte`` file names one value for each schema argument, literals included. The IR keeps literals in
the call: ``et.call "aten::add.out"(%a, %b, 1, %out)``. The template attribute ``#et.args<_, _, 1, _>`` holds the
literals with ``_`` where an operand stands; lists say what they are, because an empty one would not: ``ints[1, _]``,
``doubles[0.5]``, ``bools[true]``, ``tensors[_, _]``, ``optionals[_, none]``. No operator schema is needed to read it,
so the form serves any operator of any file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from xdsl.ir import Data, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer

from etir.dialects.literals import format_scalar, parse_optional_scalar


class _Operand(Enum):
    OPERAND = "_"

    def __repr__(self) -> str:
        return "_"


OPERAND = _Operand.OPERAND
"""Stands for the next operand."""

Item: TypeAlias = _Operand | int | float | bool | str | None

LIST_KINDS = ("ints", "doubles", "bools", "tensors", "optionals")


@dataclass(frozen=True)
class ListArg:
    """A list argument; ``kind`` is one of :data:`LIST_KINDS`."""

    kind: str
    items: tuple[Item, ...]


Template: TypeAlias = tuple["Item | ListArg", ...]


def count_operands(template: Template) -> int:
    """How many operands a template takes."""
    return sum(1 for item in flatten(template) if item is OPERAND)


def flatten(template: Template) -> Iterator[Item]:
    """The items of a template with lists opened."""
    for item in template:
        if isinstance(item, ListArg):
            yield from item.items
        else:
            yield item


def item_errors(template: Template) -> str | None:
    """Why a template is malformed, or None: list kinds and what their items may be."""
    for item in template:
        if not isinstance(item, ListArg):
            continue
        for element in item.items:
            ok = {
                "ints": element is OPERAND or (isinstance(element, int) and not isinstance(element, bool)),
                "doubles": isinstance(element, float),
                "bools": isinstance(element, bool),
                "tensors": element is OPERAND,
                "optionals": element is OPERAND or element is None,
            }.get(item.kind)
            if not ok:
                return f"{element!r} may not stand in a list of {item.kind}"
    return None


def print_template(printer: Printer, template: Template, print_operand: Callable[[], None]) -> None:
    """Print the items, calling ``print_operand`` where one stands."""

    def print_item(item: Item | ListArg) -> None:
        if item is OPERAND:
            print_operand()
        elif isinstance(item, ListArg):
            printer.print_string(item.kind)
            with printer.in_square_brackets():
                printer.print_list(item.items, print_item)
        elif item is None:
            printer.print_string("none")
        elif isinstance(item, str):
            printer.print_string_literal(item)
        else:
            assert not isinstance(item, _Operand)
            printer.print_string(format_scalar(item))

    printer.print_list(template, print_item)


def parse_template(parser: AttrParser, parse_operand: Callable[[], bool]) -> Template:
    """Parse the items up to the closing bracket (which is left); ``parse_operand`` consumes one if it stands there."""

    def parse_item() -> Item | ListArg:
        if parse_operand():
            return OPERAND
        if (text := parser.parse_optional_str_literal()) is not None:
            return text
        if parser.parse_optional_keyword("none") is not None:
            return None
        kind = parser.parse_optional_keyword_in(LIST_KINDS)
        if kind is not None:
            items = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parse_item)
            if any(isinstance(item, ListArg) for item in items):
                parser.raise_error("lists do not nest")
            return ListArg(kind, tuple(item for item in items if not isinstance(item, ListArg)))
        number = parse_optional_scalar(parser)  # type: ignore[arg-type]
        if number is None or isinstance(number, complex):
            parser.raise_error("expected an operand, a literal or a list")
        return number

    if parser.parse_optional_punctuation(")") is not None:
        return ()
    items = parser.parse_comma_separated_list(parser.Delimiter.NONE, parse_item)
    return tuple(items)


@irdl_attr_definition
class ArgsAttr(Data[Template]):
    """The literals of an instruction's arguments: ``#et.args<(_, _, 1, _)>``."""

    name = "et.args"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Template:
        with parser.in_angle_brackets():
            parser.parse_punctuation("(")
            template = parse_template(parser, lambda: parser.parse_optional_keyword("_") is not None)
            if template:
                parser.parse_punctuation(")")
            return template

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<(")
        print_template(printer, self.data, lambda: printer.print_string("_"))
        printer.print_string(")>")


def parse_call_arguments(parser: Parser) -> tuple[Template, list[SSAValue]]:
    """Parse ``(%a, 1, ints[%b, 2])``: every operand must be defined before."""
    operands: list[SSAValue] = []

    def operand() -> bool:
        value = parse_defined(parser)
        if value is not None:
            operands.append(value)
        return value is not None

    parser.parse_punctuation("(")
    template = parse_template(parser, operand)
    if template:
        parser.parse_punctuation(")")
    return template, operands


def parse_defined(parser: Parser) -> SSAValue | None:
    """A value that is already defined, or None when no ``%`` stands there.

    At the executable level every value is defined in the entry block, before the instructions, so that operands need
    no types in the text.
    """
    unresolved = parser.parse_optional_unresolved_operand()
    if unresolved is None:
        return None
    values = parser.ssa_values.get(unresolved.operand_name)
    if values is None or unresolved.index >= len(values):
        parser.raise_error(f"%{unresolved.operand_name} is used before it is defined", unresolved.span)
    return values[unresolved.index]


NULL_VALUE = "<<NULL VALUE>>"
"""How an operand that is missing prints, as MLIR's: messages show operations that nothing has verified yet."""


def print_call_arguments(printer: Printer, template: Template, operands: tuple[SSAValue, ...]) -> None:
    """Print what :func:`parse_call_arguments` reads, and :data:`NULL_VALUE` for operands that are missing."""
    rest = iter(operands)

    def print_operand() -> None:
        operand = next(rest, None)
        if operand is None:
            printer.print_string(NULL_VALUE)
        else:
            printer.print_operand(operand)

    with printer.in_parens():
        print_template(printer, template, print_operand)
