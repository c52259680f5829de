"""A profile grouped: by operator, instruction, origin, source line, module, operation of a level or of a delegate.

Every grouping has the same total. The time of a part with several origins is divided evenly among them; what has no
origin and no source line is in a row of its own, and so is the boundary of each backend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from etir.devtools.errors import E1405
from etir.devtools.profile.attribution import Part, Program, parts_of
from etir.devtools.profile.profile import Profile

NO_LINE = "(no source line)"
NO_MODULE = "(no module)"

Keys = Sequence[tuple[str, float]]
"""The groups of a part, with the share of its time that each gets."""


@dataclass(frozen=True)
class Group:
    """One row: its key, seconds of each run, how often in a run, and what it is made of: operators that took longest
    first.

    ``split`` says that the time was divided among several origins somewhere; ``origins`` are those of the group.
    """

    key: str
    seconds: tuple[float, ...]
    calls: float
    operators: tuple[str, ...]
    paths: tuple[str, ...]
    origins: tuple[int, ...]
    split: bool
    boundary: bool

    @property
    def total(self) -> float:
        """Seconds of all runs."""
        return sum(self.seconds)

    def percentile(self, percent: float) -> float:
        """Of the seconds of the runs, interpolated between the two nearest."""
        return percentile(self.seconds, percent)


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which so many percent of them are, interpolated between the two nearest; 0 for none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    at = (len(ordered) - 1) * percent / 100
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


class Sums:
    """The parts of a profile, to be grouped. Raises error E1404 for the profile of another program."""

    def __init__(self, profile: Profile, program: Program, *, tick_seconds: float = 1e-9):
        self.profile, self.program = profile, program
        self.parts = list(parts_of(profile, program))
        self.tick_seconds = tick_seconds
        self.runs = sorted(dict.fromkeys(part.row.run for part in self.parts))

    @property
    def totals(self) -> tuple[float, ...]:
        """Seconds of each run: all its instructions."""
        return self._seconds((part.row.run, part.ticks) for part in self.parts)

    def by(self, what: str) -> list[Group]:
        """The groups, those that took longest first. Raises error E1405 for a grouping that there is not."""
        keys = self._keys(what)
        found: dict[str, list[tuple[Part, float]]] = {}
        split: dict[str, bool] = {}
        for part in self.parts:
            shares = keys(part)
            for key, share in shares:
                found.setdefault(key, []).append((part, share))
                split[key] = split.get(key, False) or len(shares) > 1
        groups = [self._group(key, parts, split[key], what) for key, parts in found.items()]
        return sorted(groups, key=lambda group: (-group.total, group.key))

    def share_with(self, keys: Iterable[str], what: str) -> float:
        """Which part of the time is in other groups than those of ``keys``."""
        without = dict.fromkeys(keys)
        groups = self.by(what)
        total = sum(group.total for group in groups)
        return sum(group.total for group in groups if group.key not in without) / total if total else 1.0

    def _group(self, key: str, parts: list[tuple[Part, float]], split: bool, what: str) -> Group:
        seconds = self._seconds((part.row.run, part.ticks * share) for part, share in parts)
        calls = len(dict.fromkeys((p.row.run, p.row.instruction, p.row.occurrence, p.node) for p, _ in parts))
        spent: dict[str, float] = {}
        for part, share in parts:
            name = self._operator(part)
            spent[name] = spent.get(name, 0.0) + part.ticks * share
        names = tuple(sorted(spent, key=lambda name: -spent[name]))
        by_origin = what in ("origin", "line", "module", "op")
        numbers = tuple(dict.fromkeys(n for part, _ in parts for n in part.origins))
        if by_origin:
            numbers = tuple(n for n in numbers if self._origin_key(what, n) == key)
        paths = tuple(dict.fromkeys(path for path in map(self._path, numbers) if path))
        if not paths:
            paths = tuple(dict.fromkeys(part.path for part, _ in parts if part.path))
        boundary = all(part.boundary for part, _ in parts)
        return Group(key, seconds, calls / max(len(self.runs), 1), names, paths, numbers, split, boundary)

    def _operator(self, part: Part) -> str:
        return f"{part.backend} {part.operator}" if part.backend and not part.boundary else part.operator

    def _path(self, number: int) -> str:
        origin = self.program.origin(number)
        return "" if origin is None else origin.path

    def _seconds(self, ticks: Iterable[tuple[int, float]]) -> tuple[float, ...]:
        sums = dict.fromkeys(self.runs, 0.0)
        for run, spent in ticks:
            sums[run] += spent
        return tuple(spent * self.tick_seconds for spent in sums.values())

    # --- keys --------------------------------------------------------------------------------------------------------

    def _keys(self, what: str) -> Callable[[Part], Keys]:
        if what.startswith("level:"):
            return self._level_keys(what.removeprefix("level:"))
        match what:
            case "operator":
                return lambda part: [(self._operator(part), 1.0)]
            case "instruction":
                return lambda part: [(str(part.row.instruction), 1.0)]
            case "delegate":
                return lambda part: [(self._operator(part) if part.backend else "(no delegate)", 1.0)]
            case "origin" | "line" | "module" | "op":
                return lambda part: self._origin_keys(part, what)
            case _:
                raise E1405.error(f"there is no grouping '{what}'; there are {', '.join(GROUPINGS)}, level:NAME")

    def _origin_keys(self, part: Part, what: str) -> Keys:
        if part.boundary:
            return [(part.operator, 1.0)]
        keys = [self._origin_key(what, number) for number in part.origins if self.program.origin(number) is not None]
        known = [key for key in keys if key is not None]
        if known:
            return [(key, 1 / len(known)) for key in known]
        if what == "line" and part.file:
            return [(f"{part.file}:{part.line}", 1.0)]
        if what == "module" and part.path:
            return [(part.path, 1.0)]
        return [(_NOTHING[what], 1.0)]

    def _origin_key(self, what: str, number: int) -> str | None:
        """The group of an origin; None for one that has no such thing (a weight has no line)."""
        origin = self.program.origin(number)
        if origin is None:
            return None
        match what:
            case "line":
                return origin.where or None
            case "module":
                return origin.path or None
            case "op":
                return origin.op
            case _:
                return f"{number} {origin.node or origin.name or origin.op}"

    def _level_keys(self, level: str) -> Callable[[Part], Keys]:
        trace = self.program.trace
        if trace is None or not any(level in (name, name.partition("-")[2]) for name in trace.levels):
            levels = "there is no trace" if trace is None else f"the trace has {', '.join(trace.levels)}"
            raise E1405.error(f"there is no level '{level}': {levels}")
        table = trace.columns(level)
        holders: dict[int, list[int]] = {}
        for row in range(len(table)):
            if table["name"][row] in _STRUCTURE:
                continue
            for number in table.several("origins", row):
                holders.setdefault(number, []).append(row)

        def keys(part: Part) -> Keys:
            if part.boundary:
                return [(part.operator, 1.0)]
            rows = list(dict.fromkeys(row for number in part.origins for row in holders.get(number, ())))
            shown = [(f"{table['line'][row]}: {table['name'][row]}", 1 / len(rows)) for row in rows]
            return shown or [(_NOTHING["level"], 1.0)]

        return keys


GROUPINGS = ("line", "op", "module", "operator", "instruction", "origin", "delegate")

_NOTHING = {
    "line": NO_LINE,
    "module": NO_MODULE,
    "op": "(no operation)",
    "origin": "(no origin)",
    "level": "(no origin)",
}

_STRUCTURE = frozenset(
    {"func.func", "func.return", "et.method", "et.get_weight", "et.weight", "et.state", "et.delegate"}
)
"""Operations that take no time, and share origins with those that do."""
