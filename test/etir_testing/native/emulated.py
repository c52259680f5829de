"""Generated code of other processors, called in an emulator with the arguments that a file has (``harness.c``).

Under Linux what runs is the flat image that a program carries; on a Cortex-M the C is compiled by the cross compiler of
a client's build and linked with a board's start-up code.
"""

from __future__ import annotations

import hashlib
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from etir.backends.native import kernels
from etir.backends.native.cc import compiler, object_file, shared_object
from etir.backends.native.cpu import cpu
from etir.backends.native.image import Image, flat_image
from etir.backends.native.print_c import ENTRY

from etir_testing import ROOT

HARNESS = Path(__file__).parent / "harness.c"
CALL = Path(kernels.__file__).parent / "call.h"
"""How code is called: what it includes itself."""
RUNTIME = ROOT / "runtime"
_SEMIHOSTING = ("-nographic", "-monitor", "none", "-serial", "none", "-semihosting-config", "enable=on,target=native")


@dataclass(frozen=True)
class Emulator:
    """The command before a program, the cross compiler of the harness, and a board's linker script and memory."""

    command: tuple[str, ...]
    compiler: str
    script: str = ""
    memory: int = 0

    @property
    def missing(self) -> str | None:
        """The first tool that is not installed."""
        return next((tool for tool in (self.compiler, self.command[0]) if shutil.which(tool) is None), None)


def _board(machine: str, script: str, memory: int) -> Emulator:
    return Emulator(("qemu-system-arm", "-M", machine, *_SEMIHOSTING, "-kernel"), "arm-none-eabi-gcc", script, memory)


_VECTORS = "rv64,v=true,vlen=128,elen=64,vext_spec=v1.0"
EMULATORS = {
    "aarch64": Emulator(("qemu-aarch64",), "aarch64-linux-gnu-gcc"),
    "riscv64": Emulator(("qemu-riscv64",), "riscv64-linux-gnu-gcc"),
    "rv64gcv": Emulator(("qemu-riscv64", "-cpu", _VECTORS), "riscv64-linux-gnu-gcc"),
    "cortex-m55": _board("mps3-an547", "mps3_an547.ld", 7 << 18),
    "cortex-m4": _board("mps2-an386", "mps2_an386.ld", 14 << 18),
}
"""By the name of the processor."""


def _run(command: Sequence[str | Path], folder: str | Path, limit: float = 120) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=limit, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode:
        raise RuntimeError(
            f"{Path(command[0]).name} ends with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}"
        )


@cache
def _loader(tool: str) -> Path:
    """The harness for Linux, built once."""
    key = hashlib.sha256(HARNESS.read_bytes() + CALL.read_bytes()).hexdigest()[:16]
    path = ROOT / "build" / "native-harness" / f"{tool}-{key}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            flags = ["-O1", "-static", "-std=gnu11", "-Wall", "-Werror", f"-I{CALL.parent}"]
            _run([tool, *flags, HARNESS, "-o", "harness"], folder)
            (Path(folder) / "harness").rename(path)
    return path


def call_bytes(
    image: Image | None,
    inputs: Sequence[bytes],
    outputs: Sequence[int],
    weights: Sequence[bytes],
    arena: int,
    dims: Sequence[int] = (),
) -> bytes:
    """The file that the harness reads; ``dims`` are those of ``call->sizes``."""
    code = b"" if image is None else image.code
    numbers = [len(code), 0 if image is None else image.entry, len(inputs), len(outputs), len(weights), arena]
    numbers += [len(dims), *map(len, inputs), *outputs, *map(len, weights), *(n % (1 << 64) for n in dims)]
    parts = [struct.pack(f"<{len(numbers)}Q", *numbers), *([code] if image is not None else []), *inputs, *weights]
    return b"".join(part + bytes(-len(part) % 64) for part in parts)


class EmulatedCode:
    """C text of a function for a processor of :data:`EMULATORS`; ``cc`` compiles it."""

    def __init__(self, text: str, name: str, cc: str = ""):
        self.emulator, self.name = EMULATORS[name], name
        target = cpu(name)
        self.image = None if target.linked else flat_image(shared_object(text, target, compiler(cc)), ENTRY)
        self.object = object_file(text, target, compiler(cc or "gcc")) if target.linked else b""

    @classmethod
    def of_image(cls, image: Image, name: str) -> EmulatedCode:
        """An image that is made already."""
        code = cls.__new__(cls)
        code.emulator, code.name, code.image, code.object = EMULATORS[name], name, image, b""
        return code

    def __call__(
        self,
        inputs: Sequence[bytes],
        outputs: Sequence[int],
        weights: Sequence[bytes],
        arena: int,
        dims: Sequence[int] = (),
    ) -> list[bytes]:
        """The bytes of the outputs, whose sizes are given. Raises RuntimeError for what writes elsewhere, or fails."""
        with tempfile.TemporaryDirectory() as folder:
            data = call_bytes(self.image, inputs, outputs, weights, arena, dims)
            (Path(folder) / "call.bin").write_bytes(data)
            program = _loader(self.emulator.compiler) if self.image is not None else self._linked(Path(folder))
            _run([*self.emulator.command, program], folder)
            made = (Path(folder) / "out.bin").read_bytes()
        assert len(made) == sum(outputs)
        ends = np.cumsum(outputs).tolist()
        return [made[end - size : end] for end, size in zip(ends, outputs, strict=True)]

    def _linked(self, folder: Path) -> Path:
        (folder / "code.o").write_bytes(self.object)
        flags = [*cpu(self.name).flags, f"-I{RUNTIME}", f"-I{CALL.parent}", "-O1", "-w"]
        cc = self.emulator.compiler
        _run(
            [cc, *flags, "-std=gnu11", f"-DETIR_LINKED={self.emulator.memory}", "-c", HARNESS, "-o", "harness.o"],
            folder,
        )
        plain = ["-std=gnu++17", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"]
        _run([cc, *flags, *plain, "-c", RUNTIME / "embedded" / "startup.cc", "-o", "startup.o"], folder)
        link = ["-nostartfiles", "--specs=nano.specs", "-Wl,--gc-sections", "-T", self.emulator.script]
        link += ["-L", RUNTIME / "embedded"]
        _run([cc, *flags, "harness.o", "startup.o", "code.o", *link, "-o", "program"], folder)
        return folder / "program"
