"""An operator of one's own, from C++ to both runtimes.

    python examples/custom_op/custom_op.py --folder build/custom_op            registered with TORCH_LIBRARY, in C++
    python examples/custom_op/custom_op.py --folder build/custom_op --python   registered with torch.library, in Python

``scaled_add_torch.cc`` registers ``demo::scaled_add`` and its out variant with torch, ``scaled_add_executorch.cc`` the
kernel with the ExecuTorch runtime, in a library of its own that is loaded into the process. ``scaled_add.cc`` and
``kernels.json`` are the kernel of etir's runtime, which is linked in where the runtime is built:

    cmake -S . -B build -DETIR_KERNEL_FOLDERS=$PWD/examples/custom_op

The example exports and compiles a model for both runtimes, runs it on ExecuTorch and compares it with eager, and leaves
``etir.pte`` in the folder for the other one.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

import etir

HERE = Path(__file__).resolve().parent
FUNCTIONAL = "scaled_add(Tensor self, Tensor other, float factor) -> Tensor"
OUT = "scaled_add.out(Tensor self, Tensor other, float factor, *, Tensor(a!) out) -> Tensor(a!)"


class Model(nn.Module):
    """Two calls of the operator, one on the result of the other."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = torch.ops.demo.scaled_add(x, y, 0.5)
        return torch.ops.demo.scaled_add(total, x, -2.0)


def compile_library(source: str, output: Path, includes: Sequence[Path], flags: Sequence[str]) -> Path:
    """Compile one source of this folder into a shared library. Raises ``CalledProcessError``."""
    output.parent.mkdir(parents=True, exist_ok=True)
    paths = [f"-I{path}" for path in includes]
    command = ["g++", "-std=c++20", "-O1", "-fPIC", "-shared", *paths, str(HERE / source), "-o", str(output), *flags]
    subprocess.run(command, check=True)
    return output


def register_in_cpp(folder: Path) -> None:
    """Build the ``TORCH_LIBRARY`` of this folder and load it into torch."""
    root = Path(torch.__file__).parent
    includes = [root / "include", root / "include" / "torch" / "csrc" / "api" / "include"]
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    flags = [abi, f"-L{root / 'lib'}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{root / 'lib'}"]
    torch.ops.load_library(str(compile_library("scaled_add_torch.cc", folder / "libdemo_torch.so", includes, flags)))


def register_in_python() -> torch.library.Library:
    """Register the same operator with ``torch.library``; it lasts as long as what is returned."""
    library = torch.library.Library("demo", "DEF")
    library.define(FUNCTIONAL)
    library.define(OUT)
    library.impl("scaled_add", lambda x, y, factor: x + factor * y, "CompositeExplicitAutograd")
    library.impl("scaled_add.out", lambda x, y, factor, *, out: out.copy_(x + factor * y), "CompositeExplicitAutograd")
    return library


def load_into_executorch(folder: Path) -> None:
    """Build the kernel for the ExecuTorch runtime of the installed wheel and load it: that registers it."""
    import executorch

    root = Path(next(iter(executorch.__path__)))
    from executorch.extension.pybindings import portable_lib  # noqa: F401  (the runtime comes first)

    flags = ["-DC10_USING_CUSTOM_GENERATED_MACROS", f"-L{root / 'lib'}", "-lexecutorch", f"-Wl,-rpath,{root / 'lib'}"]
    headers = root / "include"
    includes = [headers, headers / "executorch" / "runtime" / "core" / "portable_type" / "c10"]
    library = compile_library("scaled_add_executorch.cc", folder / "libdemo_executorch.so", includes, flags)
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def run_on_executorch(data: bytes, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """The first output on the ExecuTorch runtime."""
    from executorch.extension.pybindings import portable_lib

    return portable_lib._load_for_executorch_from_buffer(data).forward(inputs)[0]


def compiled(inputs: tuple[torch.Tensor, ...]) -> dict[str, etir.Program]:
    """The model for both runtimes."""
    exported = torch.export.export(Model(), inputs)
    return {target: etir.compile(exported, target=target) for target in ("etir", "executorch")}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where libraries and programs go")
    parser.add_argument("--python", action="store_true", help="register the operator in Python")
    arguments = parser.parse_args()
    library = register_in_python() if arguments.python else register_in_cpp(arguments.folder)
    inputs = (torch.randn(3, 5), torch.randn(3, 5))
    programs = compiled(inputs)
    load_into_executorch(arguments.folder)
    torch.testing.assert_close(run_on_executorch(programs["executorch"].buffer, inputs), Model()(*inputs))
    programs["etir"].save(arguments.folder / "etir.pte")
    print("kernels:", ", ".join(programs["executorch"].operators))
    print("the ExecuTorch runtime gives what eager gives")
    del library


if __name__ == "__main__":
    main()
