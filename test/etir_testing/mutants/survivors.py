"""The survivors that ``found.json`` knows, in today's sources: does the test that stands beside one still kill it?

Their ids name places in the sources as these were when the sample was drawn. Here a survivor is looked up by the lines
of its difference, where they stand nearest to the old place. It is judged by the one test that is named beside it, so
that all of them together take a minute, and nothing has to be measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from etir_testing.mutants.document import Survivor
from etir_testing.mutants.judging import Judge
from etir_testing.mutants.measuring import Measured
from etir_testing.mutants.mutant import Mutant

SECONDS = 2.0
"""What a named test may take; the judge waits ten times as long."""


def located(survivor: Survivor, source: str) -> Mutant | None:
    """The mutant in today's text of its file; None where that does not have its lines."""
    path, line, kind, _ = survivor.id.split(":")
    removed, added = ([part[1:] for part in survivor.diff.split("\n") if part.startswith(sign)] for sign in ("-", "+"))
    lines = source.split("\n")
    found = [i for i in range(len(lines)) if lines[i : i + len(removed)] == removed]
    if not found:
        return None
    first = min(found, key=lambda i: abs(i + 1 - int(line)))
    start = sum(len(text) + 1 for text in lines[:first])
    end = start + len("\n".join(removed))
    return Mutant(path, first + 1, first + len(removed), kind, start, end, "\n".join(added))


def measured(tests: Iterable[str]) -> Measured:
    """What the judge has to know of the named tests; which lines they run does not matter to it."""
    found = Measured()
    for test in dict.fromkeys(tests):
        found.add(test, SECONDS, {})
    return found


@dataclass
class NamedJudge(Judge):
    """Judges each mutant by the tests that are named for it."""

    tests: Mapping[str, list[str]] = field(default_factory=dict)

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Those that are named."""
        return self.tests[mutant.id]
