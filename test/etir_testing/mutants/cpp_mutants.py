"""Mutants of the native runtime's sources, found in their text.

clang-format puts spaces around binary operators and none around template brackets, so that regular expressions on lines
without comments and literals find what a syntax tree would. The kinds are those of ``python_mutants``; a mutant that
does not compile is none, which only the compiler knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from etir_testing.mutants.mutant import Mutant

_OPERATORS: tuple[tuple[str, str, str], ...] = (
    ("compare", "<", ">="),
    ("compare", "<=", ">"),
    ("compare", ">", "<="),
    ("compare", ">=", "<"),
    ("compare", "==", "!="),
    ("compare", "!=", "=="),
    ("boundary", "<", "<="),
    ("boundary", "<=", "<"),
    ("boundary", ">", ">="),
    ("boundary", ">=", ">"),
    ("logic", "&&", "||"),
    ("logic", "||", "&&"),
    ("arithmetic", "+", "-"),
    ("arithmetic", "-", "+"),
    ("arithmetic", "*", "+"),
    ("arithmetic", "/", "*"),
    ("arithmetic", "%", "*"),
    ("arithmetic", "<<", ">>"),
    ("arithmetic", "&", "|"),
    ("arithmetic", "|", "&"),
    ("arithmetic", "+=", "-="),
    ("arithmetic", "|=", "&="),
)
_WORDS: tuple[tuple[str, str, str], ...] = (
    ("constant", r"\btrue\b", "false"),
    ("constant", r"\bfalse\b", "true"),
    ("arithmetic", r"\+\+(?=\w)", "--"),
    ("not", r"!(?=[\w(])", ""),
    ("delete", r"\bbreak;", ";"),
    ("delete", r"\bcontinue;", ";"),
)
_NUMBER = re.compile(r"(?<![\w.\"])\d+(?![\w.])")
_STATEMENT = re.compile(r"^\s+(?!return\b|using\b|case\b|delete\b)[\w.>\[\]-]+(\(.*\)| [-+|&^]?= [^;{}]+);$")
_CONDITION = re.compile(r"\b(?:if|while) \(")
_SKIPPED = re.compile(r"^\s*(#|using |namespace |template|static_assert|class |struct |enum |typedef |ETIR_CHECK)")
_HIDDEN = re.compile(r'//.*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')


def sources(root: Path, folders: tuple[str, ...] = ("runtime/core", "runtime/executor")) -> Iterator[tuple[str, str]]:
    """Sources and headers without tests and fuzzers: path and text."""
    for folder in folders:
        for path in sorted((root / folder).iterdir()):
            if path.suffix in (".cc", ".h") and not re.search(r"_test\.|_fuzz\.|mutator", path.name):
                yield str(path.relative_to(root)), path.read_text()


def mutants_of(path: str, source: str) -> list[Mutant]:
    """All mutants of a source, in the order of the text."""
    found: list[Mutant] = []
    start = 0
    for number, line in enumerate(source.splitlines(keepends=True), 1):
        visible = _HIDDEN.sub(lambda match: " " * len(match[0]), line.rstrip("\n"))
        if not _SKIPPED.match(visible):
            for kind, first, last, text in _of_line(visible):
                found.append(Mutant(path, number, number, kind, start + first, start + last, text))
        start += len(line)
    return found


def _of_line(line: str) -> Iterator[tuple[str, int, int, str]]:
    for kind, operator, other in _OPERATORS:
        for match in re.finditer(rf"(?<= ){re.escape(operator)}(?= )", line):
            yield kind, *match.span(), other
    for kind, pattern, other in _WORDS:
        for match in re.finditer(pattern, line):
            yield kind, *match.span(), other
    for match in _NUMBER.finditer(line):
        yield "constant", *match.span(), str(int(match[0]) + 1)
    for match in _CONDITION.finditer(line):
        end = _closing(line, match.end())
        if end is not None:
            yield "condition", match.end(), end, "false"
            if match[0].startswith("if"):
                yield "condition", match.end(), end, "true"
    if _STATEMENT.match(line):
        yield "delete", len(line) - len(line.lstrip()), len(line), ";"


def _closing(line: str, start: int) -> int | None:
    """Where the parenthesis that was opened before ``start`` closes, if it does on this line."""
    depth = 1
    for position in range(start, len(line)):
        depth += {"(": 1, ")": -1}.get(line[position], 0)
        if depth == 0:
            return position
    return None
