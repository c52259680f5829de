"""Compilers for generated C: which one, with which flags, and what they make.

``cc`` is ``zig`` (the wheel ``ziglang``, clang for every target), ``clang``, ``gcc`` or a path; empty takes the first
that is there, in this order. The flags allow multiply-adds and nothing else that changes results: NaN, infinities and
the order of sums stay what the text says. ``zig cc`` makes debug information unless it is told not to, a quarter of its
time for sections that are stripped: ``-g0``. What else takes time and makes no code quicker is in ``LEFT_OUT``.
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
    "-std=c11", "-O2", "-g0", "-ffreestanding", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math",
    "-fno-ident", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fomit-frame-pointer",
    "-fno-stack-protector", "-fvisibility=hidden", "-w",
)  # fmt: skip
LINK = ("-fPIC", "-shared", "-nostdlib", "-Wl,--build-id=none", "-Wl,--gc-sections", "-Wl,-s")
CLOSE = {"zig": ("-Wl,-z,max-page-size=64",)}
"""What lets a linker put segments beside each other, by the kind of the compiler: pages of an image do not matter."""
CLOSE_OTHERS = ("-Wl,-z,noseparate-code",)
OBJECT = ("-fno-pic", "-ffunction-sections", "-c")
NO_COPIES = ("-mllvm", "-funcspec-max-iters=0")
"""What keeps ``zig cc`` from making copies of a function for numbers that it is given: that what differs in numbers has
one function is the purpose of ``tile-share``.
"""
LEFT_OUT = {"x86-64": ("-fno-slp-vectorize", "-mllvm", "-disable-lsr")}
"""What ``zig cc`` leaves out, by the family of the processor: to look for vectors among scalars, as the text has them,
and to choose addresses of loops anew, as tiles have those that they are to have. Both take about a tenth of the
compiler's time; code for AVX-512 and AVX2 is as quick without. Processors that do not reorder instructions may well
want the addresses.
"""


@dataclass(frozen=True)
class Compiler:
    """A command, what it calls itself, and the machine that it makes code for; ``kind`` is zig, clang or gcc.

    ``is_chosen`` says that somebody named exactly this one: no other is taken in its place. One that does not say for
    which machine it is has to try.
    """

    command: tuple[str, ...]
    version: str
    kind: str
    machine: str = ""
    is_chosen: bool = False

    def for_cpu(self, target: Cpu) -> tuple[str, ...]:
        """The command with what it has to be told for a processor. Raises E1161 when it has no code for it."""
        if self.kind == "zig":
            return (*self.command, *target.zig, *NO_COPIES, *LEFT_OUT.get(target.family, ()))
        if self.kind == "clang":
            return (*self.command, f"--target={target.triple}", *target.flags)
        if not self.machine or self.machine.partition("-")[0] == target.triple.partition("-")[0]:
            return (*self.command, *target.flags)
        cross = None if self.is_chosen else shutil.which(f"{target.triple}-gcc")
        if cross is None:
            looked = f"{self.command[0]} makes code for {self.machine}"
            raise E1161.error(f"{looked}" + ("" if self.is_chosen else f", and {target.triple}-gcc is not there")
                              + f": nothing compiles for {target.name}")  # fmt: skip
        return (cross, *target.flags)

    def described(self, target: Cpu) -> str:
        """Its name and version, with which it compiles for a processor, and how it optimizes."""
        command = self.for_cpu(target)
        version = self.version if command[0] == self.command[0] else _says(command[:1], "--version")
        return f"{version} -O2"


@cache
def compiler(name: str = "") -> Compiler:
    """The compiler ``name``. Raises E1161 when there is none."""
    if name in ("", "zig") and (spec := find_spec("ziglang")) is not None:
        # The program of the wheel itself: to start it by way of Python takes eight times as long.
        own = Path(spec.origin or "").with_name("zig.exe" if os.name == "nt" else "zig")
        started = (str(own),) if own.is_file() else (sys.executable, "-m", "ziglang")
        return _known((*started, "cc"), kind="zig")
    for candidate in [name] if name else ["clang", "gcc", "cc"]:
        path = shutil.which(candidate)
        if path is not None:
            return _known((path,), is_chosen=candidate not in ("clang", "gcc", "cc"))
    looked = f"'{name}'" if name else "ziglang, clang, gcc or cc"
    raise E1161.error(f"{looked} is not there to compile what the delegate 'native' generates")


def _known(command: tuple[str, ...], kind: str = "", is_chosen: bool = False) -> Compiler:
    version = _says(command, "--version") or command[-1]
    kind = kind or ("clang" if "clang" in version else "gcc")
    return Compiler(command, version, kind, _says(command, "-dumpmachine") if kind == "gcc" else "", is_chosen)


def _says(command: tuple[str, ...], option: str) -> str:
    return _run([*command, option]).stdout.split("\n")[0]


def _run(command: Sequence[str], folder: str | None = None) -> subprocess.CompletedProcess[str]:
    """What a compiler says. Raises E1162 for a file that is no program."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", check=False, env=environment
        )
    except OSError as error:
        raise E1162.error(f"{command[0]} cannot be run: {error.strerror or error}") from error


Objects = dict[tuple[str, str], bytes]
"""Shared objects by C text and processor."""


def shared_objects(texts: Sequence[str], cpus: Sequence[Cpu], using: Compiler, made: Objects) -> list[bytes]:
    """The shared objects of C texts, each for a processor, compiled side by side. Raises E1162 as for one. Those of
    ``made`` are there already; new ones are added.
    """
    keys = [(text, target.name) for text, target in zip(texts, cpus, strict=True)]
    new = [number for number, key in enumerate(keys) if key not in made]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = pool.map(shared_object, [texts[n] for n in new], [cpus[n] for n in new], [using] * len(new))
        made.update(zip([keys[n] for n in new], found, strict=True))
    return [made[key] for key in keys]


def shared_object(text: str, target: Cpu, using: Compiler) -> bytes:
    """The shared object of C text, linked against nothing; the same text is compiled once on a machine.

    ``ETIR_CACHE`` names the folder of what was compiled (default: ``etir`` in the user's cache), empty for none. Raises
    E1162 with what the compiler says.
    """
    close = CLOSE.get(using.kind, CLOSE_OTHERS)
    return _made(text, [*using.for_cpu(target), *FLAGS, *LINK, *close], f"{using.version} for {target.name}", ".so")


def object_file(text: str, target: Cpu, using: Compiler) -> bytes:
    """The object of C text as a client's build makes it, with a C library, for what its sections take. Otherwise as
    :func:`shared_object`.
    """
    flags = [flag for flag in FLAGS if flag != "-ffreestanding"]
    return _made(text, [*using.for_cpu(target), *flags, *OBJECT], f"{using.version} for {target.name}", ".o")


def _made(text: str, command: Sequence[str], who: str, suffix: str) -> bytes:
    """What a command makes of C text, or has made of it before."""
    key = hashlib.sha256("\0".join([text, who, Path(command[0]).name, *command[1:]]).encode()).hexdigest()
    folder = _cache()
    kept = None if folder is None else folder / f"{key}{suffix}"
    if kept is not None and kept.is_file():
        return kept.read_bytes()
    made = _compiled(text, command, who)
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


def _compiled(text: str, command: Sequence[str], who: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "native.c", Path(folder) / "native.out"
        source.write_text(text, encoding="utf-8")
        run = _run([*command, source.name, "-o", out.name], folder)
        if run.returncode != 0 or not out.is_file():
            lines = (run.stderr or run.stdout).strip().splitlines()[:8]
            raise E1162.error(f"{who} ends with {run.returncode}: " + "\n".join(lines))
        return out.read_bytes()
