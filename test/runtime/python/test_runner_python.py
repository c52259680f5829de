"""``et-run`` on ``.pte`` files: the native runtime and the interpreter give the same, errors are diagnostics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import etir
from etir.runtime import is_available
from etir.tools import et_run, et_translate

pytestmark = pytest.mark.skipif(not is_available(), reason="etir's native runtime is not installed")

X = torch.arange(6.0).reshape(2, 3)


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, *, y: torch.Tensor) -> tuple[torch.Tensor, int]:
        return x * y + 1, x.shape[0]


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "m.pte"
    program = torch.export.export(Model(), (X,), {"y": X + 2})
    torch.export.save(program, path.with_suffix(".pt2"))
    etir.compile(program).save(path)
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
    for option in ("--evaluator", "--oracle"):
        assert run(model, option, "numpy") == 0
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


class Named(torch.nn.Module):
    def forward(self, x: torch.Tensor, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"difference": x - batch["y"], "product": x * batch["y"]}


@pytest.fixture
def named(tmp_path: Path) -> str:
    path = tmp_path / "named.pte"
    program = etir.compile(torch.export.export(Named(), (X, {"y": X + 2})), dump_dir=tmp_path / "levels")
    program.save(path)
    np.savez(tmp_path / "named.npz", batch_y=(X + 2).numpy(), x=X.numpy())
    return str(path)


def test_arrays_are_matched_by_name_at_every_level(named: str, tmp_path: Path) -> None:
    """In the file, interpreted or not, and in the text of every level: the same names in and out."""
    texts = [[str(path)] for path in sorted((tmp_path / "levels").glob("*.mlir"))]
    assert len(texts) == 5
    for arguments in ([named], [named, "--interpret"], *texts):
        outputs = tmp_path / "y.npz"
        assert et_run.main([*arguments, "--inputs", str(tmp_path / "named.npz"), "--outputs", str(outputs)]) == 0
        found = np.load(outputs)
        assert list(found) == ["difference", "product"]
        np.testing.assert_array_equal(found["difference"], np.full((2, 3), -2))
        np.testing.assert_array_equal(found["product"], (X * (X + 2)).numpy())


@pytest.mark.parametrize("options", [[], ["--interpret"]])
@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"x": X, "batch": X}, "missing batch_y; unknown batch; the method takes x, batch_y"),
        ({"a": X, "b": X}, "missing x, batch_y; unknown a, b; the method takes x, batch_y"),
        ({"x": X}, "missing batch_y; the method takes x, batch_y"),
        ({"arr_1": X, "arr_0": X}, "missing x, batch_y; unknown arr_1, arr_0"),
    ],
)
def test_arrays_of_other_names_are_refused(
    named: str,
    options: list[str],
    arrays: dict[str, Any],
    text: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    np.savez(tmp_path / "bad.npz", **{name: value.numpy() for name, value in arrays.items()})
    assert et_run.main([named, *options, "--inputs", str(tmp_path / "bad.npz")]) == 1
    error = capsys.readouterr().err
    assert "error[E0910]" in error and text in error


def test_arrays_without_names_are_taken_in_order(named: str, tmp_path: Path) -> None:
    for arrays in ({"output_0": X, "output_1": X + 2}, {"arr_0": X, "arr_1": X + 2}):
        np.savez(tmp_path / "x.npz", **{name: value.numpy() for name, value in arrays.items()})
        assert run(named, "--outputs", str(tmp_path / "y.npz")) == 0
        np.testing.assert_array_equal(np.load(tmp_path / "y.npz")["difference"], np.full((2, 3), -2))


def test_methods_are_listed(named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert et_run.main([named, "--list"]) == 0
    lines = ["forward", "  x: T", "  batch_y: T", "  -> difference: T", "  -> product: T"]
    assert capsys.readouterr().out.replace("float32[2, 3]", "T").splitlines() == lines
    for arguments in ([named, "--interpret"], *([str(path)] for path in (tmp_path / "levels").glob("*.mlir"))):
        assert et_run.main([*arguments, "--list"]) == 0
        assert capsys.readouterr().out.replace("tensor<2x3xf32>", "T").splitlines() == lines


def test_wrong_inputs_name_the_file(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "bad.npz", X.numpy().astype(np.float64), X.numpy())
    assert et_run.main([model, "--inputs", str(tmp_path / "bad.npz")]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"{model}: error[E1208]: input 0 was given a tensor of dtype float64")
    assert "the method takes x: float32[2, 3], y: float32[2, 3]" in error


def test_inputs_by_name(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names decide where all are known; some known and others not is refused."""
    text = str(tmp_path / "m.mlir")
    assert et_translate.main(["--import-pt2", str(Path(model).with_suffix(".pt2")), "-o", text]) == 0
    np.savez(tmp_path / "named.npz", y=(X + 2).numpy(), x=X.numpy())
    assert et_run.main([text, "--inputs", str(tmp_path / "named.npz"), "--outputs", str(tmp_path / "y.npz")]) == 0
    np.testing.assert_array_equal(next(iter(np.load(tmp_path / "y.npz").values())), (X * (X + 2) + 1).numpy())
    np.savez(tmp_path / "half.npz", x=X.numpy(), z=X.numpy())
    capsys.readouterr()
    assert et_run.main([text, "--inputs", str(tmp_path / "half.npz")]) == 1
    error = capsys.readouterr().err
    assert "error[E0910]: the inputs do not fit: missing y; unknown z; the method takes x, y" in error


def test_a_damaged_file_is_a_diagnostic(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(model)
    path.write_bytes(path.read_bytes()[:100])
    assert run(model) == 1
    assert f"{model}: error[E1202]" in capsys.readouterr().err
    path.unlink()
    assert run(model) == 1
    assert "error[E0902]: cannot read" in capsys.readouterr().err


def test_a_library_that_is_none(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Libraries of kernels are loaded before the program; test/install loads one that is right."""
    assert run(model, "--load-library", str(tmp_path / "missing.so")) == 1
    assert "error[E1203]" in capsys.readouterr().err
    other = tmp_path / "other.so"
    other.write_bytes(b"no library")
    assert run(model, "--load-library", str(other)) == 1
    assert "error[E1214]" in capsys.readouterr().err
