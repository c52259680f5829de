"""``et-compile`` and ``et-translate`` as their users call them: what goes in, what comes out, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import etir
from etir.tools import et_compile, et_opt, et_run, et_translate


class _Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x)).sum(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an exported program, its text and its ``.pte``."""
    path = tmp_path_factory.mktemp("compile")
    torch.export.save(torch.export.export(_Model(), (torch.randn(2, 4),)), path / "m.pt2")
    assert et_compile.main([str(path / "m.pt2"), "-o", str(path / "m.pte")]) == 0
    assert et_translate.main(["--import-pt2", str(path / "m.pt2"), "-o", str(path / "m.mlir")]) == 0
    return path


@pytest.mark.parametrize("phase", ["aten", "core", "edge", "backend", "et"])
def test_text_of_every_phase_compiles_to_the_same_bytes(folder: Path, tmp_path: Path, phase: str) -> None:
    text = tmp_path / "m.mlir"
    assert et_opt.main([f"--compile-to={phase}", str(folder / "m.mlir"), "-o", str(text)]) == 0
    assert et_compile.main([str(text), "-o", str(tmp_path / "compiled.pte")]) == 0
    assert et_translate.main(["--mlir-to-pte", str(text), "-o", str(tmp_path / "translated.pte")]) == 0
    expected = (folder / "m.pte").read_bytes()
    assert (tmp_path / "compiled.pte").read_bytes() == expected
    assert (tmp_path / "translated.pte").read_bytes() == expected


def test_a_file_comes_back_through_text(folder: Path, tmp_path: Path) -> None:
    assert et_translate.main(["--pte-to-mlir", str(folder / "m.pte"), "-o", str(tmp_path / "m.mlir")]) == 0
    assert et_translate.main(["--mlir-to-pte", str(tmp_path / "m.mlir"), "-o", str(tmp_path / "m.pte")]) == 0
    assert (tmp_path / "m.pte").read_bytes() == (folder / "m.pte").read_bytes()


def test_the_report_names_operators_and_memory(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert et_compile.main([str(folder / "m.pt2"), "-o", str(tmp_path / "m.pte"), "--report"]) == 0
    out = capsys.readouterr().out
    assert "aten::linear.out" in out
    assert "memory 1:" in out


def test_files_beside_the_program(folder: Path, tmp_path: Path) -> None:
    """What a debugger, a device's build and a reader of the passes want."""
    debug, header, dumps = tmp_path / "m.debug.json", tmp_path / "m.h", tmp_path / "passes"
    options = ["--debug-file", str(debug), "--memory-header", str(header), "--dump-dir", str(dumps)]
    target = ["--target", "etir", "-o", str(tmp_path / "m.pte")]
    assert et_compile.main([str(folder / "m.pt2"), *target, *options]) == 0
    assert "test_compile.py" in debug.read_text()
    program = etir.compile(torch.export.load(folder / "m.pt2"), target="etir")
    assert f" {program.runtime_memory()['forward'].method} " in header.read_text()
    assert {"0-aten.mlir", "4-et.mlir"} <= {path.name for path in dumps.iterdir()}
    with_weights = [str(folder / "m.mlir"), "--weights", str(folder / "m.safetensors")]
    assert et_compile.main([*with_weights, *target]) == 0
    assert (tmp_path / "m.pte").read_bytes() == bytes(program.buffer)


def test_options_of_the_partition(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A flag, an option with a value, and one that there is not."""
    reference = [str(folder / "m.pt2"), "--target", "etir", "--delegate", "reference"]
    for text in ("own-state", "min-ops=100"):
        assert et_compile.main([*reference, "--partition-option", text, "-o", str(tmp_path / "m.pte")]) == 0
    error = _refused(et_compile, [*reference, "--partition-option", "nothing=1"], tmp_path / "out.pte", capsys)
    assert "E0503" in error and "nothing" in error


def test_weights_are_read_and_written_where_it_is_said(folder: Path, tmp_path: Path) -> None:
    text, weights, inputs = tmp_path / "m.mlir", tmp_path / "w.safetensors", tmp_path / "x.npz"
    assert (
        et_translate.main(["--import-pt2", str(folder / "m.pt2"), "-o", str(text), "--weights-out", str(weights)]) == 0
    )
    assert weights.read_bytes() == (folder / "m.safetensors").read_bytes()
    assert not text.with_suffix(".safetensors").exists()
    named = ["--weights", str(weights)]
    assert et_translate.main(["--mlir-to-pte", str(text), *named, "-o", str(tmp_path / "m.pte")]) == 0
    assert (tmp_path / "m.pte").read_bytes() == (folder / "m.pte").read_bytes()
    x = torch.randn(2, 4)
    np.savez(inputs, x.numpy())
    assert et_run.main([str(text), "--inputs", str(inputs), "--outputs", str(tmp_path / "y.npz"), *named]) == 0
    np.testing.assert_allclose(next(iter(np.load(tmp_path / "y.npz").values())), _Model()(x).detach(), rtol=1e-6)


def test_lines_are_kept_where_they_are_asked_for(folder: Path, tmp_path: Path) -> None:
    lined, text = tmp_path / "lined.pte", tmp_path / "lined.mlir"
    kept = ["--print-debuginfo"]
    assert et_translate.main(["--mlir-to-pte", str(folder / "m.mlir"), *kept, "-o", str(lined)]) == 0
    assert et_translate.main(["--pte-to-mlir", str(lined), *kept, "-o", str(text)]) == 0
    assert "test_compile.py" in text.read_text()
    assert et_translate.main(["--pte-to-mlir", str(lined), "-o", str(text)]) == 0
    assert "loc(" not in text.read_text()


@pytest.mark.parametrize("tool", [et_compile, et_opt, et_run, et_translate])
def test_what_every_tool_takes(tool: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for option, text in (("--help", "usage: et-"), ("--version", "(xdsl ")):
        with pytest.raises(SystemExit) as caught:
            tool.main([option])
        assert caught.value.code == 0 and text in capsys.readouterr().out
    arguments = {et_translate: ["--pte-to-mlir"], et_compile: ["-o", "never.pte"]}.get(tool, [])
    arguments = [*arguments, "no-such-file.mlir"]
    assert tool.main([*arguments, "--color", "always"]) == 1
    assert "\x1b[" in capsys.readouterr().err

    def lost(*_: object) -> int:
        raise KeyError("lost")

    monkeypatch.setattr(tool, "_run", lost)
    for options, shown in ((["--debug"], True), ([], False)):
        assert tool.main([*arguments, *options]) == 1
        error = capsys.readouterr().err
        assert "error[E0909]: KeyError: 'lost'" in error and ("Traceback" in error) is shown


def _refused(tool: object, arguments: list[str], output: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What the tool says when it refuses: exit code 1, an id, a next step, no traceback, no output file."""
    capsys.readouterr()
    assert tool.main([*arguments, "-o", str(output)]) == 1  # type: ignore[attr-defined]
    error = capsys.readouterr().err
    assert "error[E" in error and "help:" in error and "Traceback" not in error
    assert not output.exists()
    return error


def test_what_is_no_program_is_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    garbage = tmp_path / "garbage.pt2"
    garbage.write_bytes(b"\xff\0garbage")
    target = tmp_path / "out.pte"
    assert "E0406" in _refused(et_compile, [str(garbage)], target, capsys)
    assert "E0902" in _refused(et_compile, [str(tmp_path / "gone.pt2")], target, capsys)
    assert "E0902" in _refused(et_compile, [str(tmp_path / "gone.mlir")], target, capsys)
    assert "--pte-to-mlir" in _refused(et_compile, [str(folder / "m.pte")], target, capsys)
    assert "E0601" in _refused(et_compile, [str(folder / "m.pt2"), "--target", "abacus"], target, capsys)
    assert "E1101" in _refused(et_compile, [str(folder / "m.pt2"), "--delegate", "abacus"], target, capsys)


def test_missing_and_wrong_weights_are_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = tmp_path / "alone.mlir"
    alone.write_bytes((folder / "m.mlir").read_bytes())
    error = _refused(et_compile, [str(alone)], tmp_path / "out.pte", capsys)
    assert "error[E0201]: the bytes of 2 weights are not loaded (60 bytes): @linear.weight, @linear.bias\n" in error
    assert error.count("E0201") == 1 and f"note: '{tmp_path / 'alone.safetensors'}' does not exist" in error
    wrong = bytearray((folder / "m.safetensors").read_bytes())
    wrong[-1] ^= 1
    (tmp_path / "alone.safetensors").write_bytes(wrong)
    assert "E02" in _refused(et_compile, [str(alone)], tmp_path / "out.pte", capsys)


@pytest.mark.parametrize("kept", [0, 3, 40, 200, 900])
def test_a_file_cut_short_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kept: int
) -> None:
    cut = tmp_path / "cut.pte"
    cut.write_bytes((folder / "m.pte").read_bytes()[:kept])
    error = _refused(et_translate, ["--pte-to-mlir", str(cut)], tmp_path / "out.mlir", capsys)
    assert "E08" in error and "cut.pte" in error


@pytest.mark.parametrize("name", ["gone.pte", "gone.mlir"])
def test_running_what_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert et_run.main([str(tmp_path / name), "--inputs", str(tmp_path / "x.npz")]) == 1
    error = capsys.readouterr().err
    assert "E0902" in error and "Traceback" not in error
