"""``tile-rows``: images row by row, where the image in between would not stay in a cache.

Before::

    tile.map %border ...                              // zeros around %m
    tile.brgemm %x, %w0, %m() : ..., memref<1x56x56x144xf32, ...>
    tile.depthwise %windows_of_m, %w1, %d() : ...
    tile.brgemm %d, %w2, %y(%r) : ...

After, when nothing else reads %m and %d::

    tile.rows [1, 56] window [3, 1, 1, 56, 1] above (%x, %w0) inputs (%w2, %r) turned (%t) -> (%y) ring (%m) ... {
      tile.brgemm %x0, %w, %row() ...
    } {
      tile.depthwise %rows, %taps, %d0() ...
      tile.brgemm %d0, %w, %y0(%r0) ...
    }

The root is a window for each channel, a pool, or, where none of them is, an elementwise operator. What computes the
image that windows read, if that is a product or another window, computes rows of it into a ring; what reads the root's
result element by element, or as a product of pixels, follows on the row; so does a copy to planes, where memory is
saved by those. Where the image comes from memory, the rest is a ``tile.loop``.

All weights of a group are read for every row, and stay in the second cache: the processor's description says which part
of it they may take, and how large the image in between has to be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from etir.backends.native.asked import saves
from etir.backends.native.cpu import Cpu, cpu
from etir.backends.native.functions import PLANES, tile_functions
from etir.backends.native.loop import SLOTS, LoopOp
from etir.backends.native.memory import Memory, cast_of
from etir.backends.native.print_sizes import is_dynamic
from etir.backends.native.row_loop import RowsOp
from etir.backends.native.rows_of import RowOf, RowPart, pixels, row_of
from etir.backends.native.tile import (
    BrgemmOp,
    BufferOp,
    DepthwiseOp,
    MapOp,
    PoolOp,
    TemplateOp,
    WeightOp,
    YieldOp,
    extent_of,
    lie_alike,
    memref,
    row_major,
    shape_of,
)
from etir.backends.native.users import (
    base_of,
    drop_unused,
    is_read_last,
    is_read_once,
    only_reader,
    only_writer,
    place_of,
    readers_of,
    writers_of,
)
from etir.dialects.context import EtContext
from etir.dialects.walking import ops_of
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass

SMALL = 64 * 1024
"""Bytes of the images in between up to which one thread does all rows, where memory is saved by planes."""


@dataclass(frozen=True)
class _Image:
    """The image that windows read: what computes it, and where the windows are in it.

    ``window`` is that of ``tile.rows``; ``borders`` are the operations that fill the border, with ``value``.
    """

    source: RowOf
    borders: tuple[MapOp, ...]
    value: float
    window: tuple[int, int, int, int, int]
    columns: int
    bytes: int


@dataclass(frozen=True)
class _Chain:
    """Operations that are rows one after another: an image or None, its windows, what follows them; and how many
    threads at most share them, each with a ring of its own.
    """

    image: _Image | None
    rows: tuple[RowOf, ...]
    slots: int

    @property
    def ops(self) -> list[TemplateOp]:
        """The operations, in order."""
        first = [] if self.image is None else [self.image.source.op]
        return [*first, *(row.op for row in self.rows)]


def fuse_rows(func: FuncOp, target: Cpu) -> None:
    """Make rows of every chain in ``func`` that is worth it on a processor.

    Rings are of static sizes: functions with dims that are known at run time only stay as they are.
    """
    if is_dynamic(func):
        return
    block = func.body.block
    windows = [op for op in ops_of(block) if isinstance(op, (DepthwiseOp, PoolOp))]
    maps = [op for op in ops_of(block) if isinstance(op, MapOp) and op.inputs]
    for op in (*windows, *maps):
        if op.parent is not block:
            continue
        chain = _match(op, planes=saves(func, PLANES))
        if chain is None or not _are_few(chain, target) or not _is_together(block, chain):
            continue
        is_worth = _is_large(chain, target) or (_kept(chain) < sum(_between(chain)) and saves(func, "rows"))
        if is_worth and not (_is_over(chain) and saves(func, "over")):
            _fuse(chain)
    drop_unused(block)


# --- what is a chain --------------------------------------------------------------------------------------------------


def _match(op: DepthwiseOp | PoolOp | MapOp, *, planes: bool) -> _Chain | None:
    root = row_of(op)
    if root is None:
        return None
    rows = [root]
    while (following := _follows(rows[-1], planes=planes)) is not None:
        rows.append(following)
    image = None if isinstance(op, MapOp) else _image(op)
    if image is None and len(rows) == 1:
        return None
    chain = _Chain(image, tuple(rows), min(SLOTS, math.prod(root.extents)))
    return replace(chain, slots=_slots(chain)) if planes else chain


def _slots(chain: _Chain) -> int:
    """Where memory is short: one for all rows of a small image, whose rings may take more than it does; and of others
    as many as take no more than the smallest image in between, but two.
    """
    if max(_between(chain)) <= SMALL:
        return 1
    return min(chain.slots, max(2, min(_between(chain)) // _kept(replace(chain, slots=1))))


def _follows(row: RowOf, *, planes: bool) -> RowOf | None:
    """What reads the pixels of a result one by one, if nothing else reads them; also what makes ``planes`` of them."""
    written = row.written
    reader = only_reader(written.value)
    if reader is None or only_writer(written.value) is not row.op:
        return None
    if not isinstance(reader, (BrgemmOp, MapOp)) or (isinstance(reader, BrgemmOp) and reader.taps):
        return None
    for is_planes in (False, True) if planes and isinstance(reader, MapOp) else (False,):
        found = row_of(reader, written.whole.shape[:3], is_planes=is_planes)
        if found is None:
            continue
        if any(isinstance(op, (DepthwiseOp, PoolOp)) for op in readers_of(found.written.value)):
            return None  # what windows read is computed with them
        read = [part for part in found.operands if part.whole.base is written.whole.base]
        if all(part.lead and part.whole.is_same(written.whole) for part in read):
            return found
    return None


def _image(op: DepthwiseOp | PoolOp) -> _Image | None:
    """What computes the image that the windows of ``op`` read, and nothing else reads."""
    a = place_of(op.a)
    base = a.base.owner
    if not isinstance(base, BufferOp) or not is_read_once(op.a):
        return None
    borders = [w for w in writers_of(op.a) if isinstance(w, MapOp) and not w.inputs]
    sources = [w for w in writers_of(op.a) if w not in borders]
    dims = shape_of(base.result)
    if len(sources) != 1 or len(dims) != 4 or base.result.type != memref(dims):
        return None
    values = {_constant(w): None for w in borders}
    if len(values) > 1 or None in values:
        return None
    images, _, wide, channels = dims
    whole, row, channel, _ = row_major(dims)
    inner = pixels(sources[0])
    if inner is None and not borders:
        written = place_of(sources[0].writes()[0])
        inner = written.viewed(dims)
    # Windows [n, h, w, rows, columns, c] of the image: a row of a window is a row of the image.
    if inner is None or a.shape[0] != images or a.shape[5] != channels or inner.shape[3] != channels:
        return None
    size, rows = a.shape[3], a.shape[1]
    if any(place.strides[0] != whole for place in (a, inner) if images > 1):
        return None
    if (size > 1 and a.strides[3] != row) or a.strides[1] % row or a.strides[2] % channel or a.strides[5] != 1:
        return None
    if inner.strides[1:] != (row, channel, 1):
        return None
    stride = a.strides[1] // row if rows > 1 else 1
    (y, x), (top, left) = divmod(inner.offset, row), divmod(a.offset, row)
    x, left = x // channel, left // channel
    source = row_of(sources[0], inner.shape[:3])
    if source is None or not 1 <= stride <= size or not 0 <= y - top < size or x < left:
        return None
    if size >= inner.shape[1]:
        return None  # The rows that are kept would be the whole image, as for a global pool.
    reach = ((a.shape[2] - 1) * a.strides[2] + (a.shape[4] - 1) * a.strides[4]) // channel
    columns = max(x - left + inner.shape[2], reach + 1)
    window = (size, stride, y - top, inner.shape[1], x - left)
    value = next(iter(values), None)
    return _Image(source, tuple(borders), value or 0.0, window, columns, 4 * math.prod(inner.shape[1:]))


def _constant(op: MapOp) -> float | None:
    """The number that a map without inputs writes."""
    last = op.body.block.last_op
    assert isinstance(last, YieldOp)
    given = last.values[0].owner
    if not isinstance(given, arith.ConstantOp) or not isinstance(given.value, FloatAttr):
        return None
    return given.value.value.data


def _are_few(chain: _Chain, target: Cpu) -> bool:
    """Whether weights stay in the second cache while rows pass."""
    bases = dict.fromkeys(base_of(v) for op in chain.ops for v in op.reads())
    weights = sum(4 * extent_of(base.type) for base in bases if isinstance(base.owner, WeightOp))
    return weights <= target.row_weights * target.l2


def _is_large(chain: _Chain, target: Cpu) -> bool:
    """Whether what is in between would not stay in the second cache. Where memory is saved, rows are worth it if those
    that are kept take less than that.
    """
    return max(_between(chain)) > target.row_image * target.l2


def _between(chain: _Chain) -> list[int]:
    """The bytes of each image in between."""
    image = 0 if chain.image is None else chain.image.bytes
    return [image, *(4 * math.prod(row.written.whole.shape[1:]) for row in chain.rows[:-1])]


def _is_over(chain: _Chain) -> bool:
    """Whether the first image in between needs no memory as a whole, being written over the one it is computed from."""
    op = chain.ops[0]
    if not isinstance(op, MapOp):
        return False
    read = [value for value in op.inputs if is_read_last(value, op)]
    return any(isinstance(base_of(v).owner, BufferOp) and lie_alike(v.type, op.out.type) for v in read)


def _kept(chain: _Chain) -> int:
    """Bytes of the rings, the rows in between and the weights that are written once more."""
    floats = chain.slots * sum(math.prod(row.written.shape) for row in chain.rows[:-1])
    if chain.image is not None:
        size, *_ = chain.image.window
        window = chain.rows[0].operands[0].shape
        floats += chain.slots * size * chain.image.columns * window[-1] + (2 * size - 1) * window[-2] * window[-1]
    return 4 * floats


def _is_together(block: Block, chain: _Chain) -> bool:
    """Whether what the operations read is the same where the last one stands."""
    ops = chain.ops
    read: set[SSAValue] = set()
    for op in block.ops:
        if op is ops[-1]:
            break
        if not isinstance(op, TemplateOp):
            continue
        if op in ops:
            read |= {base_of(v) for v in op.reads()}
        elif any(base_of(v) in read for v in op.writes()):
            return False
    return True


# --- what becomes of it -----------------------------------------------------------------------------------------------


def _fuse(chain: _Chain) -> None:
    last = chain.ops[-1]
    parent = last.parent
    assert parent is not None
    parent.insert_ops_before(_Maker(chain).ops(), last)
    borders = () if chain.image is None else chain.image.borders
    for op in (*reversed(chain.ops), *borders):
        parent.erase_op(op)


@dataclass
class _Group:
    """Operands of one kind: values, the types of their parts, floats from one part to the next one."""

    values: list[SSAValue]
    types: list[Attribute]
    steps: list[tuple[int, ...]]

    def add(self, value: SSAValue, type: Attribute, steps: tuple[int, ...] = ()) -> int:
        """The number of a new operand."""
        self.values.append(value)
        self.types.append(type)
        self.steps.append(steps)
        return len(self.values) - 1


class _Maker:
    """The operation for a chain, with its casts and buffers before it."""

    def __init__(self, chain: _Chain):
        self.chain = chain
        self.memory = Memory(Block())
        self.inputs, self.turned, self.outputs, self.locals = (_Group([], [], []) for _ in range(4))
        self.slots = chain.slots

    def ops(self) -> list[Operation]:
        """The operations, the fused one last."""
        made = self._loop() if self.chain.image is None else self._rows(self.chain.image)
        made.location = self.chain.ops[0].location
        found = ops_of(self.memory.block)
        for op in found:
            op.detach()
        return [*found, made]

    def _add(self, group: _Group, part: RowPart) -> int:
        # An operand of its own for every use: parts of one memory may differ.
        value = self.memory.add(cast_of(part.whole)).results[0]
        return group.add(value, memref(part.shape, part.strides), part.steps)

    def _uses(self) -> list[list[tuple[_Group | None, int]]]:
        """For each row and each of its operands, which one of a group it is; None stands for the ring."""
        found: list[list[tuple[_Group | None, int]]] = []
        between: dict[SSAValue, int] = {}
        for number, row in enumerate(self.chain.rows):
            uses: list[tuple[_Group | None, int]] = []
            for index, part in enumerate(row.operands):
                base = part.whole.base
                if part is row.written and number == len(self.chain.rows) - 1:
                    uses.append((self.outputs, self._add(self.outputs, part)))
                elif part is row.written:
                    slots = self.memory.add(BufferOp(memref((self.slots, *part.shape)))).results[0]
                    between[base] = self.locals.add(slots, memref(part.shape))
                    uses.append((self.locals, between[base]))
                elif base in between:
                    uses.append((self.locals, between[base]))
                elif self.chain.image is not None and (number, index) == (0, 0):
                    uses.append((None, 0))
                elif self.chain.image is not None and isinstance(row.op, DepthwiseOp) and index == 1:
                    uses.append((self.turned, self._turned(part)))
                else:
                    uses.append((self.inputs, self._add(self.inputs, part)))
            found.append(uses)
        return found

    def _turned(self, part: RowPart) -> int:
        """Rows of weights, written twice but for the last one."""
        size, *rest = part.shape
        place = self.memory.buffer((2 * size - 1, *rest))
        for start, count in ((0, size), (size, size - 1)):
            if count:
                self.memory.copy(part.whole.sliced(0, 0, count), place.sliced(0, start, count), self.chain.rows[0].op)
        type = memref(part.shape, place.strides)
        return self.turned.add(self.memory.memref(place), type, (place.strides[0],))

    def _block(self, uses: list[list[tuple[_Group | None, int]]], groups: list[_Group]) -> Block:
        block = Block(arg_types=[type for group in groups for type in group.types])
        starts = [sum(len(group.types) for group in groups[:number]) for number in range(len(groups))]

        def argument(group: _Group | None, number: int) -> SSAValue:
            at = next(start for start, g in zip(starts, groups, strict=True) if g is group)
            return block.args[at + number]

        for row, given in zip(self.chain.rows, uses, strict=True):
            values = [argument(self.ring if group is None else group, number) for group, number in given]
            block.add_op(row.on(values))
        return block

    def _loop(self) -> LoopOp:
        self.ring = _Group([], [], [])
        block = self._block(self._uses(), [self.inputs, self.outputs, self.locals])
        inputs, outputs = self.inputs, self.outputs
        return LoopOp(
            self.chain.rows[0].extents, inputs.values, outputs.values, self.locals.values,
            [*inputs.steps, *outputs.steps], Region(block),
        )  # fmt: skip

    def _rows(self, image: _Image) -> RowsOp:
        root = self.chain.rows[0].operands[0]
        channels = root.shape[-1]
        row = image.columns * channels
        ring = self.memory.add(BufferOp(memref((self.slots, image.window[0], image.columns, channels)))).results[0]
        column, _, tap, _ = root.strides
        self.ring = _Group([ring], [memref(root.shape, (column, row, tap, 1))], [()])
        above = _Group([], [], [])
        for part in image.source.operands:
            if part is not image.source.written:
                self._add(above, part)
        written = image.source.written.shape
        first = Block(arg_types=[*above.types, memref(written)])
        args = iter(first.args)
        values = [first.args[-1] if p is image.source.written else next(args) for p in image.source.operands]
        first.add_op(image.source.on(values))
        uses = self._uses()
        block = self._block(uses, [self.inputs, self.turned, self.ring, self.outputs, self.locals])
        groups = (above, self.inputs, self.turned, self.outputs)
        return RowsOp(
            self.chain.rows[0].extents, image.window, image.value,
            (above.values, self.inputs.values, self.turned.values, self.outputs.values),
            ring, self.locals.values, [step for group in groups for step in group.steps],
            (Region(first), Region(block)),
        )  # fmt: skip


@register_pass
@dataclass(frozen=True)
class TileRowsPass(Pass):
    """Compute images row by row, where those in between would not stay in a cache of the processor ``cpu``"""

    name = "tile-rows"
    cpu: str = "x86-64-v4"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Every function of the module. Raises E1160 for an unknown processor."""
        target = cpu(self.cpu)
        for func in tile_functions(module):
            fuse_rows(func, target)
