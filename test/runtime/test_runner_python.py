"""``et-run`` on ``.pte`` files: the native runtime and the interpreter give the same, errors are diagnostics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import etir
from etir.runtime import is_available
from etir.tools import et_run

pytestmark = pytest.mark.skipif(not is_available(), reason="etir's native runtime is not installed")

X = torch.arange(6.0).reshape(2, 3)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, *, y: torch.Tensor) -> tuple[torch.Tensor, int]:
        return x * y + 1, x.shape[0]


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "m.pte"
    etir.compile(torch.export.export(Model(), (X,), {"y": X + 2})).save(path)
    np.savez(tmp_path / "x.npz", X.numpy(), (X + 2).numpy())
    return str(path)


def run(model: str, *options: str) -> int:
    return et_run.main([model, "--inputs", str(Path(model).with_name("x.npz")), *options])


def test_native_and_interpreted_outputs_agree(model: str, tmp_path: Path) -> None:
    assert run(model, "--outputs", str(tmp_path / "native.npz")) == 0
    assert run(model, "--interpret", "--outputs", str(tmp_path / "interpreted.npz")) == 0
    native, interpreted = np.load(tmp_path / "native.npz"), np.load(tmp_path / "interpreted.npz")
    assert list(native) == list(interpreted)
    for name in native:
        np.testing.assert_array_equal(native[name], interpreted[name])
    np.testing.assert_array_equal(native["output_0"], (X * (X + 2) + 1).numpy())


def test_outputs_are_printed(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model, "--threads", "2") == 0
    native = capsys.readouterr().out
    assert run(model, "--oracle", "numpy") == 0
    assert native == capsys.readouterr().out
    assert "output_0: float32[2, 3]" in native and "output_1 = 2" in native


def test_profile_lists_operators(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model, "--profile") == 0
    out = capsys.readouterr().out
    assert "aten::mul.out" in out and "aten::add." in out and "share" in out


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (["--method", "decode"], 1, "error[E1207]: the program has no method 'decode'; it has forward"),
        (["--inputs", "nothing.npz"], 1, "error[E0902]"),
        (["--profile", "--interpret"], 1, "error[E0901]: --profile is for .pte files on the native runtime"),
        (["--threads", "0"], 1, "error[E1213]: threads is 0"),
        (["--data", "nothing.ptd"], 1, "error[E1203]: cannot read 'nothing.ptd'"),
    ],
)
def test_errors(model: str, options: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model, *options) == code
    error = capsys.readouterr().err
    assert text in error and "Traceback" not in error


def test_wrong_inputs_name_the_file(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "bad.npz", X.numpy().astype(np.float64), X.numpy())
    assert et_run.main([model, "--inputs", str(tmp_path / "bad.npz")]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"{model}: error[E1208]: input 0 was given a tensor of dtype float64")
    assert "the method takes x: float32[2, 3], y: float32[2, 3]" in error


def test_a_damaged_file_is_a_diagnostic(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(model)
    path.write_bytes(path.read_bytes()[:100])
    assert run(model) == 1
    assert f"{model}: error[E1202]" in capsys.readouterr().err
    path.unlink()
    assert run(model) == 1
    assert "error[E0902]: cannot read" in capsys.readouterr().err
