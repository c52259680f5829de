"""Measured schedules: on this machine, kept in a file, edited, and from another machine.

What is wrong with a file is an error, though the delegate may leave operators to the kernels; a schedule that cannot be
done is left to them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.backends.native.cpu import cpu  # noqa: E402
from etir.backends.native.tune import is_host  # noqa: E402
from etir.diagnostics import EtirError  # noqa: E402

from etir_testing.native.images import here  # noqa: E402

CPU = here()[-1]


def compiled(tune: str, fallback: Any = "allow") -> tuple[torch.nn.Module, Any, etir.Program]:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(48, 80), torch.nn.GELU(), torch.nn.Linear(80, 33)).eval()
    x = torch.randn(30, 48)
    exported = torch.export.export(module, (x,))
    options = f"native{{cpus={CPU} tune={tune}}}"
    program = etir.compile(exported, target="etir", delegates=[options], fallback=fallback)
    return module, x, program


def agrees(module: torch.nn.Module, x: Any, program: etir.Program) -> None:
    with torch.no_grad():
        want = module(x)
    (got,) = etir.runtime.load(program).forward(x)
    assert (got - want).abs().max() <= 1e-5 * want.abs().max()


def test_the_processors_of_this_machine_are_known() -> None:
    assert is_host(cpu(CPU))
    assert not is_host(cpu("cortex-m55")) and not is_host(cpu("rv64gcv"))


def test_this_machine_is_measured() -> None:
    agrees(*compiled("host"))


def test_a_file_keeps_what_was_measured_and_may_be_edited(tmp_path: Path) -> None:
    path = tmp_path / "schedules.json"
    module, x, program = compiled(str(path))
    agrees(module, x, program)
    assert not program.warnings
    kept = json.loads(path.read_text())
    rows = kept["schedules"][CPU]
    assert len(rows) == 2 and all(row["us"] > 0 and "tile.brgemm" in row["operation"] for row in rows.values())
    # Nothing is measured again: the same bytes of code, and of the file.
    text = path.read_text()
    assert compiled(str(path))[2].buffer == program.buffer and path.read_text() == text
    for row in rows.values():
        row["schedule"] = {"tile": [3, 1], "depth": 17, "rows": 6}
    path.write_text(json.dumps(kept))
    edited = compiled(str(path))
    agrees(*edited)
    assert edited[2].buffer != program.buffer
    assert not edited[2].warnings
    for row in rows.values():
        row["schedule"] = {"tile": [300, 1], "depth": 17, "rows": 6}
    path.write_text(json.dumps(kept))
    # What cannot be done runs on the kernels, and a warning says why; with refuse, it is an error.
    module, x, program = compiled(str(path))
    agrees(module, x, program)
    assert {warning.id.id for warning in program.warnings} == {"E1164"}
    for warning in program.warnings:
        assert "needs more than" in warning.message and str(path) in warning.message and warning.location is not None
    with pytest.raises(EtirError, match="E1164"):
        compiled(str(path), fallback="refuse")
    for illegal in ({"rows": 10**25}, {"rows": 1 << 62}, {"rows": 0}, {"depth": -(10**25)}, {"height": 1}, {}):
        for row in rows.values():
            row["schedule"] = illegal
        path.write_text(json.dumps(kept))
        agrees(*compiled(str(path)))
        with pytest.raises(EtirError, match="E1164"):
            compiled(str(path), fallback="refuse")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 7, "schedules": {}}',
        '{"version": 1, "schedules": {"x": 1}}',
    ],
)
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "schedules.json"
    path.write_text(text)
    with pytest.raises(EtirError, match="E1172"):
        compiled(str(path))


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EtirError, match="E1172"):
        compiled(str(tmp_path / "no" / "schedules.json"))
