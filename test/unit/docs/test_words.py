"""The documents use the field's words: paraphrases that a reader of MLIR or PyTorch would not search for are listed.

The glossary has the words themselves. A pattern is what was written instead of one, with the word to use.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from etir_testing.docs.examples import ROOT, pages

WORDS: tuple[tuple[str, str], ...] = (
    (r"\bbehind\b(?! (?:it|them)\b)", "after"),
    (r"\bin front of\b", "before"),
    (r"\b(?:take|takes|taken|taking|took)\b(?: \w+){0,3} apart\b", "decompose"),
    (r"\b(?:stay|stays|kept|keeps|leaves|wants|better) whole\b", "preserved"),
    (r"\brun-time (?:number|integer|scalar)", "runtime scalar, SymInt"),
    (r"\bknown (?:only )?at run time only\b", "symbolic"),
    (r"\bthe maker of\b", "producer, defining op"),
    (r"\bway back\b", "cyclic path"),
    (r"\b(?:passed|results|written) by destination\b", "destination-passing style"),
    (r"\bplain (?:dim )?order\b", "contiguous"),
    (r"(?i)\b(?:de)?quantis", "quantize"),
    (r"(?i)\boptimis", "optimize"),
)
"""Pattern to the word that is used instead."""

PLACES = [*pages(), *sorted((ROOT / "examples").rglob("*.py"))]


def paraphrases(text: str) -> list[str]:
    """What the text says in other words than the field's, each with the word to use."""
    prose = " ".join(text.split())
    return [f"'{match[0]}': {word}" for pattern, word in WORDS for match in re.finditer(pattern, prose)]


@pytest.mark.parametrize("path", PLACES, ids=lambda path: str(path.relative_to(ROOT)))
def test_words(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    # A sentence that is data of an example is not prose about the compiler.
    assert paraphrases(re.sub(r'"[^"\n]*"', '""', text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "what comes first behind the level",
        "the node in front\nof them",
        "operators are taken apart",
        "takes the operators apart",
        "`linear` stays whole",
        "a run-time number",
        "results are passed by destination",
    ],
)
def test_a_paraphrase_is_found(text: str) -> None:
    assert len(paraphrases(text)) == 1


def test_other_uses_are_not() -> None:
    assert paraphrases("the decision behind it; the whole program; a part of the example; numbers of a table") == []
