"""What ``verify-tile`` asks of a whole function: places in the arena, and what is written when it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

from xdsl.ir import SSAValue

from etir.backends.native.errors import E1167, E1168
from etir.backends.native.footprint import follow_one_another, footprint
from etir.backends.native.kernels import template_of
from etir.backends.native.sizes import is_known
from etir.backends.native.tile import BufferOp, TemplateOp, bytes_of, lie_alike, shape_of, strides_of
from etir.backends.native.touched import Accesses, Base, Touched
from etir.diagnostics import Diagnostic, SourceLocation
from etir.dialects.et.workspace import APART
from etir.dialects.text import source_location

if TYPE_CHECKING:
    import numpy as np

MOST_BYTES = 0xFFFFFFFF
"""A blob says the bytes of the arena in 32 bits."""


def verify_places(accesses: Accesses, arena_bytes: int | None, arguments: Sequence[int] = ()) -> Iterator[Diagnostic]:
    """E1167 for buffers that share bytes while both live, or do not end in the arena; ``arena_bytes`` None for text,
    where buffers without places are not planned yet. ``arguments`` are the places of inputs and outputs in a workspace.
    """
    buffers = [base for base in accesses.bases if base.kind == "buffer"]
    unplaced = [base for base in buffers if _op(base).at is None]
    if unplaced:
        if arena_bytes is not None or len(unplaced) < len(buffers):
            yield _misplaced(unplaced[0], "has no place")
        return
    lives = _lives(accesses)
    rows: list[tuple[int, int, Base]] = []
    placed = [(base, _start(base)) for base in buffers]
    for base, place in zip((b for b in accesses.bases if b.kind in ("input", "output")), arguments, strict=False):
        if place != APART:
            placed.append((base, place))
            first, last = lives.get(base, (0, 0))
            # What is given is there from the start, and what is made until the end.
            lives[base] = (-1, last) if base.kind == "input" else (first, len(accesses.steps))
    for base, start in placed:
        end = start + bytes_of(base.value.type)
        if start < 0 or start % 4:
            yield _misplaced(base, "is not at a multiple of 4 bytes")
        elif end > (MOST_BYTES if arena_bytes is None else min(arena_bytes, MOST_BYTES)):
            have = "what a blob can say" if arena_bytes is None else f"the arena of {arena_bytes}"
            yield _misplaced(base, f"ends at byte {end}, after {have}")
        elif base in lives:
            rows.append((start, end, base))
    live: list[tuple[int, int, Base]] = []
    for row in sorted(rows, key=lambda row: row[:2]):
        start, end, base = row
        live = [other for other in live if other[1] > start]
        for other_start, other_end, other in live:
            first, last = lives[base]
            other_first, other_last = lives[other]
            if first <= other_last and other_first <= last:
                one, two = (base, start), (other, other_start)
                if first == other_last and _is_written_over(accesses, two, one, first):
                    continue
                if other_first == last and _is_written_over(accesses, one, two, last):
                    continue
                if first < other_last and _is_left_alone(accesses, two, one, (first, other_last)):
                    continue
                if other_first < last and _is_left_alone(accesses, one, two, (other_first, last)):
                    continue
                if first < other_last and _is_written_by_parts(accesses, two, one, (first, other_last)):
                    continue
                if other_first < last and _is_written_by_parts(accesses, one, two, (other_first, last)):
                    continue
                yield _misplaced(base, f"is at bytes [{start}, {end}), where {other.name} is at the same time "
                                       f"([{other_start}, {other_end}))")  # fmt: skip
        live.append(row)


def _is_written_over(accesses: Accesses, under: tuple[Base, int], over: tuple[Base, int], number: int) -> bool:
    """Whether the only operation at which both bases live, at these bytes, writes each float of the second one where it
    has read that of the first one, and may do so.
    """
    if not 0 <= number < len(accesses.steps):
        return False
    op = accesses.steps[number]
    operands = [*op.operands]
    written = [value for value in operands if accesses.touched[value].base is over[0]]
    if len(written) != 1 or [*op.makes()] != written:
        return False
    to = accesses.touched[written[0]]
    allowed = [*template_of(op).in_place(op)]
    for value in operands:
        of = accesses.touched[value]
        if of.base is not under[0]:
            continue
        is_there = under[1] + 4 * of.offset == over[1] + 4 * to.offset
        is_allowed = allowed.count(value) == operands.count(value)
        if not is_there or not is_allowed or not lie_alike(value.type, written[0].type):
            return False
    return True


def _is_left_alone(accesses: Accesses, under: tuple[Base, int], over: tuple[Base, int], steps: tuple[int, int]) -> bool:
    """Whether the first base lies inside of the second one, which has nothing there until the last of these steps: that
    writes it over the first base, which nothing needs afterwards.
    """
    first, last = steps
    start = under[1] - over[1]
    end = start + bytes_of(under[0].value.type)
    if start < 0 or end > bytes_of(over[0].value.type):
        return False
    for op in accesses.steps[first:last]:
        for value in op.operands:
            touched = accesses.touched[value]
            if touched.base is over[0] and 4 * touched.floats.first < end and start < 4 * (touched.floats.last + 1):
                return False
    return _is_written_over(accesses, under, over, last)


def _is_written_by_parts(
    accesses: Accesses, under: tuple[Base, int], over: tuple[Base, int], steps: tuple[int, int]
) -> bool:
    """Whether from the first of these steps to the last, all that need both bases, nothing of the first base is
    read once a step before has written the second one there, and nothing is written to the first base. A step that
    reads what it writes itself does so float by float, and may.
    """
    import numpy as np

    if not is_known([base.floats for base in (under[0], over[0])]):
        return _is_written_by_pieces(accesses, under, over, steps)
    distance = over[1] - under[1]
    if distance % 4 or not 0 <= steps[0] <= steps[1] < len(accesses.steps):
        return False
    # Floats of both, from the first one of either on.
    start = min(0, distance // 4)
    at = {under[0]: -start, over[0]: distance // 4 - start}
    written = np.zeros(max(at[base] + base.floats for base in at), np.bool_)
    for op in accesses.steps[steps[0] : steps[1] + 1]:
        writes = [*op.writes()]
        to = [accesses.touched[value] for value in writes if accesses.touched[value].base is over[0]]
        if len(to) > 1 or any(accesses.touched[value].base is under[0] for value in writes):
            return False
        now = np.zeros_like(written)
        for touched in to:
            touched.floats.of(now[at[over[0]] :])[...] = True
        allowed = [*template_of(op).in_place(op)] if to else []
        for value in dict.fromkeys(op.reads()):
            of = accesses.touched[value]
            if of.base is not under[0]:
                continue
            if of.floats.of(written[at[under[0]] :]).any():
                return False
            if not of.floats.of(now[at[under[0]] :]).any():
                continue
            is_there = 4 * of.offset == 4 * to[0].offset + distance
            is_allowed = allowed.count(value) == [*op.operands].count(value)
            if not is_there or not is_allowed or not lie_alike(value.type, writes[0].type):
                return False
        written |= now
    return True


def _is_written_by_pieces(
    accesses: Accesses, under: tuple[Base, int], over: tuple[Base, int], steps: tuple[int, int]
) -> bool:
    """The same of sizes that are known at run time only: from the first step that writes the second base on, each one
    writes the next piece of it, where it alone reads the first base, float by float.
    """
    if not 0 <= steps[0] <= steps[1] < len(accesses.steps):
        return False
    pieces: list[SSAValue] = []
    for op in accesses.steps[steps[0] : steps[1] + 1]:
        reads = [value for value in dict.fromkeys(op.reads()) if accesses.touched[value].base is under[0]]
        to = [value for value in op.writes() if accesses.touched[value].base is over[0]]
        if any(accesses.touched[value].base is under[0] for value in op.writes()):
            return False
        if any(accesses.touched[value].base is over[0] for value in op.reads()) or len(to) > 1:
            return False
        if not to and (not reads or not pieces):
            continue
        if not to or [*op.makes()] != to:
            return False
        allowed = [*template_of(op).in_place(op)]
        for value in reads:
            is_there = under[1] + 4 * accesses.touched[value].offset == over[1] + 4 * accesses.touched[to[0]].offset
            is_allowed = allowed.count(value) == [*op.operands].count(value)
            if not is_there or not is_allowed or not lie_alike(value.type, to[0].type):
                return False
        pieces += to
    parts = [(shape_of(value), strides_of(value.type), accesses.touched[value].offset) for value in pieces]
    return bool(parts) and follow_one_another(parts)


def _op(base: Base) -> BufferOp:
    return cast(BufferOp, base.value.owner)


def _start(base: Base) -> int:
    at = _op(base).at
    assert at is not None
    return at.value.data


def _lives(accesses: Accesses) -> dict[Base, tuple[int, int]]:
    """The first and the last operation that touches each base."""
    found: dict[Base, tuple[int, int]] = {}
    for number, op in enumerate(accesses.steps):
        for value in op.operands:
            base = accesses.touched[value].base
            found[base] = (found.get(base, (number, 0))[0], number)
    return found


def _misplaced(base: Base, what: str) -> Diagnostic:
    owner = base.value.owner
    where = source_location(owner.location) if isinstance(owner, BufferOp) else None
    return E1167.diagnostic(f"{base.name} {what}", where)


def verify_memory(accesses: Accesses, where: SourceLocation | None) -> Iterator[Diagnostic]:
    """E1168 for floats that are read before they are written, that an operation writes while it reads them, and for
    outputs of which something is never written.
    """
    import numpy as np

    written: dict[Base, np.ndarray] = {}
    for base in accesses.bases:
        if base.kind in ("buffer", "output"):
            written[base] = np.zeros(base.floats, np.bool_)
    for op in accesses.steps:
        for value in op.reads():
            touched = accesses.touched[value]
            if touched.base in written and not touched.floats.of(written[touched.base]).all():
                floats = f"floats {touched.floats.first} to {touched.floats.last} of {touched.base.name}"
                yield E1168.diagnostic(
                    f"'{op.name}' reads {floats}, of which some are not written before", source_location(op.location)
                )
        for value in op.writes():
            yield from _aliases(op, value, accesses)
            touched = accesses.touched[value]
            if touched.base in written:
                touched.floats.of(written[touched.base])[...] = True
    for base, floats in written.items():
        whole = footprint(shape_of(base.value), strides_of(base.value.type), 0)
        if base.kind == "output" and not whole.of(floats).all():
            yield E1168.diagnostic(f"{base.name} is not written to the last float", where)


def _aliases(op: TemplateOp, target: SSAValue, accesses: Accesses) -> Iterator[Diagnostic]:
    """Operands that ``op`` reads in memory that it writes: the same floats in the same order, where it may."""
    to = accesses.touched[target]
    operands = [*op.operands]
    in_place: list[SSAValue] | None = None
    for value in dict.fromkeys(operands):
        of = accesses.touched[value]
        reads = operands.count(value) - (value is target)
        if reads == 0 or of.base is not to.base or not _meet(of, to):
            continue
        if in_place is None:
            in_place = [*template_of(op).in_place(op)]
        if in_place.count(value) == reads and lie_alike(value.type, target.type) and of.offset == to.offset:
            continue
        yield E1168.diagnostic(
            f"'{op.name}' writes floats {to.floats.first} to {to.floats.last} of {to.base.name} while it reads "
            f"floats {of.floats.first} to {of.floats.last} of it",
            source_location(op.location),
        )


def _meet(one: Touched, other: Touched) -> bool:
    """Whether two sets of floats of a base have one in common."""
    import numpy as np

    if one.floats.last < other.floats.first or other.floats.last < one.floats.first:
        return False
    marks = np.zeros(one.base.floats, np.bool_)
    one.floats.of(marks)[...] = True
    return bool(other.floats.of(marks).any())
