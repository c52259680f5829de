"""The words of the project, checked in its comments, strings and documents, in every language that it has.

    python .ci/words.py     print the places of words that ``words.toml`` has a better one for; 1 if there are any

Prose is found by blanking everything else, and keeping the length: the place of a match is then its place in the file,
and what a comment says may go on in the next line. Most files have none of the words anywhere: one search for all of
them at once, in small letters, says so ten times faster than a search for each.
"""

from __future__ import annotations

import argparse
import functools
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORDS = Path(__file__).with_name("words.toml")

_C_PROSE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'", re.DOTALL)
_HASH_PROSE = re.compile(r"(?m)(?<![\w$&{])#[^\n]*")
_MARKERS = re.compile(r"(?m)^[ \t]*(?:#|//+|\*+)")


@dataclass(frozen=True)
class Word:
    """An entry of the list."""

    pattern: str
    use: str
    where: str = "prose"
    unless: tuple[str, ...] = ()
    not_in: tuple[str, ...] = ()

    def found_in(self, path: str, text: str, prose: str) -> Iterator[tuple[int, str]]:
        """The line and the words of each match in a file."""
        if any(path == place or path.startswith(f"{place}/") for place in self.not_in):
            return
        searched = text if self.where == "anywhere" else prose
        right = [match.span() for expression in self.unless for match in _over_lines(expression).finditer(searched)]
        for match in _over_lines(self.pattern).finditer(searched):
            if not any(start <= match.start() and match.end() <= end for start, end in right):
                yield searched.count("\n", 0, match.start()) + 1, " ".join(match[0].split())


def _spaced(expression: str) -> str:
    return expression.replace(" ", r"(?:[ \t]+|[ \t]*\n[ \t]*)")


@functools.cache
def _over_lines(expression: str) -> re.Pattern[str]:
    spaces = _spaced(expression)
    # An expression that starts with a check of what stands before it knows where words start.
    start = "" if expression.startswith("(?<") else r"\b"
    return re.compile(rf"{start}(?:{spaces})\b", re.IGNORECASE)


# --- prose ----------------------------------------------------------------------------------------------------------


def python_prose(text: str) -> str:
    """Comments and strings of a Python file."""
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    spans: list[tuple[int, int]] = []
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in kinds:
            spans.append((lines[token.start[0] - 1] + token.start[1], lines[token.end[0] - 1] + token.end[1]))
    return _only(text, spans)


def c_prose(text: str) -> str:
    """Comments and strings of C, C++ and MLIR."""
    return _only(text, [match.span() for match in _C_PROSE.finditer(text)])


def hash_prose(text: str) -> str:
    """Comments of shells, make, CMake and TOML."""
    return _only(text, [match.span() for match in _HASH_PROSE.finditer(text)])


def _only(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """The text with everything outside of the spans, and the markers of comments, as spaces."""
    blank = re.sub(r"[^\n]", " ", text)
    parts, end = list[str](), 0
    for start, stop in spans:
        parts += [blank[end:start], text[start:stop]]
        end = stop
    whole = "".join([*parts, blank[end:]])
    return _MARKERS.sub(lambda match: " " * len(match[0]), whole)


PROSE: dict[str, Callable[[str], str]] = {
    ".py": python_prose,
    ".pyi": python_prose,
    **dict.fromkeys((".c", ".cc", ".h", ".def", ".mlir"), c_prose),
    **dict.fromkeys((".toml", ".txt", ".sh", ".cmake", ".yml", ".ld", "Makefile", ""), hash_prose),
    **dict.fromkeys((".md", ".json"), str),
}
"""What finds the prose of a file, by its suffix or name; files of other kinds are not read."""


def files() -> list[str]:
    """Paths of the files that git knows or would, but for the list of words itself."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    others = {str(WORDS.relative_to(ROOT)), "LICENSE"}
    return sorted(name for name in names if name not in others and (ROOT / name).is_file())


class Triggers:
    """Says of most texts that they have none of some words, in prose or not."""

    def __init__(self, words: Sequence[Word]) -> None:
        small = [_spaced(word.pattern.lower()) for word in words]
        # Expressions that start with a check of what stands before them may begin inside of a word, and those of them
        # with a part that may be missing at its end: without both they begin with letters, which are found quickly.
        inside = [
            re.sub(r"^\(\?<[!=](?:\[[^]]*\]|[^)])*\)(\([^)]*\)\?)?", "", text)
            for text in small
            if text.startswith("(?<")
        ]
        starts = [text for text in small if not text.startswith("(?<")]
        self._expressions = [
            *([re.compile(rf"\b(?:{'|'.join(starts)})")] if starts else []),
            *(re.compile(text) for text in inside),
        ]

    def may_be_in(self, text: str) -> bool:
        """Whether some word may be in a text; False says that none is."""
        small = text.lower()
        return any(expression.search(small) for expression in self._expressions)


# --- the check ------------------------------------------------------------------------------------------------------


class Search:
    """The words of a list, to be found in many files."""

    def __init__(self, words: Sequence[Word]) -> None:
        self._kinds = [
            (where, chosen, Triggers(chosen))
            for where in ("prose", "anywhere")
            if (chosen := [word for word in words if word.where == where])
        ]

    def matches(self, path: str, text: str) -> Iterator[tuple[Word, int, str]]:
        """Every word of a file that the list has, with its line and as it stands there."""
        name = Path(path)
        find = PROSE.get(name.suffix or name.name, PROSE.get(name.suffix))
        if find is None:
            return
        prose = find(text)
        for where, words, triggers in self._kinds:
            if triggers.may_be_in(text if where == "anywhere" else prose):
                for word in words:
                    for line, found in word.found_in(path, text, prose):
                        yield word, line, found


def main() -> int:
    """Print the places; 1 if there are any."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    words = [Word(**_tuples(entry)) for entry in tomllib.loads(WORDS.read_text(encoding="utf-8"))["word"]]
    count = 0
    search = Search(words)
    for path in files():
        try:
            text = (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for word, line, found in search.matches(path, text):
            count += 1
            print(f"{path}:{line}: '{found}': {word.use}")
    print(f"{count} words that have a better one")
    return int(bool(count))


def _tuples(entry: dict[str, object]) -> dict[str, object]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}


if __name__ == "__main__":
    sys.exit(main())
