"""Where a partition is cut so that what it reads late is made late.

All inputs of a delegate are there when its call begins. Without it each would be made just before it is read: two
gathers of experts' weights, of which the second product reads the second one, are together what the delegate needs, and
one by one what the kernels do. With a cut before the operator that reads the second gather first, it runs between two
calls.

Here is what cuts are worth before anything is planned: an input is not there at the steps before a cut that comes
before its first reader. So many bytes are off these steps, of code and of the kernels in its place, and a cut is good
for what they have above the room that there is. What it really saves shows the plan of the program.
"""

from __future__ import annotations

from collections.abc import Sequence

from etir.backends.api.memory import DelegateNeeds

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
        last = max(step.operators, default=None)
        absent = (
            sum(row.bytes for row in need.inputs if any(last < cut <= row.operator for cut in cuts))
            if last is not None
            else 0
        )
        total += max(0, step.bytes - absent - room)
    return total
