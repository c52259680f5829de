"""The C++ programs: et-run, the hello world of the API, the C interface, the thread pool; a selective build of them.

They are built with the kernels of a few operators only, which is what a selective build is; with the preset in
``ETIR_BUILD_PRESET`` (builds.py).
"""

from __future__ import annotations

import hashlib
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import etir
from etir.devtools.profile import read_profile
from etir.emit.bundled import write_bundled
from etir.emit.bundled.model import BundledProgram, Case, Suite, Tensor
from etir.emit.etdump import value_bytes
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.pte.model import IntList
from etir.emit.pte.reader import read_pte

from etir_testing.runtime import decoding
from etir_testing.runtime.programs import BOUND, Builder

ROOT = Path(__file__).resolve().parents[3]


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x + x


EXPECTED = [f"{i * i + i}" for i in range(1, 7)]


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
    body = text[text.index("  auto module") : text.index("  for (")]
    assert len(body.splitlines()) <= 5


def test_c_interface(built: Path, model: Path, tmp_path: Path) -> None:
    dump, values = tmp_path / "run.etdp", tmp_path / "run.bin"
    assert run(built / "capi/etir_capi_test", model, dump, values) == (0, "\n".join([*EXPECTED, ""]), "")
    is_profile_of_two_runs(dump, values, model)


def test_thread_pool(built: Path) -> None:
    assert run(built / "tools/etir_thread_pool_test") == (0, "ok\n", "")


def test_parts_of_the_core(built: Path) -> None:
    """runtime/core, executor and platform: the x_test.cc beside each x.cc."""
    code, out, error = run(built / "testing/etir_unit_test")
    assert code == 0 and out.endswith(" tests, 0 failures\n") and int(out.split()[0]) > 50, error


def test_the_log(built: Path) -> None:
    """With ETIR_LOG each failed check is one line; without it the core does not know the platform's log."""
    assert run(built / "testing/etir_log_test") == (0, "3 tests, 0 failures\n", "")
    code, out, _ = run("nm", built / "libetir_core.a")
    assert code == 0 and " T etir_platform_abort" not in out and " U etir_platform_log" not in out


def test_a_failure_is_decoded(built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """et-run prints the record of a kernel's failure; et-translate finds the line of the model."""
    program = decoding.gather()
    program.save(tmp_path / "gather.pte")
    np.save(tmp_path / "x.npy", np.ones((3, 4), np.float32))
    np.save(tmp_path / "rows.npy", np.array([0, 7]))
    inputs = ["--input", tmp_path / "x.npy", "--input", tmp_path / "rows.npy"]
    code, _, error = run(built / "tools/et-run", tmp_path / "gather.pte", *inputs)
    assert code == 1
    assert re.search(r"^  note: etir-error \d+ 0 1 1 7 3$", error, re.MULTILINE), error
    text = decoding.decoded(error, program, tmp_path, capsys)
    message = "index 7 is out of bounds for a dimension of size 3 in aten::index_select.out"
    decoding.check_text(text, message, "aten::index_select.out(self: %mul")


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
    assert run(built / "tools/etir_host_module_test", path, "10000") == (0, "ok\n", "")


@pytest.mark.parametrize("of_input", [False, True])
def test_views_with_a_place_are_put_back_before_each_run(built: Path, tmp_path: Path, of_input: bool) -> None:
    """A view of an input, as the stock exporter plans it, and an input that becomes a view, which nobody writes."""
    b = Builder()
    x, other = b.input(b.tensor(2, 3, dynamism=BOUND)), b.tensor(2, 3, dynamism=BOUND)
    y = b.tensor(2, 3, dynamism=BOUND)
    sizes = b.value(IntList((b.int(2), b.int(3))))
    source, view = (other, x) if of_input else (x, other)
    b.call("executorch_prim::et_view.default", source, sizes, view)
    b.call("aten::add.out", view, view, b.int(1), y, y)
    b.outputs.append(y)
    path = tmp_path / "m.pte"
    path.write_bytes(b.pte(check=False))
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    code, out, error = run(built / "tools/et-run", path, "--input", tmp_path / "x.npy", "--repeat", "5")
    assert (code, error) == (0, ""), out
    if not of_input:
        assert out.splitlines()[:2] == ["output_0: float32[2, 3]", "  2 2 2 2 2 2"]


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
    etir.compile(torch.export.export(torch.nn.Identity(), (x,)), plan_inputs=False, plan_outputs=False).save(path)
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
        ("cut.npy", "is truncated"),
        ("text.npy", "is no .npy file"),
        ("short.bin", "has 23 bytes"),
    ):
        code, _, error = run(built / "tools/et-run", model, "--input", tmp_path / name)
        assert code == 1 and text in error
    for size in range(len(whole)):
        (tmp_path / "part.npy").write_bytes(whole[:size])
        if size % 9 == 0:
            assert run(built / "tools/et-run", model, "--input", tmp_path / "part.npy")[0] == 1


def is_profile_of_two_runs(dump: Path, values: Path, model: Path) -> None:
    """What Python says of a profile that the runtime wrote, with values."""
    profile = read_profile(dump.read_bytes(), read_pte(model.read_bytes()))
    assert (profile.runs, profile.method, profile.dropped) == (2, "forward", 0)
    assert profile.program == hashlib.sha256(model.read_bytes()).hexdigest()
    assert [row.name for row in profile.instructions(1)] == ["aten::mul.out", "aten::add.out"]
    output = next(value for value in profile.values if value.output)
    assert output.value is not None
    data = value_bytes(output.value.tensors[0], values.read_bytes())
    assert np.frombuffer(data, np.float32).tolist() == [float(text) for text in EXPECTED]


def test_et_run_writes_profiles(built: Path, model: Path, tmp_path: Path) -> None:
    """The profile of two runs, with values; what Python says of the same file."""
    dump, values = tmp_path / "run.etdp", tmp_path / "run.bin"
    (tmp_path / "x.bin").write_bytes(np.arange(1, 7, dtype=np.float32).tobytes())
    command = [built / "tools/et-run", model, "--input", tmp_path / "x.bin", "--repeat", "2", "--etdump", dump]
    assert run(*command, "--values", values)[0] == 0
    is_profile_of_two_runs(dump, values, model)
    for options, text in (
        (["--values", values], "--values needs --etdump"),
        (["--etdump", tmp_path / "none" / "x"], "error[E0903]: cannot write"),
    ):
        code, _, error = run(built / "tools/et-run", model, *options)
        assert code in (1, 2) and text in error


def bundled_model(model: Path) -> BundledProgram:
    """Two cases, with floats in two orders."""
    x = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    cases = []
    for factor in (1, 2):
        y = factor * x * factor * x + factor * x
        given = Tensor(ScalarType.FLOAT, (2, 3), (0, 1), (factor * x).tobytes())
        cases.append(Case((given,), (Tensor(ScalarType.FLOAT, (2, 3), (1, 0), y.T.copy().tobytes()),)))
    return BundledProgram(model.read_bytes(), (Suite("forward", tuple(cases)),))


def test_et_run_checks_bundled_programs(built: Path, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.bpte"
    bundled = bundled_model(model)
    path.write_bytes(write_bundled(bundled))
    et_run = built / "tools/et-run"
    lines = "".join(f"forward, case {i}: 1 outputs as expected\n" for i in range(2))
    assert run(et_run, path, "--check") == (0, lines, "")
    (suite,) = bundled.suites
    first, second = suite.cases
    wrong = BundledProgram(bundled.program, (Suite("forward", (Case(first.inputs, second.expected), second)),))
    path.write_bytes(write_bundled(wrong))
    code, out, error = run(et_run, path, "--check")
    assert (code, out) == (1, "forward, case 1: 1 outputs as expected\n")
    expected = "forward, case 0: output 0 6 of 6 elements differ, the first at [0, 0] is 2, 6 is expected"
    assert f"error[E0920]: {expected}" in error
    assert run(et_run, path, "--check", "--atol", "1000")[0] == 0
    assert "is a bundled program: --check" in run(et_run, path)[2]
    assert "no bundled program" in run(et_run, model, "--check")[2]
    assert "--rtol needs a number from 0 on" in run(et_run, path, "--check", "--rtol", "-1")[2]


def test_et_run_survives_damaged_bundled_programs(built: Path, model: Path, tmp_path: Path) -> None:
    """The tables after the program are read, refused, or give other outputs; nothing else happens."""
    good = write_bundled(bundled_model(model))
    tables = [
        i
        for i in range(len(good))
        if not good.index(model.read_bytes()) <= i < good.index(model.read_bytes()) + model.stat().st_size
    ]
    random_ = random.Random(0)
    path = tmp_path / "bad.bpte"
    refused = 0
    for number in range(100):
        data = bytearray(good)
        for _ in range(random_.randint(1, 3)):
            data[random_.choice(tables)] = random_.choice((random_.randrange(256), 0, 1, 127, 128, 255))
        path.write_bytes(data[: random_.randrange(len(data))] if number % 10 == 0 else data)
        code, _, error = run(built / "tools/et-run", path, "--check")
        assert code in (0, 1) and (code == 0 or error.startswith("error[")), (number, code, error)
        refused += "E0844" in error
    assert refused > 20


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
