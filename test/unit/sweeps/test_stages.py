"""What rows say of programs: weights in files of their own, layers in another precision, and what was not compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import etir
from etir.sweeps import Row
from etir.sweeps.store import Store

from etir_testing import ROOT


def _rows(path: Path, name: str, **more: Any) -> dict[str, Row]:
    plan = {"programs": [{"name": name, "factory": f"etir_testing.sweeps.models:{name}"}], "targets": ["etir"], **more}
    found = etir.sweep(plan, path, jobs=0).rows()
    return {f"{Path(row.target).stem}/{row.recipe}/{row.options}": row for row in found}


def test_weights_in_files_of_their_own(tmp_path: Path) -> None:
    options = [
        {"name": "inside"},
        {"name": "one", "external_weights": "weights"},
        {"name": "two", "external_weights": {"first": "0.*", "rest": "*"}},
    ]
    measure = ["bytes", "difference", "latency"]
    rows = _rows(tmp_path / "r.sqlite", "net", targets=["etir", "executorch"], options=options, measure=measure)
    assert {row.status for row in rows.values()} == {"ok"}
    not_run = "executorch/float32/two"
    for name, row in rows.items():
        ran = name != not_run
        assert row.figures["ran"] is ran and ("difference" in row.figures) == ("latency" in row.figures) == ran
        assert ran or "one file of external weights, not 2" in row.message
    assert rows["etir/float32/one"].figures["difference"] == rows["etir/float32/inside"].figures["difference"]
    store = Store(tmp_path / "r.sqlite.d")
    tags = sorted(path.name.partition(".")[2] for path in store.folder.rglob("*.ptd"))
    assert tags == ["first.ptd", "first.ptd", "rest.ptd", "rest.ptd", "weights.ptd", "weights.ptd"]


def test_layers_in_another_precision(tmp_path: Path) -> None:
    gptq = {"name": "gptq", "recipe": "weight-int4", "rounding": "gptq"}
    rows = _rows(tmp_path / "r.sqlite", "uneven", recipes=["float32", "weight-int8", "weight-int4", gptq])
    said = {row.recipe: (row.figures.get("layers"), row.message) for row in rows.values()}
    assert said["float32"] == (None, "") and said["weight-int8"] == ("2 int8 weights", "")
    layers, message = said["weight-int4"]
    assert layers == "1 int8 weights, 1 int4 weights"
    assert message == "1 of 2 layers with weights are not int4 weights: 2 is int8 weights"
    assert "weights of 2 layers rounded by gptq" in said["gptq"][1]
    differences = {rows[name].figures["difference"] for name in ("etir/weight-int4/default", "etir/gptq/default")}
    assert len(differences) == 2  # The keywords reach the quantizer.


def test_calibration_runs_once_for_what_is_observed_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ways to choose integers share it, also in another sweep of the same folder; other data, and what delegates
    observe besides, do not; and nothing else changes.
    """
    from etir.quantization import calibration

    ran: list[int] = []
    original = calibration._seen
    monkeypatch.setattr(calibration, "_seen", lambda *given: ran.append(1) or original(*given))
    recipes = [
        {"name": name, "recipe": "static-int8", "equalize": False, **more}
        for name, more in (("plain", {}), ("mse", {"encodings": "mse"}), ("gptq", {"rounding": "gptq"}))
    ]
    together = _rows(tmp_path / "r.sqlite", "uneven", recipes=recipes)
    first = len(ran)
    alone = _rows(tmp_path / "a.sqlite", "uneven", recipes=recipes[:1])
    assert len(ran) == 2 * first  # As often for three recipes as for one.
    more = _rows(tmp_path / "r.sqlite", "uneven", recipes=[{**recipes[0], "name": "bias", "correct_bias": True}])
    assert len(ran) == 2 * first and more["etir/bias/default"].status == "ok"
    name = "etir/plain/default"
    assert together[name].figures["difference"] == alone[name].figures["difference"]
    _rows(tmp_path / "r.sqlite", "net", recipes=recipes[:1])
    assert len(ran) > 2 * first


def test_targets_that_observe_alike_share_a_calibration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """etir's kernels and XNNPACK compute the same layers on integers: the program runs once for both, and each row is
    what it is without the other.
    """
    from etir.quantization import calibration

    ran: list[int] = []
    original = calibration._seen
    monkeypatch.setattr(calibration, "_seen", lambda *given: ran.append(1) or original(*given))
    recipes = [{"name": "int8", "recipe": "static-int8", "equalize": False}]
    both = {"targets": ["etir", "executorch"], "delegates": ["none", "xnnpack"]}
    exclude = [{"target": "etir", "delegates": "xnnpack"}, {"target": "executorch", "delegates": "none"}]
    together = _rows(tmp_path / "both.sqlite", "uneven", recipes=recipes, exclude=exclude, **both)
    assert len(ran) == 1 and {row.status for row in together.values()} == {"ok"}
    alone = {
        **_rows(tmp_path / "one.sqlite", "uneven", recipes=recipes),
        **_rows(tmp_path / "other.sqlite", "uneven", recipes=recipes, targets=["executorch"], delegates=["xnnpack"]),
    }
    assert len(ran) == 3
    for name, row in together.items():
        same = {key: value for key, value in row.figures.items() if key != "compile_seconds"}
        assert same == {key: value for key, value in alone[name].figures.items() if key != "compile_seconds"}


def test_inputs_that_are_channels_last(tmp_path: Path) -> None:
    """The runtimes take bytes: those of every call are in the order of the inputs that the program was exported on."""
    rows = _rows(tmp_path / "r.sqlite", "channels_last", targets=["etir", "executorch"])
    assert {name: row.status for name, row in rows.items()} == dict.fromkeys(rows, "ok") and len(rows) == 2


def test_a_row_of_nothing_is_not_ok(tmp_path: Path) -> None:
    (row,) = _rows(tmp_path / "r.sqlite", "empty").values()
    assert (row.status, row.is_good) == ("unchecked", False) and "no call gives a number" in row.message


def test_a_target_without_a_runtime(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text((ROOT / "targets" / "executorch.json").read_text())
    (row,) = _rows(tmp_path / "r.sqlite", "pair", targets=[str(tmp_path / "mine.json")]).values()
    assert row.status == "ok" and row.figures["ran"] is False
    assert row.message.startswith("compiled, and not run: there is no runtime for target")
