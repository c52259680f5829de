"""The gate's scheduler: order, cores, needs, what it prints and measures."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

CI = Path(__file__).resolve().parents[3] / ".ci"
sys.path.insert(0, str(CI))

import scheduler as scheduling  # noqa: E402
from scheduler import Scheduler, Step  # noqa: E402


def python(name: str, code: str, needs: tuple[str, ...] = (), cores: int = 1) -> Step:
    """A step that runs a few lines."""
    return Step(name, (sys.executable, "-S", "-c", code), needs, cores)


def times(path: Path) -> str:
    """A step's code: notes when it starts and ends, and takes a while."""
    write = f"open({str(path)!r}, 'a').write"
    return f"import time; {write}('+'); time.sleep(0.3); {write}('-')"


def test_what_a_step_prints_is_kept_together(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = "import sys, time; print('{0}', flush=True); time.sleep(0.2); print('{0}', file=sys.stderr)"
    Scheduler(2, tmp_path / "gate.json").run([python(name, code.format(name)) for name in ("a", "b")], os.environ)
    said = capfd.readouterr().out
    assert "=== a\na\na\n--- a: ok" in said
    assert "=== b\nb\nb\n--- b: ok" in said


@pytest.mark.parametrize(("cores", "order"), [(2, "++--"), (1, "+-+-")])
def test_steps_run_side_by_side_on_as_many_cores_as_there_are(tmp_path: Path, cores: int, order: str) -> None:
    note = tmp_path / "note"
    Scheduler(cores, tmp_path / "gate.json").run([python(name, times(note)) for name in ("a", "b")], os.environ)
    assert note.read_text() == order


def test_a_step_that_waits_for_cores_is_not_overtaken(tmp_path: Path) -> None:
    note = tmp_path / "note"
    steps = [python("a", times(note)), python("both", times(note), cores=2), python("b", times(note))]
    scheduler = Scheduler(2, tmp_path / "gate.json")
    scheduler.run(steps, os.environ)
    assert note.read_text() == "+-+-+-"
    assert [result.name for result in scheduler.results] == ["a", "both", "b"]


def test_what_needs_a_failed_step_is_skipped_and_the_rest_runs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    steps = [
        python("bad", "raise SystemExit(3)"),
        python("after", "", needs=("bad",)),
        python("after that", "", needs=("after",)),
        python("other", ""),
    ]
    scheduler = Scheduler(1, tmp_path / "gate.json")
    scheduler.run(steps, os.environ)
    assert sorted(scheduler.failed) == ["after", "after that", "bad"]
    said = capfd.readouterr().out
    assert "--- bad: FAILED" in said and "--- after: skipped" in said and "--- other: ok" in said
    recorded = json.loads((tmp_path / "gate.json").read_text())["steps"]
    assert {step["name"]: step["status"] for step in recorded} == {
        "bad": "failed",
        "after": "skipped",
        "after that": "skipped",
        "other": "passed",
    }


def test_cpu_seconds_are_those_of_all_processes(tmp_path: Path) -> None:
    work = "import time\nwhile time.process_time() < 0.5: pass"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {work!r}])"
    scheduler = Scheduler(1, tmp_path / "gate.json")
    scheduler.run([python("work", code), python("wait", "import time; time.sleep(0.5)")], os.environ)
    worked, waited = scheduler.results
    assert worked.cpu > 0.45 and worked.wall > 0.45
    assert waited.cpu < 0.4 < waited.wall
    assert "work" in scheduler.table() and "all" in scheduler.table()


def test_processes_without_a_parent_are_counted_and_do_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "LINGER", 4.0)
    note = tmp_path / "note"
    work = "import time\nwhile time.process_time() < 0.15: pass"
    stay = f"import time; time.sleep(60); open({str(note)!r}, 'w')"
    code = "import subprocess, sys\n" + "\n".join(
        f"subprocess.Popen([sys.executable, '-S', '-c', {child!r}])" for child in (work, stay)
    )
    scheduler = Scheduler(1, tmp_path / "gate.json")
    scheduler.run([python("orphans", code)], os.environ)
    (result,) = scheduler.results
    assert result.status == "passed"
    assert result.cpu > 0.15
    assert result.wall < 30 and not note.exists()
