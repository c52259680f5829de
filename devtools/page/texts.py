"""The text of a level as the page shows it: without locations, which hovering shows, and without endless lines."""

from __future__ import annotations

import re

LONGEST = 2000
"""Characters of a line; what is longer ends with ``...``."""

_STRING = r'"(?:[^"\\]|\\.)*"'


def _nested(depth: int) -> str:
    """Balanced parentheses, so deep; a quote inside of a string closes nothing."""
    inside = rf'[^()"]|{_STRING}' + ("" if depth == 0 else rf"|\({_nested(depth - 1)}\)")
    return rf"(?:{inside})*"


_LOCATION = re.compile(rf"({_STRING})| loc\({_nested(6)}\)")


def shown_lines(text: str) -> list[str]:
    """The lines of a level, as many as there are."""
    return [_shown(line) for line in text.removesuffix("\n").split("\n")]


def _shown(line: str) -> str:
    if " loc(" in line:
        line = _LOCATION.sub(r"\1", line)
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} ..."
