"""What users get: a wheel in a fresh environment, in a folder elsewhere, and all of docs/guide/cpp.md.

The wheel is made once, through the compiler cache where there is one. The fresh environment finds what etir depends on
in the one that the tests run in, so that nothing is downloaded; etir itself is the wheel's.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guide" / "cpp.md"
LINUX = sys.platform == "linux"
_BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(command: list[str | Path], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """What a command prints; a test fails with all of it when the command does."""
    done = subprocess.run(list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, as `make wheel` makes it; ``ETIR_WHEEL`` names one that is there already."""
    given = os.environ.get("ETIR_WHEEL")
    if given:
        return Path(given)
    folder = tmp_path_factory.mktemp("wheel")
    run([sys.executable, ROOT / ".ci" / "wheel.py", folder], ROOT)
    (found,) = folder.glob("etir-*.whl")
    return found


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh virtual environment with the wheel."""
    venv = tmp_path_factory.mktemp("installed") / "venv"
    run([sys.executable, "-m", "venv", venv], venv.parent)
    run([venv / "bin" / "python", "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel], venv.parent)
    (packages,) = (venv / "lib").glob("python*/site-packages")
    # After the environment's own, and without the import hooks of an editable etir, which are in .pth files there.
    dependencies = [entry for entry in sys.path if entry.endswith("site-packages")]
    (packages / "dependencies.pth").write_text("".join(f"{entry}\n" for entry in dependencies))
    return venv


@pytest.fixture(scope="session")
def outside(installed: Path) -> dict[str, str]:
    """The environment of a user without compilers: nothing but the fresh environment is on the path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ETIR", "PYTHON"))}
    return kept | {"PATH": str(installed / "bin"), "CXX": "/nonexistent", "VIRTUAL_ENV": str(installed)}


def test_the_wheel_fits_other_machines(wheel: Path) -> None:
    """Any Python from 3.11 on, and any Linux whose C library is as new as the one it was linked with."""
    name, _, python, abi, platform = wheel.name.removesuffix(".whl").split("-")
    assert (name, python, abi) == ("etir", "cp311", "abi3")
    assert not LINUX or platform.startswith("manylinux_2_")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    for wanted in (
        "etir/include/executor/program.h",
        "etir/include/kernels/kernel.h",
        "etir/include/core/checks.def",
        "etir/lib/libetir_core.a",
        "etir/share/cmake/etir/etir-config.cmake",
    ):
        assert wanted in names, wanted
    assert not [name for name in names if name.endswith("_test.cc") or "/test/" in name]


def test_python_tools_and_runtime(installed: Path, outside: dict[str, str], tmp_path: Path) -> None:
    program = (
        "func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %0 = aten.mul.Tensor(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n"
        "  func.return %0 : tensor<4xf32>\n}\n"
    )
    (tmp_path / "m.mlir").write_text(program)
    np.savez(tmp_path / "x.npz", x=np.arange(4, dtype=np.float32))
    run(["et-compile", "m.mlir", "-o", "m.pte", "--target", "etir"], tmp_path, outside)
    run(["et-run", "m.pte", "--inputs", "x.npz", "--outputs", "y.npz", "--threads", "1"], tmp_path, outside)
    with np.load(tmp_path / "y.npz") as outputs:
        (got,) = (outputs[name] for name in outputs.files)
    np.testing.assert_array_equal(got, [0, 1, 4, 9])
    where = run(
        ["python", "-c", "import etir.runtime; print(etir.__file__, etir.runtime.is_available())"], tmp_path, outside
    )
    assert where.split() == [str(next((installed / "lib").glob("python*/site-packages")) / "etir/__init__.py"), "True"]
    version = run(["python", "-m", "etir", "--version"], tmp_path, outside).strip()
    assert version == f"etir {importlib.metadata.version('etir')}"


def test_without_the_native_half(installed: Path, outside: dict[str, str], tmp_path: Path) -> None:
    """What a source installation without a compiler leaves: the tools work, and the runtime says what to do."""
    (packages,) = (installed / "lib").glob("python*/site-packages")
    copy = tmp_path / "plain"
    ignored = shutil.ignore_patterns("_native*", "include", "lib", "share", "etir_kernels*")
    shutil.copytree(packages / "etir", copy / "etir", ignore=ignored)
    environment = outside | {"PYTHONPATH": str(copy)}
    code = "import etir.runtime\ntry: etir.runtime.load(b'')\nexcept etir.EtirError as error: print(error)"
    text = run(["python", "-c", code], tmp_path, environment)
    assert "error[E1201]" in text and "a wheel" in text and "C++17 compiler" in text
    done = subprocess.run(
        ["python", "-m", "etir", "--cmake-dir"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1 and "error[E1215]" in done.stderr and "Traceback" not in done.stderr


def page_files(page: Path, folder: Path) -> None:
    """Write the files that a page shows."""
    for _, words, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
        name = re.search(r"file=(\S+)", words)
        if name is not None:
            path = folder / name[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


@pytest.fixture(scope="module")
def project() -> Path:
    """A folder elsewhere with the files of docs/guide/cpp.md and of the tutorials that it refers to."""
    # Its build folders have the same name each time, so that compiler caches know their files.
    folder = ROOT / "build" / "project"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    page_files(PAGE, folder)
    page_files(ROOT / "docs" / "tutorial" / "kernel.md", folder / "kernels")
    tutorial = folder / "tutorial"
    page_files(ROOT / "docs" / "tutorial" / "delegate.md", tutorial)
    shutil.copy(tutorial / "poly.cc", folder / "poly")
    np.savez(folder / "x.npz", x=np.arange(1, 5, dtype=np.float32))
    (folder / "selection.txt").write_text("aten::mul.out Float\naten::add.out Float\n")
    return folder


def _commands(kind: str) -> list[list[str]]:
    """The commands of the page's blocks of a kind, block by block."""
    found = [(words.split(), text) for language, words, text in _BLOCK.findall(PAGE.read_text()) if language == "bash"]
    return [text.splitlines() for words, text in found if words == kind.split()]


def _developer(installed: Path, project: Path) -> dict[str, str]:
    """The environment of a user with compilers and CMake, who has installed the wheel."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    tools = str(Path(shutil.which("cmake") or "cmake").parent)
    path = os.pathsep.join([str(installed / "bin"), tools, os.environ["PATH"]])
    cached = {"CMAKE_CXX_COMPILER_LAUNCHER": "ccache"} if shutil.which("ccache") else {}
    return (
        kept
        | cached
        | {"PATH": path, "ETIR_SOURCE": str(ROOT), "CCACHE_NOHASHDIR": "1", "CCACHE_BASEDIR": str(project)}
    )


def _numbers(text: str) -> list[float]:
    """Those of the last line that has any: et-run prints a line with the type before them."""
    return [float(word) for word in re.findall(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", text.strip().splitlines()[-1])]


def test_an_application_builds_against_the_wheel(installed: Path, project: Path) -> None:
    """The first program of docs/cpp.md, with find_package."""
    (commands, *_) = _commands("installed")
    for command in commands:
        printed = run(["bash", "-c", command], project, _developer(installed, project))
    assert printed.split() == ["2", "6", "12", "20"]
    assert len((project / "app.cc").read_text().split("int main")[1].splitlines()) <= 20


@pytest.mark.nightly
def test_cmake_install_and_subfolder(installed: Path, project: Path) -> None:
    """`cmake --install` and add_subdirectory, the latter of the C interface, on the same program."""
    for commands in _commands("source"):
        for command in commands:
            printed = run(["bash", "-c", command], project, _developer(installed, project))
        assert printed.split() == ["2", "6", "12", "20"]


@pytest.mark.skipif(not shutil.which("aarch64-linux-gnu-g++"), reason="aarch64-linux-gnu-g++ is not installed")
@pytest.mark.skipif(not shutil.which("qemu-aarch64"), reason="qemu-aarch64 is not installed")
def test_another_machine(installed: Path, project: Path) -> None:
    """The toolchain file for 64-bit Arm, as the page shows it, and the program on the emulator."""
    (commands,) = _commands("source aarch64")
    for command in commands:
        printed = run(["bash", "-c", command], project, _developer(installed, project))
    assert printed.split() == ["2", "6", "12", "20"]
    shown = re.findall(r"^set\(.*\)$", PAGE.read_text(), re.MULTILINE)
    toolchain = (ROOT / "cmake/toolchains/aarch64-linux-gnu.cmake").read_text()
    assert shown[-5:] and all(line in toolchain for line in shown if "CMAKE_" in line)


def test_kernels_of_ones_own(installed: Path, project: Path) -> None:
    """In et-run, and in a process that has looked for the kernel before; two libraries, and refusals."""
    (_, commands, _) = _commands("installed")
    environment = _developer(installed, project)
    for command in commands:
        printed = run(["bash", "-c", command], project, environment)
    assert _numbers(printed) == [1.5, 3, 4.5, 6]
    code = """
import numpy as np, etir.runtime as rt
x = np.arange(1, 5, dtype=np.float32)
program = rt.load("scaled.pte")
try: program.forward(x)
except rt.RuntimeFailure as error: print(*error.ids)
library = rt.load_library("build/library/scaled.so")
print(library.operators, library.backends, rt.load_library("build/library/scaled.so") == library)
print(rt.load("scaled.pte").forward(x)[0].tolist(), "demo::scaled_add.out" in rt.operators())
for path in ("nothing.so", "scaled.pte", "libm.so.6"):
    try: rt.load_library(path)
    except rt.RuntimeFailure as error: print(str(error).splitlines()[0])
"""
    (project / "libm.so.6").unlink(missing_ok=True)
    (project / "libm.so.6").symlink_to(_math_library())
    first, second, third, *refused = run(["python", "-c", code], project, environment).splitlines()
    assert first == "E1204"
    assert second == "('demo::scaled_add.out',) () True"
    assert third == "[1.5, 3.0, 4.5, 6.0] True"
    assert "error[E1203]" in refused[0] and "nothing.so" in refused[0]
    assert (
        "error[E1214]" in refused[1] and "error[E1214]" in refused[2] and "neither kernels nor backends" in refused[2]
    )


def test_a_library_is_linked_by_its_rows(installed: Path, project: Path) -> None:
    """Compiling with the library of the test above: the rows that etir_add_library has put beside it are checked."""
    (_, commands, _) = _commands("installed")
    environment = _developer(installed, project)
    for command in commands:
        run(["bash", "-c", command], project, environment)
    text = """
et.schema "demo::scaled_add(Tensor self, Tensor other, float factor) -> Tensor"
et.schema "demo::scaled_add.out(Tensor self, Tensor other, float factor, *, Tensor(a!) out) -> Tensor(a!)"
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = demo.scaled_add.default(%x, %x, factor = 0.5) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""
    (project / "floats.mlir").write_text(text)
    (project / "integers.mlir").write_text(text.replace("xf32", "xi32"))
    options = ["--target", "etir", "--load-library", "build/library/scaled.so"]
    run(["et-compile", "floats.mlir", "-o", "floats.pte", *options], project, environment)
    printed = run(
        ["bash", "-c", f"et-compile integers.mlir -o i.pte {' '.join(options)} 2>&1 || true"], project, environment
    )
    assert "error[E0604]" in printed and "must be one of FLOAT" in printed


def _math_library() -> str:
    import ctypes.util

    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    found = re.search(r"libm\.so\.6.*=> (\S+)", listed)
    assert found is not None, ctypes.util.find_library("m")
    return found[1]


def test_backends_of_ones_own(installed: Path, project: Path) -> None:
    """The tutorial's delegate, compiled by its Python half, run by its C++ half from a library."""
    environment = _developer(installed, project)
    tutorial = project / "tutorial"
    # As installing the tutorial's package would make it known.
    info = tutorial / "poly-0.1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Name: poly\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[etir.backends]\npoly = poly:BACKEND\n")
    options = ["--target", "etir", "--delegate", "poly", "--link-backend", "PolyBackend"]
    compile_it: list[str | Path] = ["et-compile", "model.mlir", "-o", "../poly.pte", *options]
    run(compile_it, tutorial, environment | {"PYTHONPATH": str(tutorial)})
    done = subprocess.run(
        ["et-run", "poly.pte", "--inputs", "x.npz"], cwd=project, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1 and "error[E1211]" in done.stderr
    (*_, commands) = _commands("installed")
    for command in commands:
        printed = run(["bash", "-c", command], project, environment)
    wanted = _numbers(run(["et-run", "model.mlir", "--inputs", "../x.npz"], tutorial, environment))
    np.testing.assert_allclose(_numbers(printed), wanted, rtol=1e-4)


@pytest.mark.skipif(not shutil.which("qemu-x86_64"), reason="qemu-x86_64 is not installed")
def test_a_processor_without_newer_instructions(installed: Path, project: Path) -> None:
    """The page's program on plain x86-64, with modules for newer processors beside it; to ask for one is refused."""
    if not (project / "build" / "app").exists():
        test_an_application_builds_against_the_wheel(installed, project)
    emulator: list[str | Path] = ["qemu-x86_64", "-cpu", "core2duo", "build/app", "model.pte"]
    assert run(emulator, project).split() == ["2", "6", "12", "20"]
    environment = dict(os.environ) | {"ETIR_ISA": "x86-64-v3"}
    done = subprocess.run(
        [str(word) for word in emulator], cwd=project, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "this processor does not have the instruction set 'x86-64-v3'" in done.stderr
    assert "leave ETIR_ISA unset" in done.stderr
