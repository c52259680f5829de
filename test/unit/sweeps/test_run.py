"""Sweeps on this machine: rows, what goes wrong in cells, what is read again, files that cannot be written."""

from __future__ import annotations

import resource
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

import etir
from etir import EtirError
from etir.sweeps import Results
from etir.sweeps import results as results_module
from etir.sweeps.running import runtime_of

from etir_testing.sweeps import cells

GRID: dict[str, Any] = {
    "name": "small",
    "programs": [
        {
            "name": "net",
            "factory": "etir_testing.sweeps.models:net",
            "metric": "etir_testing.sweeps.models:sum_of_outputs",
        },
        {"name": "pair", "factory": "etir_testing.sweeps.models:pair"},
        {"name": "counter", "factory": "etir_testing.sweeps.models:counter"},
    ],
    "targets": ["etir", "executorch"],
    "delegates": ["none", "xnnpack"],
    "recipes": ["float32", "weight-int8"],
    "measure": ["bytes", "arena", "method_memory", "difference", "accuracy", "latency"],
    "exclude": [
        {"target": "etir", "delegates": "xnnpack"},
        {"recipe": "weight-int8", "program": "[!n]*"},
    ],
}


def _functions(*programs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"function": cells.figures, "programs": list(programs), **more}


def _same(path: Path) -> dict[str, Any]:
    """What has to be the same wherever a sweep runs."""
    with Results(path) as results:
        return {
            row.name: (row.id, row.status, {k: v for k, v in row.figures.items() if k != "latency"})
            for row in results.rows()
        }


@pytest.mark.nightly
def test_the_same_rows_in_this_process_and_in_two(tmp_path: Path) -> None:
    one = etir.sweep(GRID, tmp_path / "one.sqlite", jobs=0)
    two = etir.sweep(GRID, tmp_path / "two.sqlite", jobs=2)
    assert str(one) == str(two) == "12 cells: 0 read, 12 run (12 ok)"
    assert _same(tmp_path / "one.sqlite") == _same(tmp_path / "two.sqlite")
    rows = {row.name: row for row in two.rows()}
    # torch computes the metric, too: eager's outputs of the three calls.
    import torch

    from etir_testing.sweeps import models

    model = models.net()
    with torch.no_grad():
        eager = sum(float(model.module(*call).sum()) for call in [model.inputs, *model.more])
    assert rows["net/executorch/xnnpack/float32/default"].figures["accuracy"] == pytest.approx(eager, 1e-4)
    assert 0 < float(rows["net/etir/none/weight-int8/default"].figures["difference"]) < 0.05  # type: ignore[arg-type]
    assert rows["counter/etir/none/float32/default"].figures["difference"] == 0.0
    assert all(float(row.figures["latency"]) > 0 for row in rows.values())  # type: ignore[arg-type]
    assert all(row.processor and row.host for row in rows.values())
    assert "method_memory" in rows["pair/etir/none/float32/default"].figures
    assert "method_memory" not in rows["pair/executorch/none/float32/default"].figures
    # A third run reads, and nothing else.
    before = (tmp_path / "two.sqlite").read_bytes(), sorted((tmp_path / "two.sqlite.d").rglob("*"))
    assert str(etir.sweep(GRID, tmp_path / "two.sqlite")) == "12 cells: 12 read, 0 run"
    assert before == ((tmp_path / "two.sqlite").read_bytes(), sorted((tmp_path / "two.sqlite.d").rglob("*")))
    # Rows that are lost come from the artefacts: the stages of the file are not done again.
    with sqlite3.connect(tmp_path / "two.sqlite") as db:
        db.execute("DELETE FROM cells WHERE program='net'")
    again = etir.sweep(GRID, tmp_path / "two.sqlite", jobs=0)
    assert (again.read, again.ran) == (6, 6)
    assert _same(tmp_path / "one.sqlite") == _same(tmp_path / "two.sqlite")


def test_cells_that_end_their_process(tmp_path: Path) -> None:
    kinds = ("crash", "exit", "full", "hang", "killed", "memory", "raise", "")
    plan = _functions(
        *({"name": kind or "fine", "arguments": {"kind": kind}} for kind in kinds),
        limits={"seconds": 3, "memory": "300 MB"},
    )
    found = etir.sweep(plan, tmp_path / "r.sqlite", jobs=2)
    rows = {row.program: (row.status, row.error, row.message) for row in found.rows()}
    assert {name: row[:2] for name, row in rows.items()} == {
        "crash": ("crash", "E1908"),
        "exit": ("crash", "E1908"),
        "full": ("disk", "E1906"),
        "hang": ("timeout", "E1909"),
        "killed": ("memory", "E1910"),
        "memory": ("memory", "E1910"),
        "raise": ("error", "E1912"),
        "fine": ("ok", ""),
    }
    assert "signal SIGSEGV: about to crash" in rows["crash"][2] and "exit code 3" in rows["exit"][2]
    assert "ValueError: no such thing" in rows["raise"][2]
    # Failures are rows, too: they are read, unless they are to be tried again.
    assert etir.sweep(plan, tmp_path / "r.sqlite", jobs=1).ran == 0
    assert etir.sweep(plan, tmp_path / "r.sqlite", jobs=0, retry=True, only="fine/*").cells == 1
    assert len(list(found.rows())) == len(kinds)  # What is not asked for stays as it is.
    before = (tmp_path / "r.sqlite").read_bytes()
    assert etir.sweep(plan, tmp_path / "r.sqlite", jobs=0).ran == 0
    assert (tmp_path / "r.sqlite").read_bytes() == before


@pytest.mark.parametrize(
    ("factory", "more", "error", "text"),
    [
        ("nothing", {}, "E1904", "a int is neither a module nor a program"),
        ("broken", {}, "E1904", "ValueError: no weights"),
        ("pair", {"metric": "etir_testing.sweeps.models:no_metric"}, "E1912", "the metric: KeyError"),
        ("pair", {"samples": "etir_testing.sweeps.models:broken"}, "E1912", "no weights"),
    ],
)
def test_programs_that_cannot_be_made(tmp_path: Path, factory: str, more: Any, error: str, text: str) -> None:
    program = {"factory": f"etir_testing.sweeps.models:{factory}", **more}
    plan = {"programs": [program], "targets": ["etir"], "recipes": ["float32", "weight-int8"]}
    rows = etir.sweep(plan, tmp_path / "r.sqlite", jobs=0, only="*/float32/*").rows()
    assert [row.error for row in rows] == [error] and text in rows[0].message


def test_functions_that_give_no_figures(tmp_path: Path) -> None:
    plan = {"function": cells.not_figures, "programs": [{"name": "x"}]}
    (row,) = etir.sweep(plan, tmp_path / "r.sqlite", jobs=0).rows()
    assert row.error == "E1912" and "not figures by name" in row.message


def test_figures_of_numpy_and_none(tmp_path: Path) -> None:
    plan = {"function": cells.scalars, "programs": [{"name": "numbers"}, {"name": "array"}]}
    rows = {row.program: row for row in etir.sweep(plan, tmp_path / "r.sqlite", jobs=0).rows()}
    assert rows["numbers"].figures == {"single": 0.5, "count": 3, "flag": True, "rank 0": 0.0}
    assert rows["array"].error == "E1912" and "figure 'several' is a ndarray" in rows["array"].message


def test_a_metric_that_gives_no_number(tmp_path: Path) -> None:
    program = {"factory": "etir_testing.sweeps.models:pair", "metric": "etir_testing.sweeps.models:not_a_number"}
    (row,) = etir.sweep({"programs": [program], "targets": ["etir"]}, tmp_path / "r.sqlite", jobs=0).rows()
    assert (row.status, row.message) == ("wrong", "the metric says nan")
    assert row.figures["accuracy"] != row.figures["accuracy"] and int(row.figures["bytes"]) > 0  # type: ignore[arg-type]


def test_a_metric_that_raises_leaves_the_other_figures(tmp_path: Path) -> None:
    program = {"factory": "etir_testing.sweeps.models:pair", "metric": "etir_testing.sweeps.models:no_metric"}
    (row,) = etir.sweep({"programs": [program], "targets": ["etir"]}, tmp_path / "r.sqlite", jobs=0).rows()
    assert (row.status, row.error) == ("error", "E1912")
    assert int(row.figures["bytes"]) > 0 and row.figures["difference"] == pytest.approx(0, abs=1e-6)  # type: ignore[arg-type]


def test_a_program_that_is_wrong_or_does_not_fit(tmp_path: Path) -> None:
    net = {"name": "net", "factory": "etir_testing.sweeps.models:net", "tolerance": 0}
    plan = {"programs": [net], "targets": ["etir", "executorch"], "delegates": ["none", "reference"]}
    rows = {row.name: row for row in etir.sweep(plan, tmp_path / "r.sqlite", jobs=0).rows()}
    assert rows["net/executorch/reference/float32/default"].error == "E1102"
    wrong = [row for row in rows.values() if row.status == "wrong"]
    assert wrong and all("from eager" in row.message for row in wrong)


def test_measurements_are_never_side_by_side(tmp_path: Path) -> None:
    """Two sweeps at once, each on two processes: begin and end of the noted cells never overlap."""
    log = tmp_path / "log"

    def run(name: str) -> None:
        programs = [{"name": f"{name}{i}", "arguments": {"log": str(log), "seconds": 0.05}} for i in range(4)]
        plan = {"function": cells.noted, "exclusive": True, "programs": programs}
        etir.sweep(plan, tmp_path / "r.sqlite", jobs=2)

    threads = [threading.Thread(target=run, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = [line.split() for line in log.read_text().splitlines()]
    assert len(lines) == 16
    assert all(
        begin[:2] == ["begin", end[1]] and end[0] == "end" for begin, end in zip(lines[::2], lines[1::2], strict=True)
    )
    assert len({line[2] for line in lines}) >= 2


def test_two_sweeps_of_one_plan_lose_and_double_no_row(tmp_path: Path) -> None:
    plan = _functions(*({"name": f"p{i}"} for i in range(300)))
    threads = [
        threading.Thread(target=etir.sweep, args=(plan, tmp_path / "r.sqlite"), kwargs={"jobs": 1}) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Results(tmp_path / "r.sqlite") as results:
        assert sorted(row.program for row in results.rows(latest=False)) == sorted(f"p{i}" for i in range(300))


def test_a_stopped_sweep_goes_on(tmp_path: Path) -> None:
    plan = _functions(*({"name": f"p{i}"} for i in range(20)))
    seen: list[str] = []

    def stop(name: str, _: object) -> None:
        seen.append(name)
        if len(seen) == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        etir.sweep(plan, tmp_path / "r.sqlite", jobs=2, watch=stop)
    found = etir.sweep(plan, tmp_path / "r.sqlite", jobs=2)
    assert (found.read, found.ran) == (7, 13)


def test_a_change_of_what_decides_makes_new_cells(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def cell(c):\n    return {'value': 1}\n")
    path = tmp_path / "plan.toml"
    path.write_text('function = "mine:cell"\n[[programs]]\nname = "x"\n')
    assert etir.sweep(path, tmp_path / "r.sqlite", jobs=1).ran == 1
    assert etir.sweep(path, tmp_path / "r.sqlite", jobs=1).ran == 0
    (tmp_path / "mine.py").write_text("def cell(c):\n    return {'value': 2}\n")
    found = etir.sweep(path, tmp_path / "r.sqlite", jobs=1)
    assert found.ran == 1 and [row.figures for row in found.rows()] == [{"value": 2}]
    with Results(tmp_path / "r.sqlite") as results:
        assert len(list(results.rows(latest=False))) == 2


@pytest.mark.parametrize("jobs", [0, 1])
def test_modules_that_change_while_this_process_runs(tmp_path: Path, jobs: int) -> None:
    """A notebook: a module beside the plan is edited, and another plan has one of the same name."""

    def sweep(folder: str, value: int, more: str = "") -> list[dict[str, Any]]:
        (tmp_path / folder).mkdir(exist_ok=True)
        source = f"def names():\n    return ['p{value}']\n\ndef cell(c):\n    return {{'value': {value}}}\n{more}"
        (tmp_path / folder / "etir_test_mine.py").write_text(source)
        path = tmp_path / folder / "plan.toml"
        function = "another" if more else "cell"
        path.write_text(f'function = "etir_test_mine:{function}"\n[[programs]]\neach = "etir_test_mine:names"\n')
        return [{row.program: row.figures} for row in etir.sweep(path, tmp_path / "r.sqlite", jobs=jobs).rows()]

    assert sweep("a", 1) == [{"p1": {"value": 1}}]
    assert sweep("a", 20) == [{"p20": {"value": 20}}]
    assert sweep("b", 300) == [{"p300": {"value": 300}}]
    assert sweep("a", 20) == [{"p20": {"value": 20}}]
    assert sweep("a", 4, "another = cell\n") == [{"p4": {"value": 4}}]


def test_a_module_inside_of_a_package_that_changes(tmp_path: Path) -> None:
    (tmp_path / "etir_test_package").mkdir()
    (tmp_path / "etir_test_package" / "__init__.py").write_text("")
    path = tmp_path / "plan.toml"
    path.write_text('function = "etir_test_package.inner:cell"\n[[programs]]\nname = "x"\n')
    for value in (1, 20, 300):
        (tmp_path / "etir_test_package" / "inner.py").write_text(f"def cell(c):\n    return {{'value': {value}}}\n")
        (row,) = etir.sweep(path, tmp_path / "r.sqlite", jobs=0).rows()
        assert row.figures == {"value": value}


# --- files ------------------------------------------------------------------------------------------------------------


def test_files_that_are_no_results(tmp_path: Path) -> None:
    plan = _functions({"name": "x"})
    (tmp_path / "text").write_text("hello, this is no database" * 100)
    sqlite3.connect(tmp_path / "other.sqlite").execute("CREATE TABLE mine (a)").close()
    for name in ("text", "other.sqlite"):
        with pytest.raises(EtirError, match="E1905"):
            etir.sweep(plan, tmp_path / name, jobs=0)
    with pytest.raises(EtirError, match="E1905.*there is no file"):
        Results(tmp_path / "none.sqlite", read_only=True)
    with pytest.raises(EtirError, match="E1906"):
        etir.sweep(plan, tmp_path / "none" / "r.sqlite", jobs=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(EtirError, match="E1906.*cannot write"):
        etir.sweep(plan, tmp_path / "r.sqlite", jobs=0, store=tmp_path / "file" / "store")
    with pytest.raises(EtirError, match="E1903"):
        etir.sweep(plan, tmp_path / "r.sqlite", jobs=-1)


def test_a_file_that_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = _functions({"name": "x"})
    etir.sweep(_functions({"name": "y"}), tmp_path / "r.sqlite", jobs=0)
    monkeypatch.setattr(results_module, "PATIENCE", 0.2)
    other = sqlite3.connect(tmp_path / "r.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(EtirError, match="E1906.*locked"):
        etir.sweep(plan, tmp_path / "r.sqlite", jobs=0)
    other.execute("ROLLBACK")
    assert etir.sweep(plan, tmp_path / "r.sqlite", jobs=0).ran == 1


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """Files may not grow beyond a size: artefacts are rows, the file of results is an error, and rows stay."""
    plan = {"programs": [{"factory": "etir_testing.sweeps.models:pair"}], "targets": ["etir"], "measure": ["bytes"]}
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    many = _functions(*({"name": f"p{i}"} for i in range(400)))
    etir.sweep(_functions({"name": "first"}), tmp_path / "full.sqlite", jobs=0)
    etir.sweep(_functions({"name": "first"}), tmp_path / "r.sqlite", jobs=0)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (36_000, before[1]))
        with pytest.raises(EtirError, match="E1906"):
            etir.sweep(many, tmp_path / "full.sqlite", jobs=0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_960, before[1]))
        big = {**plan, "programs": [{"factory": "etir_testing.sweeps.models:net", "arguments": {"width": 2000}}]}
        row = next(r for r in etir.sweep(big, tmp_path / "r.sqlite", jobs=0).rows() if r.program == "net")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (row.status, row.error) == ("disk", "E1906")
    with Results(tmp_path / "full.sqlite") as results:
        rows = len(list(results.rows()))
    assert 1 <= rows < 400
    assert etir.sweep(many, tmp_path / "full.sqlite", jobs=0).read >= rows - 1


def test_a_program_that_the_stock_runtime_does_not_take() -> None:
    with pytest.raises(EtirError) as found:
        run = runtime_of("executorch", b"no program at all")
        assert not isinstance(run, str)
        run([])
    assert found.value.ids == ("E1913",)
