"""``et-run`` with profiles: three runtimes, repetitions, values, and what cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import etir
from etir.devtools.profile import Profile, read_profile
from etir.devtools.stock_runtime import run_stock
from etir.emit.etdump import value_bytes
from etir.emit.pte import model as pte
from etir.emit.pte.reader import read_pte
from etir.runtime import is_available
from etir.tools import et_run

from etir_testing.nightly import cases
from etir_testing.runtime.stock_programs import method_of, random_inputs, stock_program

pytestmark = pytest.mark.skipif(not is_available(), reason="etir's native runtime is not installed")


@pytest.fixture(params=["map", pytest.param("xnnpack", marks=pytest.mark.nightly)])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A program of the stock pipeline: with a loop, or with a delegate."""
    data = stock_program(request.param)
    np.savez(tmp_path / "x.npz", *random_inputs(method_of(data)))
    (tmp_path / "m.pte").write_bytes(data)
    return str(tmp_path / "m.pte")


def run(model: str, *options: str) -> int:
    return et_run.main([model, "--inputs", str(Path(model).with_name("x.npz")), *options])


def profile_of(model: str, runtime: str, *options: str) -> tuple[Profile, bytes]:
    dump, values = Path(model).with_suffix(".etdp"), Path(model).with_suffix(".bin")
    extra = ("--etdump", str(dump), "--values", str(values), "--repeat", "2")
    assert run(model, "--runtime", runtime, "--outputs", f"{model}.{runtime}.npz", *extra, *options) == 0
    return read_profile(dump.read_bytes(), read_pte(Path(model).read_bytes())), values.read_bytes()


def test_runtimes_agree(model: str) -> None:
    """The same outputs, the same instructions, and as many values as the file says."""
    profiles = {runtime: profile_of(model, runtime) for runtime in ("etir", "stock")}
    assert run(model, "--runtime", "interpreter", "--outputs", f"{model}.interpreter.npz") == 0
    expected = np.load(f"{model}.interpreter.npz")
    places: list[Any] = []
    for runtime, (profile, values) in profiles.items():
        outputs = np.load(f"{model}.{runtime}.npz")
        for name in expected:
            np.testing.assert_allclose(outputs[name], expected[name], rtol=1e-4, atol=1e-5)
        assert profile.runs == 2
        places.append([(row.chain, row.instruction, row.occurrence, row.name) for row in profile.instructions()])
        for value in profile.values:
            assert value.value is not None
            for tensor in value.value.tensors:
                assert len(value_bytes(tensor, values)) >= tensor.nbytes > 0
    assert places[0] == places[1]


def test_repetitions_are_timed(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(model, "--repeat", "3") == 0
    assert "3 runs: shortest" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--values", "x.bin"], "--values needs --etdump"),
        (["--repeat", "0"], "--repeat 0: it is a number from 1 on"),
        (["--runtime", "interpreter", "--etdump", "x.etdp"], "--etdump is for .pte files on the native runtime and"),
        (["--runtime", "stock", "--profile"], "'m.pte' runs on ExecuTorch's runtime"),
        (["--runtime", "etir", "--interpret"], "--runtime etir does not interpret"),
        (["--etdump", "/nowhere/x.etdp"], "error[E0903]: cannot write '/nowhere/x.etdp'"),
    ],
)
def test_wrong_options(
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.pte").write_bytes(stock_program("map"))
    assert et_run.main(["m.pte", *options]) == 1
    assert message in capsys.readouterr().err


def with_weights_outside(folder: Path) -> tuple[np.ndarray[Any, Any], str, str, str]:
    """What a program gives, its file beside its inputs, and the option that names the file of its weights."""
    torch.manual_seed(0)
    module, x = torch.nn.Linear(3, 2).eval(), torch.ones(4, 3)
    etir.compile(torch.export.export(module, (x,)), external_weights={"weights": ()}).save(folder / "m.pte")
    np.savez(folder / "x.npz", x.numpy())
    return module(x).detach().numpy(), str(folder / "m.pte"), "--data", str(folder / "weights.ptd")


@pytest.mark.parametrize("runtime", et_run.RUNTIMES)
def test_files_of_weights_are_opened(runtime: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The names of a program, which a run on any runtime begins with, are read of a file with all that it needs."""
    _, model, *data = with_weights_outside(tmp_path)
    assert run(model, "--runtime", runtime, *data, "--list") == 0
    assert "forward" in capsys.readouterr().out
    assert run(model, "--runtime", runtime, "--list") == (0 if runtime == "etir" else 1)
    assert ("E0863" in capsys.readouterr().err) == (runtime != "etir")


@pytest.mark.parametrize("runtime", cases(et_run.RUNTIMES, nightly=["stock"]))
def test_weights_outside_of_the_file(runtime: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Wherever a program runs, with what goes into a profile."""
    wanted, model, *data = with_weights_outside(tmp_path)
    dump, values, outputs = (str(tmp_path / name) for name in ("run.etdp", "run.bin", "y.npz"))
    profile = () if runtime == "interpreter" else ("--etdump", dump, "--values", values)
    assert run(model, "--runtime", runtime, *data, *profile, "--outputs", outputs) == 0, capsys.readouterr().err
    with np.load(outputs) as found:
        np.testing.assert_allclose(found[found.files[0]], wanted, rtol=1e-5)
    if profile:
        read = read_profile(Path(dump).read_bytes(), read_pte(Path(model).read_bytes()))
        assert read.instructions() and read.values


def test_text_is_interpreted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.mlir").write_text("")
    assert et_run.main([str(tmp_path / "m.mlir"), "--runtime", "etir"]) == 1
    assert "--runtime etir executes .pte files" in capsys.readouterr().err
    assert et_run.main([str(tmp_path / "m.mlir"), "--data", "weights.ptd"]) == 1
    assert "--data is for .pte files" in capsys.readouterr().err


class Half(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.half() * 2


def test_values_that_the_stock_runtime_cannot_log(tmp_path: Path) -> None:
    """It would leave a damaged file, or end the process."""
    program = etir.compile(torch.export.export(Half(), (torch.rand(3),)))
    path = str(tmp_path / "h.pte")
    program.save(path)
    read = read_pte(program.buffer)
    with pytest.raises(etir.EtirError, match="leaves a value of half, which it cannot log") as caught:
        run_stock(path, read, "forward", [np.zeros(3, np.float32)], etdump="x.etdp", values="x.bin")
    assert caught.value.ids == ("E0919",)


def test_a_number_that_the_stock_runtime_does_not_take(tmp_path: Path) -> None:
    """It takes the number of the export alone; its own message says neither which input nor which number that is."""
    program = etir.compile(torch.export.export(Scaled(), (torch.rand(3), 2), dynamic_shapes=(None, DYNAMIC)))
    path = str(tmp_path / "n.pte")
    program.save(path)
    with pytest.raises(etir.EtirError, match="input 1 of 'forward' is 3, the program was compiled for 2") as caught:
        run_stock(path, read_pte(program.buffer), "forward", [np.zeros(3, np.float32), np.array(3)])
    assert caught.value.ids == ("E0918",)


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n


DYNAMIC = torch.export.Dim.DYNAMIC


def test_a_method_that_the_program_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "m.pte"
    path.write_bytes(stock_program("map"))
    program: pte.Program = read_pte(path.read_bytes())
    with pytest.raises(etir.EtirError, match="no method 'other'; it has forward") as caught:
        run_stock(str(path), program, "other", [])
    assert caught.value.ids == ("E0918",)


@pytest.mark.nightly
def test_failures_of_the_stock_runtime(tmp_path: Path) -> None:
    path = tmp_path / "m.pte"
    path.write_bytes(stock_program("map"))
    program: pte.Program = read_pte(path.read_bytes())
    with pytest.raises(etir.EtirError, match="method 'forward' failed") as caught:
        run_stock(
            str(path), program, "forward", [np.zeros((99, 99), np.float32)] * len(program.execution_plan[0].inputs)
        )
    assert caught.value.ids == ("E0918",)
