"""C that a client's build links: its files, the report, and what is refused."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.backends.native.blob import contract, read_blob, write_blob  # noqa: E402
from etir.backends.native.cpu import cpu  # noqa: E402
from etir.backends.native.linked import _literal  # noqa: E402
from etir.diagnostics import EtirError  # noqa: E402
from etir.dialects.et.payloads import DelegateOp  # noqa: E402
from etir.dialects.et.weights import BlobAttr  # noqa: E402
from etir.emit.from_pte import read_program  # noqa: E402
from etir.runtime import RuntimeFailure  # noqa: E402
from etir.tools import et_compile, et_run, et_translate  # noqa: E402

from etir_testing import ROOT  # noqa: E402

FILES = {
    "etir_native.cc",
    "etir_native.h",
    "etir_native_call.h",
    "etir_native_weights.c",
    "forward_native_0.c",
    "vec.h",
}


class Small(nn.Module):
    """One product and what follows it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(20, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(x))


def exported(whole: bool = False) -> torch.export.ExportedProgram:
    """The small program; with ``whole``, one of whole numbers, of which no code is made."""
    if whole:
        return torch.export.export(nn.Hardtanh(0, 5), (torch.arange(20),))
    return torch.export.export(Small().eval(), (torch.randn(4, 20),))


def linked(processor: str = "cortex-m55") -> etir.Program:
    return etir.compile(exported(), target="etir", delegates=[f"native{{cpus={processor} linked=true}}"])


def test_files_and_blob() -> None:
    program = linked()
    files = program.build_files
    assert set(files) == FILES
    (delegate,) = (op for op in read_program(program.buffer).walk() if isinstance(op, DelegateOp))
    assert isinstance(delegate.value, BlobAttr)
    data = bytes(delegate.value.data.data)
    blob = read_blob(data)
    assert write_blob(blob) == data
    (variant,) = blob.variants
    assert (variant.cpu, variant.image.code, blob.weights, blob.fallback) == ("cortex-m55", b"", (), b"")
    digest = variant.digest.hex()
    assert (
        digest in files["forward_native_0.c"].decode()
        and f"etir_native_{digest[:16]}" in files["etir_native.cc"].decode()
    )
    table = contract(0, blob.inputs, blob.shapes, blob.arena_bytes, ())
    for made in (variant.digest, table):
        assert ", ".join(f"0x{byte:02x}" for byte in made) in files["etir_native.cc"].decode()
    assert linked().build_files == files and linked().buffer == program.buffer
    assert pickle.loads(pickle.dumps(program)).build_files == files
    assert linked("cortex-m4").build_files["forward_native_0.c"] != files["forward_native_0.c"]


class Twice(nn.Module):
    """The same part for the delegate before and after a sort."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(12, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sort(torch.relu(self.linear(x)))[0]
        return torch.relu(self.linear(x))


def test_equal_functions_are_one() -> None:
    """A name that is defined twice does not link."""
    module = torch.export.export(Twice().eval(), (torch.randn(3, 12),))
    program = etir.compile(module, target="etir", delegates=["native{cpus=cortex-m55 linked=true}"])
    assert len(program.report().linked) == 2 and set(program.build_files) == FILES
    assert program.build_files["etir_native.cc"].count(b"int32_t etir_native_") == 1


def test_functions_of_other_tables_are_others() -> None:
    """The same C for other dims: each has a digest and a contract of its own."""
    linear = nn.Linear(20, 7)

    def table(*shape: int) -> bytes:
        module = torch.export.export(nn.Sequential(linear, nn.Tanh()).eval(), (torch.randn(shape),))
        program = etir.compile(module, target="etir", delegates=["native{cpus=cortex-m55 linked=true}"])
        return program.build_files["etir_native.cc"]

    assert table(4, 20) == table(4, 20) != table(4, 1, 20)


def test_tools_say_what_the_file_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Disassembly lists the linked function; there is nothing to interpret."""
    linked().save(tmp_path / "m.pte")
    assert et_translate.main([f"{tmp_path}/m.pte", "--disassemble"]) == 0
    assert "// cortex-m55: linked, sha256" in capsys.readouterr().out
    np.savez(tmp_path / "x.npz", x=np.zeros((4, 20), np.float32))
    arguments = [f"{tmp_path}/m.pte", "--inputs", f"{tmp_path}/x.npz", "--outputs", f"{tmp_path}/y.npz"]
    assert et_run.main([*arguments, "--interpret"]) == 1
    assert "E1173" in capsys.readouterr().err


def test_without_the_linked_code_loading_says_so() -> None:
    with pytest.raises(RuntimeFailure, match="linked with the program"):
        etir.runtime.load(linked(), native="trusted").forward(torch.randn(4, 20))


def test_weights_are_exact() -> None:
    for bits in np.random.default_rng(0).integers(0, 1 << 32, 2000, dtype=np.uint64).astype(np.uint32):
        (value,) = np.array([bits], np.uint32).view(np.float32)
        if np.isfinite(value):
            assert np.float32(float(_literal(float(value)).removesuffix("f"))) == value
    assert _literal(1.0) == "1.0f" and "inf" in _literal(float("-inf"))


@pytest.mark.parametrize("processor", ["x86-64", "cortex-m4", "cortex-m55", "aarch64", "rv64gcv"])
def test_the_c_compiles_by_itself(processor: str, tmp_path: Path) -> None:
    """By the compiler of a client, with warnings, each file on its own."""
    triple = cpu(processor).triple
    cc = shutil.which(f"{triple}-gcc")
    if cc is None:
        pytest.skip(f"{triple}-gcc is not installed")
    for name, data in linked(processor).build_files.items():
        (tmp_path / name).write_bytes(data)
    strict = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-Wno-psabi"]
    for path in sorted(tmp_path.glob("*.c")):
        done = subprocess.run([cc, *cpu(processor).flags, *strict, "-c", path.name, "-o", "out.o"], cwd=tmp_path,
                              capture_output=True, text=True, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr


def saved(tmp_path: Path, whole: bool = False) -> str:
    torch.export.save(exported(whole), tmp_path / "m.pt2")
    return f"{tmp_path}/m.pt2"


def compile_(tmp_path: Path, source: str, *options: str) -> int:
    return et_compile.main([source, "-o", f"{tmp_path}/m.pte", "--target", "etir", *options])


M55 = ("--delegate", "native", "--delegate-option", "cpus=cortex-m55")


def test_et_compile_writes_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "c"
    assert compile_(tmp_path, saved(tmp_path), *M55, "--native-c", str(folder), "--report=json") == 0
    assert {path.name for path in folder.iterdir()} == FILES
    (row,) = json.loads(capsys.readouterr().out)["linked"]
    assert (row["delegate"], row["processor"]) == ("forward_native_0", "cortex-m55")
    # Seven columns are a panel of 16, and there are biases.
    assert row["weights"] == 4 * (20 * 16 + 7)
    if shutil.which("arm-none-eabi-gcc"):
        assert 100 < row["code"] < 8000 and "12" in row["compiler"]


@pytest.mark.parametrize(
    ("options", "whole", "said"),
    [
        ((*M55, "--native-c", "{file}"), False, "E0903"),
        ((*M55, "--native-c", "{folder}"), True, "E1171"),
        (("--native-c", "{folder}"), False, "--delegate native"),
        (("--delegate", "native", "--native-c", "{folder}"), False, "E1170"),
        (
            ("--delegate", "native", "--delegate-option", "cpus=cortex-m55,cortex-m4", "--native-c", "{folder}"),
            False,
            "E1170",
        ),
        (("--delegate", "native", "--delegate-option", "cpus=z80", "--native-c", "{folder}"), False, "E1160"),
        (M55, False, "E1170"),
        ((*M55, "--delegate-option", "cc=no-such", "--native-c", "{folder}"), False, "E1161"),
    ],
)
def test_what_is_refused(
    options: tuple[str, ...], whole: bool, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    places = {"file": f"{tmp_path}/file", "folder": f"{tmp_path}/c"}
    assert compile_(tmp_path, saved(tmp_path, whole), *(option.format_map(places) for option in options)) != 0
    assert said in capsys.readouterr().err and not (tmp_path / "m.pte").exists()


def test_without_a_compiler_the_c_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of the code is what is not known then."""
    from etir.backends.native import cc

    monkeypatch.setattr(cc.shutil, "which", lambda name: None)
    cc.compiler.cache_clear()
    try:
        program = linked()
    finally:
        cc.compiler.cache_clear()
    (row,) = program.report().linked
    assert row.code is None and "no compiler" in str(row) and set(program.build_files) == FILES


def test_folders_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if os.geteuid() == 0:
        pytest.skip("root writes everywhere")
    (tmp_path / "c").mkdir(mode=0o500)
    assert compile_(tmp_path, saved(tmp_path), *M55, "--native-c", f"{tmp_path}/c") == 1
    assert "E0903" in capsys.readouterr().err
    with pytest.raises(EtirError):
        linked("z80")


def test_a_runtime_of_linked_code_has_nothing_for_kernels(tmp_path: Path) -> None:
    """What unpacks weights for a fallback is not in flash, where no fallback is."""
    cc = shutil.which("arm-none-eabi-g++")
    if cc is None:
        pytest.skip("arm-none-eabi-g++ is not installed")
    source = ROOT / "runtime" / "backends" / "native" / "native.cc"
    (tmp_path / "main.cc").write_text(
        '#include "backends/native/native.h"\n'
        'extern "C" const void* used;\nconst void* used = &etir::NAME;\nextern "C" void _start() {}\n'
    )
    flags = ["-std=gnu++17", "-Os", "-fno-exceptions", "-fno-rtti", "-ffunction-sections", "-fdata-sections"]
    flags += ["-mcpu=cortex-m55", "-mthumb", f"-I{ROOT / 'runtime'}"]
    link = ["-nostdlib", "-Wl,--gc-sections", "-Wl,--unresolved-symbols=ignore-all", "-Wl,-u,used"]
    has = {}
    for name in ("kLinkedNativeBackend", "kNativeBackend"):
        command = [cc, *flags, f"-DNAME={name}", "main.cc", str(source), *link, "-o", name]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        has[name] = b"find_constant" in (tmp_path / name).read_bytes()
    assert has == {"kLinkedNativeBackend": False, "kNativeBackend": True}
