"""Profiles with their program: every grouping has the same total, delegates and loops count, and what is refused."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from torch import nn

import etir
from etir.devtools import Inspector, Trace
from etir.devtools.differences import interval
from etir.devtools.profile.attribution import Program, parts_of
from etir.devtools.profile.profile import Kind, Profile, Row
from etir.devtools.profile.sums import GROUPINGS, NO_LINE, percentile
from etir.diagnostics import EtirError
from etir.tools import et_inspect

from etir_testing.devtools.programs import exported

ALL = (*GROUPINGS, "level:aten", "level:edge", "level:et")


@functools.cache
def traced(name: str, **settings: str) -> Trace:
    found = etir.compile(exported(name)[0], trace=True, **settings).trace
    assert isinstance(found, Trace)
    return found


def made(trace: Trace, runs: int = 3, inside: dict[str, list[int | str]] | None = None, scale: int = 1) -> Profile:
    """A profile with a row for each instruction, 1000, 2000, ... ns long; delegates report ``inside`` by symbol."""
    rows: list[Row] = []
    table = trace.instructions["forward"]
    for run in range(runs):
        now = 0
        for index in range(len(table)):
            symbol = table["delegate"][index]
            spent = (index + 1) * 1000 * scale
            for id in (inside or {}).get(symbol or "", ()):
                rows.append(Row(run, 0, index, 0, Kind.NODE, "", 5, 105, 0, id))
            kind = Kind.OPERATOR if symbol is None else Kind.DELEGATE
            name = table["operator"][index] if symbol is None else ""
            rows.append(Row(run, 0, index, 0, kind, name, now, now + spent))
            now += spent
    return Profile(tuple(rows), (), runs, "forward", program=trace.sha256)


def inspected(trace: Trace, profile: Profile) -> Inspector:
    return Inspector.of(profile, Program(trace))


@pytest.mark.parametrize(("name", "delegates"), [("image", ""), ("image", "xnnpack"), ("encoder", ""), ("loop", "")])
def test_every_grouping_has_the_same_total(name: str, delegates: str) -> None:
    trace = traced(name, delegates=delegates) if delegates else traced(name)
    inside = {symbol: [f"op #{i}" for i in range(len(nodes))] for symbol, nodes in trace.delegates.items()}
    inspector = inspected(trace, made(trace, inside=inside))
    count = len(trace.instructions["forward"])
    assert sum(inspector.totals) == pytest.approx(3 * 1e-6 * count * (count + 1) / 2)
    for what in ALL:
        groups = inspector.by(what)
        assert sum(group.total for group in groups) == pytest.approx(sum(inspector.totals), rel=1e-9), what
        assert [g.total for g in groups] == sorted((g.total for g in groups), reverse=True)


def test_a_delegate_is_its_operations_and_a_boundary() -> None:
    trace = traced("image", delegates="xnnpack")
    symbol, nodes = next(iter(trace.delegates.items()))
    inside: dict[str, list[int | str]] = {symbol: [f"Convolution (NHWC, F32) #{i}" for i in range(len(nodes))]}
    inspector = inspected(trace, made(trace, 1, inside))
    call = trace.instructions["forward"]["delegate"].index(symbol)
    parts = [part for part in inspector.sums.parts if part.row.instruction == call]
    assert [part.node for part in parts] == [*range(len(nodes)), None]
    assert all(part.exact for part in parts) and parts[-1].boundary
    assert all(part.origins for part in parts[:-1])
    assert {inspector.program.origin(n).node for n in parts[0].origins} <= {"conv2d", "batch_norm", "to", "_to_copy"}
    boundary = next(group for group in inspector.by("line") if group.boundary)
    assert boundary.total == pytest.approx((call + 1) * 1e-6 - 1e-7 * len(nodes))
    assert boundary.key == "(boundary of XnnpackBackend)" in inspector.table()


def test_a_delegate_with_other_operations_is_matched_by_kind() -> None:
    trace = traced("image", delegates="xnnpack")
    symbol, nodes = next(iter(trace.delegates.items()))
    wanted = nodes["name"].index("xnn.conv2d")
    inside: dict[str, list[int | str]] = {symbol: ["Nothing Known #1", "Convolution (NHWC, F32) IGEMM #1"]}
    parts = [part for part in inspected(trace, made(trace, 1, inside)).sums.parts if part.backend]
    assert [(part.node, part.exact) for part in parts[:2]] == [(None, False), (wanted, False)]
    numbered: dict[str, list[int | str]] = {symbol: [wanted, 999]}
    parts = [part for part in inspected(trace, made(trace, 1, numbered)).sums.parts if part.backend]
    assert [(part.node, part.exact) for part in parts[:2]] == [(wanted, True), (None, False)]


def test_times_of_another_clock_do_not_exceed_the_call() -> None:
    trace = traced("image", delegates="xnnpack")
    symbol, nodes = next(iter(trace.delegates.items()))
    inside: dict[str, list[int | str]] = {symbol: [f"op #{i}" for i in range(len(nodes))]}
    profile = made(trace, 1, inside)
    slow = [replace(row, end=row.start + 10**9) if row.kind is Kind.NODE else row for row in profile.rows]
    inspector = inspected(trace, replace(profile, rows=tuple(slow)))
    assert sum(inspector.totals) == pytest.approx(sum(row.ticks for row in profile.instructions()) * 1e-9)
    assert all(part.ticks >= -1e-6 for part in inspector.sums.parts)


def test_several_origins_share_evenly() -> None:
    trace = traced("image")
    inspector = inspected(trace, made(trace, 1))
    table = trace.instructions["forward"]
    folded = next(row for row in range(len(table)) if len(table.several("origins", row)) == 2)
    groups = {g.key.partition(" ")[2]: g for g in inspector.by("origin")}
    assert groups["conv2d"].total == groups["batch_norm"].total == pytest.approx((folded + 1) * 1e-6 / 2)
    assert groups["conv2d"].split and "* a part of the time" in inspector.table("origin")


def test_a_delegate_that_says_nothing_of_its_parts_blames_none_of_them() -> None:
    """Machine code is one call: its time is shared by all of its operations, and no single line has it."""
    trace = etir.compile(exported("image")[0], trace=True, target="etir", delegates=["native"]).trace
    assert isinstance(trace, Trace)
    table = trace.instructions["forward"]
    (row,) = (row for row in range(len(table)) if table["delegate"][row] is not None)
    (part,) = (p for p in parts_of(made(trace, 1), Program(trace)) if p.row.instruction == row)
    assert part.origins == tuple(table.several("origins", row)) and len(part.origins) > 2
    assert (part.file, part.exact, part.ticks) == ("", False, part.row.ticks)


class Slow(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = (x + 1).relu()
        y = torch.linalg.matrix_power(y / 300, 4)  # the slow line
        return y.sum(-1)


def test_a_slow_line_is_the_first_on_the_runtime(tmp_path: Path) -> None:
    program = torch.export.export(Slow().eval(), (torch.rand(256, 256),))
    compiled = etir.compile(program, target="etir", trace=True)
    assert compiled.trace is not None
    compiled.trace.save(tmp_path / "m.trace")
    method = etir.runtime.load(compiled)["forward"]
    method.profile(np.random.rand(256, 256).astype(np.float32), repeat=5).save(tmp_path / "run.etdp")
    inspector = Inspector(tmp_path / "run.etdp", trace=tmp_path / "m.trace")
    lines = Path(__file__).read_text().splitlines()
    slow = next(i for i, line in enumerate(lines, 1) if "# the slow line" in line and "matrix_power" in line)
    assert inspector.by("line")[0].key.endswith(f"test_inspector.py:{slow}"), inspector.table()
    assert len(inspector.totals) == 5 and inspector.with_line() > 0.99


def test_a_loop_counts_every_round(tmp_path: Path) -> None:
    program, inputs = exported("loop")
    compiled = etir.compile(program, target="etir", trace=True)
    method = etir.runtime.load(compiled)["forward"]
    method.profile(*[x.numpy() for x in inputs], repeat=2).save(tmp_path / "run.etdp")
    assert compiled.trace is not None
    compiled.trace.save(tmp_path / "m.trace")
    inspector = Inspector(tmp_path / "run.etdp", trace=tmp_path / "m.trace")
    sine = next(group for group in inspector.by("operator") if group.key == "aten::sin.out")
    assert sine.calls == 5, "five rounds in each of two runs"
    assert next(g for g in inspector.by("op") if g.key == "aten.sin.default").calls == 5


def test_modules_add_up() -> None:
    trace = traced("encoder")
    inspector = inspected(trace, made(trace))
    whole = inspector.find_total_for_module("layer")
    parts = inspector.find_total_for_module("layer.self_attn")
    assert 0 < parts < whole <= 1e3 * inspector.totals[0]
    assert inspector.find_total_for_module("lay") == 0


def test_without_a_trace_there_are_operators(tmp_path: Path) -> None:
    trace = traced("image")
    inspector = Inspector.of(made(trace), Program())
    assert [g.key for g in inspector.by("line")] == [NO_LINE] and inspector.with_line() == 0
    assert any(g.key == "aten::convolution.out" for g in inspector.by("operator"))
    with pytest.raises(EtirError, match="E1405.*there is no trace"):
        inspector.by("level:edge")
    with pytest.raises(EtirError, match="E1405.*there is no grouping 'lines'"):
        inspector.by("lines")


def test_a_program_with_source_lines_takes_the_place_of_a_trace(tmp_path: Path) -> None:
    compiled = etir.compile(exported("image")[0], debug_info=True)
    compiled.save(tmp_path / "m.pte")
    trace = traced("image")
    from etir.devtools.inspector import program_of

    program, pte = program_of(tmp_path / "m.pte")
    assert pte is not None
    inspector = Inspector.of(made(trace), program)
    assert inspector.with_line() == 1
    whole = Inspector.of(replace(made(trace), program=None), program)
    groups = whole.by("level:et")  # the file has this one by itself
    assert sum(g.total for g in groups) == pytest.approx(sum(whole.totals))
    assert groups[0].calls and all("et." in group.key for group in groups)
    with pytest.raises(EtirError, match="E1405.*the trace has .*et"):
        whole.by("level:edge")
    with pytest.raises(EtirError, match="E1401"):
        program_of(Path(__file__))


def test_a_program_file_with_weights_in_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its level needs the weights; it is read once for all groups."""
    program = torch.export.export(nn.Linear(4, 3).eval(), (torch.randn(2, 4),))
    etir.compile(program, target="etir", external_weights={"weights": ()}).save(tmp_path / "m.pte")
    (weights,) = tmp_path.glob("*.ptd")
    etir.runtime.load(tmp_path / "m.pte", weights)["forward"].profile(torch.randn(2, 4)).save(tmp_path / "p")
    alone = Inspector(tmp_path / "p", tmp_path / "m.pte")
    assert alone.by("operator")
    with pytest.raises(EtirError, match="E0863"):
        alone.by("level:et")
    for data in (weights, str(weights), [weights]):
        inspector = Inspector(tmp_path / "p", tmp_path / "m.pte", data=data)
        groups = inspector.by("level:et")
        assert sum(g.total for g in groups) == pytest.approx(sum(inspector.totals))
    read = inspector.program.read
    assert read is not None
    monkeypatch.setattr(inspector.program, "read", pytest.fail)
    assert [group.key for group in inspector.by("level:et")] == [group.key for group in groups]
    with pytest.raises(FileNotFoundError):
        Inspector(tmp_path / "p", tmp_path / "m.pte", data=tmp_path / "nowhere.ptd")


def test_a_profile_of_another_program_is_refused() -> None:
    trace = traced("image")
    profile = made(trace)
    for wrong in (
        replace(profile, program="00" * 32),
        replace(profile, program=None, rows=(replace(profile.rows[0], name="aten::other.out"), *profile.rows[1:])),
        replace(profile, program=None, rows=(replace(profile.rows[0], instruction=999),)),
    ):
        with pytest.raises(EtirError, match="E1404"):
            inspected(trace, wrong)
    stock = tuple(replace(row, name=row.name.partition("::")[2]) for row in profile.rows)
    inspected(trace, replace(profile, program=None, rows=stock))  # names as the stock runtime writes them


def test_a_profile_of_another_file_is_refused(tmp_path: Path) -> None:
    """Without a trace, by its instructions: with source lines a program is another file."""
    for name in ("image", "cond"):
        etir.compile(exported(name)[0]).save(tmp_path / f"{name}.pte")
    method = etir.runtime.load(tmp_path / "image.pte")["forward"]
    profile = method.profile(*exported("image")[1], repeat=1)
    profile.save(tmp_path / "run.etdp")
    assert Inspector(tmp_path / "run.etdp", tmp_path / "image.pte").by("instruction")
    etir.compile(exported("image")[0], debug_info=True).save(tmp_path / "lines.pte")
    assert (tmp_path / "lines.pte").read_bytes() != (tmp_path / "image.pte").read_bytes()
    assert Inspector(tmp_path / "run.etdp", tmp_path / "lines.pte").by("line")
    with pytest.raises(EtirError, match="E1404.*instruction [0-9]+ is .*, in the file it is "):
        Inspector(tmp_path / "run.etdp", tmp_path / "cond.pte")


def test_a_stock_profile_does_not_say_which_method_ran() -> None:
    """The one with such instructions is meant, ``forward`` where that fits, too."""
    programs = {name: exported(other)[0] for name, other in (("other", "cond"), ("forward", "loop"))}
    trace = etir.compile(programs, trace=True).trace
    assert isinstance(trace, Trace)
    for method in programs:
        table = trace.instructions[method]
        rows = [
            Row(0, 0, i, 0, Kind.OPERATOR, name, i, i + 1) for i, name in enumerate(table["operator"]) if "::" in name
        ]
        profile = Profile(tuple(rows), (), 1, None)
        assert Program(trace).method_of(profile) == method
        assert sum(group.total for group in inspected(trace, profile).by("line")) > 0
    assert Program(trace).method_of(Profile((), (), 0, None)) == "forward"


def test_percentiles_and_intervals() -> None:
    assert percentile([], 50) == 0 and percentile([3.0], 90) == 3
    assert percentile([4.0, 1.0, 3.0, 2.0], 50) == 2.5
    low, high = interval([1.0, 1.1, 0.9] * 10, [2.0, 2.1, 1.9] * 10)
    assert 0.8 < low <= high < 1.2
    low, high = interval([1.0, 2.0, 3.0] * 5, [1.0, 2.0, 3.0] * 5)
    assert low <= 0 <= high


def test_data_frame_and_chrome_trace() -> None:
    trace = traced("image")
    inspector = inspected(trace, made(trace, 2))
    events = json.loads(inspector.chrome_trace())["traceEvents"]
    assert len(events) == 2 * len(trace.instructions["forward"])
    assert {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"} == set(events[0])
    assert sum(e["dur"] for e in events) == pytest.approx(1e6 * sum(inspector.totals), rel=1e-3)
    frame = inspector.to_dataframe()  # pandas comes with executorch
    assert len(frame) == len(trace.instructions["forward"])
    assert {"event_name", "p50", "op_types", "stack_traces", "module_hierarchy"} <= set(frame.columns)


# --- the command --------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    program, inputs = exported("image")
    compiled = etir.compile(program, target="etir", trace=True)
    compiled.save("m.pte")
    assert compiled.trace is not None
    compiled.trace.save("m.trace")
    method = etir.runtime.load(compiled)["forward"]
    for name in ("run", "again"):
        method.profile(*[x.numpy() for x in inputs], repeat=6).save(f"{name}.etdp")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    try:
        ended = et_inspect.main(list(words))
    except SystemExit as end:
        ended = int(end.code or 0)
    found = capsys.readouterr()
    assert ended == code, found
    return found.err if code else found.out


def test_the_command_shows_profiles(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "run.etdp", "--trace", "m.trace", "--top", "2")
    assert text.splitlines()[0].split() == ["p50", "ms", "share", "calls", "line", "module", "operations"]
    assert "devtools/programs.py:" in text and "6 runs" in text and "0 records dropped" in text
    rows = json.loads(said(capsys, "run.etdp", "--trace", "m.trace", "--json", "--by", "operator"))["rows"]
    assert {row["operator"] for row in rows} >= {"aten::convolution.out", "aten::linear.out"}
    table = said(capsys, "run.etdp", "--trace", "m.trace", "--tsv", "--by=level:edge").splitlines()
    assert table[0].startswith("key\tp10_ms") and all(line.count("\t") == 7 for line in table)
    assert " linear.out" in said(capsys, "run.etdp", "--by", "operator")
    assert "aten::linear.out" in said(capsys, "run.etdp", "--trace", "m.pte", "--by", "operator")
    assert said(capsys, "run.etdp", "--trace", "m.trace", "--chrome", "t.json") == ""
    assert json.loads(Path("t.json").read_text())["traceEvents"]
    both = said(capsys, "run.etdp", "again.etdp", "--trace", "m.trace", "--by", "op")
    assert "change ms" in both and both.splitlines()[-1].endswith(("all", "all faster", "all slower"))


def test_the_command_shows_traces(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "m.trace", "--memory", "plan.svg", "--method", "forward")
    picture = ElementTree.parse("plan.svg").getroot()
    placed = [b for b in Trace.load("m.trace").memory["forward"]["buffers"] if b["pool"] == 1]
    shapes = picture.findall(".//{http://www.w3.org/2000/svg}title")
    assert len(shapes) == sum(len(b["live"]) for b in placed)
    size = said(capsys, "m.trace", "--size", "--by", "module")
    assert "bytes in pool 1" in size
    text = said(capsys, "m.trace", "--explain", "batch_norm")
    assert "'convolution-batch-norm'" in text and "instruction 0 of 'forward': aten::convolution.out" in text
    assert "bytes in pool 1 at" in text
    for what in ("conv", "aten.linear", "devtools/programs.py:70", "programs.py:70", "linear"):
        assert "origin" in said(capsys, "run.etdp", "--trace", "m.trace", "--explain", what), what


def test_the_command_refuses(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "E1406" in said(capsys, "m.trace", "--explain", "linaer", code=1)
    assert "did you mean" in said(capsys, "m.trace", "--explain", "linaer", code=1)
    assert "--explain, --memory or --size" in said(capsys, "m.trace", code=1)
    assert "there is no method 'other'" in said(capsys, "m.trace", "--size", "--method", "other", code=1)
    assert "one profile is shown" in said(capsys, "run.etdp", "run.etdp", "run.etdp", code=1)
    assert "need a trace" in said(capsys, "run.etdp", "--size", code=1)
    assert "E0902" in said(capsys, "nothing.etdp", code=1)
    assert "E0902" in said(capsys, "run.etdp", "--trace", "nothing.trace", code=1)
    Path("cut.etdp").write_bytes(Path("run.etdp").read_bytes()[:100])
    assert "E08" in said(capsys, "cut.etdp", code=1)
    Path("cut.trace").write_bytes(Path("m.trace").read_bytes()[:1000])
    assert "E1403" in said(capsys, "run.etdp", "--trace", "cut.trace", code=1)
