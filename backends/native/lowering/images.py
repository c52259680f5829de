"""Convolutions of images. Images have their channels side by side; one of a row alone has its columns there.

A window of a convolution whose columns lie side by side is one run of its channels: the product's depth. Where they do
not (dilated windows, groups of channels, transposed convolutions, parts of what is joined) every column
of the window is a tap of its own.

A transposed convolution is several convolutions: the rows (and columns) of its result that have the same remainder when
divided by the stride are one, with every ``stride``-th tap of the window, read backwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Region, SSAValue

from etir.backends.native.asked import saves
from etir.backends.native.body import Body
from etir.backends.native.dialect import GroupOp
from etir.backends.native.inside import DepthwiseInsideOp, Steps
from etir.backends.native.lowering.function import Lowering, Outside, body, lowers, members, shape
from etir.backends.native.lowering.shuffle import pieces, shuffle_after
from etir.backends.native.lowering.winograd import REASON, lower_winograd
from etir.backends.native.memory import is_image
from etir.backends.native.places import Place
from etir.backends.native.shared import SHARED
from etir.backends.native.sizes import most
from etir.backends.native.tile import (
    BrgemmOp,
    DepthwiseOp,
    YieldOp,
    body_of,
    memref,
    row_major,
)
from etir.backends.native.unjoined import adding
from etir.backends.native.windows import (
    Edge,
    Phase,
    Window,
    as_image,
    border_for,
    can_be_cut,
    cut_phases,
    edges_of,
    phases,
    window_of,
)
from etir.dialects.copying import copy_of_region
from etir.dialects.schema_op import SchemaOp


@dataclass
class _Convolution:
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
        found = _by_taps(filters, self.weight[1], batch)
        return self.of_part(found, len(found.shape) - 2)

    def of_part(self, filters: Place, dim: int) -> Place:
        """The weight of the channels that are multiplied."""
        return filters if self.channels is None else filters.sliced(dim, *self.channels)

    def bordered(self, source: Place) -> Place:
        """The image [n, h, w, c] with the border that its windows read, from the first element that one does."""
        border, _ = border_for(self.root)
        x = in_border(self.lowering, source, border, 0.0, self.root)
        top, left = (b - p for b, p in zip(border, self.window.padding, strict=True))
        return Place(x.base, x.shape, x.strides, x.offset + top * x.strides[1] + left * x.strides[2])

    def operands(self, places: Sequence[Place]) -> list[SSAValue]:
        """Extra operands."""
        return [self.lowering.memref(p) for p in places]


@lowers("depthwise", "grouped", "convolution")
def lower_convolution(lowering: Lowering, group: GroupOp, outside: Outside) -> None:
    """One product or several, or a window for each channel."""
    some = members(group)
    root = some[0]
    weight = outside[root.arg("weight")]
    window = window_of(root)
    bias = root.arg("bias")
    extras = lowering.extras(group, [], some[1:])
    result = group.outputs[0]
    first = 1 + (bias is not None)

    def after(made: Body, args: Sequence[SSAValue]) -> SSAValue:
        return args[0] if bias is None else made.add(args[0], args[1])

    def found(target: Place, places: list[Place], piece: int = 0, pieces: int = 0) -> _Convolution:
        values = {v: i for i, v in enumerate(extras, first)}
        region = body(values, first + len(extras), some[1:], root.results[0], after)
        symbol = lowering.weights[weight]
        return _Convolution(lowering, group, root, window, symbol, shape(weight), target, places, region, piece, pieces)

    if (shuffle := shuffle_after(lowering, group, outside)) is not None:
        source = _with_own_border(lowering, root, as_image(lowering.place(outside[root.arg("input")])))
        beside = None if bias is None else outside[bias]
        parts = [*pieces(lowering, shuffle, beside, [outside[v] for v in extras])]
        for number, (target, places) in enumerate(parts):
            _plain(found(target, places, piece=number, pieces=len(parts)), source)
        return
    target = as_image(lowering.image(result)).permuted([0, 2, 3, 1])
    # A bias lies along channels; the same tensor as an operand of what follows lies along the last dim.
    places = [] if bias is None else [lowering.place(outside[bias]).broadcast(target.shape)]
    for value in extras:
        place = lowering.place(outside[value])
        place = as_image(place.broadcast(shape(result))).permuted([0, 2, 3, 1])
        places.append(place if place.strides[-1] in (0, 1) else lowering.copy(place, like=root))
    one = found(target, places)
    join = outside[root.arg("input")].owner
    if isinstance(join, SchemaOp) and lowering.is_unjoined(join):
        _unjoined(one, [as_image(lowering.place(part)) for part in join.arg("tensors")])
        return
    source = as_image(lowering.place(outside[root.arg("input")]))
    if window.transposed:
        _transposed(one, source)
    elif group.kind.data == "depthwise":
        _depthwise(one, source)
    elif group.kind.data == "grouped":
        _small_groups(one, source)
    else:
        _plain(one, source)


def in_border(lowering: Lowering, source: Place, border: tuple[int, int], value: float, root: SchemaOp) -> Place:
    """The image [n, h, w, c] that windows are read of, in its border. Pixels that are a part of those of a join are
    read where they lie if memory is short, and copied if not: products have a window's columns as their depth then.
    """
    apart = is_image(source) and source.strides[3] != source.shape[1] and saves(lowering.func, SHARED)
    return lowering.with_border(source, border, value, root, apart=apart)


def _with_own_border(lowering: Lowering, root: SchemaOp, source: Place) -> Place:
    """The image in the border that a convolution reads, so that several products make no copies of it."""
    top, left = (0, 0) if lowering.is_cut(root) else border_for(root)[0]
    _, _, h, w = source.shape
    whole = lowering.with_border(source, (top, left), 0.0, root)
    return whole.sliced(1, top, h).sliced(2, left, w).permuted([0, 3, 1, 2])


def _depthwise(found: _Convolution, source: Place) -> None:
    lowering, window = found.lowering, found.window
    n, h, w, c = found.target.shape
    kh, kw = window.whole
    flat = lowering.weight(found.symbol, memref((1, kh * kw, c)), c, True)
    taps = Place(flat, (kh, kw, c), row_major((kh, kw, c)))
    (kh, kw), (top, left) = window.size, window.skipped
    b = lowering.memref(taps.sliced(0, top, kh).sliced(1, left, kw))
    if lowering.is_cut(found.root):
        _inside(found, source, b)
        return
    operands = found.operands(found.extras)
    a = windows_in(found.bordered(source), (n, h, w, kh, kw, c), window)
    op = DepthwiseOp(lowering.memref(a), b, lowering.memref(found.target), operands, found.region)
    lowering.add(op, found.group)


def _small_groups(found: _Convolution, source: Place) -> None:
    """A window for each group of channels: one panel has all channels of the result."""
    lowering, window = found.lowering, found.window
    out, inner = found.weight[:2]
    kh, kw = window.whole
    flat = lowering.weight(found.symbol, memref((kh, 1, kw * inner, out)), out, True)
    dims = (kh, kw, inner, out)
    (kh, kw), (top, left) = window.size, window.skipped
    taps = Place(flat, dims, row_major(dims)).sliced(0, top, kh).sliced(1, left, kw)
    _inside(found, source, lowering.memref(taps))


def _inside(found: _Convolution, source: Place, taps: SSAValue) -> None:
    """Windows of an image without a border."""
    lowering, window = found.lowering, found.window
    x = lowering.memref(in_border(lowering, source, (0, 0), 0.0, found.root))
    steps = Steps(window.stride, window.padding, window.dilation)
    target, operands = lowering.memref(found.target), found.operands(found.extras)
    lowering.add(DepthwiseInsideOp(x, taps, target, operands, steps, found.region), found.group)


def windows_in(x: Place, dims: tuple[int, ...], window: Window) -> Place:
    """Windows [n, h, w, rows, columns, c] of an image."""
    batch, row, column, channel = x.strides
    (sy, sx), (dy, dx) = window.stride, window.dilation
    return Place(x.base, dims, (batch, sy * row, sx * column, dy * row, dx * column, channel), x.offset)


def _plain(found: _Convolution, source: Place) -> None:
    lowering, window = found.lowering, found.window
    against = lowering.against_winograd(found.group)
    if against is None:
        weight = (found.symbol, lowering.panel)
        lower_winograd(lowering, found.root, source, weight, found.target, found.extras, found.region)
        return
    if lowering.is_cut(found.root) or (found.channels is not None and can_be_cut(found.root)):
        x = in_border(lowering, source, (0, 0), 0.0, found.root)
        ways = edges_of(window, found.target.shape[1:3], x.shape[1:3])
        if window.groups > 1:
            _grouped(found, x, ways)
        else:
            _cut(found, x, ways)
        return
    if _is_read_as_it_lies(found, source):
        _by_lines(found, source, against)
        return
    x = found.bordered(source)
    n, h, w, out = found.target.shape
    c = x.shape[3]
    panels = -(-(out // window.groups) // lowering.panel)
    batch, row, column, _ = x.strides
    (kh, kw), (sy, sx), (dy, dx) = window.size, window.stride, window.dilation
    if window.groups > 1:
        _grouped(found, x, ([Edge(0, h, 0, kh, 0)], [Edge(0, w, 0, kw, 0)]))
    elif (kh, kw) == (1, 1):
        a = Place(x.base, (n, h, w, c), (batch, sy * row, sx * column, 1), x.offset)
        filters = found.of_part(found.filters(panels).selected(0, 0), 1)
        merged = [p.viewed((n * h * w, p.shape[-1])) for p in (a, found.target, *found.extras)]
        if all(p is not None for p in merged):
            a, target, *extras = cast("list[Place]", merged)
        else:
            filters = _for_lines(filters, n, h)
            target, extras = found.target, found.extras
        _product(found, a, lowering.memref(filters), target, extras)
    else:
        filters = found.filters(panels)
        if dx == 1 and column == c and found.channels is None:
            order = _order(n, h, w)
            dims = (n, h, w), (batch, sy * row, sx * column)
            (first, second, rows), steps = ([of[d] for d in order] for of in dims)
            a = Place(x.base, (first, second, kh, rows, kw * c), (*steps[:2], dy * row, steps[2], 1), x.offset)
            b = _for_lines(filters, first, second)
            target, *extras = (p.permuted([*order, 3]) for p in (found.target, *found.extras))
            _product(found, a, lowering.memref(b), target, extras, (kh,), against)
            return
        a = Place(x.base, (n, h, kh, kw, w, c), (batch, sy * row, dy * row, dx * column, sx * column, 1), x.offset)
        b = found.taps(filters, (n, h))
        _product(found, a, lowering.memref(b), found.target, found.extras, (kh, kw))


def _unjoined(found: _Convolution, parts: Sequence[Place]) -> None:
    """One product after another of images that are not joined, each of which adds to the one before."""
    before: list[Place] = []
    first = 0
    for part in parts:
        is_last = part is parts[-1]
        extras, region = (found.extras, found.region) if is_last else ([], identity())
        if before:
            region = adding(region)
        target = found.target if is_last else found.lowering.dense_buffer(found.target.shape)
        made = replace(found, target=target, extras=[*extras, *before], region=region)
        made.channels = first, part.shape[1]
        _plain(made, part)
        before, first = [target], first + part.shape[1]


LEAST_RUN = 4
"""Columns of a window that are a product's depth by themselves: with less of them, a copy of the image is quicker."""


def _is_read_as_it_lies(found: _Convolution, source: Place) -> bool:
    """Whether windows are read of an image whose columns lie side by side, as a program is given one: without a border
    the runs of a window's columns are there, one for each channel and row of it.
    """
    window, no_border = found.window, not any(border_for(found.root)[0])
    is_run = source.strides[3] == 1 and source.shape[1] > 1 and window.size[1] >= LEAST_RUN and window.dilation[1] == 1
    return is_run and no_border and window.groups == 1 and not found.pieces and found.channels is None


def _by_lines(found: _Convolution, source: Place, direct: str) -> None:
    """A product with a tap for each channel and row of a window, and the window's columns as its depth. Patches of an
    image, which a transformer begins with, are products of that kind, without a copy that is larger than what follows.
    """
    lowering, window, panel = found.lowering, found.window, found.lowering.panel
    n, h, w, out = found.target.shape
    c, panels = source.shape[1], -(-out // panel)
    batch, channel, row, _ = source.strides
    (kh, kw), (rows, columns), (sy, sx), (top, left) = window.size, window.whole, window.stride, window.skipped
    start = source.offset - window.padding[0] * row - window.padding[1]
    steps = (batch, sy * row, channel, window.dilation[0] * row, sx, 1)
    a = Place(source.base, (n, h, c, kh, w, kw), steps, start)
    dense = (panels, c * rows * columns, panel)
    filters = lowering.weight(found.symbol, memref(dense), panel, True)
    steps = (0, 0, rows * columns * panel, columns * panel, dense[1] * panel, panel, 1)
    b = Place(filters, (n, h, c, kh, panels, kw, panel), steps, (top * columns + left) * panel)
    _product(found, a, lowering.memref(b), found.target, found.extras, (c, kh), direct)


def _order(n: int, h: int, w: int) -> tuple[int, int, int]:
    """The dims of images [n, h, w], those that are rows of a product last: a line's columns, or the columns of lines of
    one element, or images of one.
    """
    if w != 1 or (h == 1 and n == 1):
        return 0, 1, 2
    return (0, 2, 1) if h != 1 else (1, 2, 0)


def _for_lines(filters: Place, n: int, h: int) -> Place:
    """The same panels for every line of every image."""
    return Place(filters.base, (n, h, *filters.shape), (0, 0, *filters.strides), filters.offset)


def _cut(found: _Convolution, x: Place, ways: tuple[list[Edge], list[Edge]]) -> None:
    """Products of the taps that are in the image: one for each part of the result that has the same ones."""
    lowering, window = found.lowering, found.window
    n, h, w, out = found.target.shape
    c = x.shape[3]
    batch, row, column, _ = x.strides
    (sy, sx), (dy, dx) = window.stride, window.dilation
    panels = -(-out // lowering.panel)
    filters = found.filters(panels)
    tap_row, *within = filters.strides
    if dx != 1 or column != c or found.channels is not None:
        _cut_apart(found, x, filters, ways)
        return
    for y in ways[0]:
        for z in ways[1]:
            weights = Place(
                filters.base,
                (n, y.count, y.taps, panels, z.taps * c, lowering.panel),
                (0, 0, tap_row, *within),
                filters.offset + y.tap * tap_row + z.tap * c * lowering.panel,
            )
            start = x.offset + y.start * row + z.start * column
            # The longer side is the rows of the product.
            is_tall = most(z.count) < most(y.count)
            order = (0, 2, 1) if is_tall else _order(n, y.count, z.count)
            dims = (n, y.count, z.count), (batch, sy * row, sx * column)
            (first, second, rows), steps = ([of[d] for d in order] for of in dims)
            a = Place(x.base, (first, second, y.taps, rows, z.taps * c), (*steps[:2], dy * row, steps[2], 1), start)
            weights = Place(weights.base, (first, second, *weights.shape[2:]), weights.strides, weights.offset)

            def part(place: Place, y: Edge = y, z: Edge = z, order: tuple[int, int, int] = order) -> Place:
                return place.sliced(1, y.first, y.count).sliced(2, z.first, z.count).permuted([*order, 3])

            extras = [part(e) for e in found.extras]
            _product(found, a, lowering.memref(weights), part(found.target), extras, (y.taps,))


def _cut_apart(found: _Convolution, x: Place, filters: Place, ways: tuple[list[Edge], list[Edge]]) -> None:
    """As :func:`_cut` where the columns of a window lie apart, so that each of them is a tap."""
    lowering, window = found.lowering, found.window
    n, c = x.shape[0], x.shape[3]
    batch, row, column, _ = x.strides
    (sy, sx), (dy, dx) = window.stride, window.dilation
    for y in ways[0]:
        for z in ways[1]:
            dims = (n, y.count, y.taps, z.taps, z.count, c)
            start = x.offset + y.start * row + z.start * column
            a = Place(x.base, dims, (batch, sy * row, dy * row, dx * column, sx * column, 1), start)
            b = found.taps(filters, (n, y.count)).sliced(2, y.tap, y.taps).sliced(3, z.tap, z.taps)

            def part(place: Place, y: Edge = y, z: Edge = z) -> Place:
                return place.sliced(1, y.first, y.count).sliced(2, z.first, z.count)

            extras = [part(e) for e in found.extras]
            _product(found, a, lowering.memref(b), part(found.target), extras, (y.taps, z.taps))


def _by_taps(filters: Place, c: int, batch: tuple[int, ...]) -> Place:
    """Packed windows [rows, panels, columns c, panel] with a dim of columns: [..., rows, columns, panels, c, panel]."""
    kh, panels, depth, panel = filters.shape
    row, panel_step, _, _ = filters.strides
    strides = (*[0] * len(batch), row, c * panel, panel_step, panel, 1)
    return Place(filters.base, (*batch, kh, depth // c, panels, c, panel), strides, filters.offset)


def _grouped(found: _Convolution, x: Place, ways: tuple[list[Edge], list[Edge]]) -> None:
    """Groups of channels are a batch; a column of the window is a tap, since the channels of a group end there. A
    product for each part of the result whose windows have the same taps.
    """
    lowering, window = found.lowering, found.window
    groups, (kh, kw), (sy, sx), (dy, dx) = window.groups, window.whole, window.stride, window.dilation
    n, _, _, out = found.target.shape
    c, batch, row, column = x.shape[3] // groups, *x.strides[:3]
    panels = -(-(out // groups) // lowering.panel)
    dense = (groups, kh, panels, kw * c, lowering.panel)
    packed = lowering.weight(found.symbol, memref(dense), lowering.panel, True)
    whole = Place(packed, dense[1:], row_major(dense[1:]))
    top, left = window.skipped

    def by_group(place: Place) -> Place:
        dims = (*place.shape[:3], groups, out // groups)
        apart = place.viewed(dims) or lowering.dense(place, found.root).viewed(dims)
        assert apart is not None
        return apart.permuted([3, 0, 1, 2, 4])

    target, *extras = (by_group(place) for place in (found.target, *found.extras))
    for y in ways[0]:
        for z in ways[1]:
            taps = _by_taps(whole, c, (groups, n, y.count))
            taps = taps.sliced(3, top + y.tap, y.taps).sliced(4, left + z.tap, z.taps)
            a = Place(
                x.base,
                (groups, n, y.count, y.taps, z.taps, z.count, c),
                (c, batch, sy * row, dy * row, dx * column, sx * column, 1),
                x.offset + y.start * row + z.start * column,
            )
            b = Place(packed, taps.shape, (row_major(dense)[0], *taps.strides[1:]), taps.offset)

            def part(place: Place, y: Edge = y, z: Edge = z) -> Place:
                return place.sliced(2, y.first, y.count).sliced(3, z.first, z.count)

            _product(found, a, lowering.memref(b), part(target), [part(e) for e in extras], (y.taps, z.taps))


def _product(
    found: _Convolution,
    a: Place,
    b: SSAValue,
    c: Place,
    extras: Sequence[Place],
    taps: Sequence[int] = (),
    direct: str = "",
) -> None:
    """Add a product; ``direct`` says why it is not by Winograd's algorithm."""
    lowering = found.lowering
    operands = found.operands(extras)
    region = copy_of_region(found.region)
    made = BrgemmOp(lowering.memref(a), b, lowering.memref(c), operands, region, taps)
    if direct:
        made.attributes[REASON] = StringAttr(direct)
    lowering.add(made, found.group)


# --- transposed convolutions ------------------------------------------------------------------------------------------


def _transposed(found: _Convolution, source: Place) -> None:
    lowering, window = found.lowering, found.window
    n, h, w, out = found.target.shape
    c = source.shape[1]
    ways = phases(window, (h, w))
    border, _ = border_for(found.root)
    if lowering.is_cut(found.root):
        ways, border = cut_phases(window, (h, w), source.shape[2:]), (0, 0)
    x = in_border(lowering, source, border, 0.0, found.root)
    batch, row, column, _ = x.strides
    panels = -(-out // lowering.panel)
    dense = (window.size[0], panels, window.size[1] * c, lowering.panel)
    packed = lowering.weight(found.symbol, memref(dense), lowering.panel, False)
    whole = _by_taps(Place(packed, dense, row_major(dense)), c, (n, 1))
    (sy, sx) = window.stride
    for y in ways[0]:
        for z in ways[1]:
            dims = (n, y.count, y.taps, z.taps, z.count, c)
            start = x.offset + (border[0] + y.start) * row + (border[1] + z.start) * column
            a = Place(x.base, dims, (batch, row, -row, -column, column, 1), start)
            b = whole.sliced(2, y.tap, y.taps, sy).sliced(3, z.tap, z.taps, sx)
            b = Place(b.base, (n, y.count, *b.shape[2:]), b.strides, b.offset)

            def part(place: Place, y: Phase = y, z: Phase = z) -> Place:
                return place.sliced(1, y.first, y.count, sy).sliced(2, z.first, z.count, sx)

            extras = [part(e) for e in found.extras]
            _product(found, a, lowering.memref(b), part(found.target), extras, (y.taps, z.taps))


def identity() -> Region:
    """A body that is its argument."""
    region = body_of(1)
    region.block.add_op(YieldOp(region.block.args[0]))
    return region
