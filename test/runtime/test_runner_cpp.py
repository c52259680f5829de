"""The C++ programs: et-run, the hello world of the API, the C interface, the thread pool; a selective build of them.

They are built with the kernels of a few operators only, which is what a selective build is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import etir

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "cpp-test"
OPERATORS = ("aten::add.out", "aten::copy_", "aten::mul.out")

pytestmark = pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x + x


EXPECTED = [f"{i * i + i}" for i in range(1, 7)]


@pytest.fixture(scope="module")
def built() -> Path:
    """The folder of the programs."""
    BUILD.mkdir(parents=True, exist_ok=True)
    operators = BUILD / "operators.txt"
    operators.write_text("".join(f"{name}\n" for name in OPERATORS))
    configure = [
        "cmake",
        "-S",
        ROOT,
        "-B",
        BUILD,
        f"-DETIR_ONLY_OPS={operators}",
        f"-DPython_EXECUTABLE={sys.executable}",
    ]
    if shutil.which("ninja") is not None:
        configure += ["-G", "Ninja"]
    for command in (configure, ["cmake", "--build", BUILD, "--parallel", str(os.environ.get("ETIR_JOBS", 2))]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return BUILD / "runtime"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "m.pte"
    etir.compile(torch.export.export(Model(), (torch.zeros(2, 3),))).save(path)
    return path


def run(*command: str | Path) -> tuple[int, str, str]:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_hello_world(built: Path, model: Path) -> None:
    assert run(built / "tools/hello", model) == (0, "\n".join([*EXPECTED, ""]), "")
    code, _, error = run(built / "tools/hello", "nothing.pte")
    assert code == 1 and "cannot read 'nothing.pte'" in error


def test_hello_world_is_short() -> None:
    text = (ROOT / "runtime/tools/hello.cc").read_text()
    body = text[text.index("  auto program") : text.index("  for (")]
    assert len(body.splitlines()) <= 5


def test_c_interface(built: Path, model: Path) -> None:
    assert run(built / "capi/etir_capi_test", model) == (0, "\n".join([*EXPECTED, ""]), "")


def test_thread_pool(built: Path) -> None:
    assert run(built / "tools/etir_thread_pool_test") == (0, "ok\n", "")


class Writer(torch.nn.Module):
    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.tensor([10.0, 20.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * x


class Reader(Writer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.total + x


def test_two_threads_call_two_methods(built: Path, tmp_path: Path) -> None:
    one = torch.ones(2)
    programs = {"write": torch.export.export(Writer(), (one,)), "read": torch.export.export(Reader(), (one,))}
    path = tmp_path / "two.pte"
    etir.compile(programs, share_state=True).save(path)
    assert run(built / "tools/etir_host_program_test", path, "10000") == (0, "ok\n", "")


def test_et_run_prints_and_writes(built: Path, model: Path, tmp_path: Path) -> None:
    x = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "x.bin").write_bytes(x.tobytes())
    tool = built / "tools/et-run"
    for file in ("x.npy", "x.bin"):
        code, out, error = run(tool, model, "--input", tmp_path / file)
        assert (code, error) == (0, "")
        assert out.splitlines() == ["output_0: float32[2, 3]", "  " + " ".join(EXPECTED)]
    assert run(tool, model, "--input", tmp_path / "x.npy", "--outputs", f"{tmp_path}/y")[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y0.npy"), x * x + x)
    code, out, _ = run(tool, model, "--profile", "--repeat", "3", "--threads", "2", "--isa", "baseline")
    assert code == 0 and "aten::mul.out" in out and "3 runs on baseline kernels" in out
    code, out, _ = run(tool, model, "--list")
    assert code == 0 and "input 0: float32[2, 3]" in out


@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "?"])
def test_et_run_reads_what_numpy_writes(built: Path, tmp_path: Path, dtype: str) -> None:
    array = (np.arange(6) % 2 if dtype == "?" else np.arange(6)).reshape(2, 3).astype(dtype)
    x = torch.from_numpy(array)
    path = tmp_path / "m.pte"
    etir.compile(torch.export.export(torch.nn.Identity(), (x,)), plan_inputs=False).save(path)
    np.save(tmp_path / "x.npy", array)
    code, _, error = run(built / "tools/et-run", path, "--input", tmp_path / "x.npy", "--outputs", f"{tmp_path}/y")
    assert (code, error) == (0, "")
    np.testing.assert_array_equal(np.load(tmp_path / "y0.npy"), array, strict=True)


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (["--inputs", "x"], 2, "error[E0901]: et-run: no option '--inputs'"),
        (["--threads", "0"], 2, "error[E0901]"),
        (["--threads"], 2, "--threads needs a value"),
        (["--input", "nothing.npy"], 1, "error[E0902]: cannot read 'nothing.npy'"),
        (["--method", "decode"], 1, "the program has no method 'decode'; it has forward"),
        (["--data", "nothing.ptd"], 1, "cannot read 'nothing.ptd'"),
        (["--isa", "vax"], 1, "the instruction set 'vax'"),
    ],
)
def test_et_run_errors(built: Path, model: Path, options: list[str], code: int, text: str) -> None:
    found, out, error = run(built / "tools/et-run", model, *options)
    assert found == code and text in error and out == ""


def test_et_run_refuses_bad_arrays(built: Path, model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "good.npy", np.zeros((2, 3), np.float32))
    whole = (tmp_path / "good.npy").read_bytes()
    np.save(tmp_path / "double.npy", np.zeros((2, 3)))
    (tmp_path / "cut.npy").write_bytes(whole[:-1])
    (tmp_path / "text.npy").write_bytes(b"hello, this is no array")
    (tmp_path / "short.bin").write_bytes(b"\0" * 23)
    for name, text in (
        ("double.npy", "dtype float64"),
        ("cut.npy", "is cut off"),
        ("text.npy", "is no .npy file"),
        ("short.bin", "has 23 bytes"),
    ):
        code, _, error = run(built / "tools/et-run", model, "--input", tmp_path / name)
        assert code == 1 and text in error
    for size in range(len(whole)):
        (tmp_path / "part.npy").write_bytes(whole[:size])
        if size % 9 == 0:
            assert run(built / "tools/et-run", model, "--input", tmp_path / "part.npy")[0] == 1


def test_what_a_selective_build_leaves_out_is_named(built: Path, tmp_path: Path) -> None:
    class Other(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sigmoid(x)

    path = tmp_path / "m.pte"
    etir.compile(torch.export.export(Other(), (torch.zeros(2, 3),))).save(path)
    code, _, error = run(built / "tools/et-run", path)
    assert code == 1
    assert "error[OperatorMissing]: the operator aten::sigmoid.out is not among the kernels of this build" in error


def test_unknown_operators_stop_a_selective_build(tmp_path: Path) -> None:
    names = tmp_path / "operators.txt"
    names.write_text("aten::no_such_thing.out\n")
    generate = ROOT / "runtime/kernels/generate.py"
    code, _, error = run(sys.executable, generate, tmp_path / "table.cc", "--only", names)
    assert code == 1 and "no kernel for aten::no_such_thing.out" in error
