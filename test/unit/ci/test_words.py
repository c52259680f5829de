"""The word check: what is prose in each language, and what counts as a match."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

CI = Path(__file__).resolve().parents[3] / ".ci"
sys.path.insert(0, str(CI))

from words import WORDS, Search, Word, _tuples  # noqa: E402

PYTHON = '''"""A bad word."""
bad = {"bad": f"so bad {bad}"}  # bad
'''
C = """// a bad word
int bad = 0;  /* very
 * bad */ const char* text = "bad";
"""
SHELL = """bad=$# # bad
echo bad ${#bad} $'bad'
"""


@pytest.mark.parametrize(
    ("path", "text", "lines"),
    [
        ("a.py", PYTHON, [1, 2, 2, 2]),
        ("a/b.cc", C, [1, 3, 3]),
        ("a.mlir", "func.func @bad() // bad\n", [1]),
        ("run", SHELL, [1]),
        ("Makefile", "bad: # bad\n", [1]),
        ("CMakeLists.txt", "set(bad 1) # bad\n", [1]),
        ("a.md", "bad\n`bad`\n", [1, 2]),
        ("a.json", '{"bad": 1}\n', [1]),
        ("a.bin", "bad", []),
    ],
)
def test_prose_is_what_people_read(path: str, text: str, lines: list[int]) -> None:
    found = [line for _, line, _ in Search([Word("bad", "good")]).matches(path, text)]
    # From 3.12 on, the f-string's text without its expressions is prose; before, all of it.
    assert found == lines or (path == "a.py" and found == [1, 2, 2, 2, 2])


def test_a_word_for_names_is_found_in_code() -> None:
    found = [
        (line, text)
        for _, line, text in Search([Word("bad_name", "good", "anywhere")]).matches("a.py", "\nbad_name = 1\n")
    ]
    assert found == [(2, "bad_name")]


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("torn asunder", "# It is torn\n# asunder here.\n", ["torn asunder"]),
        ("torn asunder", "    // It is torn\n    // asunder here.\n", ["torn asunder"]),
        ("torn asunder", "# torn\n\nx = 1\n# asunder\n", []),
        ("aft", "# Aft it\n", ["Aft"]),
        ("aft", "# after\n", []),
    ],
)
def test_words_go_over_lines_and_end_at_their_ends(pattern: str, text: str, found: list[str]) -> None:
    path = "a.cc" if "//" in text else "a.py"
    assert [words for _, _, words in Search([Word(pattern, "other")]).matches(path, text)] == found


def test_what_makes_a_word_right() -> None:
    word = Word("aft", "after", unless=("aft the scenes",), not_in=("docs",))
    assert [line for _, line, _ in Search([word]).matches("a.md", "aft the scenes\naft the line\n")] == [2]
    assert list(Search([word]).matches("docs/a.md", "aft\n")) == []


def test_a_path_of_one_machine_is_found_in_code() -> None:
    word = Word(r"(?<![\w.])/srv/[\w.-]+", "relative", "anywhere")
    assert [line for _, line, _ in Search([word]).matches("a.py", "x = '/srv/me'\ny = 'a/srv/me'\n")] == [1]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# A cut~ter\n# o~ff it is\n", []),
        ("x = 1  # It is cut\ny = 2  # o~ff here\n", ["is cut o~ff"]),
        ("# Numbers are dequanti~sed_twice, or RE-QUANTI~SED\n", ["dequanti~sed_twice", "QUANTI~SED"]),
        ("x = f(no_ma~tch=1, CLONE=2)\n", ["no_ma~tch"]),
        ("# in Fr~ont of\n# \n", ["in Fr~ont of"]),
    ],
)
def test_a_list_finds_what_its_words_find(text: str, found: list[str]) -> None:
    """The search for all words at once says of no file that it has none when one of them is in it. (~ keeps this file
    from being found itself.)
    """
    words = [Word(**_tuples(entry)) for entry in tomllib.loads(WORDS.read_text(encoding="utf-8"))["word"]]
    assert [match for _, _, match in Search(words).matches("a.py", text.replace("~", ""))] == [
        words.replace("~", "") for words in found
    ]
