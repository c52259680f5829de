"""The manifest of etir's own runtime: its kernels' rows, which the C++ build reads too."""

from __future__ import annotations

import json
import re
from pathlib import Path

from etir.targets.manifest import load

ROOT = Path(__file__).resolve().parents[3]
KERNELS = ROOT / "runtime" / "kernels"


def test_rows_name_their_sources_and_sources_have_rows() -> None:
    families = {path.parent: json.loads(path.read_text("utf-8")) for path in KERNELS.glob("*/kernels.json")}
    assert {family.name for family in families} == set(load("etir").libraries)
    for family, rows in families.items():
        assert {row["source"] for row in rows.values()} == {path.name for path in family.glob("*.cc")}
        for name, row in rows.items():
            assert load("etir").kernels[name].schema_text == row["schema"]
            assert load("etir").kernels[name].library == family.name


def test_every_rule_and_schema_parses() -> None:
    manifest = load("etir")
    assert len(manifest.kernels) > 500
    for name, kernel in manifest.kernels.items():
        assert name.removesuffix(".default") == kernel.schema.qualified_name
        assert kernel.dtypes.rows


def test_every_kernel_of_the_stock_runtime_is_there() -> None:
    assert [name for name in load("executorch").kernels if load("etir").lookup(name) is None] == []


def test_checks_have_numbers_of_their_own() -> None:
    text = (ROOT / "runtime" / "core" / "checks.def").read_text(encoding="utf-8")
    rows = re.findall(r"^ETIR_CHECK\((\w+), (\d+), (\w+), \"", text, re.MULTILINE)
    assert len(rows) == text.count("\nETIR_CHECK(") > 30
    assert len({name for name, _, _ in rows}) == len(rows)
    assert len({number for _, number, _ in rows}) == len(rows)
