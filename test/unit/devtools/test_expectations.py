"""Matching of expected diagnostics, where the command line is too coarse to test it."""

from __future__ import annotations

import pytest

from etir.devtools.expectations import check, parse_expectations
from etir.diagnostics import Diagnostic, EtirError, Severity, SourceLocation
from etir.dialects.errors import E0301, E0303


def at(line: int | None, message: str, severity: Severity = Severity.ERROR, notes: tuple[str, ...] = ()) -> Diagnostic:
    """A diagnostic in the file ``m``, or nowhere."""
    location = None if line is None else SourceLocation("m", line, 1)
    return E0301.diagnostic(message, location, severity=severity, notes=notes)


def ids(text: str, diagnostics: list[Diagnostic], first_line: int = 1) -> list[str]:
    """What does not agree."""
    return [d.id.id for d in check(parse_expectations(text, "m", first_line), diagnostics, "m")]


@pytest.mark.parametrize(
    ("comment", "severity"),
    [("error", Severity.ERROR), ("warning", Severity.WARNING), ("remark", Severity.REMARK)],
)
def test_severities(comment: str, severity: Severity) -> None:
    text = f"// expected-{comment} @below {{{{text}}}}\nop"
    assert ids(text, [at(2, "some text here", severity)]) == []
    other = Severity.WARNING if severity is Severity.ERROR else Severity.ERROR
    assert ids(text, [at(2, "some text here", other)]) == ["E0905", "E0906"]


def test_a_diagnostic_without_a_place() -> None:
    assert ids("// expected-error @unknown {{text}}", [at(None, "text")]) == []
    assert ids("// expected-error {{text}}", [at(None, "text")]) == ["E0905", "E0906"]
    elsewhere = E0301.diagnostic("text", SourceLocation("model.py", 1, 1))
    assert ids("// expected-error @unknown {{text}}", [elsewhere]) == []


def test_each_expectation_takes_one_diagnostic() -> None:
    text = "// expected-error @below {{text}}\nop"
    assert ids(text, [at(2, "text"), at(2, "text")]) == ["E0906"]
    assert ids("// expected-error @+2 {{text}}\n" + text.replace("@below", "@+1"), [at(3, "text")]) == ["E0905"]


def test_ids() -> None:
    assert ids("op // expected-error [E0301]", [at(1, "text")]) == []
    assert ids("op // expected-error [E0303] {{text}}", [at(1, "text")]) == ["E0905", "E0906"]
    diagnostic = E0303.diagnostic("text", SourceLocation("m", 1, 1))
    assert ids("op // expected-error [E0303] {{text}}", [diagnostic]) == []


def test_notes_are_checked_only_when_expected() -> None:
    diagnostic = at(1, "text", notes=("because of this",))
    assert ids("op // expected-error {{text}}", [diagnostic]) == []
    both = "op // expected-error {{text}}\n// expected-note @above {{of this}}"
    assert ids(both, [diagnostic]) == []
    assert ids(both.replace("of this", "of that"), [diagnostic]) == ["E0905"]


def test_lines_count_in_the_whole_file() -> None:
    text = "// expected-error @below {{text}}\nop"
    assert ids(text, [at(12, "text")], first_line=11) == []
    assert check(parse_expectations(text, "m", 11), [], "m")[0].location == SourceLocation("m", 11, 1)


def test_above_and_below_skip_other_expectations() -> None:
    text = "op\n// expected-error @above {{a}}\n// expected-error @above {{b}}\n// expected-error @below {{c}}\nop"
    assert ids(text, [at(1, "a"), at(1, "b"), at(5, "c")]) == []


def test_braces_and_regular_expressions() -> None:
    assert ids("op // expected-error {{a {b} c}}", [at(1, "a {b} c")]) == []
    assert ids("op // expected-error {{a.c}}", [at(1, "abc")]) == ["E0905", "E0906"]
    assert ids("op // expected-error-re {{a {{[0-9]+}} (c)}}", [at(1, "a 12 (c)")]) == []
    assert ids("op // expected-error-re {{a {{[0-9]+}} (c)}}", [at(1, "a x (c)")]) == ["E0905", "E0906"]


@pytest.mark.parametrize(
    "comment",
    [
        "// expected-error",
        "// expected-error @below",
        "// expected-error {{text}",
        "// expected-error {text}",
        "// expected-error @sideways {{text}}",
        "// expected-error [301] {{text}}",
        "// expected-error-re {{a {{[}}}}",
    ],
)
def test_malformed_expectations(comment: str) -> None:
    with pytest.raises(EtirError) as caught:
        parse_expectations(comment, "m")
    assert caught.value.ids == ("E0907",)


def test_words_that_only_look_alike() -> None:
    assert parse_expectations("// unexpected-error {{a}}\n// an expected error\nop", "m") == []
