"""Where a partition is cut so that what it reads late is made late.

All inputs of a delegate are there when its call begins. Without it each would be made just before it is read: two
gathers of experts' weights, of which the second product reads the second one, are together what the delegate needs, and
one by one what the kernels do. With a cut before the operator that reads the second gather first, it runs between two
calls.

Here is what cuts are worth before anything is planned: an input is not there at the steps before a cut that comes
before its first reader. So many bytes are off these steps, of code and of the kernels in its place, and a cut is good
for what they have above the room that there is. A step of several operators, as a sum of many tables, may be cut as
well: what its first part has read is gone in the second one, but for one tensor in its place. What a cut really saves
shows the plan of the program.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from etir.backends.api.memory import DelegateNeeds, Need

MOST_CUTS = 8
"""Cuts of one partition, each of which is one more call."""


def cuts_of(need: DelegateNeeds, room: int) -> list[int]:
    """The operators before which a delegate may be cut, by their numbers, so that its steps have less above so many
    bytes: those that help most first, as few as bring all that cuts can.
    """
    cuts: list[int] = []
    excess = _excess(need, room, cuts)
    numbers = sorted({row.operator: None for row in need.inputs})
    while excess > 0 and len(cuts) < MOST_CUTS:
        tried = [(_excess(need, room, [*cuts, number]), number) for number in numbers if number not in cuts]
        least, number = min(tried, default=(excess, 0))
        if least >= excess:
            break
        excess = least
        cuts.append(number)
    return cuts


def _excess(need: DelegateNeeds, room: int, cuts: Sequence[int]) -> int:
    """The bytes that all steps together have above the room, with these cuts."""
    total = 0
    for step in (*need.steps, *need.kernels):
        largest = 0
        for begin, last in _parts(step, cuts):
            absent = sum(row.bytes for row in need.inputs if any(last < cut <= row.operator for cut in cuts))
            gone = [
                row.bytes
                for row in need.inputs
                if min(step.operators) <= row.operator and (row.operator if row.last is None else row.last) < begin
            ]
            largest = max(largest, step.bytes - absent - sum(gone) + max(gone, default=0))
        total += max(0, (largest if step.operators else step.bytes) - room)
    return total


def _parts(step: Need, cuts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first and the last operator of each part of a step that cuts leave; none where no operator is known."""
    bounds = sorted({cut for cut in cuts if step.operators and min(step.operators) < cut <= max(step.operators)})
    parts: list[list[int]] = [[] for _ in range(len(bounds) + 1)]
    for number in sorted(step.operators):
        parts[bisect_right(bounds, number)].append(number)
    for part in parts:
        if part:
            yield part[0], part[-1]
