"""What lies beside a file: the trace of its compilation and the profile of a run, if they are of one program.

A trace with the file's name is taken, or else the only one in the folder; the same for the profile. They are read when
they are first asked for and when they change. What cannot be read is told once, and else as if it were not there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from etir.devtools.inspector import Inspector
from etir.devtools.profile.attribution import Program
from etir.devtools.profile.from_etdump import read_profile
from etir.devtools.profile.sums import percentile
from etir.devtools.trace.read import Trace
from etir.diagnostics import EtirError
from etir.passes.infra.remarks import Remark, left_alone

Tell = Callable[[str], None]


class Beside:
    """A trace, and what a profile says of the program that it is of."""

    def __init__(self, trace: Trace, inspector: Inspector | None = None):
        self.trace = trace
        self.inspector = inspector

    @cached_property
    def _by_origin(self) -> dict[int, float]:
        if self.inspector is None:
            return {}
        sums = self.inspector.sums
        runs = {run: index for index, run in enumerate(sums.runs)}
        found: dict[int, list[float]] = {}
        for part in sums.parts:
            for number in part.origins:
                seconds = found.setdefault(number, [0.0] * len(runs))
                seconds[runs[part.row.run]] += part.ticks * sums.tick_seconds / len(part.origins)
        return {number: percentile(seconds, 50) for number, seconds in found.items()}

    def seconds(self, origins: tuple[int, ...]) -> float | None:
        """The median time of what comes from these origins; None where nothing is known."""
        known = [self._by_origin[number] for number in origins if number in self._by_origin]
        return sum(known) if known else None

    @cached_property
    def total(self) -> float:
        """The median time of a run."""
        return percentile(self.inspector.totals, 50) if self.inspector is not None else 0.0

    @cached_property
    def _buffers(self) -> dict[int, list[tuple[str, dict[str, Any]]]]:
        found: dict[int, list[tuple[str, dict[str, Any]]]] = {}
        for method, plan in self.trace.memory.items():
            for buffer in plan["buffers"]:
                for number in buffer["origins"]:
                    found.setdefault(number, []).append((method, buffer))
        return found

    def buffers(self, origins: tuple[int, ...]) -> list[str]:
        """Where the memory plan has what comes from these origins."""
        rows = {id(buffer): (m, buffer) for number in origins for m, buffer in self._buffers.get(number, ())}
        return [_buffer_text(method, buffer) for method, buffer in rows.values() if buffer["pool"] is not None]

    @cached_property
    def _remarks(self) -> dict[int, dict[str, None]]:
        found: dict[int, dict[str, None]] = {}
        for entry in self.trace.passes:
            for pattern, op, origins, reason, _ in self.trace.changes(entry.index)["missed"]:
                remark = Remark("missed", entry.name, pattern, op, left_alone(pattern, op, reason))
                for number in origins:
                    found.setdefault(number, {})[f"{remark.category}: {remark.message}"] = None
        return found

    def remarks(self, origins: tuple[int, ...]) -> list[str]:
        """What passes and backends left alone of what comes from these origins, as ``--remarks-filter`` has it."""
        return list(dict.fromkeys(text for number in origins for text in self._remarks.get(number, ())))

    def knows(self, origins: tuple[int, ...], file: str, line: int) -> bool:
        """Whether the trace may be of the text that has these origins at an operation of that Python line."""
        found = [self.trace.origin(number) for number in origins]
        places = [(origin.file, origin.line) for origin in found if origin is not None and origin.file]
        return bool(found) and None not in found and (not file or not places or (file, line) in places)


def _buffer_text(method: str, buffer: dict[str, Any]) -> str:
    live = ", ".join(f"{first}..{last}" for first, last in buffer["live"]) or "never"
    return (
        f"%{buffer['name']} of '{method}': {buffer['bytes']:,} bytes in pool {buffer['pool']} "
        f"at {buffer['offset']:,}, alive {live}"
    )


class Neighbors:
    """The traces and profiles beside files, kept until they change."""

    def __init__(self, tell: Tell):
        self._tell = tell
        self._known: dict[tuple[tuple[str, int, int], ...], Beside | None] = {}

    def of(self, path: Path) -> Beside | None:
        """What lies beside a file."""
        try:
            files = [_nearest(path, suffix) for suffix in (".trace", ".etdp")]
            key = tuple((str(file), (s := file.stat()).st_mtime_ns, s.st_size) for file in files if file is not None)
        except OSError:
            return None
        if files[0] is None:
            return None
        if key not in self._known:
            self._known = {}  # What was there before has changed.
            self._known[key] = self._read(files[0], files[1])
        return self._known[key]

    def _read(self, trace_file: Path, profile_file: Path | None) -> Beside | None:
        try:
            trace = Trace.load(trace_file)
        except (EtirError, OSError) as error:
            self._tell(str(error))
            return None
        if profile_file is None:
            return Beside(trace)
        try:
            profile = read_profile(profile_file.read_bytes(), None, name=str(profile_file))
            return Beside(trace, Inspector.of(profile, Program(trace)))
        except (EtirError, OSError) as error:
            self._tell(str(error))
            return Beside(trace)


def _nearest(path: Path, suffix: str) -> Path | None:
    named = path.with_suffix(suffix)
    if named.is_file():
        return named
    found = sorted(file for file in path.parent.glob(f"*{suffix}") if file.is_file())
    beginning = [
        file for file in found if path.name.startswith(f"{file.stem}.") or path.name.startswith(f"{file.stem}-")
    ]
    if len(beginning) == 1:
        return beginning[0]
    return found[0] if len(found) == 1 else None
