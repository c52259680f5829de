"""Where the arguments of a delegate may be: compile specs, and the memory of the method's plan that it works in.

A delegate that computes in several steps plans memory of its own. If that lies apart from the method's, the memory of
an input that has been read for the last time stays unused while the delegate runs on, and so does that of an output
which is not written yet. So a delegate may ask for a *workspace*: a buffer of bytes that the method plans, and that the
delegate has planned together with its inputs and outputs. Input ``i`` may be at byte ``inputs[i]`` of it and output
``j`` at byte ``outputs[j]``, as far as nothing else needs them; wherever they are, the delegate finds them by their
addresses. The compile spec ``workspace`` of the delegate says so in the file, as text::

    bytes=1204224 inputs=602112 outputs=0,-

A dash is a place apart. With `` kept=4096+512,8192+64`` at the end the delegate leaves some bytes alone: from byte 4096
on 512, say. A tensor that lives while the delegate runs, and that it has not planned as one of those, may be there.

The workspace is the last argument of the calls. The compile spec ``over`` says of which inputs and outputs, by number,
one tensor may be both, since the output is written after the input has been read: ``2:0,3:1``.

A payload has been made for exactly these specs, and text can be edited. So a payload has their digest
(:func:`memory_digest`), by which `verify-plan` and `to-out-variant` know them again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

WORKSPACE = "workspace"
"""Key of the compile spec."""
OVER = "over"
"""Key of the compile spec of inputs and outputs that may be one memory."""
WITHIN = "et.within"
"""Attribute of a buffer in the caller's memory: the byte of memory id 1 where it may be, for a method that is planned
together with the memory of its caller."""
APART = -1
"""In the place of a place: memory that is not in the workspace."""
LARGE = 1024
_TEXT = re.compile(
    r"bytes=(\d{1,18}) inputs=([\d,-]*) outputs=([\d,-]*)(?: kept=(\d{1,18}\+\d{1,18}(?:,\d{1,18}\+\d{1,18})*))?"
)

_PAIRS = re.compile(r"\d{1,9}:\d{1,9}(?:,\d{1,9}:\d{1,9})*")
DIGEST_BYTES = 20

Specs = Sequence[tuple[str, bytes]]


@dataclass(frozen=True)
class Workspace:
    """``size`` bytes, with the places of inputs and outputs in them; None is a place apart. ``kept`` are the first byte
    and the number of bytes of each part that is left alone.
    """

    size: int
    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    kept: tuple[tuple[int, int], ...] = ()

    def spec(self) -> tuple[str, bytes]:
        """The compile spec."""
        inputs, outputs = (",".join("-" if n is None else str(n) for n in p) for p in (self.inputs, self.outputs))
        kept = " kept=" + ",".join(f"{at}+{size}" for at, size in self.kept) if self.kept else ""
        return WORKSPACE, f"bytes={self.size} inputs={inputs} outputs={outputs}{kept}".encode()

    @property
    def places(self) -> dict[int, int]:
        """The places by the number of the argument of the call."""
        return {number: place for number, place in enumerate((*self.inputs, *self.outputs)) if place is not None}


def alignment_of(size: int) -> int:
    """Bytes that a workspace, or a buffer in it, is aligned to: small ones would waste more than they win."""
    return 64 if size >= LARGE else 16


def workspace_of(specs: Specs) -> Workspace | None:
    """What the compile specs of a delegate say; None for delegates without one, and for what nobody can read."""
    text = dict(specs).get(WORKSPACE, b"").decode("utf-8", "replace")
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    rows = [[_place(item) for item in row.split(",")] if row else [] for row in found.groups()[1:3]]
    kept = [tuple(map(int, item.split("+"))) for item in (found[4] or "").split(",") if item]
    if any(place is not None and place < 0 for row in rows for place in row):
        return None
    return Workspace(int(found[1]), tuple(rows[0]), tuple(rows[1]), tuple((at, size) for at, size in kept))


def over_spec(pairs: Sequence[tuple[int, int]]) -> tuple[str, bytes]:
    """The compile spec of inputs and outputs that may be one memory."""
    return OVER, ",".join(f"{given}:{made}" for given, made in pairs).encode()


def memory_specs(workspace: Workspace | None, over: Sequence[tuple[int, int]] = ()) -> tuple[tuple[str, bytes], ...]:
    """The compile specs of both, as far as there is something to say."""
    places = () if workspace is None else (workspace.spec(),)
    return (*places, over_spec(over)) if over else places


def over_of(specs: Specs) -> tuple[tuple[int, int], ...]:
    """The inputs and outputs that may be one memory; none for what nobody can read."""
    text = dict(specs).get(OVER, b"").decode("utf-8", "replace")
    if _PAIRS.fullmatch(text) is None:
        return ()
    pairs = (item.partition(":") for item in text.split(","))
    return tuple((int(given), int(made)) for given, _, made in pairs)


def memory_digest(specs: Specs) -> bytes:
    """What a payload has of the compile specs that say where arguments may be: the first 20 bytes of the SHA-256 of
    those with their keys; 20 zeros where there are none.
    """
    found = [(key, data) for key, data in specs if key in (WORKSPACE, OVER)]
    if not found:
        return bytes(DIGEST_BYTES)
    text = b"".join(b"%s=%d:%s\n" % (key.encode(), len(data), data) for key, data in sorted(found))
    return hashlib.sha256(text).digest()[:DIGEST_BYTES]


def _place(text: str) -> int | None:
    """A place as text; -1 for what is none."""
    if text == "-":
        return None
    return int(text) if text.isdecimal() and len(text) < 19 else -1
