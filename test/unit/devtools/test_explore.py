"""The data of the explorer page, and what is refused; ``test_explore_page.py`` opens pages in a browser."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import etir
from etir.devtools import Trace, explore
from etir.devtools.inspector import Inspector
from etir.devtools.memory_picture import memory_svg
from etir.devtools.overlaps import overlaps
from etir.devtools.page import data as page_data
from etir.devtools.page.sources import source_lines
from etir.devtools.page.texts import shown_lines
from etir.devtools.trace.of_etrecord import trace_of_etrecord
from etir.diagnostics import EtirError
from etir.tools import et_explore, et_inspect, et_run

from etir_testing.devtools.large import large_trace, made_profile
from etir_testing.devtools.programs import PROGRAMS, exported


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="text/plain" id="data">([^<]*)</script>', page)
    assert found is not None
    return json.loads(zlib.decompress(base64.b64decode(found[1])))


def traced(name: str, **settings: str) -> Trace:
    found = etir.compile(exported(name)[0], trace=True, **settings).trace
    assert isinstance(found, Trace)
    return found


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_every_program_has_a_page_without_false_alarms(name: str, tmp_path: Path) -> None:
    program, inputs = exported(name)
    compiled = etir.compile(program, target="etir", trace=True)
    profile = etir.runtime.load(compiled)["forward"].profile(*[x.numpy() for x in inputs], repeat=3, values=True)
    profile.save(tmp_path / "run.etdp", values=tmp_path / "run.bin")
    assert isinstance(compiled.trace, Trace)
    compiled.trace.save(tmp_path / "m.trace")
    made = {"profile": tmp_path / "run.etdp", "values": tmp_path / "run.bin"}
    page = explore(tmp_path / "m.trace", tmp_path / "m.html", **made)
    assert page == (tmp_path / "m.html").read_text(encoding="utf-8") == explore(tmp_path / "m.trace", **made)
    data = data_of(page)
    assert data["findings"] == []
    assert [level["name"] for level in data["levels"]] == ["aten", "core", "edge", "backend", "et"]
    run = data["profiles"]["forward"]
    assert sum(spent for _, spent, *_ in run["instructions"]) == pytest.approx(run["total"], rel=1e-3)
    assert sum(spent for _, spent, *_ in run["lines"]) == pytest.approx(run["total"], rel=1e-3)
    rows = data["values"]["forward"]
    assert rows and all(row[7] == 0 for row in rows)
    assert all("loc(" not in level["text"] for level in data["levels"])
    assert any(file["text"] and "class Cond" in file["text"] for file in data["files"]) or name == "recurrent"


def test_a_page_opens_with_the_method_that_there_is_something_to_see_of(tmp_path: Path) -> None:
    """Where something is wrong, else which ran longest: what a person wants to know first is there without a click."""

    class Layer(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.exp() @ x

    programs = {name: torch.export.export(Layer(), (torch.ones(3, 3),)) for name in ("first", "second", "third")}
    compiled = etir.compile(programs, target="etir", trace=True)
    assert isinstance(compiled.trace, Trace)
    assert data_of(explore(compiled.trace))["method"] == "first"
    loaded = etir.runtime.load(compiled)
    loaded["second"].profile(torch.ones(3, 3)).save(tmp_path / "run.etdp")
    assert data_of(explore(compiled.trace, profile=tmp_path / "run.etdp"))["method"] == "second"
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({**compare_results(1), "method": "third"}))
    page = explore(compiled.trace, profile=tmp_path / "run.etdp", compare=wrong)
    assert data_of(page)["method"] == "third"


def test_statistics_of_values(tmp_path: Path) -> None:
    class Log(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x + 1).log() * 2

    compiled = etir.compile(torch.export.export(Log(), (torch.ones(4),)), target="etir", trace=True)
    assert isinstance(compiled.trace, Trace)
    method = etir.runtime.load(compiled)["forward"]
    method.profile(np.array([0, 1, -2, -3], np.float32), values=True).save(tmp_path / "p", values=tmp_path / "v")
    data = data_of(explore(compiled.trace, profile=tmp_path / "p", values=tmp_path / "v"))
    first = data["values"]["forward"][0]
    assert first[2:] == ["float32", [4], -2, 2, 0, 0]
    ((severity, text, origins),) = data["findings"]
    assert severity == "error" and text.startswith("forward: 2 values are NaN after instruction 1")
    assert [data["origins"]["ops"][data["origins"]["op"][i]] for i in origins] == ["aten.log.default"]
    (tmp_path / "short").write_bytes(b"\0" * 8)
    with pytest.raises(EtirError, match="E1422.*the file has 8"):
        explore(compiled.trace, profile=tmp_path / "p", values=tmp_path / "short")
    compiled.save(tmp_path / "m.pte")
    with pytest.raises(EtirError, match="E1422.*a file of another kind"):
        explore(compiled.trace, profile=tmp_path / "p", values=tmp_path / "m.pte")
    with pytest.raises(EtirError, match="E1420.*values need the profile"):
        explore(compiled.trace, values=tmp_path / "v")


def test_a_program_file_with_weights_in_another_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tools say which option is missing, and take it."""
    program = torch.export.export(nn.Linear(4, 3).eval(), (torch.randn(2, 4),))
    etir.compile(program, target="etir", external_weights={"weights": ()}).save(tmp_path / "m.pte")
    (weights,) = tmp_path.glob("*.ptd")
    file, page = str(tmp_path / "m.pte"), str(tmp_path / "m.html")
    assert et_explore.main([file, "-o", page]) == 1
    assert "error[E0863]" in capsys.readouterr().err
    assert et_explore.main([file, "--data", str(weights), "-o", page]) == 0
    sizes = data_of(Path(page).read_text(encoding="utf-8"))["sizes"]
    assert [row[:2] for row in sizes] == [["weight", 48], ["bias", 12]]
    assert et_inspect.main([file, "--size"]) == 1
    assert "error[E0863]" in capsys.readouterr().err
    assert et_inspect.main([file, "--data", str(weights), "--size"]) == 0
    assert capsys.readouterr().out


def test_a_program_file_alone_has_a_page(tmp_path: Path) -> None:
    program, inputs = exported("image")
    compiled = etir.compile(program, delegates="xnnpack", target="executorch")
    compiled.save(tmp_path / "m.pte")
    data = data_of(explore(tmp_path / "m.pte"))
    # What a delegate computes is read of its blob, also where nothing else is known of the program.
    assert [level["name"] for level in data["levels"]] == ["et", "XnnpackBackend"] and data["title"] == "m.pte"
    assert any("xnn.conv2d" in str(operation) for operation in data["levels"][1].values())
    assert data["sizes"] and data["memory"]["forward"]["name"] and data["findings"] == []
    assert "value " not in json.dumps(data["origins"])  # places in the file's table are no modules
    plain = etir.compile(program, target="etir", debug_info=True)
    plain.save(tmp_path / "d.pte")
    etir.runtime.load(plain)["forward"].profile(*[x.numpy() for x in inputs]).save(tmp_path / "run.etdp")
    data = data_of(explore(tmp_path / "d.pte", profile=tmp_path / "run.etdp"))
    assert any(
        key.startswith("devtools/programs.py:") or ".py:" in key for key, *_ in data["profiles"]["forward"]["lines"]
    )


@pytest.mark.nightly
@pytest.mark.parametrize("delegate", ["", "XnnpackBackend"])
def test_files_of_the_stock_pipeline_have_a_page(
    delegate: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Operations inside of a delegate, too, have the lines of the nodes whose debug handles they carry."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    monkeypatch.chdir(tmp_path)
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4), nn.Softmax(-1)).eval()
    program = torch.export.export(net, (torch.ones(2, 8),))
    parts = [XnnpackPartitioner()] if delegate else []
    made = to_edge_transform_and_lower(program, partitioner=parts, generate_etrecord=True).to_executorch()
    Path("m.pte").write_bytes(made.buffer)
    made.get_etrecord().save("m.etrecord")
    np.savez("x.npz", np.ones((2, 8), np.float32))
    ran = ["m.pte", "--inputs", "x.npz", "--runtime", "stock", "--etdump", "run.etdp", "--repeat", "3"]
    assert et_run.main(ran) == 0
    assert et_explore.main(["m.pte", "--profile", "run.etdp", "-o", "plain.html"]) == 0
    inside = [delegate] if delegate else []
    assert [level["name"] for level in data_of(Path("plain.html").read_text())["levels"]] == ["et", *inside]
    assert et_explore.main(["m.pte", "--record", "m.etrecord", "--profile", "run.etdp", "-o", "m.html"]) == 0
    data = data_of(Path("m.html").read_text())
    assert [level["name"] for level in data["levels"]] == ["edge", "et", *inside] and data["findings"] == []
    lines = data["profiles"]["forward"]["lines"]
    if delegate:  # what the boundary of its call takes belongs to no line
        trace = trace_of_etrecord("m.etrecord", Path("m.pte").read_bytes())
        (nodes,) = trace.delegates.values()
        assert len(nodes) >= 3 and all(source and ".py" in source[0] for source in nodes["source"]), nodes["source"]
        parts = Inspector("run.etdp", "m.pte", record="m.etrecord").sums.parts
        mapped = [part for part in parts if part.backend == delegate and not part.boundary]
        assert mapped and all(part.exact and part.file for part in mapped)
        assert et_inspect.main(["run.etdp", "--trace", "m.pte", "--record", "m.etrecord", "--by", "line"]) == 0
        assert ".py:" in capsys.readouterr().out
        return
    assert sum(share for key, _, share, *_ in lines if ".py:" in key) > 95
    with pytest.raises(EtirError, match="E1407"):
        explore("m.pte", record="m.pte")


def test_delegates_are_levels() -> None:
    data = data_of(explore(traced("image", delegates="xnnpack", target="executorch")))
    inside = next(level for level in data["levels"] if level["kind"] == "delegate")
    assert inside["name"] == "XnnpackBackend" and "xnn.conv2d" in inside["ops"]
    symbols = {symbol for symbol in data["instructions"]["forward"]["delegate"] if symbol is not None}
    assert symbols == set(inside["symbols"])


def test_constants_of_delegates_have_names() -> None:
    """Their keys in the file are digests: what they are is the type and the module of the operation that takes them."""
    data = data_of(explore(traced("image", delegates="xnnpack", target="executorch")))
    names = [name for name, _, _ in data["sizes"]]
    assert {"4x3x3x3xfp32 of conv", "4xfp32 of conv", "5x36xfp32 of head", "5xfp32 of head"} < set(names), names


def test_a_planted_overlap_is_found() -> None:
    def plan(*buffers: tuple[int, int, int, int]) -> dict[str, Any]:
        return {"buffers": [{"pool": 1, "offset": o, "bytes": n, "live": [[a, b]]} for o, n, a, b in buffers]}

    assert list(overlaps(plan((0, 64, 0, 4), (64, 64, 0, 9), (0, 64, 4, 9)))) == []  # written over in instruction 4
    assert list(overlaps(plan((0, 64, 0, 4), (32, 64, 3, 9)))) == [(0, 1, 3)]
    trace = traced("encoder", target="etir")
    buffers = trace.memory["forward"]["buffers"]
    long = [b for b in buffers if b["pool"] == 1 and any(last > first + 1 for first, last in b["live"])]
    long[1]["offset"], long[1]["live"] = long[0]["offset"], long[0]["live"]
    findings = data_of(explore(trace))["findings"]
    assert findings and all("overlap from instruction" in text for _, text, _ in findings)


def compare_results(origin: int, instruction: int | None = None, error: Any = 0.5) -> dict[str, Any]:
    """As ``et-compare --json`` writes them."""
    row = {"what": "aten.gelu", "where": "a.py:1", "origin": origin, "accumulated": 0.5, "local": error}
    row |= {"allowed": 1e-4, "instruction": instruction}
    good = {**row, "local": 1e-9}
    stage = {"name": "et/etir", "rows": [good, row], "outputs": [], "compared": 2, "total": 2, "failure": ""}
    finding = {"stage": "et/etir", "what": "aten.gelu", "where": "a.py:1", "why": "", "row": row}
    return {"method": "forward", "reference": "eager", "samples": 1, "finding": finding, "stages": [stage], "notes": []}


def test_the_memory_picture_of_a_program_file_and_of_an_overlap(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    etir.compile(exported("encoder")[0]).save("m.pte")
    assert et_inspect.main(["m.pte", "--memory", "plan.svg", "--size"]) == 0
    assert "at instruction" in capsys.readouterr().out
    assert "peak: instruction" in Path("plan.svg").read_text() and "#cc3311" not in Path("plan.svg").read_text()
    trace = traced("encoder", target="etir")
    long = [b for b in trace.memory["forward"]["buffers"] if any(last > first + 1 for first, last in b["live"])]
    long[1].update(pool=long[0]["pool"], offset=long[0]["offset"], live=long[0]["live"])
    assert memory_svg(trace, "forward").count("#cc3311") >= 2


def test_compare_results_are_findings(tmp_path: Path) -> None:
    trace = traced("image", target="etir")
    wrong = next(o for o in trace.origins if o.op == "aten.gelu.default")
    (tmp_path / "c.json").write_text(f"{json.dumps(compare_results(wrong.number))}\n" * 2)
    data = data_of(explore(trace, compare=tmp_path / "c.json"))
    found = "forward: first wrong at et/etir: aten.gelu, a.py:1"
    assert [text for _, text, _ in data["findings"]] == [found, found]
    index = data["findings"][0][2][0]
    assert data["origins"]["ops"][data["origins"]["op"][index]] == "aten.gelu.default"
    assert data["differences"][:2] == [[index, "et/etir", 1e-9, False], [index, "et/etir", 0.5, True]]

    class Result:
        def to_json(self) -> str:
            return json.dumps(compare_results(0, instruction=0, error="nan"))

    data = data_of(explore(trace, compare=Result()))
    assert data["findings"][0][2] and data["differences"][-1][2:] == [1e300, True]
    own = {**compare_results(wrong.number), "program": trace.sha256}
    other = {**own, "program": "00" * 32}
    (tmp_path / "c.json").write_text(json.dumps(own))
    assert data_of(explore(trace, compare=tmp_path / "c.json"))["findings"]
    damaged = json.dumps({**compare_results(1), "stages": [{}]})
    for text in ("", " ", "{", "[1]", '{"stages": 1}', damaged, "3", json.dumps(other)):
        (tmp_path / "c.json").write_text(text)
        with pytest.raises(EtirError, match="E1421"):
            explore(trace, compare=tmp_path / "c.json")


def test_locations_leave_the_text() -> None:
    place = 'loc(fused<#et.origin<1>>["a(("("f.py":1:2)])'
    text = f'%a = x("loc(\\"", %b) {{k = " loc(unknown)"}} : i1 {place}\n^bb0(%x: i1 loc("x"(unknown))):\n'
    assert shown_lines(text) == ['%a = x("loc(\\"", %b) {k = " loc(unknown)"} : i1', "^bb0(%x: i1):"]
    assert len(shown_lines("x" * 5000)[0]) < 2100
    assert shown_lines(" loc(" * 3000)  # in a moment, whatever is in it
    assert shown_lines(" loc(" + "(" * 3000)


def test_sources_stay_below_their_folders(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "a.py").write_text("x = 1\n")
    (inside / "a.txt").write_text("secret")
    (tmp_path / "b.py").write_text("secret")
    (inside / "link.py").symlink_to(tmp_path / "b.py")
    assert source_lines("a.py", [inside]) == ["x = 1"]
    for path in ("../b.py", str(tmp_path / "b.py"), "a.txt", "link.py", "a\0.py", "", ".", "none.py"):
        assert source_lines(path, [inside]) is None, path


def test_what_has_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.bin").write_bytes(b"something else")
    with pytest.raises(EtirError, match="E1420.*neither a trace nor a .pte file"):
        explore(tmp_path / "x.bin")
    trace = large_trace(50)
    with pytest.raises(EtirError, match="E1404"):
        explore(trace, profile=made_profile(large_trace(60), 1))
    monkeypatch.setattr(page_data, "MOST_OPERATIONS", 10)
    with pytest.raises(EtirError, match="E1423.*has 50 operations, a page shows 10"):
        explore(trace)


@pytest.mark.parametrize("entry", ["memory", "instructions"])
@pytest.mark.parametrize("value", [[], {"forward": {}}, {"forward": 3}, {"forward": {"line": [1]}}])
def test_a_damaged_trace_is_refused(entry: str, value: Any) -> None:
    import io
    import zipfile

    from etir.devtools.trace.container import pack

    entries: dict[str, str | bytes] = {}
    with zipfile.ZipFile(io.BytesIO(large_trace(20).data)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    entries[f"{entry}.json"] = json.dumps(value)
    with pytest.raises(EtirError, match="E1403"):
        explore(Trace(pack(entries)))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    large_trace(30).save("m.trace")
    assert et_explore.main(["m.trace"]) == 0 and Path("m.html").read_text().startswith("<!doctype html>")
    assert et_explore.main(["--trace=m.trace", "--output", "other.html", "--no-sources", "--title", "<b>"]) == 0
    assert "<title>&lt;b&gt;</title>" in Path("other.html").read_text()
    for words, id in (
        ([], "E0901"),
        (["m.trace", "--trace", "m.trace"], "E0901"),
        (["none.trace"], "E0902"),
        (["m.trace", "--profile", "none"], "E0902"),
        (["m.trace", "-o", "no/folder.html"], "E0903"),
        (["m.html"], "E1420"),
        (["m.trace", "--record", "none"], "E0902"),
        (["m.trace", "--values", "m.trace"], "E1420"),
        (["m.trace", "--compare", "m.html", "--sources", "."], "E1421"),
    ):
        try:
            ended = et_explore.main(words)
        except SystemExit as end:
            ended = int(end.code or 0)
        said = capsys.readouterr().err
        assert ended and f"error[{id}]" in said, said
