"""What the tests say of mutants: which test fails, or that all pass.

Every mutant is put into a fork, where the tests that run its lines run, the fastest first, until one fails, takes far
longer than it should, or ends the process. The compiler is imported and tests are collected once, for all mutants of
functions; those of what runs at import have forks of a process that has imported everything but the compiler.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from etir_testing import ROOT
from etir_testing.mutants.applying import LoadedFunctions, import_mutated
from etir_testing.mutants.measuring import Measured, import_all
from etir_testing.mutants.mutant import Mutant
from etir_testing.mutants.suites import LIT, ForkedTests, Lost, in_fork, pytest_in_process

PRELOADED = (
    "hypothesis",
    "numpy",
    "torch",
    "torch.export",
    "torch.testing",
    "xdsl.dialects.builtin",
    "xdsl.parser",
    "xdsl.printer",
    "xdsl.pattern_rewriter",
)
"""What the compiler and its tests import, and is not the compiler."""

UNFIT = "at import"
"""The status of mutants that cannot be put into functions that exist: for ``judge_at_import``."""
KILLED = ("killed", "timeout")
"""The statuses of mutants that a test has seen."""
COLLECTION_SECONDS = 120.0
MOST_SECONDS = 10.0
"""Of tests for a mutant in code that everything runs; what the fastest do not see is looked at by hand."""
MOST_TESTS_AT_IMPORT = 40
"""Their files have to be collected for each mutant."""


@dataclass(frozen=True)
class Verdict:
    """``status`` is ``killed``, ``timeout``, ``survived`` or ``unreached``; ``by`` the test, ``seconds`` of tests."""

    status: str
    by: str = ""
    tests: int = 0
    known: int = 0
    """How many tests were measured then."""


Say = Callable[[Mutant, Verdict], None]


@dataclass
class Judge:
    """Judges mutants of ``files`` (path and text) by what was measured."""

    files: Mapping[str, str]
    measured: Measured
    say: Say
    earlier: Mapping[str, Verdict] = field(default_factory=dict)
    """What was said by fewer tests, which are not run again."""
    most_seconds: float = MOST_SECONDS

    def judge(self, mutants: Sequence[Mutant], packages: Sequence[str]) -> None:
        """Judge all of them. Imports the compiler: call it in a process of its own."""
        later: list[Mutant] = []
        unfit: list[Mutant] = []
        for mutant in mutants:
            if not self.tests_of(mutant) and not self._runs_at_import(mutant):
                before = self.earlier.get(mutant.id, Verdict("unreached"))
                self._say(mutant, Verdict(before.status, before.by, before.tests))
            elif self._runs_at_import(mutant):
                unfit.append(mutant)
            else:
                later.append(mutant)
        import_all(packages)

        def body(tests: ForkedTests) -> None:
            functions = LoadedFunctions(ROOT)
            for mutant in later:
                verdict = self._in_loaded(mutant, tests, functions)
                if verdict is None:
                    unfit.append(mutant)
                else:
                    self._say(mutant, verdict)

        if later:
            pytest_in_process(test_files(self.measured.names), ForkedTests(body))
        for mutant in unfit:
            self._say(mutant, Verdict(UNFIT))

    def judge_at_import(self, mutants: Sequence[Mutant]) -> None:
        """Judge mutants in processes that have not imported the compiler yet, as this one."""
        for name in PRELOADED:
            importlib.import_module(name)
        for mutant in mutants:
            self._say(mutant, self._at_import(mutant))

    def _say(self, mutant: Mutant, verdict: Verdict) -> None:
        self.say(mutant, replace(verdict, known=len(self.measured.names)))

    def tests_of(self, mutant: Mutant) -> list[str]:
        """The tests that run its lines; those of its whole file, too, where these run at import."""
        numbers = self.measured.tests_of(mutant.path, mutant.line, mutant.last_line)
        if self._runs_at_import(mutant):
            of_file = self.measured.tests_of(mutant.path, 1, self.measured.last_line(mutant.path))
            numbers = [*numbers[:MOST_TESTS_AT_IMPORT], *self._spread(of_file)[:MOST_TESTS_AT_IMPORT]]
            numbers = list(dict.fromkeys(numbers))
        known = self.earlier[mutant.id].known if mutant.id in self.earlier else 0
        new = [number for number in numbers if number >= known]
        # lit's tools are forks of this process, as new processes would be as long as no other test has run in it.
        new.sort(key=lambda number: not self.measured.names[number].startswith(LIT))
        total = itertools.accumulate(self.measured.seconds[number] for number in new)
        names = [self.measured.names[number] for number in new]
        return [name for name, before in zip(names, total, strict=True) if before < self.most_seconds] or names[:1]

    def _spread(self, numbers: Sequence[int]) -> list[int]:
        """The first of every test file, then the second of every file, and so on."""
        turns: dict[str, int] = {}
        order: list[tuple[int, int]] = []
        for number in numbers:
            file = self.measured.names[number].partition("::")[0]
            turns[file] = turns.get(file, -1) + 1
            order.append((turns[file], number))
        return [number for _, number in sorted(order, key=lambda pair: pair[0])]

    def _runs_at_import(self, mutant: Mutant) -> bool:
        return self.measured.is_imported(mutant.path, mutant.line, mutant.last_line)

    def _limit(self, report: Any) -> float:
        return COLLECTION_SECONDS if report is None else 10.0 + 10.0 * float(report[2])

    def _verdict(self, reports: Iterator[Any]) -> Verdict:
        """The verdict of what a fork reports: before each test its name, and after it whether it passed."""
        name, count = "import", 0
        for report in reports:
            if isinstance(report, Lost):
                return Verdict("timeout" if report.why == "timeout" else "killed", name, count)
            state, name, _ = report
            count += state == "start"
            if state == "failed":
                return Verdict("killed", name, count)
        return Verdict("survived", "", count)

    def _run(self, tests: ForkedTests, names: Sequence[str], report: Callable[[Any], None]) -> None:
        seconds = dict(zip(self.measured.names, self.measured.seconds, strict=True))
        running = tests.run([name for name in names if name in tests.items or name in tests.lit])
        for name in names:
            if name not in tests.items and name not in tests.lit:
                continue
            report(("start", name, seconds[name]))
            _, passed, _ = next(running)
            if not passed:
                report(("failed", name, 0))
                return

    def _in_loaded(self, mutant: Mutant, tests: ForkedTests, functions: LoadedFunctions) -> Verdict | None:
        source = self.files[mutant.path]
        names = self.tests_of(mutant)

        def body(report: Callable[[Any], None]) -> None:
            if not functions.mutate(mutant.path, source, mutant.apply(source)):
                report(("failed", "not applied", 0))
                return
            self._run(tests, names, report)

        verdict = self._verdict(in_fork(body, self._limit))
        if verdict.by == "not applied":
            return None
        if verdict.tests > 1 and verdict.status == "killed":
            # Was it the mutant, or what the tests before have left in the process?
            last, names = verdict.by, [verdict.by]
            alone = self._verdict(in_fork(body, self._limit))
            if alone.status == "survived":
                names = [name for name in self.tests_of(mutant) if name != last]
                return replace(self._verdict(in_fork(body, self._limit)), tests=len(names))
        return verdict

    def _at_import(self, mutant: Mutant) -> Verdict:
        names = self.tests_of(mutant)

        def body(report: Callable[[Any], None]) -> None:
            import_mutated(ROOT, mutant.path, mutant.apply(self.files[mutant.path]))
            importlib.import_module(module_name(mutant.path))
            plugin = ForkedTests(lambda tests: self._run(tests, names, report))
            # Without a path pytest would collect everything.
            code = pytest_in_process(test_files(names) or ["test/unit/meta/test_exports.py"], plugin)
            if not plugin.items and code:
                report(("failed", "collection", 0))

        return self._verdict(in_fork(body, self._limit))


def test_files(names: Sequence[str]) -> list[str]:
    """The files of tests that are not lit's."""
    return list(dict.fromkeys(name.partition("::")[0] for name in names if not name.startswith(LIT)))


def module_name(path: str) -> str:
    """``lowering/a/b.py`` is the module ``etir.lowering.a.b``."""
    name = "etir." + path.removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")
