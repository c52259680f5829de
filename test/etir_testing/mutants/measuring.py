"""Which test runs which line of the mutated folders, how long it takes, and which lines run when things are imported.

One process imports and collects everything, with coverage.py's tracer on: those lines are *imported*. Each test file
then runs in a fork of its own, its lines told apart by test. The commands of lit's tests are forks of forks, which
write their lines to files. Tests that fail without any mutant are left out.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import os
import pkgutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import coverage

from etir_testing import ROOT, forked_process
from etir_testing.mutants.suites import LIT, ForkedTests, in_fork, pytest_in_process

MOST_SECONDS = 240.0
"""For the tests of one file, of which those that are done by then count."""

Lines = dict[str, list[int]]


@dataclass
class Measured:
    """What runs what: ``tests[name]`` has the seconds, ``lines[path][line]`` the numbers of tests in ``names``."""

    names: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    imported: Lines = field(default_factory=dict)
    lines: dict[str, dict[str, list[int]]] = field(default_factory=dict)

    def add(self, name: str, seconds: float, lines: Lines) -> None:
        """Note a test."""
        number = len(self.names)
        self.names.append(name)
        self.seconds.append(round(seconds, 3))
        for path, numbers in lines.items():
            of_path = self.lines.setdefault(path, {})
            for line in numbers:
                of_path.setdefault(str(line), []).append(number)

    def tests_of(self, path: str, first: int, last: int) -> list[int]:
        """The numbers of the tests that run one of the lines, fastest first."""
        of_path = self.lines.get(path, {})
        found = {number for line in range(first, last + 1) for number in of_path.get(str(line), ())}
        return sorted(found, key=lambda number: (self.seconds[number], number))

    def last_line(self, path: str) -> int:
        """The last line of the file that a test runs, or 0."""
        return max(map(int, self.lines.get(path, {})), default=0)

    def is_imported(self, path: str, first: int, last: int) -> bool:
        """Whether one of the lines runs before any test."""
        return any(first <= line <= last for line in self.imported.get(path, ()))

    def save(self, path: Path) -> None:
        """Write to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self)))

    @staticmethod
    def load(path: Path) -> Measured:
        """Read from a file."""
        return Measured(**json.loads(path.read_text()))


def import_all(packages: Sequence[str]) -> None:
    """Import every module of the packages, so that their functions are there to be mutated."""
    for name in packages:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


class Meter:
    """Lines of the folders, by context."""

    def __init__(self, folders: Sequence[str]) -> None:
        self.is_started = False
        self._coverage = coverage.Coverage(
            data_file=None, config_file=False, include=[f"{ROOT / folder}/*" for folder in folders]
        )

    def start(self, context: str) -> None:
        """Count what runs from now on for ``context``."""
        if not self.is_started:
            self._coverage.start()
            self.is_started = True
        self._coverage.switch_context(context)

    def stop(self) -> dict[str, Lines]:
        """Lines by context and path."""
        self._coverage.stop()
        data = self._coverage.get_data()
        found: dict[str, Lines] = defaultdict(dict)
        for path in sorted(data.measured_files()):
            for line, contexts in data.contexts_by_lineno(path).items():
                for context in contexts:
                    found[context].setdefault(os.path.relpath(path, ROOT), []).append(line)
        return found


def measure(folders: Sequence[str], paths: Sequence[str], place: Path, say: Callable[[str], None]) -> None:
    """Run every test once that ``place`` does not know, and write what is known there after each file of tests.

    Imports the compiler: call it in a process of its own.
    """
    found = Measured.load(place) if place.exists() else Measured()
    known = set(found.names)
    meter = Meter(folders)
    meter.start("import")
    import_all([f"etir.{folder}" for folder in folders])

    def body(tests: ForkedTests) -> None:
        found.imported = meter.stop()["import"]
        for group, names in itertools.groupby((name for name in tests.names() if name not in known), key=_file):
            start = time.monotonic()
            for name, seconds, lines in _group(tests, folders, list(names)):
                found.add(name, seconds, lines)
            found.save(place)
            say(f"{group}: {time.monotonic() - start:.1f} s")

    pytest_in_process(paths, ForkedTests(body))


def _file(name: str) -> str:
    """The test file; all of lit together, whose tests are files."""
    return LIT if name.startswith(LIT) else name.partition("::")[0]


def _group(tests: ForkedTests, folders: Sequence[str], names: list[str]) -> list[tuple[str, float, Lines]]:
    """Run tests in a fork: name, seconds and lines of those that pass."""
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "lines.json"

        def body(report: Callable[[Any], None]) -> None:
            meter = Meter(folders)
            lines: dict[str, Lines] = {name: {} for name in names}
            passed: list[tuple[str, float]] = []
            end = time.monotonic() + MOST_SECONDS
            running = tests.run(names)
            for name in names:
                if time.monotonic() > end:
                    break
                with contextlib.ExitStack() as stack:
                    if name.startswith(LIT):
                        stack.enter_context(_tools_metered(folders, lines[name]))
                    else:
                        meter.start(name)
                    _, ok, seconds = next(running)
                if ok:
                    passed.append((name, seconds))
                report(name)
            if meter.is_started:
                lines.update(meter.stop())
            written.write_text(json.dumps([(name, seconds, lines[name]) for name, seconds in passed]))

        list(in_fork(body, lambda _: 2 * MOST_SECONDS))
        return json.loads(written.read_text()) if written.exists() else []


@contextlib.contextmanager
def _tools_metered(folders: Sequence[str], lines: Lines) -> Iterator[None]:
    """Meanwhile the forks of lit's tools count their lines into ``lines``."""
    real = forked_process._exit_code
    with tempfile.TemporaryDirectory() as folder:

        def exit_code(body: Callable[[], object]) -> int:
            meter = Meter(folders)
            meter.start("tool")
            try:
                return real(body)
            finally:
                (Path(folder) / f"{os.getpid()}.json").write_text(json.dumps(meter.stop()["tool"]))

        forked_process._exit_code = exit_code
        try:
            yield
        finally:
            forked_process._exit_code = real
        merged: dict[str, set[int]] = defaultdict(set)
        for place in sorted(Path(folder).iterdir()):
            found: Lines = json.loads(place.read_text())
            for path, numbers in found.items():
                merged[path].update(numbers)
    lines.update({path: sorted(numbers) for path, numbers in merged.items()})
