"""Progress on a terminal (a pseudo-terminal) and elsewhere, of a block, a command and the passes of a pipeline."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from etir import progress
from etir.dialects.context import EtContext
from etir.dialects.text import parse_module
from etir.passes.infra.instrumentation import ShowPasses, watching
from etir.passes.infra.manager import run_pipeline
from etir.progress import Progress, duration

SCRIPT = Path(progress.__file__)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tenths of the seconds that people wait."""
    monkeypatch.setattr(progress, "SHOW_AFTER", 0.1)
    monkeypatch.setattr(progress, "REDRAW", 0.05)
    monkeypatch.setattr(progress, "SAY_EVERY", 0.3)
    monkeypatch.setenv("TERM", "xterm")


def test_a_terminal_shows_a_line_that_is_gone_at_the_end() -> None:
    stream = Terminal()
    with Progress("Title", stream) as shown:
        shown.say("first")
        time.sleep(0.25)
        shown.say("second")
        time.sleep(0.25)
    states = stream.getvalue().split("\r\x1b[K")
    assert states[0] == "" and states[-1] == ""
    assert "Title: first (0 s)" in states and "Title: second (0 s)" in states
    assert "\n" not in stream.getvalue()


def test_elsewhere_there_is_a_line_now_and_then() -> None:
    stream = io.StringIO()
    with Progress("Title", stream) as shown:
        shown.say("first")
        time.sleep(0.75)
    assert stream.getvalue() == "Title: first (0 s)\n" * 2


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()], ids=["terminal", "file"])
def test_what_is_short_says_nothing(stream: io.StringIO) -> None:
    with Progress("Title", stream) as shown:
        shown.say("first")
    assert stream.getvalue() == ""


def test_a_line_is_not_longer_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    stream = Terminal()
    with Progress("A title of many letters", stream):
        time.sleep(0.2)
    assert {len(state) for state in stream.getvalue().split("\r\x1b[K") if state} == {19}


def test_a_stream_that_is_closed_does_not_stop_the_work() -> None:
    stream = io.StringIO()
    with Progress("Title", stream):
        stream.close()
        time.sleep(0.4)


def test_an_error_goes_through_and_the_line_is_gone() -> None:
    stream = Terminal()
    with pytest.raises(ValueError, match="wrong"), Progress("Title", stream):
        time.sleep(0.2)
        raise ValueError("wrong")
    assert stream.getvalue().endswith("\r\x1b[K")


def test_durations() -> None:
    assert [duration(s) for s in (0.9, 59.9, 60, 185)] == ["0 s", "59 s", "1 min 0 s", "3 min 5 s"]


def test_passes_of_every_pipeline_in_the_block_are_said() -> None:
    said: list[str] = []
    module = parse_module("func.func @forward() { func.return }", EtContext(), name="m.mlir")
    with watching(ShowPasses(said.append)):
        run_pipeline(EtContext(), module, "cse,dce")
    run_pipeline(EtContext(), module, "cse")
    assert said == ["cse (pass 1 of 2)", "dce (pass 2 of 2)"]


def test_a_command_that_works_prints_nothing(tmp_path: Path) -> None:
    log = tmp_path / "folder" / "log"
    command = [sys.executable, SCRIPT, "--log", log, "Saying", sys.executable, "-c", "print('said')"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert log.read_text() == "said\n"


def test_a_command_that_fails_shows_its_last_lines_and_names_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = "print(*range(100), sep='\\n'); raise SystemExit(3)"
    command = [sys.executable, SCRIPT, "--log", log, "Counting", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert (
        done.stderr == "".join(f"{n}\n" for n in range(80, 100)) + f"Counting failed; all of its output is in {log}\n"
    )
    missing = subprocess.run([*command[:5], "no-such-command"], capture_output=True, text=True, check=False)
    assert missing.returncode == 127
    assert missing.stderr == "Counting failed: No such file or directory: no-such-command\n"


def test_a_command_on_a_real_terminal(tmp_path: Path) -> None:
    main, other = pty.openpty()
    command = [sys.executable, SCRIPT, "--log", tmp_path / "log", "Waiting", "sleep", "1.4"]
    done = subprocess.run(command, stderr=other, stdout=other, check=False)
    os.close(other)
    shown = os.read(main, 10_000).decode()
    os.close(main)
    assert done.returncode == 0
    assert shown == "\r\x1b[KWaiting (1 s)\r\x1b[K"
