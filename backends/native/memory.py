"""Memory while a function is lowered to ``tile``: operations at the end of a block, and where tensors are.

A buffer is memory of the arena. An image has its channels side by side, and may lie in a border of zeros (or of another
number) that belongs to the buffer: what reads windows has no case for the edges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from xdsl.dialects.builtin import DenseArrayBase, MemRefType, i64
from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from etir.backends.native.body import Body
from etir.backends.native.places import Place
from etir.backends.native.sizes import at_least, is_known
from etir.backends.native.tile import BufferOp, MapOp, WeightOp, YieldOp, body_of, memref, row_major, shape_of
from etir.backends.native.view import ViewOp

PAGE = 1024
"""Floats of 4 KiB: rows this far apart share the sets of the first cache, so that buffers have other strides."""
SPARE = 16


def is_image(place: Place) -> bool:
    """Whether a place of dims (n, c, h, w) or (n, c, l) has its channels side by side."""
    if len(place.shape) not in (3, 4) or place.strides[1] != 1:
        return False
    return at_least(place.strides[-1], place.shape[1]) or all(n == 1 for n in place.shape[2:])


def cast_of(place: Place, like: Operation | None = None) -> Operation:
    """The operation whose result is a place, where ``like`` is in the source."""
    cast = _cast_of(place)
    if like is not None:
        cast.location = like.location
    return cast


def _cast_of(place: Place) -> Operation:
    if not is_known((*place.shape, *place.strides, place.offset)):
        return ViewOp(place.base, place.offset, memref(place.shape, place.strides))
    properties, type = _parts_of_cast(tuple(place.shape), tuple(place.strides), place.offset)
    return ReinterpretCastOp.create(operands=[place.base], result_types=[type], properties={**properties})


@lru_cache(maxsize=10_000)
def _parts_of_cast(
    shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> tuple[Mapping[str, Attribute], MemRefType[Attribute]]:
    """What a cast to a place consists of, checked once for all casts to the like: a function has hundreds, and it is
    lowered several times.
    """
    type, static = memref(shape, strides), DenseArrayBase.from_list
    base = Block(arg_types=[type]).args[0]
    cast = ReinterpretCastOp(
        base, [], [], [], static(i64, [offset]), static(i64, [*shape]), static(i64, [*strides]), type
    )
    return cast.properties, type


class Memory:
    """Makes operations of ``tile`` at the end of a block."""

    def __init__(self, block: Block):
        self.block = block
        self.lowered: Operation | None = None
        """What is lowered: operations that are like no other are where it is."""
        self._weights: dict[tuple[str, Attribute, int, bool, int, bool], SSAValue] = {}
        self._borders: dict[SSAValue, tuple[int, int, float]] = {}

    def add(self, op: Operation, like: Operation | None = None) -> Operation:
        """Add an operation at the end."""
        source = like or self.lowered
        if source is not None:
            op.location = source.location
        self.block.add_op(op)
        return op

    def weight(
        self,
        symbol: str,
        type: Attribute,
        panel: int = 0,
        transposed: bool = False,
        winograd: int = 0,
        spread: bool = False,
    ) -> SSAValue:
        """A weight of the program, in this order."""
        key = (symbol, type, panel, transposed, winograd, spread)
        if key not in self._weights:
            self._weights[key] = self.add(WeightOp(*key)).results[0]
        return self._weights[key]

    def memref(self, place: Place) -> SSAValue:
        """A place as an operand."""
        if memref(place.shape, place.strides) == place.base.type and place.offset == 0:
            return place.base
        return self.add(cast_of(place)).results[0]

    def buffer(self, shape: Sequence[int]) -> Place:
        """New memory of the arena; rows do not lie a multiple of 4 KiB apart, if there is room for that."""
        strides = [*row_major(shape)]
        if len(shape) > 1 and shape[-2] != 1 and strides[-2] % PAGE == 0 and self.has_room():
            padded = row_major((*shape[:-1], shape[-1] + SPARE))
            strides = [*padded]
        type = memref(shape, strides)
        return Place(self.add(BufferOp(type)).results[0], tuple(shape), tuple(strides))

    def has_room(self) -> bool:
        """Whether rows may lie further apart than they are long."""
        return True

    def copy(self, place: Place, target: Place | None = None, like: Operation | None = None) -> Place:
        """The same elements in memory of their own, side by side."""
        target = target or self.buffer(place.shape)
        region = body_of(1)
        region.block.add_op(YieldOp(region.block.args[0]))
        self.add(MapOp(self.memref(target), [self.memref(place)], region), like)
        return target

    def side_by_side(self, place: Place, like: Operation) -> Place:
        """The place, or a copy of it, whose last dim has elements side by side."""
        return place if place.strides[-1] == 1 or place.shape[-1] == 1 else self.copy(place, like=like)

    def new_image(self, shape: tuple[int, ...], border: tuple[int, int], value: float, *, filled: bool = True) -> Place:
        """New memory for an image with a border of this number, or of nothing that is read."""
        n, c, h, w = shape
        rows, columns = h + 2 * border[0], w + 2 * border[1]
        whole = (n, rows, columns, c)
        base = self.add(BufferOp(memref(whole))).results[0]
        place = Place(base, whole, row_major(whole))
        if filled:
            for dim, extent, size in ((1, rows, border[0]), (2, columns, border[1])):
                for start in (0, extent - size):
                    if size:
                        self.fill(place.sliced(dim, start, size), value)
            self._borders[base] = (*border, value)
        inner = place.sliced(1, border[0], h).sliced(2, border[1], w)
        return inner.permuted([0, 3, 1, 2])

    def fill(self, place: Place, value: float) -> None:
        """One number everywhere."""
        region = body_of(0)
        region.block.add_op(YieldOp(Body(region.block, {}).constant(value)))
        self.add(MapOp(self.memref(place), [], region))

    def with_border(
        self, place: Place, border: tuple[int, int], value: float, like: Operation, *, apart: bool = False
    ) -> Place:
        """The image, or a copy of it, with channels side by side and at least this border of ``value`` around it, as a
        place that begins in the border: (n, h, w, c). Pixels are side by side, too, but where they may be ``apart``.
        """
        n, c, h, w = place.shape
        if (h, w) == (1, 1) and place.strides[1] == 1 and place.base not in self._borders:
            # Strides of dims of length 1 may be any; those of an image in a border are the border's.
            place = Place(place.base, place.shape, (place.strides[0], 1, c, c), place.offset)
        have = self._borders.get(place.base, (0, 0, value))
        fits = is_image(place) and (apart or place.strides[3] == c) and (not any(border) or have[2] == value)
        whole = shape_of(place.base)
        is_all = border == (0, 0) or (len(whole) == 4 and whole[1:3] == (h + 2 * have[0], w + 2 * have[1]))
        if not fits or not is_all or have[0] < border[0] or have[1] < border[1]:
            made = self.new_image(place.shape, border, value)
            self.copy(place, made, like)
            place = made
        last = place.permuted([0, 2, 3, 1])
        offset = last.offset - border[0] * last.strides[1] - border[1] * last.strides[2]
        return Place(last.base, (n, h + 2 * border[0], w + 2 * border[1], c), last.strides, offset)
