"""The manifest of etir's own runtime is the one that its kernels' rows make."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from etir.targets.manifest import load

ROOT = Path(__file__).resolve().parents[3]
GENERATE = ROOT / "runtime" / "kernels" / "generate.py"


def test_it_is_up_to_date(tmp_path: Path) -> None:
    subprocess.run([sys.executable, GENERATE, "--target", tmp_path / "etir.json"], check=True)
    expected = (tmp_path / "etir.json").read_text(encoding="utf-8")
    assert (ROOT / "targets" / "etir.json").read_text(encoding="utf-8") == expected, (
        "run python runtime/kernels/generate.py --target targets/etir.json"
    )


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
