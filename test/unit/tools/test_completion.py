"""What a shell is told when it completes a command line (argcomplete)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = ("et-opt", "et-translate", "et-run", "et-compile")


def _completions(line: str) -> list[str]:
    """What the tool of a command line answers for its last word."""
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": "/dev/stdout",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    tool = Path(sys.executable).with_name(line.split()[0])
    done = subprocess.run([tool], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return [word.strip() for word in done.stdout.split("\n") if word.strip()]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("et-opt --cs", "--cse-symbolic-sizes"),
        ("et-opt --print-ir-after-c", "--print-ir-after-change"),
        ("et-opt --compile-to e", "edge"),
        ("et-translate --pte", "--pte-to-mlir"),
        ("et-run --prof", "--profile"),
        ("et-compile --fallback r", "refuse"),
    ],
)
def test_a_word_is_completed(line: str, word: str) -> None:
    assert word in _completions(line)


def test_passes_are_not_offered_as_other_tools_options() -> None:
    assert not any("cse" in word for word in _completions("et-run --cs"))


@pytest.mark.parametrize("tool", TOOLS)
def test_the_shell_finds_the_mark(tool: str) -> None:
    """``activate-global-python-argcomplete`` looks for it in the first kilobyte of the module of the entry point."""
    script = Path(sys.executable).with_name(tool).read_text()
    module = re.search(r"from (etir\.tools\.\w+) import main", script)
    assert module is not None
    check = f"import importlib.util; print(importlib.util.find_spec('{module[1]}').origin)"
    found = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert "PYTHON_ARGCOMPLETE_OK" in Path(found.stdout.strip()).read_text()[:1024]


def test_no_other_run_looks_for_the_package(tmp_path: Path) -> None:
    """Starting a tool must not become slower for it."""
    (tmp_path / "argcomplete.py").write_text("raise RuntimeError('imported')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    tool = Path(sys.executable).with_name("et-opt")
    done = subprocess.run([tool, "--help"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "imported" not in done.stderr
