"""Operations on images as operations on one row of them: which part of every operand a row needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from etir.backends.native.places import Place
from etir.backends.native.tile import BrgemmOp, DepthwiseOp, MapOp, PoolOp, TemplateOp, shape_of
from etir.backends.native.users import place_of


@dataclass(frozen=True)
class RowPart:
    """What a row needs of ``value``: the dims of ``whole`` after ``lead``, which is 2 for images and rows, or 0 for an
    operand that every row needs.
    """

    value: SSAValue
    whole: Place
    lead: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The dims of the part."""
        return self.whole.shape[self.lead :]

    @property
    def strides(self) -> tuple[int, ...]:
        """Its strides."""
        return self.whole.strides[self.lead :]

    @property
    def steps(self) -> tuple[int, int]:
        """Floats from image to image, and from row to row."""
        if not self.lead:
            return (0, 0)
        (images, rows), (image, row) = self.whole.shape[:2], self.whole.strides[:2]
        return (image if images > 1 else 0, row if rows > 1 else 0)


@dataclass(frozen=True)
class RowOf:
    """An operation on ``extents``, images and rows of its result; ``operands`` are the parts of its own, in order."""

    op: TemplateOp
    extents: tuple[int, int]
    operands: tuple[RowPart, ...]

    @property
    def written(self) -> RowPart:
        """The part that is the row of the result."""
        (value,) = self.op.writes()
        return next(part for part in self.operands if part.value is value)

    def on(self, values: Sequence[SSAValue]) -> TemplateOp:
        """The operation on parts, one for each operand."""
        made = self.op.clone()
        for index, value in enumerate(values):
            made.operands[index] = value
        made.location = self.op.location
        return made


def pixels(op: TemplateOp) -> Place | None:
    """What an operation writes as [images, rows, columns, channels], if it says so itself."""
    written = place_of(op.writes()[0])
    if len(written.shape) != 4:
        return None
    return written.permuted([0, 2, 3, 1]) if isinstance(op, MapOp) and written.strides[1] == 1 else written


def row_of(op: TemplateOp, like: Sequence[int] | None = None, *, is_planes: bool = False) -> RowOf | None:
    """The rows of an operation, or None where its result is no image of rows; ``like`` are its images, rows and
    columns, where they are known and may be one dim. ``is_planes`` says that the dims of a map are [images, channels,
    rows, columns], wherever its result has its channels.
    """
    written = pixels(op)
    if is_planes:
        out = place_of(op.writes()[0])
        written = out.permuted([0, 2, 3, 1]) if isinstance(op, MapOp) and len(out.shape) == 4 else None
    dims = like if written is None else written.shape[:3]
    if dims is None or (like is not None and tuple(like) != dims):
        return None
    images, rows, columns = dims
    parts: list[RowPart] = []
    for number, value in enumerate(op.operands):
        place = place_of(value)
        lead = 2
        found: Place | None = None
        if isinstance(op, MapOp):
            found = _permuted(place, op, is_planes=is_planes)
        elif isinstance(op, BrgemmOp) and number == 1:
            found = place
            depth = len(shape_of(op.c)) - 2
            if any(place.strides[:depth]):
                return None
            found, lead = Place(place.base, place.shape[depth:], place.strides[depth:], place.offset), 0
        elif isinstance(op, DepthwiseOp) and number == 1:
            found, lead = place, 0
        elif isinstance(op, BrgemmOp) and len(place.shape) == 2:
            found = place.viewed((images, rows, columns, place.shape[1]))
        elif isinstance(op, (BrgemmOp, DepthwiseOp, PoolOp)) and len(place.shape) >= 4:
            found = place
        if found is None or (lead and found.shape[:2] != (images, rows)):
            return None
        parts.append(RowPart(value, found, lead))
    return RowOf(op, (images, rows), tuple(parts))


def _permuted(place: Place, op: MapOp, *, is_planes: bool) -> Place | None:
    """An operand of a map, as :func:`pixels` has the result."""
    if len(place.shape) != 4:
        return None
    return place.permuted([0, 2, 3, 1]) if is_planes or place_of(op.out).strides[1] == 1 else place
