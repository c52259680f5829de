"""Programs of etir on the stock runtime: its profile with etir's trace, XNNPACK's operations with their lines."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

import etir
from etir.devtools import Inspector, Trace
from etir.devtools.etrecord import debug_handles, read_etrecord, write_etrecord
from etir.devtools.profile.from_etdump import read_profile
from etir.devtools.profile.sums import GROUPINGS

from etir_testing.devtools.programs import exported
from etir_testing.interop.stock_profiles import stock_profile


@pytest.mark.parametrize("name", ["image", "encoder", "cond", "recurrent"])
@pytest.mark.parametrize("delegates", ["", "xnnpack"])
def test_a_stock_profile_with_our_trace(name: str, delegates: str, tmp_path: Path) -> None:
    program, inputs = exported(name)
    compiled = etir.compile(program, delegates=delegates or (), trace=True)
    trace = compiled.trace
    assert isinstance(trace, Trace)
    dump, _ = stock_profile(compiled.buffer, inputs, tmp_path, runs=3, values=False)
    (tmp_path / "run.etdp").write_bytes(dump)
    inspector = Inspector(tmp_path / "run.etdp", trace)
    assert len(inspector.totals) == 3
    total = sum(inspector.totals)
    assert total == pytest.approx(sum(row.ticks for row in read_profile(dump).instructions()) * 1e-9)
    for what in (*GROUPINGS, "level:edge"):
        assert sum(group.total for group in inspector.by(what)) == pytest.approx(total, rel=1e-3), what
    inside = [part for part in inspector.sums.parts if part.backend and not part.boundary]
    assert bool(inside) == bool(delegates)
    mapped = sum(part.ticks for part in inside if part.exact and (part.file or _lines(inspector, part.origins)))
    assert mapped >= 0.99 * sum(part.ticks for part in inside), [(p.operator, p.exact) for p in inside]


def _lines(inspector: Inspector, origins: tuple[int, ...]) -> list[str]:
    return [o.where for n in origins if (o := inspector.program.origin(n)) is not None and o.where]


@pytest.mark.parametrize("delegates", ["", "xnnpack"])
def test_the_stock_inspector_reads_our_record(delegates: str, tmp_path: Path) -> None:
    """It has operator types, source lines and modules for the rows of a program that etir compiled."""
    from executorch.devtools import Inspector as StockInspector

    program, inputs = exported("image")
    compiled = etir.compile(program, delegates=delegates or (), trace=True)
    write_etrecord(compiled, program, tmp_path / "m.etrecord", inputs=[inputs])
    dump, _ = stock_profile(compiled.buffer, inputs, tmp_path, values=False)
    (tmp_path / "run.etdp").write_bytes(dump)
    stock = StockInspector(etdump_path=str(tmp_path / "run.etdp"), etrecord=str(tmp_path / "m.etrecord"))
    rows = [event for block in stock.event_blocks if block.name == "Execute" for event in block.events]
    known = {event.name: event for event in rows if event.op_types}
    trace = compiled.trace
    assert isinstance(trace, Trace)
    for operator in trace.instructions["forward"]["operator"]:
        if operator.startswith("aten::"):
            name = f"native_call_{operator.removeprefix('aten::')}"
            assert name in known and known[name].stack_traces, (name, list(known))
            assert "programs.py" in str(known[name].stack_traces)
    read, edge = read_etrecord(tmp_path / "m.etrecord")
    assert len(read.graph.nodes) == len(program.graph.nodes) and list(edge) == ["forward"]


def test_records_that_cannot_be(tmp_path: Path) -> None:
    program, _ = exported("cond")
    with pytest.raises(etir.EtirError, match="E1407.*without a trace"):
        write_etrecord(etir.compile(program), program, tmp_path / "m.etrecord")
    traced = etir.compile({"other": program}, trace=True)
    with pytest.raises(etir.EtirError, match="E1407.*no method 'forward'"):
        write_etrecord(traced, program, tmp_path / "m.etrecord")
    (tmp_path / "bad").write_bytes(b"no record")
    with pytest.raises(etir.EtirError, match="E1407"):
        read_etrecord(tmp_path / "bad")
    # A header that promises more than any record of that many bytes has; nothing is unpacked.
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("debug_handle_map", "{}")
    data = bytearray(stream.getvalue())
    at = data.rindex(b"PK\x01\x02") + 24
    data[at : at + 4] = (0xFFFFFFF0).to_bytes(4, "little")
    (tmp_path / "bomb").write_bytes(data)
    (tmp_path / "cut").write_bytes(data[:40])
    for name in ("bomb", "cut", "bad", "nowhere"):
        for read in (read_etrecord, debug_handles):
            with pytest.raises(etir.EtirError, match=f"E1407.*{name}"):
                read(tmp_path / name)
