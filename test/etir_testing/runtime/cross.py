"""Builds the runtime with one model for another machine, and runs it there, emulated.

CMake does it, with the preset of the machine and ``runtime/embedded``. Only kernels that the model calls are compiled,
for the element types of its tensors (``etir.tools.select_kernels``). Arenas have the sizes that the compiler reports.
What the program prints is its outputs' bytes and the memory it used.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from etir import Program
from etir.emit.pte.reader import read_pte
from etir.emit.runtime_memory import memory_header
from etir.tools.select_kernels import select, selection_text

from etir_testing import ROOT
from etir_testing.runtime import builds
from etir_testing.runtime.builds import selection_file
from etir_testing.runtime.kernels import DTYPES


@dataclass(frozen=True)
class Machine:
    """A preset of ``CMakePresets.json``, its compiler, and the emulator's command; ``{program}`` is the executable."""

    preset: str
    compiler: str
    emulator: tuple[str, ...]
    bare_metal: bool = False

    @property
    def missing(self) -> str | None:
        """The first tool that is not installed."""
        tools = (self.compiler, *(word for word in self.emulator[:1] if word != "{program}"))
        return next((tool for tool in tools if shutil.which(tool) is None), None)


_SEMIHOSTING = ("-nographic", "-monitor", "none", "-serial", "none", "-semihosting-config", "enable=on,target=native")


def _cortex_m(cpu: str, board: str) -> Machine:
    emulator = ("qemu-system-arm", "-M", board, "-kernel", "{program}", *_SEMIHOSTING)
    return Machine(cpu, "arm-none-eabi-g++", emulator, bare_metal=True)


MACHINES = {
    "cortex-m55": _cortex_m("cortex-m55", "mps3-an547"),
    "cortex-m4": _cortex_m("cortex-m4", "mps2-an386"),
    "aarch64": Machine("aarch64", "aarch64-linux-gnu-g++", ("qemu-aarch64", "{program}")),
    "riscv64": Machine("riscv64", "riscv64-linux-gnu-g++", ("qemu-riscv64", "{program}")),
    "host": Machine("release", "g++", ("{program}",)),
}

# With an operating system, what the bare-metal toolchain files have: small code that stands alone.
_SMALL = {
    "CMAKE_BUILD_TYPE": "MinSizeRel",
    "CMAKE_CXX_FLAGS": "-fno-threadsafe-statics -fno-unwind-tables -fno-asynchronous-unwind-tables",
    "ETIR_ISAS": "",
    "ETIR_TOOLS": "OFF",
    "ETIR_TESTS": "OFF",
}


def _array(name: str, tensor: torch.Tensor) -> str:
    data = tensor.contiguous().reshape(-1).view(torch.uint8).tolist() if tensor.numel() else [0]
    sizes = ", ".join(map(str, tensor.shape)) or "0"
    values = ",".join(map(str, data))
    return (
        f"alignas(16) static const uint8_t {name}[] = {{{values}}};\n"
        f"static const int32_t {name}_sizes[] = {{{sizes}}};\n"
    )


def build(
    machine: Machine,
    program: Program,
    inputs: Sequence[torch.Tensor],
    *,
    dtypes: bool = True,
    operators: Sequence[str] = (),
    records: int = 0,
) -> Path:
    """An executable that runs method ``forward`` of a program on ``inputs`` and prints the outputs' bytes.

    With ``records`` it also records the run, in memory for so many records, and prints those.

    Without ``dtypes`` the kernels are built for all element types. ``operators`` are linked besides the program's own.
    What is linked of each source is in the linker's map, ``runtime/embedded/etir_embedded.map`` in the folder of the
    executable. That has the same name for the same arguments, so that compiler caches know its files.
    """
    words = (
        machine.preset,
        str(dtypes),
        *([f"records {records}"] if records else []),
        *operators,
        *(f"{t.dtype}{tuple(t.shape)}" for t in inputs),
    )
    key = hashlib.sha256("\n".join(words).encode() + program.buffer)
    for tensor in inputs:
        key.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    folder = ROOT / "build" / "embedded" / key.hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "model.pte", program.buffer)
    _write(folder / "model_memory.h", memory_header(program.runtime_memory()).encode())
    lines = ["#pragma once\n#include <cstdint>\n"]
    lines += [_array(f"input_{i}", tensor) for i, tensor in enumerate(inputs)]
    items = " ".join(f"X(input_{i}, {DTYPES[t.dtype]}, {t.dim()}, input_{i}_sizes)" for i, t in enumerate(inputs))
    lines.append(f"#define ETIR_INPUTS(X) {items}\n")
    _write(folder / "model_inputs.h", "".join(lines).encode())
    # Operators inside of delegates are in no instruction; their kernels are built for all types.
    selection = dict.fromkeys([*program.operators, *operators], ())
    if dtypes:
        selection |= select([read_pte(program.buffer)])
    files = program.build_files
    delegated = any(method.delegates for method in program.report().methods) and not files
    for file, data in files.items():
        (folder / "native").mkdir(exist_ok=True)
        _write(folder / "native" / file, data)
    defines: dict[str, object] = {
        "ETIR_ONLY_OPS": selection_file(selection_text(selection)),
        "ETIR_EMBEDDED_PROGRAM": folder,
        "ETIR_EMBEDDED_DELEGATE": "ON" if delegated else "OFF",
        "ETIR_INSTALL": "OFF",
    }
    defines |= {"ETIR_TRACE": "ON", "ETIR_EMBEDDED_RECORDS": records} if records else {}
    defines |= {"ETIR_EMBEDDED_NATIVE": folder / "native"} if files else {}
    if not machine.bare_metal:
        defines |= _SMALL
        defines |= {} if machine.preset == "release" else {"CMAKE_EXE_LINKER_FLAGS": "-static"}
    return builds.build(machine.preset, "etir_embedded", defines=defines, folder=folder / "build") / "etir_embedded"


def _write(path: Path, data: bytes) -> None:
    """Another process may build the same: it reads all of the file or none, and what is right is left alone."""
    if path.exists() and path.read_bytes() == data:
        return
    scratch = path.with_suffix(f".{os.getpid()}")
    scratch.write_bytes(data)
    scratch.replace(path)


def code_bytes(machine: Machine, executable: Path, inputs: Sequence[torch.Tensor]) -> int:
    """Bytes of code and constants of a bare-metal executable, the C library's included, without model and inputs."""
    size = f"{machine.compiler.removesuffix('g++')}size"
    text = subprocess.run([size, "-A", executable], check=True, capture_output=True, text=True).stdout
    rows = (words for words in map(str.split, text.splitlines()) if len(words) == 3 and words[1].isdigit())
    sections = {name: int(bytes) for name, bytes, _ in rows}
    known = (".text", ".ARM.exidx", ".data")
    return sum(sections.get(name, 0) for name in known) - sum(tensor.nbytes for tensor in inputs)


def mapped_bytes(executable: Path, *prefixes: str) -> int:
    """Bytes of code and constants that an executable of :func:`build` has of the libraries whose names start so."""
    total = 0
    # A long section name has its address, size and object in the next line.
    pattern = re.compile(r"^ \.(?:text|rodata)\S*\s+0x[0-9a-f]+\s+(0x[0-9a-f]+)\s+(\S+\))$", re.MULTILINE)
    text = (executable.parent / "runtime/embedded/etir_embedded.map").read_text()
    for size, path in pattern.findall(text[text.index("Linker script and memory map") :]):
        if Path(path).name.startswith(prefixes):
            total += int(size, 16)
    return total


@dataclass(frozen=True)
class Run:
    """What a program printed."""

    outputs: list[bytes]
    method_memory: int
    temp_memory: int
    text: str
    code: int
    records: bytes = b""
    dropped_records: int = 0


def run(machine: Machine, executable: Path) -> Run:
    """Run an executable on the emulator. Its exit code is in the result; raises ``TimeoutExpired`` after a minute."""
    command = [part.replace("{program}", str(executable)) for part in machine.emulator]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    # Bare-metal boards print through the emulator's standard error.
    text = done.stdout + done.stderr
    outputs, method, temp = [], -1, -1
    records, dropped = b"", 0
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "output":
            outputs.append(bytes.fromhex(rest))
        elif word == "method_memory":
            method = int(rest)
        elif word == "temp_memory":
            temp = int(rest)
        elif word == "records":
            records = bytes.fromhex(rest)
        elif word == "dropped_records":
            dropped = int(rest)
    return Run(outputs, method, temp, text, done.returncode, records, dropped)
