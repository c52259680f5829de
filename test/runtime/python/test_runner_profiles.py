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


def test_text_is_interpreted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.mlir").write_text("")
    assert et_run.main([str(tmp_path / "m.mlir"), "--runtime", "etir"]) == 1
    assert "--runtime etir executes .pte files" in capsys.readouterr().err


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
