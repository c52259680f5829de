"""lit and pytest in forks of one process, test by test.

:class:`ForkedTests` is a pytest plug-in that takes the place of pytest's loop over its items. Whoever made it gives it
the ``body`` that runs then, in the process that has imported and collected everything; :meth:`ForkedTests.run` runs
tests in there, which is only of use in a fork. Tests are named as the tools name them: ``test/unit/...::test_x[1]``
and ``lit:passes/cse.mlir``.

:func:`in_fork` runs a function in a fork that reports over a pipe and has to report often enough.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lit.discovery
import lit.worker
import pytest
from lit.LitConfig import LitConfig

from etir_testing import ROOT, TESTS

LIT = "lit:"
MEMORY = 6 << 30
"""What a mutant may allocate besides, in bytes: one that asks for more and more is killed and not the machine."""

LOG = ROOT / "build" / "mutants" / "fork.log"
"""What the last fork wrote to its output."""


def lit_tests() -> dict[str, Any]:
    """The lit tests of ``test/lit`` by name. Imports the tools."""
    config = LitConfig("lit", [], "note", False, False, [], False, False, False, "lexical", {})
    found = lit.discovery.find_tests_for_inputs(config, [str(TESTS / "lit")])
    lit.worker.initialize(config, {})
    return {LIT + "/".join(test.path_in_suite): test for test in found}


class ForkedTests:
    """The plug-in; ``tests`` are there once ``body`` runs."""

    def __init__(self, body: Callable[[ForkedTests], None], *, with_lit: bool = True) -> None:
        self.body = body
        self.lit = lit_tests() if with_lit else {}
        self.items: dict[str, pytest.Item] = {}
        self._failed = False

    def names(self) -> list[str]:
        """All tests."""
        return [*self.lit, *self.items]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run ``body`` and no test."""
        self.items = {item.nodeid: item for item in session.items}
        reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
        with open(os.devnull, "w") as null:  # Dots of every fork would be on the screen.
            reporter._tw._file = null
            self.body(self)
            reporter._tw._file = sys.stdout
        return True

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note failures; of skipped and expected ones, too, nothing else is known."""
        self._failed |= report.failed

    def run(self, names: Sequence[str]) -> Iterator[tuple[str, bool, float]]:
        """Run tests in this order: name, whether it passed, seconds."""
        items = [self.items[name] for name in names if name in self.items]
        following = dict(zip((i.nodeid for i in items), [*items[1:], None], strict=False))
        for name in names:
            start = time.monotonic()
            if name in self.lit:
                passed = not lit.worker._execute(self.lit[name], lit.worker._lit_config).code.isFailure
            elif name in self.items:
                self._failed = False
                item = self.items[name]
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following[name])
                passed = not self._failed
            else:
                continue
            yield name, passed, time.monotonic() - start


@dataclass(frozen=True)
class Lost:
    """A fork that ended without saying so: ``why`` is ``timeout`` or how it ended."""

    why: str


def in_fork(body: Callable[[Callable[[Any], None]], None], limit: Callable[[Any], float]) -> Iterator[Any]:
    """What ``body(report)`` reports, in a fork; last ``Lost`` if it did not come to its end.

    ``limit(report)`` is how many seconds may pass until the next report; it is first called with None.
    """
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process == 0:
        _be_fork(body, write)
    os.close(write)
    try:
        yield from _reports(read, limit)
    finally:
        os.close(read)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        os.waitpid(process, 0)


def _reports(read: int, limit: Callable[[Any], float]) -> Iterator[Any]:
    buffer = b""
    seconds = limit(None)
    while True:
        ready, _, _ = select.select([read], [], [], seconds)
        if not ready:
            yield Lost("timeout")
            return
        data = os.read(read, 1 << 16)
        if not data:
            yield Lost("the process ended")
            return
        buffer += data
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            report = json.loads(line)
            if report == "end":
                return
            seconds = limit(report)
            yield report


def _be_fork(body: Callable[[Callable[[Any], None]], None], write: int) -> None:
    """The fork. Does not return."""
    try:
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        LOG.parent.mkdir(parents=True, exist_ok=True)
        log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        gc.enable()

        def report(what: Any) -> None:
            os.write(write, json.dumps(what).encode() + b"\n")

        body(report)
        report("end")
    except BaseException:  # Whatever a mutant does at import: the parent hears of the end of the process.
        os.write(2, traceback.format_exc().encode())
        os._exit(1)
    os._exit(0)


def pytest_in_process(paths: Iterable[str], plugin: ForkedTests) -> int:
    """Collect the tests in ``paths``, and give the loop to the plug-in."""
    options = ["-q", "-p", "no:cacheprovider", "--tb=native", "-W", "ignore", "--rootdir", str(ROOT)]
    return int(pytest.main([*options, *paths], plugins=[plugin]))
