"""Faults of a memory plan: buffers that share bytes while both are needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

MOST = 20
"""As many are told."""


def overlaps(plan: dict[str, Any]) -> Iterator[tuple[int, int, int]]:
    """Two buffers of a plan that hold different values in the same bytes at the same time, and the first instruction.

    A kernel that writes its result over an operand takes one instruction with both; more is a fault of the plan.
    """
    rows = [
        (first, last, buffer["pool"], buffer["offset"], buffer["offset"] + buffer["bytes"], index)
        for index, buffer in enumerate(plan["buffers"])
        if buffer["pool"] is not None and buffer["offset"] is not None and buffer["bytes"]
        for first, last in buffer["live"]
        if last > first
    ]
    rows.sort()
    alive = np.zeros((0, 6), dtype=np.int64)
    found = 0
    for row in rows:
        first, last, pool, begin, end, index = row
        alive = alive[alive[:, 1] > first]
        hits = alive[(alive[:, 2] == pool) & (alive[:, 3] < end) & (alive[:, 4] > begin) & (alive[:, 5] != index)]
        for hit in hits:
            yield int(hit[5]), index, first
            found += 1
            if found == MOST:
                return
        alive = np.vstack([alive, np.array([row], dtype=np.int64)])
