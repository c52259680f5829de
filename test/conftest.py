"""What all tests share: markers, and no silent skipping.

Test folders are no packages and pytest imports test files by path (``--import-mode=importlib``), so that two files may
have the same name and no test imports another. What they share is in the package ``etir_testing`` beside this file.

torch is the oracle: it computes with the same instructions on every machine, not with those that only some have: they
give other results for infinities (GELU with AVX-512), or end the process in a virtual machine (bfloat16 with AMX). And
it computes on one thread: models of a test's size lose more by waking threads than they gain, above all when every core
has a worker of its own.

Random numbers are the same in every run, whichever tests it has: of a test file where it is imported, and of each test.

Garbage is looked for less often than by default (:mod:`etir_testing.collector`).

Workers (``-n``) get whole files (``--dist loadfile`` in ``pyproject.toml``): what a file exports, compiles and builds
for all of its tests is made once. What several files need is kept by content: :mod:`etir_testing.exports`.

Folders give markers: everything in ``test/interop`` is ``interop``. ``--require-everything``, which the gate uses,
turns a skip for a missing package into a failure. It uses ``--part N``, too: an N-th of the cases of every test that
has many, which the content of the tree chooses (:mod:`etir_testing.selection`).
"""

from __future__ import annotations

import importlib
import os
import random
import re
import sys
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from zlib import crc32

import pytest

from etir_testing.collector import collect_less, keep_what_is_there
from etir_testing.selection import cases_of, changed_files, tree_digest

for variable, value in (("ATEN_CPU_CAPABILITY", "avx2"), ("ONEDNN_MAX_CPU_ISA", "AVX2"), ("OMP_NUM_THREADS", "1")):
    os.environ.setdefault(variable, value)

collect_less()

TEST_FOLDER = Path(__file__).resolve().parent
_NOT_INSTALLED = re.compile(r"not installed|could not import|no module named|needs? [\w.-]+$", re.IGNORECASE)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--require-everything`` and ``--part``."""
    parser.addoption("--part", type=int, default=1, metavar="N", help="an N-th of the cases of tests that have many")
    parser.addoption(
        "--require-everything", action="store_true", help="fail when a test is skipped because something is missing"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Markers, and the check of skips in the process that reports."""
    config.addinivalue_line("markers", "interop: needs the stock ExecuTorch package or another real tool")
    config.addinivalue_line("markers", "slow: takes more than ten seconds")
    config.addinivalue_line("markers", "nightly: one more case of what others show; the gate leaves it to .ci/full")
    if config.getoption("--require-everything") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_NoMissingPackages(), "etir-no-missing-packages")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark by folder; choose a part, of what other options (``-m``, ``-k``) leave."""
    interop = TEST_FOLDER / "interop"
    for item in items:
        if interop in item.path.parents:
            item.add_marker(pytest.mark.interop)
    parts: int = config.getoption("--part")
    if parts > 1:
        root = TEST_FOLDER.parent
        ids = [item.nodeid for item in items]
        chosen = frozenset(cases_of(ids, tree_digest(root), parts, changed_files(root)))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
        items[:] = [item for item in items if item.nodeid in chosen]


def _seed(name: str) -> None:
    # Another seed for each: what a test draws must not be the numbers that its file has as inputs.
    seed = crc32(name.encode())
    random.seed(seed)
    for package, seeded in (("numpy", "random.seed"), ("torch", "manual_seed")):
        if (found := sys.modules.get(package)) is not None:
            attrgetter(seeded)(found)(seed)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Files that make inputs where they are imported; torch begins with another number in every process."""
    if isinstance(collector, pytest.Module):
        # Where it is missing, the file itself says so.
        if "import torch" in collector.path.read_text(encoding="utf-8") and find_spec("torch") is not None:
            importlib.import_module("torch")
        _seed(collector.nodeid)
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests, and the fixtures that they are the first to ask for."""
    _seed(item.nodeid)


def pytest_collection_finish() -> None:
    """All test files are imported."""
    keep_what_is_there()


class _NoMissingPackages:
    """Collects skips for missing packages and makes the run fail when there are any."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def _look_at(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = str(report.longrepr[2]).removeprefix("Skipped: ")
            if _NOT_INSTALLED.search(reason):
                self.found.append(f"{report.nodeid}: {reason}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test or fixture that skips."""
        self._look_at(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A test file that skips."""
        self._look_at(report)

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        """Fail the run."""
        if self.found and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        yield

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say why."""
        if self.found:
            terminalreporter.section("skipped for missing packages, which --require-everything does not allow")
            for line in dict.fromkeys(self.found):
                terminalreporter.line(line)
