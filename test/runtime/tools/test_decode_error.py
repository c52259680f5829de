"""Error records of runs that failed, as sentences: the Python module, bare metal, and what a user may do wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import etir.runtime
from etir.emit.debug_file import of_module, of_program
from etir.emit.pte.reader import read_pte
from etir.runtime import RuntimeFailure
from etir.tools.decode_error import Origin, decode
from etir.tools.error_record import Record, checks, read_records
from etir.tools.et_translate import main

from etir_testing.runtime.cross import MACHINES, build, run
from etir_testing.runtime.decoding import Gather, check_text, decoded, gather

MESSAGE = "index 7 is out of bounds for a dimension of size 3 in aten::index_select.out"
CALL = (
    "aten::index_select.out(self: %mul = float32[3, 4], dim: 0, index: %rows = int64[2], "
    "out: %index_select = float32[2, 4])"
)
BAD = (torch.ones(3, 4), torch.tensor([0, 7]))


def test_a_failure_in_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = gather()
    with pytest.raises(RuntimeFailure) as caught:
        etir.runtime.load(program.buffer).forward(*BAD)
    failure = caught.value
    record = {"check": failure.check, "method": failure.method, "instruction": failure.instruction,
              "operator": failure.operator, "values": failure.values}  # fmt: skip
    check_text(decoded(json.dumps(record), program, tmp_path, capsys), MESSAGE, CALL)


def test_a_failure_on_bare_metal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine = MACHINES["cortex-m55"]
    if machine.missing is not None:
        pytest.skip(f"{machine.missing} is not installed")
    program = gather()
    done = run(machine, build(machine, program, BAD))
    assert done.code == 1
    assert done.text == "execute: etir-error 606 0 1 1 7 3\n"
    check_text(decoded(done.text, program, tmp_path, capsys), MESSAGE, CALL)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("decode")
    program = gather()
    program.save(folder / "m.pte")
    (folder / "m.debug.json").write_text(program.debug_file())
    other = program.debug_file().replace('"sha256":"', '"sha256":"0')
    (folder / "other.debug.json").write_text(other)
    return folder


def failing(capsys: pytest.CaptureFixture[str], *options: str | Path) -> str:
    capsys.readouterr()
    assert main(["--decode-error", *map(str, options)]) == 1
    return capsys.readouterr().err


def test_what_is_no_record_is_refused(capsys: pytest.CaptureFixture[str], files: Path, tmp_path: Path) -> None:
    program = ["--program", files / "m.pte"]
    (tmp_path / "log").write_text("nothing of the kind\netir-error 1 2 3\n")
    assert "error[E0912]: the text holds no error record" in failing(capsys, tmp_path / "log")
    assert "has no check 999" in failing(capsys, "etir-error 999 0 0 0 0 0")
    assert "has no check Nothing" in failing(capsys, '{"check": "Nothing"}')
    assert "is no JSON" in failing(capsys, '{"check": ')
    assert "'a' of the error record is 1.5" in failing(capsys, '{"check": 606, "a": 1.5}')
    assert "'method' of the error record is []" in failing(capsys, '{"check": 606, "method": []}')
    for record, text in (
        ("etir-error 606 1 0 0 0 0", "the record names method 1, the program has 1"),
        ("etir-error 606 0 2 0 0 0", "the record names instruction 2, method 'forward' has 2"),
        ("etir-error 606 0 1 2 0 0", "the record names operator 2, method 'forward' has 2"),
        ('{"check": 606, "method": "decode"}', "the record names method 'decode'; the program has forward"),
    ):
        assert f"error[E0913]: {text}" in failing(capsys, record, *program)


def test_debug_information_of_another_program_is_refused(
    capsys: pytest.CaptureFixture[str], files: Path, tmp_path: Path
) -> None:
    record = "etir-error 606 0 1 1 7 3"
    program = ["--program", files / "m.pte", "--debug-info"]
    assert "E0866" in failing(capsys, record, *program, files / "other.debug.json")
    (tmp_path / "x.json").write_text("[]")
    assert "is no debug file of etir's" in failing(capsys, record, *program, tmp_path / "x.json")
    text = "et.method @forward pools [0] {\n  et.inputs\n  et.return\n}\n"
    (tmp_path / "x.mlir").write_text(text)
    assert "is the text of another program" in failing(capsys, record, *program, tmp_path / "x.mlir")


def test_source_lines_from_the_program_itself_and_from_text(files: Path) -> None:
    module = gather().module
    example = (torch.ones(3, 4), torch.tensor([0, 1]))
    with_lines = etir.compile(torch.export.export(Gather(), example), target="etir", debug_info=True)
    inside = of_program(read_pte(with_lines.buffer))["forward"]
    beside = of_module(module)["forward"]
    assert inside.instructions == beside.instructions
    assert [s.line > 0 and s.file.endswith("decoding.py") for s in inside.instructions if s is not None] == [True] * 2


def test_a_log_with_several_records() -> None:
    text = "[12:00] etir-error 606 0 1 1 7 3\r\nnoise etir-error 1\n> etir-error 400 0 -1 -1 500 499 the method needs\n"
    first, second = read_records(text)
    assert first == Record(checks()[606], 0, 1, 1, 7, 3)
    assert second == Record(checks()[400], 0, -1, -1, 500, 499)
    assert decode(second, None).message == "the method needs 500 bytes of method memory, it was given 499"


@pytest.mark.parametrize("number", list(checks()))
def test_every_check_has_a_sentence(number: int, files: Path) -> None:
    """No placeholder is left, with the program and without, whatever the numbers are."""
    origin = Origin(read_pte((files / "m.pte").read_bytes()))
    for a, b in ((1, 2), (-1, -1), (2**62, -(2**63))):
        for given in (None, origin):
            message = decode(Record(checks()[number], 0, 1, 1, a, b), given).message
            assert "{" not in message and message == message.strip()


def test_the_table_of_checks_is_the_runtimes() -> None:
    text = (Path(__file__).resolve().parents[3] / "runtime/core/checks.def").read_text()
    assert len(checks()) == text.count("\nETIR_CHECK(") > 90


def test_decoding_needs_no_torch(files: Path) -> None:
    code = (
        "import sys; from etir.tools.et_translate import main\n"
        f"assert main(['--decode-error', 'etir-error 606 0 1 1 7 3', '--program', {str(files / 'm.pte')!r}, "
        f"'--debug-info', {str(files / 'm.debug.json')!r}]) == 0\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
