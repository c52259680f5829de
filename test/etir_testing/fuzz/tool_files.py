"""Hostile files of the developer tools: profiles, traces, records, bundled programs, results of comparisons.

Files of real programs are changed in their bytes (bits, numbers, lengths, pieces that are missing or there twice), and
where they are archives or JSON also in what they say: values of other types, lists of other lengths, names with paths
and markup, newer versions, entries that unpack to far more than they should. Every reader and every tool that takes
such a file says what is wrong with it, in bounded time and memory, or goes on.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import random
import resource
import signal
import struct
import sys
import traceback
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import etir
from etir.devtools.etrecord import write_etrecord
from etir.diagnostics import EtirError
from etir.emit.bundled.writer import write_bundled
from etir.emit.pte.reader import read_pte
from etir.runtime import load
from etir.tools.bundle import bundle

from etir_testing.forked_process import TOOLS

SECONDS = 20.0
"""Longest processor time of one case."""
MEMORY = 3 << 30
"""Bytes that a case may take beyond what the process has."""
MARKUP = "<img src=x onerror=alert(1)>"
_NUMBERS = (0, 1, 2, 7, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFF0, 1 << 24)
_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 1 << 31, 1 << 63, 1 << 70, 1e308, float("nan"), float("inf"), "", MARKUP),
    *("../../etc/passwd", "/dev/zero", "\0", "\ud800", "a" * 5000, [], {}, [[]], {"": None}, [None], [1, 2, 3], ["x"]),
)


class _Net(torch.nn.Module):
    """Operations inside and outside of a delegate of XNNPACK, and a loop's worth of names."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.cumsum(self.norm(self.conv(x)).relu(), 1)
        return self.head(x.mean((2, 3))).softmax(-1)


def write_seeds(folder: Path) -> None:
    """The files that cases start from, of one program, in a folder."""
    torch.manual_seed(0)
    x = torch.randn(1, 3, 6, 6)
    exported = torch.export.export(_Net().eval(), (x,))
    program = etir.compile(exported, delegates=["xnnpack"], trace=True)
    program.save(folder / "m.pte")
    assert program.trace is not None
    program.trace.save(folder / "m.trace")
    write_etrecord(program, exported, folder / "m.etrecord", inputs=[(x,)])
    loaded = load(program.buffer)["forward"]
    profile = loaded.profile(x, repeat=2, values=True)
    profile.save(folder / "m.etdp")
    assert profile.recorded is not None
    (folder / "m.bin").write_bytes(profile.recorded.value_bytes)
    torch.export.save(exported, folder / "m.pt2")
    np.savez(folder / "m.npz", x.numpy())
    bundled = bundle(
        program.buffer, read_pte(program.buffer).execution_plan[0], [[x.numpy()]], [[np.asarray(loaded(x)[0])]]
    )
    (folder / "m.bpte").write_bytes(write_bundled(bundled))
    compared = etir.devtools.compare(exported, program, inputs=[(x,)])
    (folder / "m.json").write_text(compared.to_json())


def _runs(name: str, *words: str) -> tuple[str, ...]:
    return (name, *words)


READERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "m.etdp": (
        _runs("et-inspect", "m.etdp"),
        _runs("et-inspect", "m.etdp", "--trace", "m.trace", "--by", "op", "--json"),
        _runs("et-inspect", "m.etdp", "m.etdp", "--trace", "m.pte", "--tsv"),
        _runs("et-explore", "m.trace", "--profile", "m.etdp", "--values", "m.bin", "-o", "out.html"),
        _runs("et-explore", "m.trace", "--profile", "m.etdp", "--format", "perfetto", "-o", "out.json"),
    ),
    "m.bin": (_runs("et-explore", "m.trace", "--profile", "m.etdp", "--values", "m.bin", "-o", "out.html"),),
    "m.trace": (
        _runs("et-inspect", "m.etdp", "--trace", "m.trace", "--by", "module"),
        _runs("et-inspect", "m.trace", "--memory", "out.svg"),
        _runs("et-inspect", "m.trace", "--explain", "conv"),
        _runs("et-explore", "m.trace", "--profile", "m.etdp", "--compare", "m.json", "-o", "out.html"),
        _runs("et-explore", "m.trace", "--format", "model-explorer", "-o", "out.json"),
        _runs("et-compare", "m.pt2", "m.pte", "--trace", "m.trace", "--inputs", "m.npz"),
    ),
    "m.etrecord": (
        _runs("et-inspect", "m.etdp", "--trace", "m.pte", "--record", "m.etrecord"),
        _runs("et-explore", "m.pte", "--record", "m.etrecord", "-o", "out.html"),
    ),
    "m.bpte": (_runs("et-run", "m.bpte", "--check"), _runs("et-run", "m.bpte", "--check", "--interpret")),
    "m.json": (_runs("et-explore", "m.trace", "--compare", "m.json", "-o", "out.html"),),
    "m.pte": (
        _runs("et-inspect", "m.pte", "--size"),
        _runs("et-explore", "m.pte", "-o", "out.html"),
        _runs("et-inspect", "m.etdp", "--trace", "m.pte"),
    ),
    "m.npz": (_runs("et-compare", "m.pt2", "m.pte", "--trace", "m.trace", "--inputs", "m.npz"),),
}
"""By the file that is changed, the command lines that read it."""


@dataclass(frozen=True)
class Case:
    """A changed file: its name, its bytes, and what was done to it."""

    name: str
    data: bytes
    what: str


def cases(folder: Path, name: str, seed: int) -> Iterator[Case]:
    """Endless changes of one of the files, the same for the same seed."""
    chance = random.Random(f"{name}-{seed}")
    data = (folder / name).read_bytes()
    while True:
        kinds: list[Callable[[bytes, random.Random], tuple[bytes, str]]] = [_in_bytes]
        if data[:2] == b"PK":
            kinds += [_in_archive, _in_archive]
        elif name.endswith(".json"):
            kinds += [_in_json, _in_json]
        changed, what = chance.choice(kinds)(data, chance)
        yield Case(name, changed, what)


def _in_bytes(data: bytes, chance: random.Random) -> tuple[bytes, str]:
    found, what = bytearray(data), list[str]()
    for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
        if not found:
            break
        at = chance.randrange(len(found))
        match chance.randrange(7):
            case 0:
                found[at] ^= 1 << chance.randrange(8)
            case 1:
                del found[at:]
            case 2:
                at &= ~3
                found[at : at + 4] = struct.pack("<I", chance.choice(_NUMBERS))
            case 3:
                at &= ~7
                found[at : at + 8] = struct.pack("<Q", chance.choice((*_NUMBERS, 1 << 63, (1 << 64) - 1)))
            case 4:
                del found[at : at + chance.choice((1, 4, 8, 100))]
            case 5:
                piece = found[at : at + chance.choice((1, 4, 64, 1000))]
                to = chance.randrange(len(found) + 1)
                found[to:to] = piece
            case _:
                # An offset of a FlatBuffer that leads somewhere else in it.
                at &= ~3
                found[at : at + 4] = struct.pack("<i", chance.randrange(-len(data), len(data)))
        what.append(f"byte {at}")
    return bytes(found), ", ".join(what)


def _in_archive(data: bytes, chance: random.Random) -> tuple[bytes, str]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    names = list(entries)
    name = chance.choice(names)
    what = name
    match chance.randrange(8):
        case 0:
            del entries[name]
            what += " is missing"
        case 1:
            renamed = chance.choice(
                ("../" + name, "/tmp/" + name, name + "\0", MARKUP, name.upper(), name + "/", "x" * 300)
            )
            entries[renamed] = entries.pop(name)
            what += f" is {renamed[:40]!r}"
        case 2:
            entries[name] = bytes(chance.choice((1 << 20, 1 << 27)))
            what += " is a bomb"
        case 3:
            entries[name] = chance.choice(list(entries.values()))
            what += " has the bytes of another one"
        case 4 | 5 if name.endswith(".json"):
            entries[name], how = _in_json(entries[name], chance)
            what += f": {how}"
        case _:
            entries[name], how = _in_bytes(entries[name], chance)
            what += f": {how}"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, value in entries.items():
            archive.writestr(zipfile.ZipInfo(key), value, zipfile.ZIP_DEFLATED)
    return made.getvalue(), what


def _in_json(data: bytes, chance: random.Random) -> tuple[bytes, str]:
    whole = json.loads(data)
    places = list(_places(whole))
    what: list[str] = []
    for _ in range(chance.choice((1, 1, 2, 5))):
        holder, key = chance.choice(places)
        kind = chance.randrange(4)
        try:
            if kind == 0:
                del holder[key]
            elif kind == 1 and isinstance(holder[key], list) and holder[key]:
                held = holder[key]
                held.append(held[0]) if chance.random() < 0.5 else held.pop()
            else:
                holder[key] = chance.choice(_VALUES)
        except (IndexError, KeyError):
            continue
        what.append(str(key)[:40])
    return json.dumps(whole).encode("utf-8", "surrogatepass"), ", ".join(what)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


class _TooLong(BaseException):
    pass


def verdicts(folder: Path, case: Case) -> Iterator[str]:
    """What is wrong with how the tools took a case, in a folder that has the files it is read with."""
    original = (folder / case.name).read_bytes()
    before = Path.cwd()
    os.chdir(folder)
    try:
        Path(case.name).write_bytes(case.data)
        for words in READERS[case.name]:
            found = _verdict(words)
            if found:
                yield f"{' '.join(words)}: {found}"
    finally:
        Path(case.name).write_bytes(original)
        os.chdir(before)


def _verdict(words: tuple[str, ...]) -> str:
    """What a tool did that it never may; empty where it did its work or said what is wrong."""
    main = importlib.import_module(TOOLS[words[0]]).main
    out, err = io.StringIO(), io.StringIO()
    limits = resource.getrlimit(resource.RLIMIT_AS)

    def late(*_: object) -> None:
        raise _TooLong

    signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (_size() + MEMORY, limits[1]))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(list(words[1:]))
    except SystemExit:
        pass
    except _TooLong:
        return f"more than {SECONDS:g} s\n{traceback.format_exc(limit=-4)}"
    except EtirError as error:
        return f"an error that the tool does not print: {error}"
    except BaseException:
        return traceback.format_exc(limit=-6)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, limits)
    said = err.getvalue()
    if "E0909" in said or "Traceback" in said or "Error: " in said.replace("error: ", ""):
        return said[-3000:]
    page = Path("out.html")
    if page.exists():
        text = page.read_text(encoding="utf-8")
        page.unlink()
        if MARKUP in text:
            return "markup of a file stands in the page"
    return ""


def _size() -> int:
    """Bytes of the process's address space."""
    if sys.platform != "linux":
        return 1 << 40
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
