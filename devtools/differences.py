"""Two profiles beside each other: which groups became slower, with an interval that says how sure that is.

The interval is that of the difference of medians under resampling of the runs with replacement (Efron, "Bootstrap
methods: another look at the jackknife", 1979), from a generator with a fixed seed: the same files give the same text.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from etir.devtools.inspector import Inspector
from etir.devtools.profile.sums import percentile

SAMPLES = 1000


def interval(old: Sequence[float], new: Sequence[float], percent: float = 95) -> tuple[float, float]:
    """Where the difference of the medians lies, new minus old, so many times of a hundred."""
    generator = random.Random(1)
    found = [
        percentile(generator.choices(new, k=len(new)), 50) - percentile(generator.choices(old, k=len(old)), 50)
        for _ in range(SAMPLES)
    ]
    rest = (100 - percent) / 2
    return percentile(found, rest), percentile(found, 100 - rest)


def compare_profiles(old: Inspector, new: Inspector, what: str, top: int | None) -> str:
    """A table of groups by how much they changed. Raises error E1405 for a grouping that there is not."""
    groups = [{group.key: group for group in one.by(what)} for one in (old, new)]
    rows: list[tuple[float, str]] = []
    for key in dict.fromkeys([*groups[0], *groups[1]]):
        before = groups[0][key].seconds if key in groups[0] else [0.0] * len(old.totals)
        after = groups[1][key].seconds if key in groups[1] else [0.0] * len(new.totals)
        rows.append((percentile(after, 50) - percentile(before, 50), _row(key, before, after)))
    rows.sort(key=lambda row: (-abs(row[0]), row[1]))
    lines = ["    old ms      new ms  change ms  95 % of the time between", *(text for _, text in rows[:top])]
    if top is not None and len(rows) > top:
        lines.append(f"and {len(rows) - top} more, which changed less")
    return "\n".join([*lines, _row("all", old.totals, new.totals)]) + "\n"


def _row(key: str, before: Sequence[float], after: Sequence[float]) -> str:
    a, b = 1e3 * percentile(before, 50), 1e3 * percentile(after, 50)
    low, high = (1e3 * edge for edge in interval(before, after))
    sure = "" if low <= 0 <= high else " faster" if high < 0 else " slower"
    return f"{a:10.4f}  {b:10.4f}  {b - a:+9.4f}  {low:+9.4f} .. {high:+.4f}  {key}{sure}"
