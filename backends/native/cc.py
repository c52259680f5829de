"""Compilers for generated C: which one, with which flags, and what they make.

``cc`` is ``zig`` (the wheel ``ziglang``, clang for every target), ``clang``, ``gcc`` or a path; empty takes the first
that is there, in this order. The flags allow multiply-adds and nothing else that changes results: NaN, infinities and
the order of sums stay what the text says.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
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
LINK = ("-shared", "-nostdlib", "-Wl,--build-id=none", "-Wl,--gc-sections", "-Wl,-s")
SMALL = ("-Wl,-z,noseparate-code",)
"""No page between code and constants, from a linker that can; zig's does not take the option."""


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
    run = _run([*command, "--version"])
    return Compiler(command, run.stdout.split("\n")[0], is_zig)


def _run(command: Sequence[str], folder: str | None = None) -> subprocess.CompletedProcess[str]:
    """What a compiler says. Raises E1162 for a file that is no program."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", check=False, env=environment
        )
    except OSError as error:
        raise E1162.error(f"{command[0]} cannot be run: {error.strerror or error}") from error


def shared_objects(texts: Sequence[str], cpus: Sequence[Cpu], using: Compiler) -> list[bytes]:
    """The shared objects of C texts, each for a processor, compiled side by side. Raises E1162 as for one."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(shared_object, texts, cpus, [using] * len(cpus)))


def shared_object(text: str, cpu: Cpu, using: Compiler) -> bytes:
    """The shared object of C text, linked against nothing; the same text is compiled once on a machine.

    ``ETIR_CACHE`` names the folder of what was compiled (default: ``etir`` in the user's cache), empty for none. Raises
    E1162 with what the compiler says.
    """
    key = hashlib.sha256("\0".join([text, using.version, *FLAGS, *cpu.flags, *LINK]).encode()).hexdigest()
    folder = _cache()
    kept = None if folder is None else folder / f"{key}.so"
    if kept is not None and kept.is_file():
        return kept.read_bytes()
    made = _compiled(text, cpu, using)
    if kept is not None:
        _keep(kept, made)
    return made


def _cache() -> Path | None:
    given = os.environ.get("ETIR_CACHE")
    if given is not None:
        return Path(given) / "native" if given else None
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "etir" / "native"


def _keep(path: Path, data: bytes) -> None:
    """Write a file that others see whole or not at all; a folder that cannot be written keeps nothing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(data)
        os.replace(file.name, path)
    except OSError:
        return


def _compiled(text: str, cpu: Cpu, using: Compiler) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "native.c", Path(folder) / "native.so"
        source.write_text(text, encoding="utf-8")
        target = ("-target", f"{cpu.family.replace('-', '_')}-linux-musl") if using.is_zig else ()
        command = [
            *using.command,
            *target,
            *FLAGS,
            *cpu.flags,
            *LINK,
            *(() if using.is_zig else SMALL),
            source.name,
            "-o",
            out.name,
        ]
        run = _run(command, folder)
        if run.returncode != 0 or not out.is_file():
            lines = (run.stderr or run.stdout).strip().splitlines()[:8]
            raise E1162.error(f"{using.command[0]} for {cpu.name} ends with {run.returncode}: " + "\n".join(lines))
        return out.read_bytes()
