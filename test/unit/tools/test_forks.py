"""Commands as forks of a server: what a process has of its own is the command's, and the next finds nothing of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from etir_testing.forked_process import PROCESS_VARIABLE
from etir_testing.forks import commands

BOTH = ["fork", "process"]
"""Every test compares a fork with a real process."""


def run(kind: str, *words: str | Path, **how: Any) -> subprocess.CompletedProcess[str]:
    """``python`` with arguments, in one of the two ways."""
    python = commands() / "python" if kind == "fork" else Path(sys.executable)
    return subprocess.run([python, *words], capture_output=True, text=True, check=False, **how)


def test_these_are_forks() -> None:
    """Else all that follows shows nothing."""
    done = run("fork", "-c", "import sys; print('torch' in sys.modules)")
    assert done.stdout == ("False\n" if PROCESS_VARIABLE in os.environ else "True\n")


@pytest.mark.parametrize("kind", BOTH)
def test_arguments_environment_folder_and_streams(kind: str, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("WORD = 'beside'\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "given.py").write_text("WORD = 'given'\n")
    text = """
import os, sys
import beside, given
print(__name__, os.path.basename(__file__), sys.argv[1:], os.path.basename(os.getcwd()), os.environ["MINE"])
print(beside.WORD, given.WORD, sorted(k for k in os.environ if k.startswith("MI")), input())
print("error", file=sys.stderr)
"""
    (tmp_path / "script.py").write_text(text)
    environment = {"PATH": os.environ["PATH"], "MINE": "a=b\nc", "PYTHONPATH": str(tmp_path / "folder")}
    done = run(kind, "script.py", "", "two words", cwd=tmp_path, env=environment, input="said\n")
    said = f"__main__ script.py ['', 'two words'] {tmp_path.name} a=b\nc\nbeside given ['MINE'] said\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, said, "error\n")


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("code", "ends", "says"),
    [
        ("raise SystemExit(7)", 7, ""),
        ("raise SystemExit('why')", 1, "why\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, ""),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
        ("import atexit, sys; atexit.register(lambda: print('at the end', file=sys.stderr))", 0, "at the end\n"),
    ],
)
def test_how_it_ends(kind: str, code: str, ends: int, says: str) -> None:
    done = run(kind, "-c", code)
    assert done.returncode == ends and done.stderr.endswith(says)


def test_nothing_is_left_for_the_next() -> None:
    spoil = (
        "import os, sys, etir.plugins; os.environ['SPOILT'] = '1'; sys.modules['spoilt'] = os; sys.path.insert(0, 's')"
    )
    show = "import os, sys; print('SPOILT' in os.environ, 'spoilt' in sys.modules, sys.path[0] == 's')"
    assert run("fork", "-c", spoil).returncode == 0
    assert run("fork", "-c", show).stdout == "False False False\n"


def test_a_shell_finds_the_tools() -> None:
    environment = os.environ | {"PATH": f"{commands()}{os.pathsep}{os.environ['PATH']}"}
    line = "echo 'func.func @f() { func.return }' | et-opt --cse | tail -n 1; et-opt --no-such-option 2>&1 | head -n 1"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.startswith("}\n") and "et-opt" in done.stdout


@pytest.mark.skipif(PROCESS_VARIABLE in os.environ, reason="there are no forks")
def test_a_command_that_is_killed_takes_its_process_with_it(tmp_path: Path) -> None:
    code = f"import os, time; open({str(tmp_path / 'id')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    command = subprocess.Popen([commands() / "python", "-c", code])
    deadline = time.monotonic() + 60
    while not (tmp_path / "id").exists() or not (tmp_path / "id").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process = int((tmp_path / "id").read_text())
    os.kill(process, 0)
    command.kill()
    command.wait()
    while time.monotonic() < deadline:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)
    pytest.fail("the process of a killed command goes on")
