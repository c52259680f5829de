"""Compilers for generated C: which one, with which flags, and what they make.

``cc`` is ``zig`` (the wheel ``ziglang``, clang for every target), ``clang``, ``gcc`` or a path; empty takes the first
that is there, in this order. The flags allow multiply-adds and nothing else that changes results: NaN, infinities and
the order of sums stay what the text says.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from etir.backends.native.cpu import Cpu
from etir.backends.native.errors import E1161, E1162

FLAGS = (
    "-std=c11", "-O2", "-fPIC", "-ffreestanding", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math",
    "-fno-ident", "-fno-asynchronous-unwind-tables", "-fno-stack-protector", "-fvisibility=hidden", "-w",
)  # fmt: skip
LINK = ("-shared", "-nostdlib", "-Wl,--build-id=none", "-Wl,-z,noseparate-code", "-Wl,--gc-sections", "-Wl,-s")


@dataclass(frozen=True)
class Compiler:
    """A command, and what it calls itself."""

    command: tuple[str, ...]
    version: str
    is_zig: bool = False


@cache
def compiler(name: str = "") -> Compiler:
    """The compiler ``name``. Raises E1161 when there is none."""
    if name in ("", "zig") and find_spec("ziglang") is not None:
        return _known((sys.executable, "-m", "ziglang", "cc"), is_zig=True)
    for candidate in [name] if name else ["clang", "gcc", "cc"]:
        path = shutil.which(candidate)
        if path is not None:
            return _known((path,))
    looked = f"'{name}'" if name else "ziglang, clang, gcc or cc"
    raise E1161.error(f"{looked} is not there to compile what the delegate 'native' generates")


def _known(command: tuple[str, ...], is_zig: bool = False) -> Compiler:
    run = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return Compiler(command, run.stdout.split("\n")[0], is_zig)


def shared_object(text: str, cpu: Cpu, using: Compiler) -> bytes:
    """The shared object of C text, linked against nothing. Raises E1162 with what the compiler says."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "native.c", Path(folder) / "native.so"
        source.write_text(text, encoding="utf-8")
        target = ("-target", f"{cpu.family.replace('-', '_')}-linux-musl") if using.is_zig else ()
        command = [*using.command, *target, *FLAGS, *cpu.flags, *LINK, source.name, "-o", out.name]
        run = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
        )
        if run.returncode != 0 or not out.is_file():
            lines = (run.stderr or run.stdout).strip().splitlines()[:8]
            raise E1162.error(f"{using.command[0]} for {cpu.name} ends with {run.returncode}: " + "\n".join(lines))
        return out.read_bytes()
