"""Events and graphs for other viewers say what the trace and the profile say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import etir
from etir.devtools import Trace
from etir.devtools.exports import model_explorer, perfetto
from etir.tools import et_explore

from etir_testing.devtools.programs import exported
from etir_testing.nightly import cases


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exports")
    program, inputs = exported("image")
    compiled = etir.compile(program, target="etir", delegates="reference", trace=True)
    assert isinstance(compiled.trace, Trace)
    compiled.trace.save(folder / "m.trace")
    etir.runtime.load(compiled)["forward"].profile(*inputs, repeat=3).save(folder / "m.etdp")
    return folder


def written(files: Path, format: str, *words: str) -> Any:
    output = files / f"out.{format}"
    assert et_explore.main([str(files / "m.trace"), "--format", format, "-o", str(output), *words]) == 0
    return output.read_text() if format == "svg" else json.loads(output.read_text())


def test_perfetto_has_the_runs_and_the_memory_plan_on_one_clock(files: Path) -> None:
    events = written(files, "perfetto", "--profile", str(files / "m.etdp"))["traceEvents"]
    trace = Trace.load(files / "m.trace")
    plan = trace.memory["forward"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert names == {0: "run of forward", 1: "memory of forward"}
    runs = [e for e in events if e["ph"] == "X" and e["pid"] == 0]
    assert sorted({e["tid"] for e in runs}) == [0, 1, 2]
    end = max(e["ts"] + e["dur"] for e in runs if e["tid"] == 0)
    held = [e for e in events if e["ph"] == "X" and e["pid"] == 1]
    assert len(held) == sum(len(b["live"]) for b in plan["buffers"] if b["pool"] is not None)
    assert all(e["ts"] >= 0 and e["ts"] + e["dur"] <= end + 0.01 for e in held)
    # The counter's largest number is the plan's peak, from the buffers by hand.
    placed = [b for b in plan["buffers"] if b["pool"] is not None]
    alive = [
        sum(b["bytes"] for b in placed for first, last in b["live"] if first <= at <= last)
        for at in range(plan["instructions"])
    ]
    counted = [e["args"]["bytes"] for e in events if e["ph"] == "C"]
    assert max(counted) == max(alive) and counted[-1] == 0
    # Two buffers at one place are there one after the other.
    for tid in {e["tid"] for e in held}:
        rows = sorted(e["args"]["instructions"] for e in held if e["tid"] == tid)
        assert all(a[1] <= b[0] for a, b in zip(rows, rows[1:], strict=False)), rows


def test_a_plan_without_a_profile_takes_a_microsecond_for_each_instruction(files: Path) -> None:
    trace = Trace.load(files / "m.trace")
    events = json.loads(perfetto(trace))["traceEvents"]
    for event in events:
        if event["ph"] == "X":
            first, last = event["args"]["instructions"]
            assert (event["ts"], event["dur"]) == (first, last + 1 - first)
    assert perfetto(trace) == perfetto(trace)


@pytest.mark.parametrize("name", cases(["cond", "state", "encoder"], nightly=["encoder", "state"]))
def test_graphs_are_the_levels(name: str) -> None:
    trace = etir.compile(exported(name)[0], trace=True).trace
    assert isinstance(trace, Trace)
    graphs = json.loads(model_explorer(trace))["graphs"]
    assert [graph["id"] for graph in graphs][:5] == trace.levels
    for graph in graphs[:5]:
        table = trace.columns(graph["id"])
        assert [node["label"] for node in graph["nodes"]] == table["name"]
        ids = [node["id"] for node in graph["nodes"]]
        assert len(ids) == len({*ids})
        for row, node in enumerate(graph["nodes"]):
            sources = [int(edge["sourceNodeId"]) for edge in node["incomingEdges"]]
            assert sources == [at for at in table.several("operands", row) if at >= 0]
            assert node["namespace"].replace("/", ".") == table["path"][row]


def test_graphs_have_times_and_the_inside_of_delegates(files: Path) -> None:
    found = written(files, "model-explorer", "--profile", str(files / "m.etdp"), "--title", "mine")
    assert found["label"] == "mine"
    inside = [graph for graph in found["graphs"] if "ReferenceBackend" in graph["id"] or "reference" in graph["id"]]
    assert inside and any(node["label"].startswith("edge.aten.") for graph in inside for node in graph["nodes"])
    edge = next(graph for graph in found["graphs"] if graph["id"].endswith("-edge"))
    timed = [node for node in edge["nodes"] if any(a["key"] == "ms" and float(a["value"]) > 0 for a in node["attrs"])]
    assert timed and all(any(a["key"] == "source" for a in node["attrs"]) for node in timed)


def test_the_picture_and_what_is_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert written(files, "svg", "--method", "forward").startswith("<svg")
    words = [str(files / "m.trace"), "--format", "svg", "-o", str(files / "x.svg"), "--method", "other"]
    assert et_explore.main(words) != 0
    assert "there is no method 'other'; there is forward" in capsys.readouterr().err
    assert et_explore.main([str(files / "m.trace"), "--format", "model-explorer"]) == 0
    assert (files / "m.graph.json").is_file()
