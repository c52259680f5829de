"""Source files as a trace names them: traces leave the machine that they were made on, so no path is absolute."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from io import StringIO
from pathlib import PurePath

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove

from etir.dialects.et.origin import OriginAttr, plain
from etir.dialects.text import source_location

_PLAIN = re.compile(rb"[ !#-\[\]-~]*")
"""Strings that stand between quotes as they are."""
_PACKAGES = re.compile(r".*[/\\](?:site|dist)-packages[/\\]")


@cache
def relative_path(path: str) -> str:
    """A path from the working directory, from the folder of installed packages, or else its last two parts."""
    installed = _PACKAGES.match(path)
    if installed is not None:
        return path[installed.end() :].replace(os.sep, "/")
    if not os.path.isabs(path):
        return path
    here = os.getcwd() + os.sep
    if path.startswith(here):
        return path.removeprefix(here).replace(os.sep, "/")
    return "/".join(PurePath(path).parts[-2:])


class _Delimited:
    """Writes a string at the beginning and, unless there is an error, one at the end."""

    __slots__ = ("_end", "_start", "_write")

    def __init__(self, write: Callable[[str], int], start: str, end: str):
        self._write, self._start, self._end = write, start, end

    def __enter__(self) -> None:
        self._write(self._start)

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            self._write(self._end)


class _PlainPrinter(Printer):
    """Prints what xDSL's printer does: strings without its detours, and literals not byte by byte.

    The column, which places the messages that an operation may have, is not counted: these texts have no messages.
    """

    def __init__(self, stream: StringIO, *, print_debuginfo: bool = False):
        super().__init__(stream=stream, print_debuginfo=print_debuginfo)
        self._write = stream.write

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        """Print a string; the inherited method is for those with line breaks."""
        if "\n" in text:
            super().print_string(text, indent=indent)
        else:
            self._write(text)

    def _print_new_line(self, indent: int | None = None, print_message: bool = True) -> None:
        """Begin a line; the inherited method is for those after which messages come."""
        if self._next_line_callback:
            super()._print_new_line(indent, print_message)
            return
        self._current_line += 1
        self._write("\n" + " " * ((self._indent if indent is None else indent) * self.indent_num_spaces))

    def delimited(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, start: str, end: str
    ) -> AbstractContextManager[None]:
        """Print what is in between two strings; the inherited method goes through a generator."""
        return _Delimited(self._write, start, end)

    def print_bytes_literal(self, bytestring: bytes) -> None:
        """Print a string literal; the inherited method is for those with escapes, and goes byte by byte."""
        if _PLAIN.fullmatch(bytestring) is None:
            super().print_bytes_literal(bytestring)
        else:
            self.print_string(f'"{bytestring.decode("ascii")}"')


class AttributeTexts:
    """The texts of attributes by identity: types and locations are shared by many operations, at every level."""

    def __init__(self) -> None:
        self._stream = StringIO()
        self._printer = _PlainPrinter(stream=self._stream)
        self.known: dict[int, tuple[Attribute, str]] = {}
        """What :meth:`get` has said, by the attribute's address."""
        self._literals: dict[str, str] = {}
        self._insides: dict[int, tuple[Attribute, str]] = {}
        self._places: dict[int, tuple[Attribute, tuple[str, int, str]]] = {}

    def get(self, attribute: Attribute) -> str:
        """The text of an attribute that is not inside of a location."""
        known = self.known.get(id(attribute))
        if known is None:
            if isinstance(attribute, LocationAttr):
                text = f"loc({self._location(attribute)})"
            else:
                text = self._printed(attribute)
            # The attribute is kept, so that no other one can get its address.
            known = self.known[id(attribute)] = (attribute, text)
        return known[1]

    def place(self, location: LocationAttr) -> tuple[str, int, str]:
        """File, line and module path that a location says; empty and 0 where unknown."""
        inside = plain(location)
        known = self._places.get(id(inside))
        if known is None:
            known = self._places[id(inside)] = (inside, _place(inside))
        return known[1]

    def _location(self, location: Attribute) -> str:
        # Classes by identity: ``isinstance`` of an attribute's class asks Python code, hundred thousands of times here.
        if type(location) is FusedLoc and type(location.locations) is ArrayAttr:
            metadata = ""
            if type(location.metadata) is OriginAttr:
                metadata = f"<#et.origin{location.metadata.text}>"
            elif type(location.metadata) is not NoneAttr:
                metadata = f"<{self.get(location.metadata)}>"
            inside = location.locations.data
            known = self._inside(inside[0]) if len(inside) == 1 else ", ".join(map(self._inside, inside))
            return f"fused{metadata}[{known}]"
        if type(location) is NameLoc:
            there = "" if type(location.location) is NoneAttr else f"({self._inside(location.location)})"
            return f"{self._quoted(location.desc.data)}{there}"
        if type(location) is FileLineColLoc:
            file = self._quoted(relative_path(location.filename.data))
            return f"{file}:{location.line.data}:{location.column.data}"
        if type(location) is CallSiteLoc:
            return f"callsite({self._inside(location.callee)} at {self._inside(location.caller)})"
        return "unknown"

    def _inside(self, location: Attribute) -> str:
        """The text of a location inside of another one: many have the same inside."""
        known = self._insides.get(id(location))
        if known is None:
            known = self._insides[id(location)] = (location, self._location(location))
        return known[1]

    def _quoted(self, text: str) -> str:
        known = self._literals.get(text)
        if known is None:
            known = self._literals[text] = self._printed(StringAttr(text))
        return known

    def _printed(self, attribute: Attribute) -> str:
        self._stream.seek(0)
        self._stream.truncate()
        self._printer.print_attribute(attribute)
        return self._stream.getvalue()


class TracePrinter(_PlainPrinter):
    """Prints with locations, without absolute paths, and knows on which line each operation starts (from 1).

    What it prints is what xDSL's printer does; attributes are written once.
    """

    def __init__(self, stream: StringIO, texts: AttributeTexts):
        super().__init__(stream, print_debuginfo=True)
        self.lines: dict[Operation, int] = {}
        self._texts = texts

    def print_ssa_value(self, value: SSAValue) -> str:
        """Print a value; the inherited method names those that have no name yet."""
        name = self._ssa_values.get(value)
        if name is None:
            return super().print_ssa_value(value)
        self._write(f"%{name}")
        return name

    def print_op(self, op: Operation) -> None:
        """Print an operation and note the line."""
        self.lines[op] = self._current_line + 1
        cls = type(op)
        if cls.print is Operation.print or _opens_scope(cls):
            super().print_op(op)
            return
        # What is left of the inherited method for most operations.
        self._print_results(op)
        self._write(op.name)
        op.print(self)
        self._write(f" {self._texts.get(op.location)}")

    def print_attribute(self, attribute: Attribute) -> None:
        """Print an attribute; a place in a file with the path that the trace has for it."""
        known = self._texts.known.get(id(attribute))
        text = self._texts.get(attribute) if known is None else known[1]
        if "\n" in text:
            self.print_string(text)
        else:
            self._write(text)


@cache
def _opens_scope(cls: type[Operation]) -> bool:
    return cls.has_trait(IsolatedFromAbove)


_VALUE = re.compile(r"value \d+")


def place_of(op: Operation) -> tuple[str, int, str]:
    """File, line and module path of an operation; empty and 0 where unknown."""
    return _place(op.location)


def _place(location: LocationAttr) -> tuple[str, int, str]:
    location = plain(location)
    found = source_location(location)
    if found is None:
        path = location.desc.data if isinstance(location, NameLoc) else ""
        # A file alone knows no modules: its reader names the places of the value table, which errors speak of.
        return "", 0, "" if _VALUE.fullmatch(path) else path
    return relative_path(found.file), found.line, found.module
