"""A convolution while it is lowered: its window, its memory, and products that are made of them.

The image has its channels side by side, but where products read planes as they lie (``planes`` of the savings): the
depth of a product may be elements that lie apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Region, SSAValue

from etir.backends.native.asked import saves
from etir.backends.native.dialect import GroupOp
from etir.backends.native.functions import PLANES
from etir.backends.native.lowering.function import Lowering
from etir.backends.native.lowering.planes import reads_planes
from etir.backends.native.lowering.winograd import REASON
from etir.backends.native.memory import is_image
from etir.backends.native.places import Place
from etir.backends.native.shared import SHARED
from etir.backends.native.tile import BrgemmOp, memref, row_major
from etir.backends.native.windows import Window, border_for
from etir.dialects.copying import copy_of_region
from etir.dialects.schema_op import SchemaOp


@dataclass
class Convolution:
    """A convolution while it is lowered: its window, its memory, what follows it."""

    lowering: Lowering
    group: GroupOp
    root: SchemaOp
    window: Window
    symbol: str
    weight: tuple[int, ...]
    target: Place
    extras: list[Place]
    region: Region
    piece: int = 0
    pieces: int = 0
    """Where its result is for a pixel shuffle, which pixels of a square are made, of how many; 0 for all channels."""
    channels: tuple[int, int] | None = None
    """Where the image is one of several that are not joined, its first channel in the whole, and how many it has."""

    def filters(self, panels: int) -> Place:
        """The weight in panels: [rows, panels, columns c, panel] of the window's taps."""
        lowering, (kh, kw), c = self.lowering, self.window.whole, self.weight[1]
        dense = (panels, c, lowering.panel) if (kh, kw) == (1, 1) else (kh, panels, kw * c, lowering.panel)
        whole = (self.pieces, *[1] * (4 - len(dense)), *dense) if self.pieces else dense
        spread = self.pieces > 0
        base = lowering.weight(self.symbol, memref(whole), lowering.panel, True, spread=spread)
        dims = (kh, panels, kw * c, lowering.panel)
        found = Place(base, dims, row_major(dims), self.piece * math.prod(dims))
        (rows, columns), (top, left) = self.window.size, self.window.skipped
        return found.sliced(0, top, rows).sliced(2, left * c, columns * c)

    def taps(self, filters: Place, batch: tuple[int, ...]) -> Place:
        """The same by taps: [..., rows, columns, panels, c, panel]."""
        found = by_taps(filters, self.weight[1], batch)
        return self.of_part(found, len(found.shape) - 2)

    def of_part(self, filters: Place, dim: int) -> Place:
        """The weight of the channels that are multiplied."""
        return filters if self.channels is None else filters.sliced(dim, *self.channels)

    def bordered(self, source: Place) -> Place:
        """The image [n, h, w, c] with the border that its windows read, from the first element that one does."""
        border, _ = border_for(self.root)
        x = self.image(source, border)
        top, left = (b - p for b, p in zip(border, self.window.padding, strict=True))
        return Place(x.base, x.shape, x.strides, x.offset + top * x.strides[1] + left * x.strides[2])

    def image(self, source: Place, border: tuple[int, int] = (0, 0)) -> Place:
        """The image [n, h, w, c] in a border, or as planes that a product reads where they are."""
        if border != (0, 0) or is_image(source) or not reads_planes(self.lowering, self.group):
            return in_border(self.lowering, source, border, 0.0, self.root)
        x = source.permuted([0, 2, 3, 1])
        return x if x.shape[3] != 1 else Place(x.base, x.shape, (*x.strides[:3], 1), x.offset)

    def operands(self, places: Sequence[Place]) -> list[SSAValue]:
        """Extra operands."""
        return [self.lowering.memref(p) for p in places]


def goes_by_rows(lowering: Lowering, source: Place) -> bool:
    """Whether rows of planes are copied while windows move on (``tile-rows``): no border takes memory then, but those
    of parts would, each of which reads the whole image.
    """
    return not is_image(source) and saves(lowering.func, PLANES)


def in_border(lowering: Lowering, source: Place, border: tuple[int, int], value: float, root: SchemaOp) -> Place:
    """The image [n, h, w, c] that windows are read of, in its border. Pixels that are a part of those of a join are
    read where they lie if memory is short, and copied if not: products have a window's columns as their depth then.
    """
    apart = is_image(source) and source.strides[3] != source.shape[1] and saves(lowering.func, SHARED)
    return lowering.with_border(source, border, value, root, apart=apart)


def windows_in(x: Place, dims: tuple[int, ...], window: Window) -> Place:
    """Windows [n, h, w, rows, columns, c] of an image."""
    batch, row, column, channel = x.strides
    (sy, sx), (dy, dx) = window.stride, window.dilation
    return Place(x.base, dims, (batch, sy * row, sx * column, dy * row, dx * column, channel), x.offset)


def for_lines(filters: Place, n: int, h: int) -> Place:
    """The same panels for every line of every image."""
    return Place(filters.base, (n, h, *filters.shape), (0, 0, *filters.strides), filters.offset)


def by_taps(filters: Place, c: int, batch: tuple[int, ...]) -> Place:
    """Packed windows [rows, panels, columns c, panel] with a dim of columns: [..., rows, columns, panels, c, panel]."""
    kh, panels, depth, panel = filters.shape
    row, panel_step, _, _ = filters.strides
    strides = (*[0] * len(batch), row, c * panel, panel_step, panel, 1)
    return Place(filters.base, (*batch, kh, depth // c, panels, c, panel), strides, filters.offset)


def product(
    found: Convolution,
    a: Place,
    b: SSAValue,
    c: Place,
    extras: Sequence[Place],
    taps: Sequence[int] = (),
) -> None:
    """Add a product, which says why it is not by Winograd's algorithm if its windows are of 3x3."""
    lowering = found.lowering
    operands = found.operands(extras)
    region = copy_of_region(found.region)
    made = BrgemmOp(lowering.memref(a), b, lowering.memref(c), operands, region, taps)
    if direct := lowering.against_winograd(found.group):
        made.attributes[REASON] = StringAttr(direct)
    lowering.add(made, found.group)
