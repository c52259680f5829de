"""lit's tools in forks: the same as processes of their own, and nothing of one is left for the next.

The tools are the functions of :data:`FAKES`, in place of ``et-opt`` and the others; lit is the real one. Each has a
script beside it, which says that it is one.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Protocol

import pytest

from etir_testing import forked_tools

ROOT = Path(__file__).resolve().parents[3]

TOOLS = ("spoil", "show", "crash", "fail", "flood")

FAKES = '''
import os, signal, sys, types, warnings

def spoil():
    """Change everything that a process has."""
    os.chdir("/")
    os.environ["SPOILT"] = "yes"
    sys.argv[:] = ["spoilt"]
    sys.path.insert(0, "/spoilt")
    sys.modules["spoilt"] = types.ModuleType("spoilt")
    warnings.simplefilter("error")
    os.umask(0o777)
    os.close(0)
    raise SystemExit("everything is spoilt")

def show():
    """Print what others could have changed, and the standard input."""
    print("folder", os.path.basename(os.getcwd()), "arguments", sys.argv[1:])
    print("environment", sorted(k for k in os.environ if k in ("SPOILT", "GIVEN")))
    print("spoilt", [p for p in sys.path if p == "/spoilt"], "spoilt" in sys.modules)
    print("warnings", len(warnings.filters), "umask", os.umask(0))
    print("parent", os.getppid())
    print("input", sys.stdin.read())
    print("error", file=sys.stderr)
    return 3

def crash():
    """End by a signal, as a broken native module does."""
    os.kill(os.getpid(), signal.SIGSEGV)

def fail():
    """A bug."""
    raise ValueError("a bug")

def flood():
    """Write more than a pipe holds."""
    for number in range(100_000):
        print("line", number)
'''

CONFIG = """
import sys
from pathlib import Path
sys.path[:0] = [{test!r}, {folder!r}]
import fakes
from etir_testing import forked_tools

folder = Path({folder!r})
forked_tools.FOLDER = folder / "bin"
forked_tools.PRELOADED = ()
forked_tools.TOOLS = {{name: "fake_" + name for name in {tools!r}}}
for name in forked_tools.TOOLS:
    module = sys.modules["fake_" + name] = type(sys)("fake_" + name)
    module.main = getattr(fakes, name)
config.name = "fakes"
config.suffixes = [".case"]
config.test_format = forked_tools.ForkedTools(process="process" in lit_config.params)
config.test_exec_root = str(folder / "out")
config.environment["PATH"] = str(folder / "bin") + ":" + config.environment["PATH"]
config.environment["GIVEN"] = "1"
config.substitutions.append(("%{{process}}", "env " + forked_tools.PROCESS_VARIABLE + "=1"))
"""


class RunLines(Protocol):
    """Runs ``RUN:`` lines with lit. Returns its exit code and what it prints, commands of passing tests too."""

    def __call__(self, *lines: str, options: tuple[str, ...] = ()) -> tuple[int, str]: ...


@pytest.fixture
def run(tmp_path: Path) -> RunLines:
    """The runner, in the folder of the test; files that lines write are in ``out``."""
    (tmp_path / "bin").mkdir()
    for name in TOOLS:
        script = tmp_path / "bin" / name
        script.write_text("#!/bin/sh\necho a process of its own\n")
        script.chmod(0o755)
    (tmp_path / "fakes.py").write_text(FAKES)
    (tmp_path / "lit.cfg.py").write_text(CONFIG.format(test=str(ROOT / "test"), folder=str(tmp_path), tools=TOOLS))

    def run_lines(*lines: str, options: tuple[str, ...] = ()) -> tuple[int, str]:
        (tmp_path / "lines.case").write_text("".join(f"RUN: {line}\n" for line in lines))
        command = [Path(sys.executable).with_name("lit"), "-a", "-j1", *options, tmp_path]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert "Total Discovered Tests: 1" in done.stdout, done.stdout + done.stderr
        return done.returncode, done.stdout

    return run_lines


def test_a_tool_has_its_arguments_environment_directory_and_streams(run: RunLines, tmp_path: Path) -> None:
    code, said = run("echo text > in", "not show 'a b' c < in > shown 2>&1")
    assert code == 0, said
    shown = (tmp_path / "out" / "shown").read_text()
    assert "folder out arguments ['a b', 'c']\nenvironment ['GIVEN']\n" in shown
    assert "input text\n" in shown
    assert "error\n" in shown


def test_nothing_of_a_tool_is_left_for_the_next(run: RunLines, tmp_path: Path) -> None:
    code, said = run("not show > before < /dev/null", "not spoil 2> said", "not spoil | not show > after")
    assert code == 0, said
    assert (tmp_path / "out" / "said").read_text() == "everything is spoilt\n"
    before = (tmp_path / "out" / "before").read_text()
    assert "environment ['GIVEN']\nspoilt [] False" in before
    assert (tmp_path / "out" / "after").read_text() == before


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("show < /dev/null", ["exit status: 3", "# .---command stdout", "# | folder", "command stderr", "# | error"]),
        ("fail", ["exit status: 1", "# | Traceback", "fakes.py", "# | ValueError: a bug"]),
        ("crash", ["exit status: -11"]),
        ("not crash", ["exit status: 1"]),
        ("show > written < /dev/null", ["redirected output from 'written'", "# | folder"]),
    ],
    ids=["code", "exception", "signal", "not-signal", "redirected"],
)
def test_a_failure_is_shown_as_that_of_a_process(run: RunLines, line: str, shown: list[str]) -> None:
    code, said = run(line)
    assert code == 1
    assert [text for text in shown if text not in said] == [], said


def test_tools_of_a_pipe_run_side_by_side(run: RunLines, tmp_path: Path) -> None:
    code, said = run("flood | not show > shown")
    assert code == 0, said
    assert "input line 0\n" in (tmp_path / "out" / "shown").read_text()
    assert "line 99999\n" in (tmp_path / "out" / "shown").read_text()


@pytest.mark.parametrize(
    ("line", "options"),
    [("%{process} show", ()), ("show", ("--param", "process=1"))],
    ids=["line", "all"],
)
def test_a_process_of_its_own_when_asked_for(run: RunLines, line: str, options: tuple[str, ...]) -> None:
    code, said = run(line, options=options)
    assert code == 0
    assert "# | a process of its own" in said


def test_tools_are_those_that_the_project_installs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    scripts = {name: target.removesuffix(":main") for name, target in project["project"]["scripts"].items()}
    assert {**scripts, "filecheck": "filecheck.main"} == forked_tools.TOOLS
