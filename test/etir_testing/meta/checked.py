"""What test files check: error ids and options of tools, read from the files without running them.

A mention is no check. An error id counts where a test compares it with what a tool or a function gave: in an
``expected-error`` line or a FileCheck line of a lit test, in a string that is an argument, an operand or an entry of a
table of a pytest file (never in a comment or a docstring), in a block of a document that is run. An option counts where
a command line has it: in a RUN line after the name of the tool, as a word of its own in a pytest file that calls the
tool, in a command of a document.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from etir_testing import ROOT

_ID = re.compile(r"\bE\d{4}\b")
_EXPECTED = re.compile(r"(?://|#)\s*expected-(?:error|warning|remark)\b[^\[{]*\[(E\d{4})\]")
_DIAGNOSTIC = re.compile(r"(?:error|warning|remark)\\?\[(E\d{4})\\?\]")
_FILECHECK = re.compile(r"^\s*(?://|#)\s*([A-Z][A-Z0-9_-]*?)(?:-(?:NEXT|SAME|DAG|LABEL|COUNT-\d+))?:(.*)$")
_RUN = re.compile(r"^\s*(?://|#)\s*RUN:(.*)$")
_PREFIXES = re.compile(r"--check-prefix(?:es)?[= ]([\w,-]+)")
_FENCE = re.compile(r"^ *`{3,}(\w*)(.*)$")
_SUBSTITUTIONS = {
    "%roundtrip": "et-opt --split-input-file --verify-roundtrip %s | filecheck %s",
    "%generic": "et-opt --split-input-file --print-op-generic %s | et-opt --split-input-file | filecheck %s",
}
"""What ``test/lit/lit.cfg.py`` puts in place of these words."""


def lit_files() -> list[Path]:
    """Every lit test."""
    return sorted(p for suffix in ("mlir", "py") for p in (ROOT / "test" / "lit").rglob(f"*.{suffix}"))


def pytest_files() -> list[Path]:
    """Every pytest file but those about these functions."""
    folder = ROOT / "test"
    return sorted(p for p in folder.rglob("test_*.py") if p.parent != folder / "unit" / "meta")


def documents() -> list[Path]:
    """The pages whose blocks are run."""
    pages = [p for p in (ROOT / "docs").rglob("*.md") if p.parent.name != "generated"]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(pages)]


def operations(text: str) -> set[str]:
    """The dotted names in a module's text, without its comments: names of operations, among others."""
    code = "\n".join(line.partition("//")[0] for line in text.splitlines())
    return set(re.findall(r"(?<![\w.@%#!])[a-z_]\w*(?:\.\w+)+", code))


# --- error ids --------------------------------------------------------------------------------------------------------


@cache
def checked_ids() -> set[str]:
    """The error ids that some test checks."""
    found: set[str] = set()
    for path in lit_files():
        found |= lit_ids(path.read_text(encoding="utf-8"))
    for path in pytest_files():
        found |= pytest_ids(path.read_text(encoding="utf-8"))
    for path in documents():
        found |= document_ids(path.read_text(encoding="utf-8"))
    return found


def lit_ids(text: str) -> set[str]:
    """Ids in ``expected-error`` lines, and in the diagnostics of FileCheck lines whose prefix a RUN line checks."""
    runs = "\n".join(run_lines(text))
    prefixes = {name for match in _PREFIXES.finditer(runs) for name in match[1].split(",")}
    if re.search(r"\bfilecheck\b(?![^|&\n]*--check-prefix)|%roundtrip|%generic", runs):
        prefixes.add("CHECK")
    found = set(_EXPECTED.findall(text)) if "--verify-diagnostics" in runs else set()
    for line in text.splitlines():
        if (match := _FILECHECK.match(line)) and match[1] in prefixes:
            found |= set(_DIAGNOSTIC.findall(match[2]))
    return found


def pytest_ids(text: str) -> set[str]:
    """Ids in strings of code. A string that stands alone (a docstring) is none."""
    return {id for string in _strings(text) for id in _ID.findall(string)}


def document_ids(text: str) -> set[str]:
    """Ids that ``mlir error=`` blocks ask for, and those in the output of ``console`` blocks."""
    found: set[str] = set()
    for language, words, body in _blocks(text):
        if language == "mlir":
            found |= {id for word in words.split() if word.startswith("error=") for id in _ID.findall(word)}
        elif language in ("console", "text"):
            found |= set(_DIAGNOSTIC.findall(body))
    return found


# --- options ----------------------------------------------------------------------------------------------------------


@cache
def used_options(tool: str) -> set[str]:
    """The options, as they are written, that some test gives to ``tool``."""
    found: set[str] = set()
    for path in lit_files():
        found |= lit_options(path.read_text(encoding="utf-8"), tool)
    for path in pytest_files():
        found |= pytest_options(path.read_text(encoding="utf-8"), tool)
    for path in documents():
        found |= document_options(path.read_text(encoding="utf-8"), tool)
    return found


def lit_options(text: str, tool: str) -> set[str]:
    """Options of ``tool`` in RUN lines."""
    found: set[str] = set()
    for line in run_lines(text):
        for word, command in _SUBSTITUTIONS.items():
            line = line.replace(word, command)
        found |= _shell_options(line, tool)
    return found


def pytest_options(text: str, tool: str) -> set[str]:
    """Words with a dash in front in a file that names the tool or its module."""
    module = tool.replace("-", "_")
    strings = _strings(text)
    imported = re.search(
        rf"^\s*(?:from etir\.tools import .*\b{module}\b|from etir\.tools\.{module} import)", text, re.M
    )
    if imported is None and not any(name in string for name in (tool, f"etir.tools.{module}") for string in strings):
        return set()
    return {option for string in strings for word in string.split() for option in _option(word)}


def document_options(text: str, tool: str) -> set[str]:
    """Options of ``tool`` in commands of ``console`` and ``sh`` blocks."""
    found: set[str] = set()
    for language, _, body in _blocks(text):
        for line in body.splitlines() if language in ("console", "sh") else ():
            found |= _shell_options(line.removeprefix("$ "), tool)
    return found


def run_lines(text: str) -> Iterator[str]:
    """The commands of a lit test, each on one line however it is broken."""
    command = ""
    for line in text.splitlines():
        if match := _RUN.match(line):
            command += match[1].removesuffix("\\")
            if not match[1].endswith("\\"):
                yield command.strip()
                command = ""


def _shell_options(line: str, tool: str) -> set[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found: set[str] = set()
    inside = False
    try:
        for word in lexer:
            if set(word) <= set("|&;()<>"):
                inside = inside and set(word) <= set("<>")
            elif Path(word).name == tool:
                inside = True
            elif inside:
                found |= set(_option(word))
    except ValueError:
        return set()  # a quote that is not closed: no command line
    return found


def _option(word: str) -> Iterator[str]:
    if re.match(r"--?[A-Za-z]", word):
        yield word.partition("=")[0]


@cache
def _strings(text: str) -> tuple[str, ...]:
    """Every string of a file's code but those that stand alone, which are docstrings."""
    tree = ast.parse(text)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in alone)
    return tuple(node.value for node in constants if isinstance(node.value, str))


def _blocks(text: str) -> Iterator[tuple[str, str, str]]:
    """Language, further words and text of every fenced block."""
    language, words, body = None, "", []
    for line in text.splitlines():
        match = _FENCE.match(line)
        if match is None:
            body.append(line)
        elif language is None:
            language, words, body = match[1], match[2], []
        else:
            yield language, words, "\n".join(body)
            language = None
