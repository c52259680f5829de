"""Bundled programs between etir and ExecuTorch: each checks the other's, and refuses wrong ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import etir
from etir.emit.bundled import read_bundled, write_bundled
from etir.emit.bundled.model import BundledProgram, Case, Suite, Tensor
from etir.tools import et_run, et_translate


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 2 + n, x.to(torch.int64)


X = torch.arange(6.0).reshape(2, 3) - 2.5


@pytest.fixture
def bundled(tmp_path: Path) -> Path:
    """A program and two cases of it, by the command."""
    path = tmp_path / "m.pte"
    etir.compile(torch.export.export(Model(), (X, 3))).save(path)
    for name, x in (("a", X), ("b", X * 10)):
        np.savez(tmp_path / f"{name}.npz", x.numpy(), 3)
        np.savez(tmp_path / f"y{name}.npz", *[y.numpy() for y in Model()(x, 3)])
    files = {word: [str(tmp_path / f"{word}{name}.npz") for name in "ab"] for word in ("", "y")}
    command = ["--bundle", str(path), "--inputs", *files[""], "--expected", *files["y"]]
    assert et_translate.main([*command, "-o", str(tmp_path / "m.bpte")]) == 0
    return tmp_path / "m.bpte"


def wrong(bundled: BundledProgram) -> BundledProgram:
    """The same with one number less in an expected output of the second case."""
    (suite,) = bundled.suites
    first, second = suite.cases
    y, z = second.expected
    assert isinstance(y, Tensor)
    data = np.frombuffer(y.data, np.float32).copy()
    data[4] -= 1
    broken = Case(second.inputs, (Tensor(y.scalar_type, y.sizes, y.dim_order, data.tobytes()), z))
    return BundledProgram(bundled.program, (Suite(suite.method, (first, broken)),))


def stock_verdicts(data: bytes) -> list[bool]:
    """Whether the stock runtime finds each case of method ``forward`` as expected."""
    from executorch.extension.pybindings import portable_lib

    module = portable_lib._load_bundled_program_from_buffer(data)
    verdicts = []
    for case in range(2):
        try:
            module.verify_result_with_bundled_expected_output("forward", case, 1e-5, 1e-8)
        except RuntimeError:
            verdicts.append(False)
        else:
            verdicts.append(True)
    return verdicts


def test_the_stock_runtime_checks_ours(bundled: Path) -> None:
    data = bundled.read_bytes()
    assert stock_verdicts(data) == [True, True]
    assert stock_verdicts(write_bundled(wrong(read_bundled(data)))) == [True, False]


@pytest.mark.parametrize("runtime", ["etir", "interpreter", pytest.param("stock", marks=pytest.mark.nightly)])
def test_we_check_ours(bundled: Path, runtime: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--check", "--runtime", runtime]
    assert et_run.main([str(bundled), *options]) == 0
    assert capsys.readouterr().out.splitlines() == [f"forward, case {i}: 2 outputs as expected" for i in range(2)]
    bundled.write_bytes(write_bundled(wrong(read_bundled(bundled.read_bytes()))))
    assert et_run.main([str(bundled), *options]) == 1
    printed = capsys.readouterr()
    assert printed.out == "forward, case 0: 2 outputs as expected\n"
    assert "error[E0920]: forward, case 1: output 0: 1 of 6 elements differ, the first at [1, 1]" in printed.err
    assert et_run.main([str(bundled), *options, "--atol", "1.5"]) == 0


def stock_bundle(expected: Any) -> bytes:
    """What the stock package bundles for a model of one image."""
    from executorch.devtools import BundledProgram as StockProgram
    from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer
    from executorch.exir import to_edge

    x = torch.randn(1, 2, 3, 4, generator=torch.Generator().manual_seed(0))
    program = to_edge(torch.export.export(torch.nn.ReLU(), (x,))).to_executorch()
    cases = [MethodTestCase(inputs=(x,), expected_outputs=(expected(torch.relu(x)),))]
    return serialize_from_bundled_program_to_flatbuffer(StockProgram(program, [MethodTestSuite("forward", cases)]))


def test_we_check_what_the_stock_package_bundles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = stock_bundle(lambda y: y), stock_bundle(lambda y: y + (y > 0.5))
    read = read_bundled(good)
    assert read_bundled(write_bundled(read)) == read
    path = tmp_path / "stock.bpte"
    for data, code in ((good, 0), (bad, 1)):
        path.write_bytes(data)
        assert et_run.main([str(path), "--check"]) == code
    assert "elements differ, the first at [0, " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "is a bundled program: --check runs its test cases"),
        (["--check", "--inputs", "x.npz"], "--inputs does not go with --check"),
    ],
)
def test_wrong_options(bundled: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert et_run.main([str(bundled), *options]) == 1
    assert message in capsys.readouterr().err


def test_files_that_do_not_fit(bundled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bundled.parent
    np.savez(folder / "short.npz", X.numpy())
    np.savez(folder / "double.npz", X.double().numpy(), 3)
    np.savez(folder / "wide.npz", np.zeros((2, 4), np.float32), 3)
    model, ya = str(folder / "m.pte"), str(folder / "ya.npz")
    for inputs, message in (
        ("short.npz", "error[E0910]"),
        ("double.npz", "is float64, the method has float32"),
        ("wide.npz", "has the shape [2, 4], the method has [2, 3]"),
    ):
        command = ["--bundle", model, "--inputs", str(folder / inputs), "--expected", ya]
        assert et_translate.main([*command, "-o", str(folder / "x.bpte")]) == 1
        assert message in capsys.readouterr().err
    for options, message in (
        (["--bundle", model, "--inputs", ya], "--bundle needs --inputs, and --expected"),
        (["--bundle", model, "--inputs", ya, ya, "--expected", ya], "2 files of inputs and 1 of expected outputs"),
        (["--bundle", model, "--inputs", ya, "--expected", ya, "--method", "x"], "no method 'x'; it has forward"),
        (["--pte-to-mlir", model, "--inputs", ya], "--inputs and --expected are for --bundle"),
        (["--bundle", str(bundled), "--inputs", ya, "--expected", ya], "et-run FILE.bpte --check"),
    ):
        assert et_translate.main(options) == 1
        assert message in capsys.readouterr().err
    assert et_run.main([model, "--check"]) == 1
    assert "et-translate --bundle adds test cases" in capsys.readouterr().err
    assert et_run.main([model, "--rtol", "1"]) == 1
    assert "--rtol and --atol are for --check" in capsys.readouterr().err
