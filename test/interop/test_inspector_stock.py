"""Programs of etir on the stock runtime: its profile with etir's trace, XNNPACK's operations with their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

import etir
from etir.devtools import Inspector, Trace
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
