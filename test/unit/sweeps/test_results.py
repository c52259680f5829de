"""The file of results: which row is the last one, rows that are tried again, a disk without room, other formats."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import etir
from etir import EtirError
from etir.sweeps import Cell, Results, read_plan
from etir.sweeps import writer as writer_module
from etir.sweeps.jobs import Chains, Outcome
from etir.sweeps.store import Store
from etir.sweeps.writer import Writer

from etir_testing import ROOT
from etir_testing.sweeps import cells


def _cell(name: str) -> Cell:
    return Cell(name, "etir", "none", "float32", "default")


def _add(results: Results, id: str, status: str = "ok", message: str = "") -> None:
    assert results.add("s", id, _cell("p"), Outcome(status, message=message), 1, "c")


def test_the_last_row_is_the_last_one_that_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the clock goes backwards, and in another process."""
    for id, clock in (("a", 5000.0), ("b", 4000.0), ("c", 1.0)):
        monkeypatch.setattr("time.time", lambda clock=clock: clock)
        with Results(tmp_path / "r.sqlite") as results:
            _add(results, id)
            assert [row.id for row in results.rows()] == [id]
            assert {row.id for row in results.rows(ids={"a"})} == {"a"}


def test_a_good_row_stays_and_others_give_way(tmp_path: Path) -> None:
    with Results(tmp_path / "r.sqlite") as results:
        for id, status in (("a", "lost"), ("a", "ok"), ("a", "crash"), ("b", "crash"), ("b", "timeout")):
            _add(results, id, status)
        assert {row.id: row.status for row in results.rows(latest=False)} == {"a": "ok", "b": "timeout"}
        assert results.ids() == {"a", "b"} and results.ids(good=True) == {"a"}


def test_a_cluster_that_is_not_there_costs_no_row_that_is_tried_again(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray is not installed")
    plan: dict[str, Any] = {"function": cells.not_figures, "programs": [{"name": "p"}]}
    etir.sweep(plan, tmp_path / "r.sqlite", jobs=0)
    with pytest.raises(EtirError, match="E1907"):
        etir.sweep(plan, tmp_path / "r.sqlite", ray="127.0.0.1:1", retry=True)
    with Results(tmp_path / "r.sqlite") as results:
        assert [row.status for row in results.rows()] == ["error"]


def test_messages_of_any_kind(tmp_path: Path) -> None:
    with Results(tmp_path / "r.sqlite") as results:
        _add(results, "a", "error", "half a letter: \ud800" + "x" * 10_000)
        (row,) = results.rows()
    assert row.message.startswith("half a letter: \\ud800xxx") and len(row.message) < 5000


@pytest.mark.parametrize(("version", "text"), [(2, "has format 2"), (0x45, "has format 69")])
def test_a_newer_file(tmp_path: Path, version: int, text: str) -> None:
    path = tmp_path / "r.sqlite"
    with Results(path) as results:
        _add(results, "a")
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version={version}")
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(EtirError, match=f"E1905.*{text}"):
            Results(path, read_only=read_only)
    assert path.read_bytes() == before


def test_a_file_beside_which_nothing_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    with Results(path) as results:
        _add(results, "a")
        (tmp_path / "copy.sqlite").write_bytes(path.read_bytes())
        (tmp_path / "copy.sqlite-wal").write_bytes((tmp_path / "r.sqlite-wal").read_bytes())
    (tmp_path / "copy.sqlite-shm").symlink_to(tmp_path / "none" / "x")
    with pytest.raises(EtirError, match="E1905.*cannot read .*\n.*make room there"):
        Results(tmp_path / "copy.sqlite", read_only=True)


# --- a disk that is full ----------------------------------------------------------------------------------------------


@pytest.fixture
def full(tmp_path: Path) -> Any:
    """Results that have no room left for a row of some size."""
    with Results(tmp_path / "r.sqlite") as results:
        pages = results._db.execute("PRAGMA page_count").fetchone()[0]
        results._db.execute(f"PRAGMA max_page_count={pages}")
        yield results


LONG = Outcome(message="x" * 3900)


def test_rows_wait_for_room(full: Results) -> None:
    with Writer(full, "s", "c") as writer:
        for i in range(5):
            writer.add(str(i), _cell(f"p{i}"), LONG, 1)
        written = len(list(full.rows()))
        assert written < 5
        full._db.execute("PRAGMA max_page_count=1000")
        writer.add("5", _cell("p5"), LONG, 1)
        assert len(list(full.rows())) == 6
        assert [row.id for row in full.rows()] == [str(i) for i in range(6)]


def test_rows_that_wait_in_vain(full: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "PATIENCE", 0.3)
    with pytest.raises(EtirError, match="E1906.*the disk is full; [345] rows could not be written"):  # noqa: SIM117
        with Writer(full, "s", "c") as writer:
            for i in range(5):
                writer.add(str(i), _cell(f"p{i}"), LONG, 1)


def test_too_many_rows_that_wait(full: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "MOST", 3)
    monkeypatch.setattr(writer_module, "PATIENCE", 0.0)
    with pytest.raises(EtirError, match="E1906.*4 rows"):  # noqa: SIM117
        with Writer(full, "s", "c") as writer:
            for i in range(9):
                writer.add(str(i), _cell(f"p{i}"), LONG, 1)


def test_a_log_that_has_taken_the_room(tmp_path: Path) -> None:
    """A real disk of 256 kB beside 100 kB that are freed later: rows take it, not SQLite's log of them, and after that
    rows find the room. Linux lets everyone mount one in a namespace of their own, where the system's owner does.
    """
    (tmp_path / "disk").mkdir()
    space = ["unshare", "--user", "--map-root-user", "--mount"]
    mount = ["sh", "-c", f'mount -t tmpfs -o size=256k none {tmp_path}/disk && exec "$@"', "sh"]
    try:
        subprocess.run([*space, *mount, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no disk can be mounted here")
    done = subprocess.run([*space, *mount, sys.executable, "-c", _FILL, f"{tmp_path}/disk"], capture_output=True)
    assert not done.returncode, done.stderr.decode()
    first, then, read = map(int, done.stdout.split())
    assert first > 100 and then > first + 200 and read == then


_FILL = """
import hashlib, pathlib, sys
from etir.sweeps import Cell, Results
from etir.sweeps.jobs import Outcome
disk = pathlib.Path(sys.argv[1])
(disk / "ballast").write_bytes(bytes(100_000))
count = 0
with Results(disk / "r.sqlite") as results:
    for _ in range(2):
        while results.add("s", hashlib.sha256(bytes([count >> 8, count & 255])).hexdigest(),
                          Cell(f"p{count}", "etir", "none", "float32", "default"), Outcome(), 1, "c"):
            count += 1
        print(count)
        (disk / "ballast").unlink(missing_ok=True)
    print(len(list(results.rows())))
"""


# --- what decides a row -----------------------------------------------------------------------------------------------


def test_everything_that_decides_a_row_changes_its_id(tmp_path: Path) -> None:
    """Files that a plan names, and numbers of which one is zero."""
    manifest, ranges = tmp_path / "mine.json", tmp_path / "ranges.json"
    manifest.write_text((ROOT / "targets" / "executorch.json").read_text())
    ranges.write_text("{}")
    program: dict[str, Any] = {"name": "p", "factory": "etir_testing.sweeps.models:net"}
    recipe = {"name": "r", "recipe": "static-int8", "ranges": str(ranges)}

    def ids(**more: Any) -> list[str]:
        given = {"programs": [{**program, **more}], "targets": [str(manifest)], "recipes": ["float32", recipe]}
        plan = read_plan(given)
        chains = Chains(plan)
        return [chains.id_of(entry, cell) for entry, cell in plan.cells()]

    first = ids()
    assert ids() == first
    none = ids(tolerance=0)
    assert not {*none} & {*first} and ids(tolerance=1e-3) == first
    ranges.write_text("{ }")
    after = ids()
    assert after[0] == first[0] and after[1] != first[1]
    manifest.write_text(manifest.read_text() + "\n")
    assert not {*ids()} & {*after}


def test_where_a_plan_lies_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of two machines, which keep the same files in other folders, are of the same cells."""

    def made(folder: Path) -> list[tuple[str, ...]]:
        folder.mkdir()
        (folder / "mine.json").write_text((ROOT / "targets" / "executorch.json").read_text())
        (folder / "ranges.json").write_text("{}")
        (folder / "net.pt2").write_bytes(b"no program")
        (folder / "plan.toml").write_text(
            'programs = ["net.pt2"]\ntargets = ["mine.json"]\n'
            'recipes = [{name = "r", recipe = "static-int8", ranges = "ranges.json"}]\n'
        )
        plan = read_plan(folder / "plan.toml")
        chains = Chains(plan)
        ((program, cell),) = plan.cells()
        assert (program.file, cell.compiled_for) == (str(folder / "net.pt2"), str(folder / "mine.json"))
        return [(cell.name, *(job.key for job in chains.chain(program, cell).jobs))]

    assert made(tmp_path / "here") == made(tmp_path / "there")
    # A mapping's paths start where Python does; workers may be elsewhere.
    monkeypatch.chdir(tmp_path / "here")
    (program,) = read_plan({"programs": ["net.pt2"]}).programs
    assert program.file == str(tmp_path / "here" / "net.pt2")


def test_files_that_are_gone_since_a_plan_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    factory = {"factory": "etir_testing.sweeps.models:net"}
    for name in ("net.pt2", "calls.npz", "data.txt"):
        path = tmp_path / name
        path.write_bytes(b"")
        more = {"net.pt2": {"programs": [str(path)]}, "calls.npz": {"programs": [{**factory, "samples": str(path)}]}}
        plan = read_plan(more.get(name, {"programs": [factory], "depends": [name]}))
        path.unlink()
        with pytest.raises(EtirError, match=f"E1902.*cannot read '{path}': No such file"):
            etir.sweep(plan, tmp_path / "r.sqlite", jobs=0)


def test_a_new_file_that_another_sweep_opens_at_the_same_time(tmp_path: Path) -> None:
    """SQLite does not wait for who writes a file that is to get its write-ahead log."""
    path = tmp_path / "r.sqlite"
    sqlite3.connect(path).execute("VACUUM")  # A header, in the mode that new files have.
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    ending = threading.Timer(0.3, other.execute, ["COMMIT"])
    ending.start()
    with Results(path) as results:
        _add(results, "a")
        assert [row.id for row in results.rows()] == ["a"]
    ending.join()
    other.close()


def test_a_folder_that_several_sweeps_check_at_the_same_time(tmp_path: Path) -> None:
    failed: list[OSError] = []

    def check(start: threading.Barrier) -> None:
        start.wait()
        try:
            Store(tmp_path / "r.d").check()
        except OSError as error:
            failed.append(error)

    for _ in range(60):
        start = threading.Barrier(4)
        threads = [threading.Thread(target=check, args=(start,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed == [] and list((tmp_path / "r.d").iterdir()) == []
