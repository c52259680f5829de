"""Files that cannot be read or written, or are of another kind: one diagnostic that names the file, in every tool."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from etir.tools import et_compile, et_opt, et_run, et_translate

MODULE = """
et.weight @w : tensor<4xf32> = #et.blob<"sha256:374708fff7719dd5979ec875d56cd228", 16>
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = et.get_weight @w : tensor<4xf32>
  %0 = aten.add.Tensor(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""
PLAIN = """
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""

TOOLS = {
    "et-opt": et_opt.main,
    "et-compile": et_compile.main,
    "et-translate": et_translate.main,
    "et-run": et_run.main,
}


class _Relu(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of every kind, whole, cut and under wrong names, and a folder."""
    path = tmp_path_factory.mktemp("files")
    (path / "folder").mkdir()
    (path / "w.mlir").write_text(MODULE)
    (path / "ok.mlir").write_text(PLAIN)
    (path / "log.txt").write_text("etir-error 602 0 12 3 1 7")
    (path / "latin.mlir").write_bytes(b"func.func @f\xfc() {}\n")
    (path / "text.pte").write_text(PLAIN)
    (path / "text.pt2").write_text(PLAIN)
    (path / "text.npz").write_text(PLAIN)
    (path / "text.safetensors").write_text(PLAIN)
    for suffix in ("mlir", "pte", "pt2", "npz", "safetensors"):
        (path / f"empty.{suffix}").write_bytes(b"")
    torch.export.save(torch.export.export(_Relu(), (torch.ones(4),)), path / "ok.pt2")
    (path / "pt2.mlir").write_bytes((path / "ok.pt2").read_bytes())
    (path / "pt2.pte").write_bytes((path / "ok.pt2").read_bytes())
    (path / "cut.pt2").write_bytes((path / "ok.pt2").read_bytes()[:500])
    assert et_compile.main([str(path / "ok.mlir"), "-o", str(path / "ok.pte")]) == 0
    (path / "pte.mlir").write_bytes((path / "ok.pte").read_bytes())
    (path / "pte.pt2").write_bytes((path / "ok.pte").read_bytes())
    (path / "cut.pte").write_bytes((path / "ok.pte").read_bytes()[:100])
    (path / "weights.mlir").write_bytes((30).to_bytes(8, "little") + b'{"w":{"data_offsets":[0,1]}}  ')
    np.savez(path / "x.npz", x=np.ones(4, np.float32))
    np.savez(path / "objects.npz", x=np.array([{}], dtype=object))
    np.save(path / "array.npy", np.ones(4, np.float32))
    (path / "npz.pt2").write_bytes((path / "x.npz").read_bytes())
    (path / "cut.npz").write_bytes((path / "x.npz").read_bytes()[:150])
    return path


def _refused(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str]:
    """The first line of what a command prints that fails, and its help."""
    monkeypatch.chdir(folder)
    before = sorted(os.listdir(folder))
    tool, *arguments = command.split()
    assert TOOLS[tool](arguments) == 1
    error = capsys.readouterr().err
    assert "Traceback" not in error and "E0909" not in error
    assert sorted(os.listdir(folder)) == before
    lines = error.splitlines()
    return lines[0], lines[-1]


TEXT_READERS = (
    "et-opt {} -o out",
    "et-compile {} -o out",
    "et-translate --mlir-to-pte {} -o out",
    "et-translate --mlir-to-pt2 {} -o out",
    "et-run {}",
)


NO_TEXT = {
    "folder": "error[E0902]: cannot read 'folder': Is a directory",
    "missing.mlir": "error[E0902]: cannot read 'missing.mlir': No such file or directory",
    "latin.mlir": "error[E0902]: 'latin.mlir' is not UTF-8 text: byte 12 is 0xfc",
    "pte.mlir": "error[E0902]: 'pte.mlir' is not text: it is a .pte file; turn it into text with et-translate",
    "weights.mlir": "error[E0902]: 'weights.mlir' is not text: it is a safetensors file; weights are named with",
    "pt2.mlir": "error[E0902]: 'pt2.mlir' is not text: it is a zip archive; import a .pt2 file with et-translate",
    "empty.mlir": "error[E0902]: 'empty.mlir' is empty",
}


def _is_read(reader: str, name: str) -> bool:
    """et-compile takes exported programs, and no text is an empty module."""
    return (reader.split()[0], name) in (("et-compile", "pt2.mlir"), ("et-opt", "empty.mlir"))


@pytest.mark.parametrize(
    ("reader", "name"), [(r, name) for r in TEXT_READERS for name in NO_TEXT if not _is_read(r, name)]
)
def test_text(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, reader: str, name: str
) -> None:
    head, help = _refused(reader.format(name), folder, capsys, monkeypatch)
    assert head.startswith(NO_TEXT[name])
    assert help.startswith("  help: ")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        # a .pte file is wanted
        ("et-translate --pte-to-mlir folder", "error[E0902]: cannot read 'folder': Is a directory"),
        ("et-translate --pte-to-mlir text.pte", "error[E0902]: 'text.pte' is not a .pte file: it is text; compile it"),
        ("et-translate --disassemble text.pte", "error[E0902]: 'text.pte' is not a .pte file: it is text; compile it"),
        ("et-run text.pte", "error[E0902]: 'text.pte' is not a .pte file: it is text; compile it with et-compile"),
        ("et-run --interpret text.pte", "error[E0902]: 'text.pte' is not a .pte file: it is text; compile it"),
        ("et-run pt2.pte", "error[E0902]: 'pt2.pte' is not a .pte file: it is a zip archive; compile a .pt2 file with"),
        ("et-run --interpret empty.pte", "empty.pte: error[E0801]: an ExecuTorch program (.pte) has at least 8 bytes"),
        ("et-translate --disassemble cut.pte", "cut.pte: error[E08"),
        (
            "et-translate --decode-error log.txt --program text.pte",
            "error[E0902]: 'text.pte' is not a .pte file: it is",
        ),
        # a .pt2 file is wanted
        ("et-translate --import-pt2 folder", "error[E0902]: cannot read 'folder': Is a directory"),
        ("et-translate --import-pt2 -", "error[E0902]: a .pt2 file is not read from standard input"),
        ("et-translate --import-pt2 text.pt2", "error[E0902]: 'text.pt2' is not a .pt2 file: it is text; et-opt and"),
        ("et-compile text.pt2 -o out", "error[E0902]: 'text.pt2' is not a .pt2 file: it is text; et-opt and"),
        ("et-compile pte.pt2 -o out", "error[E0902]: 'pte.pt2' is not a .pt2 file: it is a .pte file; turn it into"),
        ("et-compile empty.pt2 -o out", "error[E0902]: 'empty.pt2' is empty"),
        ("et-compile cut.pt2 -o out", "error[E0406]: torch cannot load 'cut.pt2': BadZipFile"),
        ("et-compile npz.pt2 -o out", "error[E0406]: torch cannot load 'npz.pt2': RuntimeError: it holds no exported"),
        # weights
        ("et-opt w.mlir --weights folder", "error[E0203]: cannot read the weights file 'folder': Is a directory"),
        ("et-compile w.mlir -o out --weights no", "error[E0203]: cannot read the weights file 'no': No such file or"),
        ("et-run w.mlir --weights empty.safetensors", "error[E0203]: the weights file 'empty.safetensors' is empty"),
        ("et-translate --mlir-to-pte w.mlir --weights text.safetensors", "error[E0203]: 'text.safetensors' is not a"),
        # inputs
        ("et-run ok.mlir --inputs folder", "error[E0902]: cannot read 'folder': Is a directory"),
        ("et-run ok.mlir --inputs no.npz", "error[E0902]: cannot read 'no.npz': No such file or directory"),
        ("et-run ok.mlir --inputs text.npz", "error[E0902]: 'text.npz' is not an .npz file: it is text"),
        ("et-run ok.mlir --inputs empty.npz", "error[E0902]: 'empty.npz' is empty"),
        ("et-run ok.mlir --inputs cut.npz", "error[E0902]: cannot read the arrays 'cut.npz': File is not a zip file"),
        ("et-run ok.mlir --inputs objects.npz", "error[E0902]: cannot read the arrays 'objects.npz': Object arrays"),
        ("et-run ok.mlir --inputs array.npy", "error[E0902]: 'array.npy' is not an .npz file: it is an .npy file"),
        ("et-run ok.mlir --inputs ok.pt2", "error[E0902]: 'ok.pt2' is not an .npz file: "),
        # outputs
        ("et-opt ok.mlir -o no/out", "error[E0903]: cannot write 'no/out': there is no folder 'no'"),
        ("et-opt ok.mlir -o folder", "error[E0903]: cannot write 'folder': Is a directory"),
        ("et-opt w.mlir -o out --weights-out folder", "error[E0903]: cannot write 'folder': Is a directory"),
        ("et-opt ok.mlir --print-ir-dir=ok.pte --cse", "error[E0903]: cannot make the folder 'ok.pte': File exists"),
        ("et-compile ok.mlir -o no/out", "error[E0903]: cannot write 'no/out': there is no folder 'no'"),
        ("et-compile missing.pt2 -o no/out", "error[E0903]: cannot write 'no/out': there is no folder 'no'"),
        ("et-compile ok.mlir -o out --debug-file folder", "error[E0903]: cannot write 'folder': Is a directory"),
        ("et-compile ok.mlir -o out --memory-header no/h", "error[E0903]: cannot write 'no/h': there is no folder"),
        ("et-compile ok.mlir -o out --dump-dir ok.pte/x", "error[E0903]: cannot make the folder 'ok.pte/x': Not a dir"),
        ("et-translate --pte-to-mlir ok.pte -o no/out", "error[E0903]: cannot write 'no/out': there is no folder"),
        ("et-translate --import-pt2 ok.pt2 -o folder", "error[E0903]: cannot write 'folder': Is a directory"),
        ("et-run ok.mlir --inputs x.npz --outputs no/y", "error[E0903]: cannot write 'no/y': there is no folder 'no'"),
        # patterns and reproducers
        ("et-opt ok.mlir -p apply-pdl{file=folder}", "error[E0508]: cannot read the patterns 'folder': Is a directory"),
        ("et-opt --run-reproducer ok.pte", "error[E0902]: 'ok.pte' is not text: it is a .pte file"),
    ],
)
def test_other_files(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str, message: str
) -> None:
    head, help = _refused(command, folder, capsys, monkeypatch)
    assert head.startswith(message)
    assert help.startswith("  help: ")


@pytest.mark.parametrize("tool", ["et-opt", "et-compile", "et-run"])
def test_an_empty_name(tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert TOOLS[tool](["", *(["-o", "x"] if tool == "et-compile" else [])]) == 1
    assert "error[E0902]: the name of the input is empty" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_files_without_permission(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.mlir").write_text(PLAIN)
    (tmp_path / "secret.mlir").chmod(0)
    for reader in TEXT_READERS:
        head, _ = _refused(reader.format("secret.mlir"), tmp_path, capsys, monkeypatch)
        assert head == "error[E0902]: cannot read 'secret.mlir': Permission denied"


def test_two_inputs_are_no_option(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        et_opt.main([str(folder / "ok.mlir"), "second.mlir"])
    assert caught.value.code == 2
    assert "one input is read, and there are two: " in capsys.readouterr().err
