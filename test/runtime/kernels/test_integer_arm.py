"""Integer products on Arm, emulated: all tiles that a processor has give the portable code's bits."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from etir_testing import ROOT
from etir_testing.runtime.cross import MACHINES


def compiled(compiler: str, emulator: str, flags: Sequence[str], program: Path) -> Path:
    """``arm_tile_check.cc`` as ``program``. Skips the test where one of the tools is not installed."""
    for tool in (compiler, emulator):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    runtime = ROOT / "runtime"
    sources = [Path(__file__).with_name("arm_tile_check.cc"), runtime / "kernels" / "kernel.cc"]
    common = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", f"-I{runtime}"]
    subprocess.run([compiler, *common, *flags, *map(str, sources), "-o", str(program)], check=True)
    return program


def printed(*command: str) -> list[str]:
    """The words of its output. What a board prints goes to the emulator's error stream."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout.split()


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arm")
    return compiled("aarch64-linux-gnu-g++", "qemu-aarch64", ["-static"], folder / "check")


@pytest.mark.parametrize(("processor", "best"), [("max", "2"), ("cortex-a76", "1"), ("cortex-a53", "0")])
def test_tiles(check: Path, processor: str, best: str) -> None:
    """The tile that runs is the best of the processor's: 2 is products of matrices, 1 dot products, 0 NEON alone."""
    assert printed("qemu-aarch64", "-cpu", processor, str(check)) == [best, "0"]


def test_cortex_m(tmp_path: Path) -> None:
    """On an emulated board; the compiler says that there is MVE."""
    folder = ROOT / "runtime" / "embedded"
    flags = ["-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", "-fno-exceptions", "-fno-rtti"]
    flags += ["-fno-threadsafe-statics", "-nostartfiles", "--specs=nano.specs", "--specs=nosys.specs"]
    flags += [f"-L{folder}", "-Tmps3_an547.ld", "-Wl,--gc-sections,--defsym=end=_bss_end", str(folder / "startup.cc")]
    program = compiled("arm-none-eabi-g++", "qemu-system-arm", flags, tmp_path / "check")
    command = [word.format(program=program) for word in MACHINES["cortex-m55"].emulator]
    assert printed(*command) == ["mve", "0"]
