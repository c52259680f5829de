"""Markdown from data: tables, docstrings, cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

_ROLE = re.compile(r":(?:class|func|meth|data|attr|mod|exc|ref):`~?([^`<>]+)`")
_LITERAL_BLOCK = re.compile(r"::\s*$")


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a markdown table; a cell's line breaks are made harmless, and its bars outside of code."""
    yield "| " + " | ".join(titles) + " |"
    yield "|" + " --- |" * len(titles)
    for row in rows:
        yield "| " + " | ".join(_cell(cell) for cell in row) + " |"


def _cell(text: str) -> str:
    pieces = text.replace("\n", " ").split("`")
    return "`".join(piece if index % 2 else piece.replace("|", "\\|") for index, piece in enumerate(pieces))


def inline(text: str) -> str:
    """A docstring's inline markup as markdown: double backticks become single ones, roles the name that they mark."""
    return _ROLE.sub(r"`\1`", text).replace("``", "`")


def markdown(docstring: str | None) -> str:
    """A docstring as markdown: its inline markup, and what is indented after ``::`` as a fenced block."""
    lines: list[str] = []
    block: list[str] | None = None
    for line in (docstring or "").splitlines():
        if block is not None:
            if not line.strip() or line.startswith("  "):
                block.append(line)
                continue
            lines += _fenced(block)
            block = None
        if _LITERAL_BLOCK.search(line):
            before = line.rstrip()[:-2].rstrip()
            lines += [inline(f"{before}:"), ""] if before else []
            block = []
        else:
            lines.append(inline(line))
    return "\n".join([*lines, *(_fenced(block) if block else [])])


def _fenced(block: Sequence[str]) -> list[str]:
    content = list(block)
    while content and not content[0].strip():
        content.pop(0)
    while content and not content[-1].strip():
        content.pop()
    indent = min((len(line) - len(line.lstrip()) for line in content if line.strip()), default=0)
    language = "mlir" if any(line.lstrip().startswith(("%", "func.func", "et.")) for line in content) else "text"
    return [f"```{language}", *(line[indent:] for line in content), "```", ""]
