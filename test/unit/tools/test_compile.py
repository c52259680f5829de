"""``et-compile`` and ``et-translate`` as their users call them: what goes in, what comes out, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

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
    garbage.write_bytes(b"garbage")
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
    assert error.count("E0201") == 2 and "@linear.weight" in error and "@linear.bias" in error
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
