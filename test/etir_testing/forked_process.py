"""A command's process as a fork of one that has imported everything, from its first line to its exit code.

A fork starts with the state after the imports and takes whatever it does to it (caches, plug-ins, warnings, working
directory, environment) to its grave, so that nothing has to be put back. ``forked_tools.py`` makes the forks for lit's
lines, ``fork_server.py`` those for the commands of tests in Python.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

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

PROCESS_VARIABLE = "ETIR_TEST_PROCESS"
"""Set in the environment of a command that has to be a process of its own."""

_FIRST_OTHER_FILE = 3
"""The first file descriptor that is not standard input, output or error."""


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
    """A standard stream as a new process has it; the one that is inherited has buffers, and files of others."""
    return open(descriptor, mode, encoding="utf-8", closefd=False, **how)


def be_process(argv: list[str], env: dict[str, str], body: Callable[[], object]) -> None:
    """Be the process of a command from its first line to its exit code. Called in the fork; does not return."""
    code = 70
    try:
        # Also closes the pipe on which `subprocess` waits to hear that the new program has started.
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
