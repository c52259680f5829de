"""Worker processes against cells that do to them, and to the machine, what cells can do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import etir
from etir.sweeps import slot
from etir.sweeps.jobs import Job
from etir.sweeps.model import Cell
from etir.sweeps.slot import Slot
from etir.sweeps.worker import Setup

from etir_testing.sweeps import cells
from etir_testing.sweeps.processes import is_gone, is_running


def _job(kind: str) -> Job:
    cell = Cell("p", "etir", "none", "float32", "default", {"kind": kind})
    return Job(kind, "call", {"function": f"{cells.__name__}:figures", "cell": cell})


@pytest.fixture
def worker(tmp_path: Path) -> Any:
    made = Slot(Setup(str(tmp_path / "store")), 2.0)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("kind", "status", "text"),
    [
        ("chatty", "crash", "exit code 7: "),
        ("closes", "crash", "closed its connection"),
        ("forked", "crash", "exit code 5"),
        ("real time", "crash", f"signal {signal.SIGRTMIN + 3}"),
        ("surrogate", "error", "half a letter"),
    ],
)
def test_a_cell_that_does_harm(
    worker: Slot, monkeypatch: pytest.MonkeyPatch, kind: str, status: str, text: str
) -> None:
    monkeypatch.setattr(slot, "GRACE", 0.2)
    monkeypatch.setattr(slot, "TICK", 0.1)
    found = worker.run(_job(kind))
    assert found.status == status and text in found.message
    assert (kind == "chatty") == ("the last words" in found.message)
    assert worker.run(_job("")).status == "ok"


def test_what_a_cell_has_started_ends_with_it(worker: Slot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv("ETIR_TEST_LOG", str(log))
    assert worker.run(_job("parent")).status == "timeout"
    assert is_gone(int(log.read_text()))


def test_what_a_cell_has_left_goes_with_its_worker(
    worker: Slot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv("ETIR_TEST_LOG", str(log))
    assert worker.run(_job("litter")).status == "memory"  # It was killed.
    assert Path(log.read_text()).name and not Path(log.read_text()).parent.exists()


def test_a_worker_that_cannot_be_started(worker: Slot, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/no/such/python")
        found = worker.run(_job(""))
    assert found.status == "crash" and "no process can be started" in found.message
    assert worker.run(_job("")).status == "ok"


def test_a_worker_ends_with_a_sweep_that_is_killed(tmp_path: Path) -> None:
    """The sweep gets a signal that it cannot see, while its cell hangs."""
    log = tmp_path / "log"
    plan = {"name": "p", "arguments": {"kind": "hang", "log": str(log)}}
    call = f"etir.sweep({{'function': 'etir_testing.sweeps.cells:noted', 'programs': [{plan}]}}, 'r.sqlite', jobs=1)"
    path = os.pathsep.join(p for p in sys.path if p)
    started = subprocess.Popen(
        [sys.executable, "-c", f"import etir; {call}"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}
    )
    give_up = time.monotonic() + 60
    while not log.exists() or not log.read_text().endswith("\n"):
        assert time.monotonic() < give_up and started.poll() is None
        time.sleep(0.02)
    worker = int(log.read_text().split()[2])
    assert is_running(worker)
    started.kill()
    started.wait()
    assert is_gone(worker)


def test_files_beside_the_working_directory_hide_no_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "random.py").write_text("raise ValueError('not the one of Python')\n")
    monkeypatch.chdir(tmp_path)
    plan: dict[str, Any] = {"function": cells.figures, "programs": [{"name": "p"}]}
    assert etir.sweep(plan, tmp_path / "r.sqlite", jobs=1).statuses == {"ok": 1}
