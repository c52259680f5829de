"""Processors, as data: one file of ``targets/cpus`` each.

What a schedule depends on and what a compiler is told, no more. A variant of a program is made for one of them; the
runtime takes the best that the machine has (``processor_has`` in ``runtime/platform/isa.h`` knows the same names).
"""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from etir.backends.native.errors import E1160

FOLDER = Path(__file__).resolve().parent.parent.parent / "targets" / "cpus"


@dataclass(frozen=True)
class Cpu:
    """A processor: ``vector`` floats are one vector, of which there are ``registers``; ``fma`` multiply-adds (of
    vectors) and ``loads`` loads start in a cycle; caches in bytes. ``fma`` is 0 where there is no such instruction.

    ``flags`` are what GCC and clang are told, clang beside ``--target=TRIPLE``; cross compilers of GCC are called
    ``TRIPLE-gcc``. ``zig`` are the same for ``zig cc``, which has names of its own. ``linked`` processors run no code
    that is loaded: a client's build links it (``et-compile --native-c``). ``features`` are the
    instruction sets by which Linux says that a machine is one.

    Images are computed row by row (``tile-rows``) where the weights that every row needs take at most ``row_weights``
    of the second cache, and the image in between is more than ``row_image`` of it; with 0, never.
    """

    name: str
    family: str
    triple: str
    flags: tuple[str, ...]
    zig: tuple[str, ...]
    vector: int
    registers: int
    fma: int
    loads: int
    l1: int
    l2: int
    linked: bool = False
    features: tuple[str, ...] = ()
    row_weights: float = 0.0
    row_image: float = 0.0


@cache
def cpu(name: str) -> Cpu:
    """The processor called ``name``. Raises E1160 for one that nobody described."""
    path = FOLDER / f"{name}.json"
    if not path.is_file():
        raise E1160.error(f"no processor '{name}' is described; known are {', '.join(known())}")
    row = json.loads(path.read_text(encoding="utf-8"))
    return Cpu(
        name,
        **{**row, "flags": tuple(row["flags"]), "zig": tuple(row["zig"]), "features": tuple(row.get("features", ()))},
    )


@cache
def known() -> tuple[str, ...]:
    """The names of all processors, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


def family_of_host() -> str:
    """The family of the machine that compiles: the instruction sets that it runs are of it."""
    machine = platform.machine().lower()
    return {"amd64": "x86-64", "x86_64": "x86-64", "arm64": "aarch64"}.get(machine, machine)


def of_family(family: str) -> tuple[Cpu, ...]:
    """The processors of a family, the widest vectors first. Raises E1160 when there is none."""
    found = sorted((cpu(name) for name in known()), key=lambda c: (-c.vector, c.name))
    found = [c for c in found if c.family == family]
    if not found:
        raise E1160.error(f"no processor of the family '{family}' is described")
    return tuple(found)
