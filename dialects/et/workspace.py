"""Memory of the method's plan that a delegate works in: the last argument of its calls.

A delegate that computes in several steps plans memory of its own. If that lies apart from the method's, the memory of
an input that has been read for the last time stays unused while the delegate runs on, and so does that of an output
which is not written yet. So a delegate may ask for a *workspace*: a buffer of bytes that the method plans, and that the
delegate has planned together with its inputs and outputs. Input ``i`` may be at byte ``inputs[i]`` of it and output
``j`` at byte ``outputs[j]``, as far as nothing else needs them; wherever they are, the delegate finds them by their
addresses. The compile spec ``workspace`` of the delegate says so in the file, as text::

    bytes=1204224 inputs=602112 outputs=0,-

A dash is a place apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

WORKSPACE = "workspace"
"""Key of the compile spec."""
WITHIN = "et.within"
"""Attribute of a buffer in the caller's memory: the byte of memory id 1 where it may be, for a method that is planned
together with the memory of its caller."""
APART = -1
"""In the place of a place: memory that is not in the workspace."""
LARGE = 1024
_TEXT = re.compile(r"bytes=(\d{1,18}) inputs=([\d,-]*) outputs=([\d,-]*)")


@dataclass(frozen=True)
class Workspace:
    """``size`` bytes, with the places of inputs and outputs in them; None is a place apart."""

    size: int
    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]

    def spec(self) -> tuple[str, bytes]:
        """The compile spec."""
        inputs, outputs = (",".join("-" if n is None else str(n) for n in p) for p in (self.inputs, self.outputs))
        return WORKSPACE, f"bytes={self.size} inputs={inputs} outputs={outputs}".encode()

    @property
    def places(self) -> dict[int, int]:
        """The places by the number of the argument of the call."""
        return {number: place for number, place in enumerate((*self.inputs, *self.outputs)) if place is not None}


def alignment_of(size: int) -> int:
    """Bytes that a workspace, or a buffer in it, is aligned to: small ones would waste more than they win."""
    return 64 if size >= LARGE else 16


def workspace_of(specs: Sequence[tuple[str, bytes]]) -> Workspace | None:
    """What the compile specs of a delegate say; None for delegates without one, and for what nobody can read."""
    text = dict(specs).get(WORKSPACE, b"").decode("utf-8", "replace")
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    rows = [[_place(item) for item in row.split(",")] if row else [] for row in found.groups()[1:]]
    if any(place is not None and place < 0 for row in rows for place in row):
        return None
    return Workspace(int(found[1]), tuple(rows[0]), tuple(rows[1]))


def _place(text: str) -> int | None:
    """A place as text; -1 for what is none."""
    if text == "-":
        return None
    return int(text) if text.isdecimal() and len(text) < 19 else -1
