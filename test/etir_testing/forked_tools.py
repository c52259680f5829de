"""A lit test format that runs the project's command lines in forks of the lit worker instead of new processes.

Most of what a ``RUN:`` line takes is the start of Python and the imports of its tools. The worker has them imported
once; each tool then runs its ``main`` in a fork of it (``forked_process.py``). Tools of a pipe run side by side, and an
exit code, a crash or a broken pipe is the operating system's, as with a new process. Everything else of the line -
redirections, ``not``, ``env``, what is printed of a failure - is lit's own shell, which only gets another way to start
a process.

What is no tool of :data:`TOOLS` starts as always, and so does a tool

* in a line that tests the process itself: ``%{process} et-opt ...``,
* with ``lit --param process=1``: all of them, as ``.ci/full`` does,
* on systems that have no ``fork``.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lit.formats
import lit.TestRunner
from lit.LitConfig import LitConfig
from lit.Test import Result, Test

from etir_testing.forked_process import PRELOADED, PROCESS_VARIABLE, TOOLS, be_process

FOLDER = Path(sys.executable).parent
"""Where the scripts of :data:`TOOLS` are: another ``et-opt`` on the path is another program."""


class ForkedTools(lit.formats.ShTest):
    """lit's shell tests, with the tools in forks of this process; ``process`` turns that off.

    The imports happen here, in the process that lit forks its workers from.
    """

    def __init__(self, *, process: bool = False):
        super().__init__(execute_external=False)
        self.process = process or not hasattr(os, "fork")
        if not self.process:
            for name in (*TOOLS.values(), *PRELOADED):
                importlib.import_module(name)
            gc.collect()
            gc.freeze()

    def execute(self, test: Test, config: LitConfig) -> Result:
        """Run one test file."""
        if self.process:
            return super().execute(test, config)
        with _starting_with(_start):
            return super().execute(test, config)


@contextlib.contextmanager
def _starting_with(start: Callable[..., subprocess.Popen[str]]) -> Iterator[None]:
    """Let lit's shell start processes with ``start``."""
    runner: Any = lit.TestRunner
    runner.subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": start})
    try:
        yield
    finally:
        runner.subprocess = subprocess


def _start(args: Sequence[str], *, executable: str, env: dict[str, str], **how: Any) -> subprocess.Popen[str]:
    """``subprocess.Popen`` as lit's shell calls it, with the tools in forks."""
    body = None if PROCESS_VARIABLE in env else _body(Path(executable))
    if body is None:
        return subprocess.Popen(args, executable=executable, env=env, **how)

    def run() -> None:
        be_process([executable, *args[1:]], env, body)

    # Called in the fork, after its pipes, redirections and working directory are in place, and before exec; which never
    # comes, as it does not return.
    return subprocess.Popen(args, executable=executable, env=env, preexec_fn=run, **how)


def _body(executable: Path) -> Callable[[], object] | None:
    """The function that the command calls when it is a tool; ``sys.argv`` has its arguments."""
    if executable.parent != FOLDER or executable.name not in TOOLS:
        return None
    return importlib.import_module(TOOLS[executable.name]).main
