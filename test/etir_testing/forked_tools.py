"""A lit test format that runs the project's command lines in forks of the lit worker instead of new processes.

Most of what a ``RUN:`` line takes is the start of Python and the imports of its tools. The worker has them imported
once; each tool then runs its ``main`` in a fork of it. A fork starts with the state after the imports and takes
whatever it does to it (caches, plug-ins, warnings, working directory, environment) to its grave, so that nothing has to
be put back, tools of a pipe run side by side, and an exit code, a crash or a broken pipe is the operating system's, as
with a new process. Everything else of the line - redirections, ``not``, ``env``, what is printed of a failure - is
lit's own shell, which only gets another way to start a process.

What is no tool of :data:`TOOLS` starts as always, and so does a tool

* in a line that tests the process itself: ``%{process} et-opt ...``,
* with ``lit --param process=1``: all of them, as ``.ci/full`` does,
* on systems that have no ``fork``.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lit.formats
import lit.TestRunner
from lit.LitConfig import LitConfig
from lit.Test import Result, Test

TOOLS: dict[str, str] = {
    "et-bisect": "etir.tools.et_bisect",
    "et-compare": "etir.tools.et_compare",
    "et-compile": "etir.tools.et_compile",
    "et-explore": "etir.tools.et_explore",
    "et-llm": "etir.tools.et_llm",
    "et-lsp": "etir.tools.et_lsp",
    "et-inspect": "etir.tools.et_inspect",
    "et-reduce": "etir.tools.et_reduce",
    "et-opt": "etir.tools.et_opt",
    "et-run": "etir.tools.et_run",
    "et-sweep": "etir.tools.et_sweep",
    "et-translate": "etir.tools.et_translate",
    "filecheck": "filecheck.main",
}
"""Command to the module whose ``main`` it calls."""

FOLDER = Path(sys.executable).parent
"""Where the scripts of :data:`TOOLS` are: another ``et-opt`` on the path is another program."""

PRELOADED: tuple[str, ...] = (
    "etir.dialects.edge.base",
    "etir.dialects.et.executable",
    "etir.dialects.text",
    "etir.passes.infra.manager",
    "etir.passes.infra.rewriting",
    "etir.tools.context",
    "etir.tools.files",
    "etir.tools.printing",
    "etir.tools.roundtrip",
    "etir.dialects.split",
    "filecheck.matcher",
    "numpy",
)
"""What tools import besides while they run. An import that is not here costs time in every fork that needs it."""

PROCESS_VARIABLE = "ETIR_LIT_PROCESS"
"""Set in the environment of a command that has to be a process of its own."""

_FIRST_OTHER_FILE = 3
"""The first file descriptor that is not standard input, output or error."""


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
        _run([executable, *args[1:]], env, body)

    # Called in the fork, after its pipes, redirections and working directory are in place, and before exec; which never
    # comes, as it does not return.
    return subprocess.Popen(args, executable=executable, env=env, preexec_fn=run, **how)


def _body(executable: Path) -> Callable[[], object] | None:
    """The function that the command calls when it is a tool; ``sys.argv`` has its arguments."""
    if executable.parent != FOLDER or executable.name not in TOOLS:
        return None
    return importlib.import_module(TOOLS[executable.name]).main


def _exit_code(body: Callable[[], object]) -> int:
    """As Python's own: what ``main`` returns is given to ``sys.exit``."""
    try:
        code = body()
    except SystemExit as stop:
        code = stop.code
    except BaseException:
        traceback.print_exc()
        return 1
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1


def _stream(descriptor: int, mode: str, **how: Any) -> Any:
    """A standard stream as a new process has it; the worker's own has buffers and files of lit's."""
    return open(descriptor, mode, encoding="utf-8", closefd=False, **how)


def _run(argv: list[str], env: dict[str, str], body: Callable[[], object]) -> None:
    """Be the process of a command from its first line to its exit code. Called in the fork; does not return."""
    code = 70
    try:
        # Also closes the pipe on which the worker waits to hear that the new program has started.
        os.closerange(_FIRST_OTHER_FILE, os.sysconf("SC_OPEN_MAX"))
        atexit._clear()
        os.environ.clear()
        os.environ.update(env)
        sys.argv = argv
        sys.stdin, sys.stdout = _stream(0, "r"), _stream(1, "w")
        sys.stderr = _stream(2, "w", errors="backslashreplace", buffering=1)
        gc.enable()
        code = _exit_code(body)
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except BaseException:
        with contextlib.suppress(BaseException):
            os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code & 0xFF)
