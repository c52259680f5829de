"""``--verify-diagnostics``: compare what a file produces with what its comments expect.

::

    // expected-error @below {{operand 'self' must be a tensor}}
    %0 = aten.relu.default(%n) : (i1) -> tensor<4xf32>
    func.return %1 : i32  // expected-error [E0302]

``error`` may be ``warning``, ``remark`` or ``note``. The place is the comment's own line, ``@+2`` or ``@-1`` lines from
it, ``@below`` or ``@above`` (the next line on that side which is no expectation itself), or ``@unknown`` for
diagnostics without a place in the file. ``[ID]`` names the kind; the text in ``{{...}}`` is part of the message and may
be left out when the id is given. With ``expected-error-re``, ``{{...}}`` inside the text is a regular expression.
Every error, warning and remark must be expected; a note is checked only when one is expected.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from etir.diagnostics import Diagnostic, Severity, SourceLocation, raise_if_errors
from etir.tools.errors import E0905, E0906, E0907

_COMMENT = re.compile(r"//.*\bexpected-(error|warning|remark|note)\b(.*)$")
_DETAIL = re.compile(
    r"(?P<re>-re)?\s*(?:@(?P<place>[+-]\d+|above|below|unknown)\b)?\s*(?:\[(?P<id>E\d{4})\])?\s*"
    r"(?:\{\{(?P<text>.*)\}\})?\s*"
)


@dataclass(frozen=True)
class Expectation:
    """One expected diagnostic. ``line`` counts from 1 in the file, None means no place; ``comment`` is its own line."""

    kind: str
    line: int | None
    id: str | None
    text: str | None
    pattern: re.Pattern[str] | None
    comment: int

    def accepts(self, text: str) -> bool:
        """Whether a message is the expected one."""
        if self.pattern is not None:
            return self.pattern.search(text) is not None
        return self.text is None or self.text in text

    def describe(self) -> str:
        """``error[E0301] "text"`` with what was given."""
        id = f"[{self.id}]" if self.id else ""
        return f"{self.kind}{id}" + (f' "{self.text}"' if self.text is not None else "")


def parse_expectations(text: str, name: str, first_line: int = 1) -> list[Expectation]:
    """The expectations in the comments of ``text``. Raises error E0907 for every malformed one."""
    lines = text.split("\n")
    comments = {i: m for i, line in enumerate(lines) if (m := _COMMENT.search(line)) is not None}
    alone = {i: None for i in comments if lines[i].lstrip().startswith("//")}
    found: list[Expectation] = []
    problems: list[Diagnostic] = []
    for i, comment in comments.items():
        location = SourceLocation(name, i + first_line, comment.start() + 1)
        detail = _DETAIL.fullmatch(comment[2])
        if detail is None or (detail["id"] is None and detail["text"] is None):
            what = f"'expected-{comment[1]}' is not followed by a place, id or text"
            problems.append(E0907.diagnostic(what, location))
            continue
        try:
            pattern = _pattern(detail["text"] or "") if detail["re"] else None
        except re.error as error:
            problems.append(E0907.diagnostic(f"the regular expression is malformed: {error}", location))
            continue
        line = _line(detail["place"], i, alone, first_line)
        found.append(Expectation(comment[1], line, detail["id"], detail["text"], pattern, i + first_line))
    raise_if_errors(problems)
    return found


def _line(place: str | None, index: int, alone: dict[int, None], first_line: int) -> int | None:
    if place == "unknown":
        return None
    if place in ("above", "below"):
        step = 1 if place == "below" else -1
        index += step
        while index in alone:
            index += step
    elif place is not None:
        index += int(place)
    return index + first_line


def _pattern(text: str) -> re.Pattern[str]:
    parts = re.split(r"\{\{(.*?)\}\}", text)
    return re.compile("".join(re.escape(p) if i % 2 == 0 else f"(?:{p})" for i, p in enumerate(parts)))


def check(expectations: Sequence[Expectation], diagnostics: Sequence[Diagnostic], name: str) -> list[Diagnostic]:
    """What does not agree: E0905 for each expectation that nothing met, E0906 for each unexpected diagnostic."""
    unmet, unexpected = match(expectations, diagnostics, name)
    return unmet + [
        E0906.diagnostic(f"unexpected {d.severity}[{d.id}]: {d.message}", d.location, notes=d.notes) for d in unexpected
    ]


def match(
    expectations: Sequence[Expectation], diagnostics: Sequence[Diagnostic], name: str
) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """E0905 for each expectation that nothing met, and the diagnostics of the file ``name`` that none expects."""
    open_diagnostics = list(diagnostics)
    unmet: list[Expectation] = []
    for expected in expectations:
        if expected.kind == "note":
            if not any(_has_note(expected, d, name) for d in diagnostics):
                unmet.append(expected)
            continue
        for diagnostic in open_diagnostics:
            if _meets(expected, diagnostic, name):
                open_diagnostics.remove(diagnostic)
                break
        else:
            unmet.append(expected)
    problems = [
        E0905.diagnostic(f"expected {e.describe()} was not produced", SourceLocation(name, e.comment, 1)) for e in unmet
    ]
    return problems, open_diagnostics


def _meets(expected: Expectation, diagnostic: Diagnostic, name: str) -> bool:
    return (
        diagnostic.severity is Severity(expected.kind)
        and _line_of(diagnostic, name) == expected.line
        and expected.id in (None, diagnostic.id.id)
        and expected.accepts(diagnostic.message)
    )


def _has_note(expected: Expectation, diagnostic: Diagnostic, name: str) -> bool:
    return _line_of(diagnostic, name) == expected.line and any(expected.accepts(note) for note in diagnostic.notes)


def _line_of(diagnostic: Diagnostic, name: str) -> int | None:
    location = diagnostic.location
    return None if location is None or location.file != name or not location.line else location.line
