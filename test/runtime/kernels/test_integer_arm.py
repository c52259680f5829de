"""Integer products on 64-bit Arm, emulated: all tiles that a processor has give the portable code's bits."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from etir_testing import ROOT


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``arm_tile_check.cc``, compiled."""
    compiler, runtime = shutil.which("aarch64-linux-gnu-g++"), ROOT / "runtime"
    if compiler is None or shutil.which("qemu-aarch64") is None:
        pytest.skip("no compiler or no emulator for aarch64")
    program = tmp_path_factory.mktemp("arm") / "check"
    sources = [Path(__file__).with_name("arm_tile_check.cc"), runtime / "kernels" / "kernel.cc"]
    flags = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-static", f"-I{runtime}"]
    subprocess.run([compiler, *flags, *map(str, sources), "-o", str(program)], check=True)
    return program


@pytest.mark.parametrize(("processor", "best"), [("max", "2"), ("cortex-a76", "1"), ("cortex-a53", "0")])
def test_tiles(check: Path, processor: str, best: str) -> None:
    """The tile that runs is the best of the processor's: 2 is products of matrices, 1 dot products, 0 NEON alone."""
    command = ["qemu-aarch64", "-cpu", processor, str(check)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.split() == [best, "0"]
