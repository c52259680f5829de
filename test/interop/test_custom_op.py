"""The example of an operator of one's own: registered in C++ and in Python, run on both runtimes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("executorch.extension.pybindings.portable_lib")

from etir_testing.nightly import cases
from etir_testing.runtime.executor import Method, Program, open_executor
from etir_testing.runtime.kernels import kernel_library

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "custom_op"


@pytest.mark.slow
@pytest.mark.parametrize("registered", cases(["torch.library", "TORCH_LIBRARY"], nightly=["torch.library"]))
def test_example(registered: str, tmp_path: Path) -> None:
    """In a process of its own, as the operator is registered in it. The kernel libraries are built from the example."""
    options = ["--python"] if registered == "torch.library" else []
    command = [sys.executable, str(EXAMPLE / "custom_op.py"), "--folder", str(tmp_path), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "kernels: demo::scaled_add.out\n" in done.stdout and "gives what eager gives" in done.stdout

    library = open_executor(kernel_library("etir_executor_test", families=["prim"], folders=[EXAMPLE]))
    program = Program(library, (tmp_path / "etir.pte").read_bytes())
    assert program.operators() == ["demo::scaled_add.out"]
    x, y = torch.randn(3, 5), torch.randn(3, 5)
    (got,) = Method(program)(x, y)
    torch.testing.assert_close(got, x + 0.5 * y - 2.0 * x)
