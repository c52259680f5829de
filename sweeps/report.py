"""Rows as a table and as CSV, and what differs between two sweeps; the page (``page.py``) has the Pareto front.

Times are compared between rows of one machine alone: rows name their host and processor, and a ratio of seconds from
two of them says nothing about a compiler.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from etir.sweeps.model import Figure
from etir.sweeps.results import Row

AXES = ("program", "target", "delegates", "recipe", "options")
LARGER_IS_BETTER = ("accuracy",)
NOISE = {"latency": 0.1, "difference": 0.5, "accuracy": 1e-9}
"""By how much of the smaller one two figures may differ without a word; seconds by 0.3, others not at all."""


def is_time(name: str) -> bool:
    """Whether only rows of one machine have a figure in common: ``latency``, and what is in seconds."""
    return name == "latency" or name.endswith("seconds")


def figure_names(rows: Sequence[Row]) -> list[str]:
    """The figures of any row, those of a plan's measures first, in the order of the documentation."""
    from etir.sweeps.plan import MEASURES

    found = dict.fromkeys(name for row in rows for name in row.figures)
    return [*(name for name in MEASURES if name in found), *(name for name in found if name not in MEASURES)]


def table(rows: Sequence[Row]) -> str:
    """A table for a terminal: coordinates that differ between rows, the status, the figures."""
    axes = [axis for axis in AXES if len({getattr(row, axis) for row in rows}) > 1] or ["program"]
    names = [name for name in figure_names(rows) if name != "ran"]
    lines = [[*axes, "status", *names]]
    text = {name for name in names if all(isinstance(row.figures.get(name), str | None) for row in rows)}
    for row in rows:
        status = row.status if not row.error else f"{row.status} {row.error}"
        lines.append([*(getattr(row, axis) for axis in axes), status, *(shown(n, row.figures.get(n)) for n in names)])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    left = [i <= len(axes) or names[i - len(axes) - 1] in text for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if left[i] else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def shown(name: str, value: Figure) -> str:
    """A figure with its unit."""
    if value is None:
        return ""
    if isinstance(value, bool | str):
        return str(value)
    if name == "latency":
        return f"{value * 1e3:.3f} ms"
    if name.endswith("seconds"):
        return f"{value:.2f} s"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if name in LARGER_IS_BETTER else f"{value:.2g}"


def csv_text(rows: Sequence[Row]) -> str:
    """One line for each row, every column, numbers as they are. Lines of a message end as those of the file: other
    readers take a carriage return, which a process may have printed, for the end of a row.
    """
    names = figure_names(rows)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    rest = ("status", "error", "message", "seconds", "attempts", "host", "processor", "compiler", "finished", "id")
    writer.writerow([*AXES, *names, *rest])
    for row in rows:
        cells = [getattr(row, axis) for axis in AXES], map(row.figures.get, names), (getattr(row, r) for r in rest)
        writer.writerow([_lines(value) for value in chain(*cells)])
    return buffer.getvalue()


def _lines(value: Any) -> Any:
    return value.replace("\r\n", "\n").replace("\r", "\n") if isinstance(value, str) else value


# --- two sweeps -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """One cell that is not what it was. ``what`` is a figure or ``status``; ``better`` is None where neither is."""

    name: str
    what: str
    before: Figure
    after: Figure
    better: bool | None = None

    def __str__(self) -> str:
        change = ""
        if _is_number(self.before) and _is_number(self.after) and self.before:
            change = f" ({(float(self.after) / float(self.before) - 1) * 100:+.1f} %)"  # pyright: ignore[reportArgumentType]
        mark = {True: "better", False: "worse", None: "other"}[self.better]
        before, after = (shown(self.what, value) or "nothing" for value in (self.before, self.after))
        return f"{mark:6}  {self.name}  {self.what}: {before} -> {after}{change}"


def changes(rows: Sequence[Row], against: Sequence[Row]) -> list[Change]:
    """What is not as it was, by cells of equal coordinates: what got worse first."""
    before = {row.at: row for row in against}
    found: list[Change] = []
    for row in rows:
        old = before.pop(row.at, None)
        if old is None:
            found.append(Change(row.name, "status", None, row.status))
            continue
        if old.status != row.status:
            found.append(Change(row.name, "status", old.status, row.status, row.is_good))
        for name in figure_names([row, old]):
            one, other = old.figures.get(name), row.figures.get(name)
            if is_time(name) and row.machine(name) != old.machine(name):
                continue
            if one == other or one is None or other is None or not _differs(name, one, other):
                continue
            found.append(Change(row.name, name, one, other, _is_better(name, one, other)))
    found += [Change(old.name, "status", old.status, None) for old in before.values()]
    order = {False: 0, None: 1, True: 2}
    return sorted(found, key=lambda change: order[change.better])


def _is_better(name: str, before: Figure, after: Figure) -> bool | None:
    """Whether a figure is better than it was; what is no number is worse than any."""
    if not _is_number(before) or not _is_number(after):
        return None
    one, other = float(before), float(after)  # pyright: ignore[reportArgumentType]
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one)
    return (other > one) == (name in LARGER_IS_BETTER)


def _is_number(value: Figure) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _differs(name: str, one: Figure, other: Figure) -> bool:
    if not isinstance(one, int | float) or not isinstance(other, int | float):
        return one != other
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) != math.isnan(other)
    noise = NOISE.get(name, 0.3 if is_time(name) else 0.0)
    return abs(other - one) > noise * min(abs(one), abs(other))


def changes_text(found: Sequence[Change], rows: Sequence[Row], against: Sequence[Row]) -> str:
    """The changes, and a line that sums them up."""
    worse = sum(change.better is False for change in found)
    better = sum(change.better is True for change in found)
    lines = [str(change) for change in found]
    lines.append(f"{len(rows)} cells against {len(against)}: {worse} worse, {better} better, {len(found)} changes")
    machines = {row.machine() for row in (*rows, *against)}
    if len(machines) > 1:
        lines.append("times are compared between rows of one machine only")
    return "\n".join(lines)
