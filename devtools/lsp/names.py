"""Names in the text: where values, symbols and blocks are defined and used, without a parser.

What stands in the text is enough for that, also while the text is wrong: a value is defined where ``=`` follows at the
beginning of a line, or in a label or a signature where a type follows; a name belongs to the braces that it stands in,
that of a signature to the region that follows.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

_TOKEN = re.compile(
    r'(?P<symbol>@(?:[A-Za-z_][\w$.]*(?:-[\w$.]+)*|"(?:[^"\\\n]|\\.)*"))'
    r'|"(?:[^"\\\n]|\\.)*"|//[^\n]*'
    r"|(?P<value>%[\w$.-]+)(?P<index>#\d+)?|(?P<block>\^[\w$.-]+)|(?P<brace>[{}])"
)
_DEFINES_RESULTS = re.compile(r"^[ \t]*((?:%[\w$.-]+(?::\d+)?[ \t]*,[ \t]*)*%[\w$.-]+(?::\d+)?)[ \t]*=", re.MULTILINE)
_EQUALS = re.compile(r"(?::\d+)?[ \t]*=(?!=)")
_TYPED = re.compile(r"[ \t]*:(?!:)")
_DEFINES_SYMBOL = re.compile(
    r"^[ \t]*(?:func\.func|et\.(?:weight|state|method|delegate|file|build_file)|sym\.dim|builtin\.module|[\w.]+)"
    r"(?:[ \t]+(?:private|public|nested))?[ \t]+$"
)
_KINDS = ("value", "block", "symbol")


@dataclass(frozen=True, slots=True)
class Name:
    """A name at a place: ``%x``, ``@f`` or ``^bb1``, without ``#1``. ``scope`` is a number of :class:`Names`."""

    kind: str
    text: str
    start: int
    end: int
    scope: int
    defines: bool


class Names:
    """The names of one text."""

    def __init__(self, text: str):
        self.text = text
        self._parents: list[int] = [-1]
        self._spans: list[tuple[int, int]] = [(0, len(text))]
        self.names: list[Name] = []
        self._read()

    def _read(self) -> None:
        text = self.text
        results = {m.start(1) + n.start() for m in _DEFINES_RESULTS.finditer(text) for n in _VALUES.finditer(m[1])}
        scope = 0
        waiting: list[int] = []  # Names of a signature: they belong to the next region.
        last_block_line = -2  # A text that begins with a signature has no line before it.
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup if match.lastgroup != "index" else "value"
            if kind is None:
                continue
            start, end = match.span(kind)
            if kind == "brace":
                if match[0] == "{":
                    self._parents.append(scope)
                    self._spans.append((start, len(text)))
                    scope = len(self._parents) - 1
                    line_end = text.find("\n", start)
                    region = line_end >= 0 and not text[start + 1 : line_end].partition("//")[0].strip()
                    if region and waiting:
                        for index in waiting:
                            name = self.names[index]
                            self.names[index] = Name(name.kind, name.text, name.start, name.end, scope, True)
                        waiting = []
                else:
                    self._spans[scope] = (self._spans[scope][0], end)
                    scope = max(self._parents[scope], 0)
                continue
            defines = False
            if kind == "value":
                if start in results:
                    defines = True
                    waiting = []
                elif _before(text, start) in ("(", ",") and (
                    _TYPED.match(text, end) is not None or _EQUALS.match(text, end) is not None
                ):
                    line = text.rfind("\n", 0, start)
                    defines = line == last_block_line
                    if not defines:
                        waiting.append(len(self.names))
            elif kind == "block":
                line = text.rfind("\n", 0, start)
                defines = not text[line + 1 : start].strip() and text[end : end + 1] in ("(", ":")
                if defines:
                    last_block_line, waiting = line, []
            else:
                line = text.rfind("\n", 0, start)
                defines = _DEFINES_SYMBOL.match(text[line + 1 : start]) is not None
            self.names.append(Name(kind, match[kind], start, end, scope, defines))

    @cached_property
    def _starts(self) -> list[int]:
        return [name.start for name in self.names]

    @cached_property
    def _by_text(self) -> dict[str, list[Name]]:
        found: dict[str, list[Name]] = {}
        for name in self.names:
            found.setdefault(name.text, []).append(name)
        return found

    def at(self, position: int) -> Name | None:
        """The name that a character belongs to, or that ends there."""
        index = bisect_right(self._starts, position) - 1
        if index < 0:
            return None
        name = self.names[index]
        return name if name.start <= position <= name.end else None

    def definition(self, name: Name) -> Name | None:
        """Where a name is defined, or None."""
        definitions = [other for other in self._by_text.get(name.text, ()) if other.defines]
        if name.kind == "symbol":
            return definitions[0] if definitions else None
        scope = name.scope
        while scope >= 0:
            here = [other for other in definitions if other.scope == scope]
            if here:
                before = [other for other in here if other.start <= name.start]
                return before[-1] if before else here[0]
            scope = self._parents[scope]
        return None

    def references(self, name: Name) -> list[Name]:
        """All places of what a name stands for, in order; those of its definition among them."""
        definition = self.definition(name)
        everywhere = self._by_text.get(name.text, ())
        if definition is None:
            return [other for other in everywhere if other.scope == name.scope or name.kind == "symbol"]
        if name.kind == "symbol":
            return list(everywhere)
        if sum(other.defines for other in everywhere) == 1:
            first, last = self._spans[definition.scope]
            return [other for other in everywhere if other is definition or first <= other.start <= last]
        return [other for other in everywhere if self.definition(other) is definition]

    def visible(self, position: int, kind: str) -> Iterator[Name]:
        """Definitions that can be named at a place: values before it, blocks of the region, all symbols."""
        scopes = dict.fromkeys(self._scopes_at(position))
        for name in self.names:
            if not name.defines or name.kind != kind:
                continue
            if kind == "symbol" or (name.scope in scopes and (kind == "block" or name.start < position)):
                yield name

    def _scopes_at(self, position: int) -> list[int]:
        return [index for index, (start, end) in enumerate(self._spans) if start <= position < end or index == 0]


_VALUES = re.compile(r"%[\w$.-]+")


def _before(text: str, position: int) -> str:
    """The character before a place, without white space."""
    position -= 1
    while position >= 0 and text[position].isspace():
        position -= 1
    return text[position] if position >= 0 else ""
