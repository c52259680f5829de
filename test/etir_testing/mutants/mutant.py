"""A mutant: a piece of a source file that is replaced by another, and a sample of them that a seed decides."""

from __future__ import annotations

import difflib
import hashlib
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One fault: ``path`` relative to the checkout, and the characters ``[start, end)`` that ``text`` replaces."""

    path: str
    line: int
    last_line: int
    kind: str
    start: int
    end: int
    text: str

    @property
    def id(self) -> str:
        """Stable while the file is: the place and a digest of the change."""
        key = f"{self.path} {self.start} {self.end} {self.text}"
        return f"{self.path}:{self.line}:{self.kind}:{hashlib.sha256(key.encode()).hexdigest()[:6]}"

    def apply(self, source: str) -> str:
        """The mutated source."""
        return source[: self.start] + self.text + source[self.end :]

    def diff(self, source: str) -> str:
        """The lines that change, before and after, as a unified difference without its heads."""
        lines = difflib.unified_diff(source.splitlines(), self.apply(source).splitlines(), lineterm="", n=0)
        return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def sample(mutants: Iterable[Mutant], seed: int, is_valid: Callable[[Mutant], bool]) -> Iterator[Mutant]:
    """Valid mutants, all of different lines, in the order that ``seed`` decides."""
    order = list(mutants)
    random.Random(seed).shuffle(order)
    lines: set[tuple[str, int]] = set()
    for mutant in order:
        if (mutant.path, mutant.line) not in lines and is_valid(mutant):
            lines.add((mutant.path, mutant.line))
            yield mutant
