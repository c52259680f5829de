"""``tile-columns``: a product of which some columns are read by themselves is several products.

Before::

    tile.brgemm %x, %w, %both() : ..., memref<6x32x32xf32>, memref<576x192xf32>
    tile.map %y(%left) ...                                  // columns 0 to 63 of %both
    tile.map %z(%right) ...                                 // columns 64 to 191

After::

    tile.brgemm %x, %w0, %a() : ..., memref<2x32x32xf32>, memref<576x64xf32>
    tile.map %y(%a) ...
    tile.brgemm %x, %w1, %b() : ..., memref<4x32x32xf32>, memref<576x128xf32>
    tile.map %z(%b) ...

Queries, keys and values are one product, as a rule, and copied apart where an operator wants them in another order: all
of them are there while the last one is copied. Each by itself needs no more than the kernels, which split them. What is
multiplied is read several times, so only functions whose ``native.saves`` has ``columns`` have such products
(``savings.py``). Columns begin at a panel of the weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from etir.backends.native.asked import saves
from etir.backends.native.functions import tile_functions
from etir.backends.native.loop import PartsOp
from etir.backends.native.memory import cast_of
from etir.backends.native.places import Place
from etir.backends.native.restride import Moved, moved
from etir.backends.native.sizes import is_known
from etir.backends.native.tile import BrgemmOp, BufferOp, TemplateOp, memref, row_major, shape_of
from etir.backends.native.users import base_of, drop_unused, only_writer, place_of, readers_of
from etir.dialects.context import EtContext
from etir.dialects.walking import ops_of
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


def split_columns(func: FuncOp) -> None:
    """Split the products whose columns are read apart."""
    block = func.body.block
    found = [parts for op in ops_of(block) if isinstance(op, BrgemmOp) and len(parts := _parts(op)) > 1]
    if not found or not saves(func, "columns"):
        return
    for parts in found:
        for part in parts:
            part.make()
        block.erase_op(parts[0].op)
    drop_unused(block)


@dataclass
class _Part:
    """Columns of a product, and the operands of others that read them, by operation and index."""

    op: BrgemmOp
    start: int
    end: int
    readers: list[tuple[TemplateOp, int]]

    def within(self, value: SSAValue) -> tuple[tuple[int, ...], int] | None:
        """The strides and the start of an operand in these columns as a buffer; None where it reads others as well."""
        whole, width = place_of(self.op.c), self.end - self.start
        dims = [Moved(whole.shape[0], whole.strides[0], width), Moved(width, 1, 1)]
        return moved(place_of(value), dims, self.start)

    def make(self) -> None:
        """Put a product before the first reader, if what it reads is the same there, and let them read that."""
        op, block = self.op, self.op.parent
        assert block is not None
        rows, width = shape_of(op.c)[0], self.end - self.start
        panel = shape_of(op.b)[2]
        first, count = self.start // panel, -(-width // panel)
        buffer = BufferOp(memref((rows, width)))
        weights = place_of(op.b).sliced(0, first, count)
        extras = [place_of(value).sliced(1, self.start, width) for value in op.extra]
        casts = [cast_of(place, op) for place in (weights, *extras)]
        b, *extra = (cast.results[0] for cast in casts)
        made = BrgemmOp(op.a, b, buffer.result, extra, op.body.clone())
        made.attributes |= op.attributes
        at = self._at()
        for one in (buffer, *casts, made):
            one.location = op.location
            block.insert_op_before(one, at)
        for reader, index in self.readers:
            value = reader.operands[index]
            found = self.within(value)
            assert found is not None
            view = cast_of(Place(buffer.result, shape_of(value), *found), reader)
            block.insert_op_before(view, reader)
            reader.operands[index] = view.results[0]

    def _at(self) -> TemplateOp:
        """The operation before which the product may stand, as late as that is."""
        block = self.op.parent
        assert block is not None
        readers = dict.fromkeys(op for op, _ in self.readers)
        wanted = next(op for op in ops_of(block) if isinstance(op, TemplateOp) and op in readers)
        read = {base_of(value) for value in self.op.reads()}
        following = self.op.next_op
        while following is not None and following is not wanted:
            if isinstance(following, TemplateOp) and any(base_of(value) in read for value in following.writes()):
                return self.op
            following = following.next_op
        return wanted


def _parts(op: BrgemmOp) -> list[_Part]:
    """The columns that are read by themselves, each with what reads them; none where some operand reads across."""
    c, b = place_of(op.c), place_of(op.b)
    places = [c, b, *map(place_of, op.extra)]
    if op.taps is not None or len(c.shape) != 2 or len(b.shape) != 3 or only_writer(op.c) is not op:
        return []
    if not all(is_known((*p.shape, *p.strides, p.offset)) for p in places) or not isinstance(c.base.owner, BufferOp):
        return []
    row, width, panel = c.strides[0], c.shape[1], b.shape[2]
    if c.strides[1] != 1 or row < width or b.strides != row_major(b.shape):
        return []
    parts: list[_Part] = []
    for reader in dict.fromkeys(readers_of(op.c)):
        for index, value in enumerate(reader.operands):
            if base_of(value) is not c.base:
                continue
            place = place_of(value)
            if (
                isinstance(reader, PartsOp)
                or reader.parent is not op.parent
                or not is_known((*place.shape, *place.strides))
            ):
                return []
            first = place.offset % row
            last = first + sum((n - 1) * s for n, s in zip(place.shape, place.strides, strict=True) if s < row)
            if last >= width:
                return []
            part = _Part(op, first // panel * panel, min(width, (last // panel + 1) * panel), [(reader, index)])
            parts = _joined(part, parts)
    return parts if all(p.within(r.operands[i]) is not None for p in parts for r, i in p.readers) else []


def _joined(part: _Part, parts: Sequence[_Part]) -> list[_Part]:
    """Parts with one more, as one with those that it has columns in common with."""
    found = part
    apart: list[_Part] = []
    for other in parts:
        if other.start < found.end and found.start < other.end:
            start, end = min(found.start, other.start), max(found.end, other.end)
            found = _Part(part.op, start, end, [*other.readers, *found.readers])
        else:
            apart.append(other)
    return _joined(found, apart) if len(apart) < len(parts) else [*apart, found]


@register_pass
@dataclass(frozen=True)
class TileColumnsPass(Pass):
    """Split products whose columns are read apart"""

    name = "tile-columns"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Every function of the module whose code does without products of ``columns`` that are read apart."""
        for func in tile_functions(module):
            split_columns(func)
