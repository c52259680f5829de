"""``--load-library`` of the tools that compile, and of torch's libraries in all four."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import executorch
import numpy as np
import pytest

from etir_testing import ROOT
from etir_testing.runtime.builds import preset_of_tests

pytestmark = pytest.mark.skipif(preset_of_tests() != "release", reason="Python cannot load a library with sanitizers")

BOX = """
#include "platform/library.h"

namespace {
etir::Error init(etir::BackendInit&, void**) { return etir::Error::Ok; }
etir::Error execute(void*, etir::KernelContext&, uint32_t) { return etir::Error::Ok; }
}  // namespace

ETIR_EXPORT_BACKENDS({"Box", nullptr, init, execute})
"""

BACKEND = """
from etir.backends.api.interface import Artifact, Backend
from etir.backends.api.patterns import rows
from etir.plugins import register_backend

class Box(Backend):
    name, runtime_id, version = "box", "Box", "1"

    def rows(self, options):
        return rows(["aten.tanh.default"])

    def preprocess(self, outlined, options):
        return Artifact(b"a box")

register_backend(Box())
"""

TANH = """
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = aten.tanh.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""

SCALE = """
et.schema "box::scale(Tensor x) -> Tensor"
et.schema "box::scale.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = box.scale.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""

HADAMARD = """
et.schema "llama::fast_hadamard_transform(Tensor mat) -> Tensor"
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = llama.fast_hadamard_transform.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""

EXPORT = """
import sys
import torch

torch.ops.load_library(sys.argv[1])
torch.library.register_fake("llama::fast_hadamard_transform")(torch.empty_like)

class Hadamard(torch.nn.Module):
    def forward(self, x):
        return torch.ops.llama.fast_hadamard_transform(x)

torch.export.save(torch.export.export(Hadamard(), (torch.ones(4),)), "hadamard.pt2")
"""

ROW = {
    "schema": "box::scale.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
    "dtypes": [{"x": "DOUBLE", "out": "=x"}],
    "dim_orders": "contiguous",
}

TORCH_LIBRARY = Path(executorch.__path__[0]) / "extension" / "llm" / "custom_ops" / "libcustom_ops_aot_lib.so"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with a backend, its Python half, and programs."""
    path = tmp_path_factory.mktemp("libraries")
    files = {"box.py": BACKEND, "tanh.mlir": TANH, "scale.mlir": SCALE, "hadamard.mlir": HADAMARD}
    for name, text in files.items():
        (path / name).write_text(text)
    build(path, "box", BOX)
    np.savez(path / "x.npz", np.array([1, 1, 1, 1], np.float32))
    return path


def build(folder: Path, name: str, source: str) -> None:
    """A shared library of one source."""
    (folder / f"{name}.cc").write_text(source)
    options = ["-std=c++17", "-shared", "-fPIC", "-I", ROOT / "runtime"]
    subprocess.run(["c++", *options, "-o", folder / f"{name}.so", folder / f"{name}.cc"], check=True)


def run(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """A tool in a process of its own."""
    name, *arguments = line.split()
    command = [Path(sys.executable).with_name(name), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_backend_of_a_library_is_linked(folder: Path) -> None:
    line = "et-compile tanh.mlir -o tanh.pte --target etir --import box.py --delegate box"
    assert "error[E1102]" in run(folder, line).stderr
    done = run(folder, f"{line} --load-library box.so")
    assert (done.returncode, done.stderr) == (0, "")
    line = "et-opt tanh.mlir --compile-to=et --target etir --import box.py --delegate box --no-output"
    assert "error[E1102]" in run(folder, line).stderr
    assert run(folder, f"{line} --load-library box.so").returncode == 0
    done = run(folder, "et-run tanh.pte --inputs x.npz --load-library box.so")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["box.kernels.json", "kernels.json"])
def test_rows_beside_a_library_are_checked(folder: Path, name: str) -> None:
    (folder / name).write_text(json.dumps({"box::scale.out": ROW}))
    try:
        for line in (
            "et-compile scale.mlir -o scale.pte --target etir",
            "et-translate --mlir-to-pte scale.mlir -o scale.pte --target etir",
        ):
            assert run(folder, line).returncode == 0
            done = run(folder, f"{line} --load-library box.so")
            assert "error[E0604]" in done.stderr, done.stderr
            assert "must be one of DOUBLE" in done.stderr
    finally:
        (folder / name).unlink()


def test_a_library_that_cannot_be_loaded(folder: Path) -> None:
    """The names of its backends are only known by loading it."""
    build(folder, "old", 'extern "C" const void* etir_backend_table(unsigned) { return nullptr; }')
    for tool in ("et-compile tanh.mlir -o tanh.pte", "et-opt tanh.mlir", "et-translate --mlir-to-pte tanh.mlir"):
        done = run(folder, f"{tool} --target etir --load-library old.so")
        assert done.returncode == 1
        assert done.stderr.startswith("error[E1214]: "), done.stderr
        assert "old.so" in done.stderr


def test_a_library_for_torch(folder: Path) -> None:
    line = "et-run hadamard.mlir --inputs x.npz --evaluator torch"
    assert "error[E1001]" in run(folder, line).stderr
    done = run(folder, f"{line} --load-library {TORCH_LIBRARY}")
    assert "[2., 0., 0., 0.]" in done.stdout, done.stderr
    subprocess.run([sys.executable, "-c", EXPORT, TORCH_LIBRARY], cwd=folder, check=True)
    line = "et-translate --import-pt2 hadamard.pt2 -o again.mlir"
    assert run(folder, line).returncode == 1
    for each in (line, "et-compile hadamard.pt2 -o hadamard.pte --link-library custom_ops"):
        done = run(folder, f"{each} --load-library {TORCH_LIBRARY}")
        assert done.returncode == 0, done.stderr
    assert "llama.fast_hadamard_transform" in (folder / "again.mlir").read_text()


def test_a_library_of_torch_s_without_operators(folder: Path) -> None:
    import torch

    done = run(folder, f"et-opt tanh.mlir --load-library {Path(torch.__path__[0]) / 'lib' / 'libc10.so'}")
    assert done.returncode == 1
    assert "error[E1214]" in done.stderr and "registers no operator with torch" in done.stderr
