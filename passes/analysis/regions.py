"""Stretches of calls that can be computed part by part, and how much memory that takes.

A *region* is a stretch of calls, one after the other in a block, each of which can be cut (``cuts.py``). In parts, all
of them run for the first part of what they compute, then for the second, and so on: what is made and read inside of the
region has to be there for one part only. The parts of what is read afterwards are written where they lie in the whole,
and what a part reads whole must not be made in the region.

A tensor is cut where its bytes are at one place that no loop, move, delegate or caller changes: a planned buffer of
static sizes that one call writes, all of it and before anything reads it, a part of a buffer or state that is read, or
a weight that only this call reads.

A result that is read afterwards may be made where an operand was that dies in the region and is read in parts, if the
kernel can write over it: parts that were read are not needed by the next ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from etir.dialects.context import EtContext
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import CallOp, MoveOp, ReturnOp
from etir.dialects.et.layout import tensor_of
from etir.dialects.et.program import GetWeightOp
from etir.dialects.et.values import BufferOp, ViewOp
from etir.passes.analysis.cuts import CUT, WHOLE, WRITES, Cut, cut_of, is_elementwise, is_plain
from etir.passes.analysis.in_place import InPlaceKernels, overwritable
from etir.passes.analysis.memory_effects import (
    DEFAULT_ALIGNMENT,
    MethodMemory,
    effects_of,
    schema_of_kernel,
    storage_of,
    tensor_bytes,
)
from etir.passes.analysis.planning.lower_bound import live_bytes
from etir.passes.analysis.planning.problem import Buffer, align_up

REACH = 12
"""Calls on each side of the one where most bytes are live that a region may have."""
VALUE_BYTES = 160
"""What a tensor takes in the runtime besides its bytes: the object, its sizes, strides and dim order, and the value."""
CALL_BYTES = 128
"""What a call takes: its list of arguments."""
SLACK = 0.02
"""How much more than the least, of what is live, fewer parts may need."""


@dataclass(frozen=True)
class Place:
    """The bytes of a buffer from ``start`` on."""

    buffer: BufferOp
    start: int = 0


@dataclass
class Row:
    """An instruction that can be cut: its tensors with their roles, by position among the operands."""

    op: CallOp
    cut: Cut
    reads: list[tuple[SSAValue, str]] = field(default_factory=list)
    writes: list[BufferOp] = field(default_factory=list)
    over: list[Place] = field(default_factory=list)
    """What its first result may be written over."""


@dataclass(frozen=True)
class Region:
    """Rows, the last of which is instruction ``last``, and where parts of what they write are made.

    ``outputs`` are read afterwards. ``joined`` says of what is made inside over which output it is made, and ``homes``
    over which place, that is read there for the last time, an output is. The number of parts divides ``units`` and is
    at most ``most``. ``grains`` are pairs: a part of the first number is a multiple of the second, in bytes, so that
    views are aligned, or in elements, so that kernels compute all of them in vectors. ``views`` counts the tensors that
    each part has of its own, ``kept`` the bytes that are live all the time, and ``inside`` those of what is made and
    read inside, by call.
    """

    rows: tuple[Row, ...]
    last: int
    outputs: dict[BufferOp, None]
    joined: dict[BufferOp, BufferOp]
    homes: dict[BufferOp, Place]
    units: int
    most: int
    grains: tuple[tuple[int, int], ...]
    views: int
    kept: int
    inside: tuple[int, ...]

    @property
    def changed(self) -> dict[BufferOp, None]:
        """The buffers that will be others, or made elsewhere."""
        made = {buffer: None for row in self.rows for buffer in row.writes}
        return made | {place.buffer: None for place in self.homes.values()}

    @property
    def touched(self) -> dict[BufferOp, None]:
        """The buffers that the region reads or writes."""
        read = (storage_of(value) for row in self.rows for value, _ in row.reads)
        return self.changed | {buffer: None for buffer in read if buffer is not None}

    def is_apart_from(self, other: Region) -> bool:
        """Whether both can be computed in parts, each as if the other was not."""
        return not (self.changed.keys() & other.touched.keys() or other.changed.keys() & self.touched.keys())

    def counts(self) -> Iterator[int]:
        """In how many parts the region can be computed."""
        for count in range(2, min(self.units, self.most) + 1):
            if self.units % count == 0 and all(size % (count * grain) == 0 for size, grain in self.grains):
                yield count

    def live(self, count: int) -> int:
        """The most bytes that are live in the region when it is computed in ``count`` parts."""
        return self.kept + _aligned(-(-max(self.inside) // count))

    def fewest(self, best: int) -> int:
        """The least number of parts that needs hardly more than ``best``: each takes calls, and bytes of the file."""
        most = (self.live(best) + self.cost(best)) * (1 + SLACK)
        return next(count for count in self.counts() if self.live(count) + self.cost(count) <= most)

    def cost(self, count: int) -> int:
        """Bytes that tensors and calls take in the runtime more than without parts."""
        return count * self.views * VALUE_BYTES + (count - 1) * len(self.rows) * CALL_BYTES


@dataclass(frozen=True)
class Window:
    """Instructions ``first`` to ``last``: the buffers that are used there, and the bytes of others that are live."""

    first: int
    last: int
    near: Mapping[BufferOp, Buffer]
    across: int


class Regions:
    """The regions of a method as it is, around the instruction where most bytes are live.

    ``can_divide`` says whether a weight can be cut into weights of their own; ``settled`` are calls that are parts
    already.
    """

    def __init__(
        self,
        ctx: EtContext,
        method: MethodOp,
        memory: MethodMemory,
        in_place: InPlaceKernels,
        can_divide: Callable[[GetWeightOp], bool],
        settled: dict[CallOp, None],
    ) -> None:
        self.ctx = ctx
        self.in_place = in_place
        self.can_divide = can_divide
        self.settled = settled
        self.instructions = method.instructions
        self.live = live_bytes(memory.problem, 1)
        self.buffers = {memory.buffers[b.key]: b for b in memory.problem.buffers}
        self.order = {op: index for index, op in enumerate(memory.buffers)}
        self.raw = self._raw()
        self.uses: dict[BufferOp, list[int]] = {}
        self.writers: dict[BufferOp, list[int]] = {}
        self.returned: dict[BufferOp, None] = {}
        self.handles: dict[BufferOp, None] = {}
        """Targets of moves: their bytes are elsewhere."""
        for index, op in enumerate(self.instructions):
            for root in self._roots(op.operands):
                self.uses.setdefault(root, []).append(index)
                if isinstance(op, ReturnOp):
                    self.returned[root] = None
            for root in self._roots(effects_of(ctx, op).writes):
                self.writers.setdefault(root, []).append(index)
            if isinstance(op, MoveOp):
                self.handles |= dict.fromkeys(self._roots([op.target]))
        self.rows: dict[int, Row | None] = {}

    def _raw(self) -> list[int]:
        """The bytes that are live at each instruction, without any over others."""
        change = [0] * (len(self.instructions) + 1)
        for buffer in self.buffers.values():
            for first, last in buffer.live:
                change[first] += _aligned(buffer.size)
                change[last + 1] -= _aligned(buffer.size)
        return list(accumulate(change))

    @staticmethod
    def _roots(values: Iterable[SSAValue]) -> Iterator[BufferOp]:
        for value in values:
            root = storage_of(value) if isinstance(value.type, TensorType) else None
            if root is not None:
                yield root

    def at_peaks(self, most: int) -> list[tuple[Region, int]]:
        """Regions around instructions where most bytes are live, apart from each other, and in how many parts fewest
        are live around each. None at all unless something helps at every such instruction, and they are no more than
        ``most``.
        """
        high = max(self.live, default=0)
        found: list[tuple[Region, int]] = []
        behind = looked = 0
        for peak, live in enumerate(self.live):
            if live < high or live == 0 or peak < behind:
                continue
            looked += 1
            best = self._best(peak) if looked <= most else None
            if best is None:
                return []
            if all(best[0].is_apart_from(region) for region, _ in found):
                found.append(best)
                behind = best[0].last + 1
        return found

    def window(self, peak: int) -> Window:
        """What regions around an instruction may have, and the bytes that are live there."""
        first, last = max(peak - REACH, 0), min(peak + REACH, len(self.live) - 1)
        named = dict.fromkeys(root for op in self.instructions[first : last + 1] for root in self._roots(op.operands))
        near = {root: self.buffers[root] for root in named if root in self.buffers}
        at_peak = sum(_aligned(b.size) for b in near.values() if any(i <= peak <= j for i, j in b.live))
        return Window(first, last, near, self.raw[peak] - at_peak)

    def _best(self, peak: int) -> tuple[Region, int] | None:
        """The region around a peak, and in how many parts, that lowers what is live there and besides most of what is
        live at its other instructions; None if nothing lowers the peak.
        """
        window = self.window(peak)
        found: tuple[Region, int] | None = None
        most = 0
        for first in range(peak, window.first - 1, -1):
            if self._row(first, peak) is None:
                break
            for last in range(peak, window.last + 1):
                if self._row(last, peak) is None:
                    break
                region = self.region(window, first, last)
                if region is None:
                    continue
                for count in region.counts():
                    height = region.live(count) + region.cost(count)
                    if height >= self.live[peak]:
                        continue
                    gain = sum(max(live - height, 0) for live in self.live[first : last + 1])
                    if gain > most:
                        found, most = (region, count), gain
        return None if found is None else (found[0], found[0].fewest(found[1]))

    def _row(self, index: int, peak: int) -> Row | None:
        op = self.instructions[index]
        if op.parent is not self.instructions[peak].parent or op in self.settled:
            return None
        if index not in self.rows:
            self.rows[index] = self._cut(op, index)
        return self.rows[index]

    def _cut(self, op: Operation, index: int) -> Row | None:
        schema = schema_of_kernel(self.ctx, op.kernel.data) if isinstance(op, CallOp) else None
        if not isinstance(op, CallOp) or schema is None or (cut := cut_of(op, schema)) is None:
            return None
        row = Row(op, cut)
        for value, role in zip(op.arguments, cut.roles, strict=True):
            if not isinstance(value.type, TensorType):
                continue
            if role == WRITES:
                owner = value.owner
                if not isinstance(owner, BufferOp) or not self._is_own(owner) or not self._begins_at(owner, index):
                    return None
                row.writes.append(owner)
                continue
            root = _placed(value)
            if role == CUT and root is None:
                weight = value.owner
                if not isinstance(weight, GetWeightOp) or not self.can_divide(weight):
                    return None
            if root is not None and root.buffer in self.handles:
                return None
            row.reads.append((value, role))
        row.writes = list(dict.fromkeys(row.writes))
        if any(storage_of(value) in row.writes for value, _ in row.reads):
            return None
        if any(_placed(value) is None and (value, CUT) in row.reads for value, role in row.reads if role == WHOLE):
            return None  # a weight that is divided is gone
        # Softmax and norms write over operands, too, but `verify-calls` has to see from a call alone that it may.
        if is_elementwise(op.kernel.data):
            for found in overwritable(op, schema, self.in_place):
                if found.result is row.writes[0] and found.displacement >= 0:
                    row.over.append(Place(found.operand, found.displacement))
        return row

    def _begins_at(self, op: BufferOp, index: int) -> bool:
        """Whether an instruction is the only one that writes a buffer, and nothing reads it before, as a loop could."""
        return self.writers[op] == [index] and self.uses[op][0] == index

    def _is_own(self, op: BufferOp) -> bool:
        """Whether a buffer is planned, no state, and its bytes are where it is."""
        is_plain = op.state is None and op.caller is None and op.dynamic is None
        return is_plain and op in self.buffers and op not in self.handles

    def can_cut(self, index: int) -> bool:
        """Whether an instruction can be computed in parts."""
        return self._row(index, index) is not None

    def region(self, window: Window, first: int, last: int) -> Region | None:
        """The region of instructions, the last included, each of which can be cut; None if they cannot together."""
        rows = [row for index in range(first, last + 1) if (row := self.rows[index]) is not None]
        made: dict[BufferOp, int] = {}
        units = 0
        grains: dict[tuple[int, int], None] = {}
        views: dict[SSAValue, None] = {}
        for index, row in enumerate(rows, first):
            for value, role in row.reads:
                root = storage_of(value)
                if root is not None and root in made:
                    if role != CUT or _placed(value) != Place(root) or not _is_all_of(value, root):
                        return None
                elif role == CUT:
                    views[value] = None
                    grains[tensor_bytes(value.type), DEFAULT_ALIGNMENT] = None
            units = math.gcd(units, row.cut.units)
            made |= dict.fromkeys(row.writes, index)
            if row.cut.grain > 1:
                grains[math.prod(tensor_of(row.writes[0].result).get_shape()), row.cut.grain] = None
        outputs = {b: None for b in made if self.uses[b][-1] > last or b in self.returned}
        for buffer in outputs:
            grains[_bytes(buffer), DEFAULT_ALIGNMENT] = None
        joined, homes = self._homes(rows, first, last, made, outputs)
        kept = window.across + sum(_aligned(_bytes(b)) for b in outputs if b not in homes)
        for buffer, planned in window.near.items():
            if buffer not in made and any(begin <= last and first <= end for begin, end in planned.live):
                kept += _aligned(planned.size)
        inside = self._inside(rows, first, last, made, outputs, joined)
        return Region(
            tuple(rows),
            last,
            outputs,
            joined,
            homes,
            units,
            min(row.cut.most for row in rows),
            tuple(grains),
            len(views) + len(outputs),
            kept,
            inside,
        )

    def _homes(
        self, rows: Sequence[Row], first: int, last: int, made: dict[BufferOp, int], outputs: dict[BufferOp, None]
    ) -> tuple[dict[BufferOp, BufferOp], dict[BufferOp, Place]]:
        joined: dict[BufferOp, BufferOp] = {}
        homes: dict[BufferOp, Place] = {}
        taken: dict[BufferOp, None] = {}
        for index in range(last, first - 1, -1):
            row = rows[index - first]
            result = row.writes[0]
            output = result if result in outputs else joined.get(result)
            if output is None or output in homes:
                continue
            for place in row.over:
                operand = place.buffer
                if operand in made or operand in taken or output in self.returned:
                    continue
                if self._dies(operand, rows, first, index, last) and self.order[operand] < self.order[output]:
                    homes[output] = place
                    taken[operand] = None
                    break
            else:
                for place in row.over:
                    operand = place.buffer
                    is_inside = operand in made and operand not in outputs and operand not in joined
                    if is_inside and self.uses[operand][-1] == index and _bytes(operand) == _bytes(result):
                        joined[operand] = output
                        break
        return joined, homes

    def _dies(self, operand: BufferOp, rows: Sequence[Row], first: int, index: int, last: int) -> bool:
        """Whether the call at ``index`` is the last of the region to read an operand, of which all others read parts,
        and nothing reads it after the region.
        """
        if not self._is_own(operand) or self.uses[operand][-1] > last:
            return False
        if any(begin <= last < end for begin, end in self.buffers[operand].live):
            return False
        roles = [
            (position, role, tensor_bytes(value.type), _placed(value))
            for position, row in enumerate(rows, first)
            for value, role in row.reads
            if storage_of(value) is operand
        ]
        alike = {(size, None if place is None else place.start) for _, _, size, place in roles}
        return len(alike) == 1 and all(role == CUT and position <= index for position, role, _, _ in roles)

    def _inside(
        self,
        rows: Sequence[Row],
        first: int,
        last: int,
        made: dict[BufferOp, int],
        outputs: dict[BufferOp, None],
        joined: dict[BufferOp, BufferOp],
    ) -> tuple[int, ...]:
        """By call, the bytes that are live of what is made and read inside, without parts."""
        own = {b: (index, self.uses[b][-1]) for b, index in made.items() if b not in outputs and b not in joined}
        live: list[int] = []
        for index in range(first, last + 1):
            row = rows[index - first]
            total = sum(_aligned(_bytes(b)) for b, (begin, end) in own.items() if begin <= index <= end)
            result = row.writes[0]
            if result in own and any(p.buffer in own and own[p.buffer][1] == index for p in row.over):
                total -= _aligned(_bytes(result))
            live.append(total)
        return tuple(live)


def _bytes(op: BufferOp) -> int:
    return tensor_bytes(op.result.type)


def _aligned(size: int) -> int:
    return align_up(size, DEFAULT_ALIGNMENT)


def _placed(value: SSAValue) -> Place | None:
    """Where a static tensor begins; None for what is no part of a buffer of known place, as weights."""
    owner, start = value.owner, 0
    while isinstance(owner, ViewOp):
        if owner.dynamic is not None or owner.late is not None:
            return None
        start += owner.offset.value.data
        owner = owner.base.owner
    if not isinstance(owner, BufferOp) or owner.dynamic is not None or owner.caller is not None:
        return None
    return Place(owner, start)


def place_of(value: SSAValue) -> Place:
    """Where a tensor begins that a region reads in parts."""
    place = _placed(value)
    assert place is not None
    return place


def _is_all_of(value: SSAValue, root: BufferOp) -> bool:
    return is_plain(value.type) and tensor_bytes(value.type) == _bytes(root)
