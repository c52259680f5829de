"""Runs steps side by side on a few cores, keeps what each prints apart, and measures it.

Steps start in the order of their list, as soon as those that one needs have passed and as many cores are free as it
keeps busy; a step that waits for cores is not overtaken, or it would wait for the end of all. What a step prints is
shown in one piece when it ends. Wall seconds are the clock's; CPU seconds are those of all processes that a step has
started, which say more of steps that run side by side. Processes whose parent is gone (a fork server's) become children
of this one, by Linux's "child subreaper", and belong to a step by their process group.

Standard library only: this runs before anything is installed.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

PR_SET_CHILD_SUBREAPER = 36
"""``prctl``'s number, of ``linux/prctl.h``."""

SAY_EVERY = 30.0
"""Seconds of silence after which a line names the steps that run."""

POLL = 0.05
"""Seconds between two looks at the processes; a step's own time is not rounded to it by more."""

LINGER = 10.0
"""Seconds that a step's processes may go on after its command; then they are killed."""

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True)
class Step:
    """A command, and what it needs: the names of steps that have to pass first, and cores that it keeps busy."""

    name: str
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()
    cores: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """How a step ended, and the seconds it took."""

    name: str
    status: str
    wall: float = 0.0
    cpu: float = 0.0


@dataclass
class _Running:
    step: Step
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    start: float
    cpu: float = 0.0
    end: float | None = None

    def has_ended(self) -> bool:
        """Whether the command has ended and the processes that it leaves have too, or have had their time."""
        return self.end is not None and (not self.signal(0) or time.monotonic() - self.end > LINGER)

    def kill_what_is_left(self) -> None:
        """Kill the processes that have had their time, and count their seconds."""
        deadline = time.monotonic() + LINGER
        while self.signal(signal.SIGKILL) and time.monotonic() < deadline:
            time.sleep(POLL)
            _reap(self)

    def signal(self, number: int) -> bool:
        """Send a signal to all processes of the step; whether there are any."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return False
        return True


class Scheduler:
    """Runs lists of steps, one list after the other, and keeps the results of all of them."""

    def __init__(self, cores: int, report: Path):
        self.cores = cores
        _adopt_orphans()
        self.report = report
        self.results: list[Result] = []
        self.start = time.monotonic()
        self._said = self.start

    @property
    def failed(self) -> list[str]:
        """The names of steps that did not pass."""
        return [result.name for result in self.results if result.status != PASSED]

    def run(self, steps: Sequence[Step], environment: Mapping[str, str]) -> None:
        """Run all of them; those that need a failed one are skipped."""
        waiting, running = list(steps), list[_Running]()
        try:
            while waiting or running:
                self._skip(waiting)
                self._start(waiting, running, environment)
                for other in running:
                    _reap(other)
                for other in [other for other in running if other.has_ended()]:
                    other.kill_what_is_left()
                    running.remove(other)
                    self._report_end(other)
                self._say_what_runs(running)
                time.sleep(POLL)
        finally:
            for other in running:
                other.signal(signal.SIGTERM)

    def _skip(self, waiting: list[Step]) -> None:
        for step in [step for step in waiting if set(step.needs) & set(self.failed)]:
            waiting.remove(step)
            self._end(Result(step.name, SKIPPED), b"")

    def _start(self, waiting: list[Step], running: list[_Running], environment: Mapping[str, str]) -> None:
        passed = {result.name for result in self.results if result.status == PASSED}
        for step in [step for step in waiting if passed.issuperset(step.needs)]:
            if running and sum(other.step.cores for other in running) + step.cores > self.cores:
                break
            waiting.remove(step)
            running.append(_start(step, environment))

    def _report_end(self, running: _Running) -> None:
        assert running.end is not None
        running.output.seek(0)
        text = running.output.read()
        running.output.close()
        outcome = PASSED if running.process.returncode == 0 else FAILED
        self._end(Result(running.step.name, outcome, running.end - running.start, running.cpu), text)

    def _end(self, result: Result, text: bytes) -> None:
        self.results.append(result)
        self._write_report()
        write(f"=== {result.name}")
        if text:
            sys.stdout.buffer.write(text if text.endswith(b"\n") else text + b"\n")
        if result.status == SKIPPED:
            write(f"--- {result.name}: skipped, as a step that it needs did not pass")
        else:
            status = "ok" if result.status == PASSED else "FAILED"
            write(f"--- {result.name}: {status}, {result.wall:.0f} s, {result.cpu:.0f} s of CPU")
        self._said = time.monotonic()

    def _say_what_runs(self, running: Sequence[_Running]) -> None:
        now = time.monotonic()
        if running and now - self._said >= SAY_EVERY:
            names = ", ".join(f"{other.step.name} ({now - other.start:.0f} s)" for other in running)
            write(f"... {now - self.start:.0f} s, running: {names}")
            self._said = now

    def _write_report(self) -> None:
        self.report.parent.mkdir(parents=True, exist_ok=True)
        steps = [
            {"name": r.name, "status": r.status, "wall": round(r.wall, 1), "cpu": round(r.cpu, 1)} for r in self.results
        ]
        content = {"cores": self.cores, "wall": round(time.monotonic() - self.start, 1), "steps": steps}
        self.report.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    def table(self) -> str:
        """A line for each step with its seconds, and one for all."""
        width = max(len(result.name) for result in self.results)
        lines = [f"{'step':{width}}  {'wall s':>7}  {'CPU s':>7}"]
        for r in self.results:
            note = "" if r.status == PASSED else f"  {r.status}"
            lines.append(f"{r.name:{width}}  {r.wall:7.1f}  {r.cpu:7.1f}{note}")
        wall, cpu = time.monotonic() - self.start, sum(result.cpu for result in self.results)
        return "\n".join([*lines, f"{'all':{width}}  {wall:7.1f}  {cpu:7.1f}"])


def write(line: str) -> None:
    """A line of the gate's own, at once."""
    print(line, flush=True)


def _start(step: Step, environment: Mapping[str, str]) -> _Running:
    output = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the step has ended
    process = subprocess.Popen(
        step.command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**environment, **step.environment},
        start_new_session=True,
    )
    return _Running(step, process, output, time.monotonic())


def _adopt_orphans() -> None:
    """Become the parent of processes whose own is gone; elsewhere than on Linux their seconds are not counted."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap(running: _Running) -> None:
    """Take the processes of a step that have ended: their seconds, and the exit code of the command."""
    while True:
        try:
            ended = os.waitid(os.P_PGID, running.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None:
            return
        _, status, usage = os.wait4(ended.si_pid, 0)
        running.cpu += usage.ru_utime + usage.ru_stime
        if running.process.pid == ended.si_pid:
            running.end = time.monotonic()
            running.process.returncode = os.waitstatus_to_exitcode(status)
