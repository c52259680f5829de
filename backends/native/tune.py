"""Measured schedules: ``native{tune=host}``, and ``native{tune=FILE}``, which keeps what it has measured.

For every distinct operation the template names some schedules that its model of the processor finds good; all are
compiled, run in turns on this machine, and the quickest is taken. Without the option nothing is measured: the same
program gives the same code everywhere.

A file has the schedules by processor and by signature: what the operation is, without names. Schedules are text that a
person may edit; where the processor cannot do one, the kernels run instead (E1164). Processors that this machine is not
stay with the model, but for what a file from another machine says of them.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.dialects.func import FuncOp

from etir.backends.native.cc import Compiler, shared_object
from etir.backends.native.cpu import Cpu
from etir.backends.native.errors import E1164, E1172
from etir.backends.native.image import flat_image
from etir.backends.native.kernels import template_of
from etir.backends.native.kernels.template import CFunction, body_function, part_text, schedule_problem, set_schedule
from etir.backends.native.print_c import header
from etir.backends.native.tile import TemplateOp, extent_of
from etir.dialects.text import source_location

if TYPE_CHECKING:
    import numpy as np

VERSION = 1
ENTRY = "etir_native_candidate"
MOST = (1 << 31) - 1
"""The largest number that a schedule may have."""
SECONDS = 0.02
"""How long a schedule is run at least, in turns with the others."""

Schedule = dict[str, Any]


@dataclass
class Tuner:
    """Schedules that were measured, or that a file has."""

    path: Path | None
    using: Compiler
    known: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict[str, dict[str, dict[str, Any]]])
    changed: bool = False

    def apply(self, func: FuncOp, target: Cpu) -> None:
        """Give every operation that has no schedule the measured one. Raises E1164 for one that cannot be done."""
        for op in func.walk():
            if isinstance(op, TemplateOp) and op.schedule is None:
                found = self._schedule(op, target)
                if found is not None:
                    self._take(op, found, target)

    def save(self) -> None:
        """Write the file, if there is one and anything is new. Raises E1172 for a place that cannot be written."""
        if self.path is None or not self.changed:
            return
        text = json.dumps({"version": VERSION, "schedules": self.known}, indent=1, sort_keys=True)
        try:
            self.path.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise E1172.error(f"cannot write '{self.path}': {error.strerror}") from error

    def _take(self, op: TemplateOp, found: Schedule, target: Cpu) -> None:
        """Make it the operation's schedule. Raises E1164 for one that cannot be done."""
        kernel = template_of(op)
        numbers = [n for value in found.values() for n in (value if isinstance(value, list) else [value])]
        large = next((n for n in numbers if abs(n) > MOST), None)
        problem = None if large is None else f"{large} is more than any schedule needs"
        if problem is None:
            set_schedule(op, found)
            problem = schedule_problem(op, kernel.entries) or kernel.illegal(op, target)
        if problem is not None:
            where = source_location(op.location)
            raise E1164.error(f"the schedule of '{signature(op)}' for {target.name} in '{self.path}': {problem}", where)

    def _schedule(self, op: TemplateOp, target: Cpu) -> Schedule | None:
        kernel = template_of(op)
        candidates = kernel.candidates(op, target)
        if not candidates:
            return None
        key = signature(op)
        rows = self.known.setdefault(target.name, {})
        if key not in rows:
            if not is_host(target):
                return None
            times = measure(op, candidates, target, self.using)
            best = min(range(len(candidates)), key=times.__getitem__)
            rows[key] = {"operation": describe(op), "schedule": candidates[best], "us": round(times[best] * 1e6, 2)}
            self.changed = True
        return rows[key]["schedule"]


def tuner(option: str, using: Compiler) -> Tuner | None:
    """What ``tune=`` asks for: nothing, ``host``, or a file. Raises E1172 for one that is none of ours."""
    if not option:
        return None
    if option == "host":
        return Tuner(None, using)
    path = Path(option)
    if not path.exists():
        return Tuner(path, using)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise E1172.error(f"'{path}' is no file of schedules: {error}") from error
    if not isinstance(found, dict) or found.get("version") != VERSION or not _is_valid(found.get("schedules")):
        raise E1172.error(f"'{path}' is no file of schedules of version {VERSION}")
    return Tuner(path, using, found["schedules"])


def _is_valid(given: Any) -> bool:
    if not isinstance(given, dict) or not all(isinstance(rows, dict) for rows in given.values()):
        return False
    return all(
        isinstance(row, dict)
        and isinstance(row.get("schedule"), dict)
        and all(map(_is_entry, row["schedule"].values()))
        for rows in given.values()
        for row in rows.values()
    )


def _is_entry(value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    return bool(items) and all(type(item) is int for item in items)


def describe(op: TemplateOp) -> str:
    """What an operation is, without names and schedule."""
    kinds = ", ".join(f"{name} = {value}" for name, value in sorted(op.properties.items()) if name != "schedule")
    bodies = "".join(body_function(region.block) for region in op.regions)
    return f"{op.name} {{{kinds}}} {', '.join(str(v.type) for v in op.operands)} {bodies}".replace("\n", " ")


def signature(op: TemplateOp) -> str:
    """The key of :func:`describe` in a file."""
    return hashlib.sha256(describe(op).encode()).hexdigest()[:24]


@cache
def _features() -> frozenset[str]:
    """The instruction sets that Linux says this machine has."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return frozenset()
    lines = (line for line in text.splitlines() if line.startswith(("flags", "Features")))
    return frozenset(next(lines, "").partition(":")[2].split())


def is_host(target: Cpu) -> bool:
    """Whether this machine can run what is made for a processor."""
    return bool(target.features) and _features().issuperset(target.features)


def measure(op: TemplateOp, candidates: Sequence[Schedule], target: Cpu, using: Compiler) -> list[float]:
    """Seconds of ``op`` with each schedule on memory of its own: the least of several turns. Raises E1162."""
    kernel = template_of(op)
    functions: list[CFunction] = []
    for schedule in candidates:
        clone = op.clone_without_regions() if not op.regions else op.clone()
        set_schedule(clone, schedule)
        functions.append(kernel.c(clone, target))
    text = _source(functions, len(op.operands), target)
    image = flat_image(shared_object(text, target, using), ENTRY)
    arrays = [_memory(4 * extent_of(v.type)) for v in op.operands]
    operands = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
    with mmap.mmap(-1, len(image.code), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as memory:
        memory.write(image.code)
        held = ctypes.c_char.from_buffer(memory)
        entry = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(ctypes.addressof(held) + image.entry)
        try:
            return _least(entry, len(functions), operands)
        finally:
            del held  # or the memory could not be unmapped


def _source(functions: Sequence[CFunction], count: int, target: Cpu) -> str:
    parts = [f"#define ETIR_VW {target.vector}\n{header()}"]
    for number, function in enumerate(functions):
        name = f"candidate{number}"
        parts += [helper.replace("@", name) for helper in function.helpers]
        parts.append(part_text(name, function, count, target))
    parts.append(f'__attribute__((visibility("default"))) void {ENTRY}(int64_t number, void* given) {{')
    for number, function in enumerate(functions):
        parts.append(f"  if (number == {number}) candidate{number}_part(given, 0, {function.units});")
    return "\n".join([*parts, "}", ""])


def _memory(size: int) -> np.ndarray:
    """Bytes that start at a multiple of 64, filled with small numbers."""
    import numpy as np

    whole = np.zeros(size + 64, np.uint8)
    start = -whole.ctypes.data % 64
    found = whole[start : start + size]
    found.view(np.float32)[...] = 0.01
    return found


def _least(entry: Callable[[int, Any], None], count: int, operands: Any) -> list[float]:
    best = [float("inf")] * count
    for number in range(count):
        entry(number, operands)
    spent = 0.0
    while spent < SECONDS * count:
        for number in range(count):
            start = time.perf_counter()
            entry(number, operands)
            seconds = time.perf_counter() - start
            best[number] = min(best[number], seconds)
            spent += max(seconds, 1e-6)
    return best
