"""Builds the runtime with one model for another machine, and runs it there, emulated.

The kernels that the model calls are the only ones that are compiled, for the element types of its tensors
(``etir.tools.select_kernels``); the arenas have the sizes that the compiler reports. What the program prints is its
outputs' bytes and the memory it used.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from etir import Program
from etir.emit.pte.reader import read_pte
from etir.emit.runtime_memory import memory_header
from etir.tools.select_kernels import select, selection_text

from etir_testing.runtime.kernels import DTYPES, RUNTIME


@dataclass(frozen=True)
class Machine:
    """A compiler, its flags, and the emulator's command; ``{program}`` stands for the executable."""

    compiler: str
    flags: tuple[str, ...]
    emulator: tuple[str, ...]
    bare_metal: bool = False

    @property
    def missing(self) -> str | None:
        """The first tool that is not installed."""
        tools = (self.compiler, *(word for word in self.emulator[:1] if word != "{program}"))
        return next((tool for tool in tools if shutil.which(tool) is None), None)


_SEMIHOSTING = ("-nographic", "-monitor", "none", "-serial", "none", "-semihosting-config", "enable=on,target=native")


def _cortex_m(cpu: str, board: str, script: str, *float_abi: str) -> Machine:
    return Machine(
        "arm-none-eabi-g++",
        (f"-mcpu={cpu}", "-mthumb", *float_abi, "-T", script, "-nostartfiles", "--specs=nano.specs"),
        ("qemu-system-arm", "-M", board, "-kernel", "{program}", *_SEMIHOSTING),
        bare_metal=True,
    )


MACHINES = {
    "cortex-m55": _cortex_m("cortex-m55", "mps3-an547", "mps3_an547.ld", "-mfloat-abi=hard"),
    "cortex-m4": _cortex_m("cortex-m4", "mps2-an386", "mps2_an386.ld", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
    "aarch64": Machine("aarch64-linux-gnu-g++", ("-static",), ("qemu-aarch64", "{program}")),
    "riscv64": Machine("riscv64-linux-gnu-g++", ("-static",), ("qemu-riscv64", "{program}")),
    "host": Machine("g++", (), ("{program}",)),
}

FLAGS = (
    *("-std=c++17", "-Os", "-g", "-Wall", "-Wextra", "-Werror", "-fno-exceptions", "-fno-rtti"),
    *("-fno-threadsafe-statics", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables"),
    *("-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"),
)


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
    folder: Path,
    *,
    dtypes: bool = True,
    operators: Sequence[str] = (),
) -> Path:
    """An executable that runs method ``forward`` of a program on ``inputs`` and prints the outputs' bytes.

    Without ``dtypes`` the kernels are built for all element types. ``operators`` are linked besides the program's own.
    Each source has its object in ``folder``, and what is linked of it is in the linker's map, ``program.map``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.pte").write_bytes(program.buffer)
    (folder / "model_memory.h").write_text(memory_header(program.runtime_memory()))
    lines = ["#pragma once\n#include <cstdint>\n"]
    lines += [_array(f"input_{i}", tensor) for i, tensor in enumerate(inputs)]
    items = " ".join(f"X(input_{i}, {DTYPES[t.dtype]}, {t.dim()}, input_{i}_sizes)" for i, t in enumerate(inputs))
    lines.append(f"#define ETIR_INPUTS(X) {items}\n")
    (folder / "model_inputs.h").write_text("".join(lines))
    (folder / "model.S").write_text(
        '.section .model, "a"\n.balign 16\n.global etir_program, etir_program_end\n'
        'etir_program: .incbin "model.pte"\netir_program_end: .byte 0\n'
        '.section .note.GNU-stack, "", %progbits\n'
    )
    # Operators inside of delegates are in no instruction; their kernels are built for all types.
    selection = dict.fromkeys([*program.operators, *operators], ())
    if dtypes:
        selection |= select([read_pte(program.buffer)])
    (folder / "selection.txt").write_text(selection_text(selection))
    generate = [sys.executable, str(RUNTIME / "kernels" / "generate.py"), "--only", str(folder / "selection.txt")]
    subprocess.run([*generate, str(folder / "table.cc")], check=True)
    subprocess.run([*generate, "--dtypes", str(folder / "dtypes.txt")], check=True)
    subprocess.run([*generate[:2], "--headers", str(folder)], check=True)
    kernels = [line.split() for line in (folder / "dtypes.txt").read_text().splitlines()]
    sources = [p for f in ("core", "executor") for p in sorted((RUNTIME / f).glob("*.cc")) if _is_core(p)]
    delegated = any(method.delegates for method in program.report().methods)
    if delegated:
        sources.append(RUNTIME / "backends" / "reference" / "reference.cc")
    sources += [RUNTIME / "kernels" / "kernel.cc", folder / "table.cc", folder / "model.S"]
    embedded = RUNTIME / "embedded"
    sources += [embedded / ("startup.cc" if machine.bare_metal else "hosted.cc"), embedded / "main.cc"]
    executable = folder / "program"
    command = [machine.compiler, *FLAGS, *machine.flags, f"-I{RUNTIME}", f"-I{folder}", f"-L{embedded}"]
    command += ["-DETIR_REFERENCE_DELEGATE"] if delegated else []
    objects: list[Path] = []
    compiled = [(RUNTIME / "kernels" / source, [f"-DETIR_DTYPES={mask}"]) for source, mask in kernels]
    for source, definitions in [*compiled, *((source, []) for source in sources)]:
        name = source.relative_to(RUNTIME) if source.is_relative_to(RUNTIME) else Path(source.name)
        objects.append(folder / f"{str(name).replace('/', '_')}.o")
        _run([*command, *definitions, "-c", source, "-o", objects[-1]], folder)
    _run([*command, *objects, f"-Wl,-Map={folder / 'program.map'}", "-o", executable], folder)
    return executable


def _run(command: Sequence[str | Path], folder: Path) -> None:
    done = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-6000:])


def code_bytes(machine: Machine, executable: Path, inputs: Sequence[torch.Tensor]) -> int:
    """Bytes of code and constants of a bare-metal executable, the C library's included, without model and inputs."""
    size = f"{machine.compiler.removesuffix('g++')}size"
    text = subprocess.run([size, "-A", executable], check=True, capture_output=True, text=True).stdout
    rows = (words for words in map(str.split, text.splitlines()) if len(words) == 3 and words[1].isdigit())
    sections = {name: int(bytes) for name, bytes, _ in rows}
    known = (".text", ".ARM.exidx", ".data")
    return sum(sections.get(name, 0) for name in known) - sum(tensor.nbytes for tensor in inputs)


def mapped_bytes(folder: Path, *prefixes: str) -> int:
    """Bytes of code and constants that a build in ``folder`` links of the objects whose names start so."""
    total = 0
    # A long section name has its address, size and object in the next line.
    pattern = re.compile(r"^ \.(?:text|rodata)\S*\s+0x[0-9a-f]+\s+(0x[0-9a-f]+)\s+(\S+\.o)$", re.MULTILINE)
    text = (folder / "program.map").read_text()
    for size, path in pattern.findall(text[text.index("Linker script and memory map") :]):
        if Path(path).name.startswith(prefixes):
            total += int(size, 16)
    return total


def _is_core(path: Path) -> bool:
    return not path.stem.endswith(("_test", "_fuzz", "_mutator"))


@dataclass(frozen=True)
class Run:
    """What a program printed."""

    outputs: list[bytes]
    method_memory: int
    temp_memory: int
    text: str
    code: int


def run(machine: Machine, executable: Path) -> Run:
    """Run an executable on the emulator. Its exit code is in the result; raises ``TimeoutExpired`` after a minute."""
    command = [part.replace("{program}", str(executable)) for part in machine.emulator]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    # Bare-metal boards print through the emulator's standard error.
    text = done.stdout + done.stderr
    outputs, method, temp = [], -1, -1
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "output":
            outputs.append(bytes.fromhex(rest))
        elif word == "method_memory":
            method = int(rest)
        elif word == "temp_memory":
            temp = int(rest)
    return Run(outputs, method, temp, text, done.returncode)
