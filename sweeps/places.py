"""Where things stand in a TOML file: ``tomllib`` gives values without their lines.

Headers of tables and keys at the start of a line are found by reading lines, which is how plans are written; a value
inside of an array or an inline table is looked for as it is spelled from the line of its key on. What is not found has
the place of the key, so that a location may be less exact, never wrong.
"""

from __future__ import annotations

import re

from etir.diagnostics import SourceLocation

_HEADER = re.compile(r"^\s*(\[\[?)\s*([\w.\-\" ]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"^(\s*)([\w\-]+|\"[^\"]*\")\s*=")

Path = tuple[str | int, ...]


class Places:
    """The places of the entries of one file; of a mapping, which has none, only the name."""

    def __init__(self, name: str, text: str = ""):
        self._name = name
        self._lines = text.split("\n")
        self._entries: dict[Path, tuple[int, int]] = {}
        self._read()

    def _read(self) -> None:
        prefix: Path = ()
        counts: dict[str, int] = {}
        for number, line in enumerate(self._lines):
            if match := _HEADER.match(line):
                name = match[2].strip().strip('"')
                if match[1] == "[[":
                    counts[name] = counts.get(name, -1) + 1
                    prefix = (name, counts[name])
                else:
                    prefix = tuple(part.strip().strip('"') for part in name.split("."))
                    if prefix[0] in counts:  # A table of the last entry of a list: [programs.arguments].
                        prefix = (prefix[0], counts[str(prefix[0])], *prefix[1:])
                self._entries.setdefault(prefix, (number, line.index("[")))
            elif match := _KEY.match(line):
                self._entries.setdefault((*prefix, match[2].strip('"')), (number, len(match[1])))

    def of(self, path: Path, value: object = None) -> SourceLocation | None:
        """The place of an entry, or of the first spelling of ``value`` in it; None of a mapping's."""
        if len(self._lines) < 2 and not self._lines[0]:
            return None
        while path and path not in self._entries:
            path = path[:-1]
        if path not in self._entries:
            return SourceLocation(self._name)
        line, column = self._entries[path]
        if isinstance(value, str):
            after = [entry[0] for entry in self._entries.values() if entry[0] > line]
            last = min(after, default=len(self._lines)) if len(path) != 2 or path[-1].__class__ is str else None
            for number in range(line, len(self._lines) if last is None else last):
                for spelled in (f'"{value}"', f"'{value}'", value):
                    found = self._lines[number].find(spelled)
                    if found >= 0:
                        return SourceLocation(self._name, number + 1, found + 1)
        return SourceLocation(self._name, line + 1, column + 1)

    def last(self, key: str, value: str) -> SourceLocation | None:
        """The last spelling of ``value`` among the entries that are called ``key`` at the top; else their place."""
        lines = [place[0] for path, place in self._entries.items() if path[:1] == (key,)]
        after = [place[0] for place in self._entries.values() if lines and place[0] > max(lines)]
        for number in reversed(range(min(lines, default=0), min(after, default=len(self._lines)) if lines else 0)):
            found = max(self._lines[number].rfind(spelled) for spelled in (f'"{value}"', f"'{value}'"))
            if found >= 0:
                return SourceLocation(self._name, number + 1, found + 1)
        return self.of((key,), value)
