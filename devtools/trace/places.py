"""Source files as a trace names them: traces leave the machine that they were made on, so no path is absolute."""

from __future__ import annotations

import os
import re
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
from xdsl.ir import Attribute, Operation
from xdsl.printer import Printer

from etir.dialects.et.origin import OriginAttr, plain
from etir.dialects.text import source_location

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


class AttributeTexts:
    """The texts of attributes by identity: types and locations are shared by many operations, at every level."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Attribute, str]] = {}
        self._literals: dict[str, str] = {}

    def get(self, attribute: Attribute) -> str:
        """The text of an attribute that is not inside of a location."""
        known = self._known.get(id(attribute))
        if known is None:
            if isinstance(attribute, LocationAttr):
                text = f"loc({self._location(attribute)})"
            else:
                stream = StringIO()
                Printer(stream=stream).print_attribute(attribute)
                text = stream.getvalue()
            # The attribute is kept, so that no other one can get its address.
            known = self._known[id(attribute)] = (attribute, text)
        return known[1]

    def _location(self, location: Attribute) -> str:
        match location:
            case FileLineColLoc():
                file = self._quoted(relative_path(location.filename.data))
                return f"{file}:{location.line.data}:{location.column.data}"
            case NameLoc():
                inside = "" if isinstance(location.location, NoneAttr) else f"({self._location(location.location)})"
                return f"{self._quoted(location.desc.data)}{inside}"
            case FusedLoc() if isinstance(location.locations, ArrayAttr):
                metadata = ""
                if isinstance(location.metadata, OriginAttr):
                    metadata = f"<#et.origin{location.metadata.text}>"
                elif not isinstance(location.metadata, NoneAttr):
                    metadata = f"<{self.get(location.metadata)}>"
                return f"fused{metadata}[{', '.join(map(self._location, location.locations.data))}]"
            case CallSiteLoc():
                return f"callsite({self._location(location.callee)} at {self._location(location.caller)})"
            case _:
                return "unknown"

    def _quoted(self, text: str) -> str:
        known = self._literals.get(text)
        if known is None:
            stream = StringIO()
            Printer(stream=stream).print_attribute(StringAttr(text))
            known = self._literals[text] = stream.getvalue()
        return known


class TracePrinter(Printer):
    """Prints with locations, without absolute paths, and knows on which line each operation starts (from 1).

    What it prints is what xDSL's printer does; attributes are written once, and strings without its detours.
    """

    def __init__(self, stream: StringIO, texts: AttributeTexts):
        super().__init__(stream=stream, print_debuginfo=True)
        self.lines: dict[Operation, int] = {}
        self._texts = texts
        self._write = stream.write

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        """Print a string; the inherited method is for those with line breaks."""
        if "\n" in text:
            super().print_string(text, indent=indent)
        else:
            self._current_column += len(text)
            self._write(text)

    def print_op(self, op: Operation) -> None:
        """Print an operation and note the line."""
        self.lines[op] = self._current_line + 1
        super().print_op(op)

    def print_attribute(self, attribute: Attribute) -> None:
        """Print an attribute; a place in a file with the path that the trace has for it."""
        self.print_string(self._texts.get(attribute))


def place_of(op: Operation) -> tuple[str, int, str]:
    """File, line and module path of an operation; empty and 0 where unknown."""
    location = plain(op.location)
    found = source_location(location)
    if found is None:
        path = location.desc.data if isinstance(location, NameLoc) else ""
        return "", 0, path
    return relative_path(found.file), found.line, found.module
