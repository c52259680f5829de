"""Convolutions of images. Images have their channels side by side; one of a row alone has its columns there.

A window of a convolution whose columns lie side by side is one run of its channels: the product's depth. Where they do
not (dilated windows, groups of channels, transposed convolutions, parts of what is joined) every column
of the window is a tap of its own.

A transposed convolution is several convolutions: the rows (and columns) of its result that have the same remainder when
divided by the stride are one, with every ``stride``-th tap of the window, read backwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from xdsl.ir import SSAValue

from etir.backends.native.body import Body
from etir.backends.native.dialect import GroupOp
from etir.backends.native.inside import DepthwiseInsideOp, Steps
from etir.backends.native.lowering.convolution import (
    Convolution,
    by_taps,
    for_lines,
    goes_by_rows,
    in_border,
    product,
    windows_in,
)
from etir.backends.native.lowering.function import Lowering, Outside, body, lowers, members, shape
from etir.backends.native.lowering.planes import planes_for, reads_planes
from etir.backends.native.lowering.shuffle import pieces, shuffle_after
from etir.backends.native.lowering.winograd import lower_winograd
from etir.backends.native.places import Place
from etir.backends.native.sizes import most
from etir.backends.native.tile import (
    DepthwiseOp,
    identity,
    memref,
    row_major,
)
from etir.backends.native.unjoined import adding
from etir.backends.native.windows import (
    Edge,
    Phase,
    as_image,
    border_for,
    can_be_cut,
    cut_phases,
    edges_of,
    phases,
    window_of,
)
from etir.dialects.schema_op import SchemaOp


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

    def found(target: Place, places: list[Place], piece: int = 0, pieces: int = 0) -> Convolution:
        values = {v: i for i, v in enumerate(extras, first)}
        region = body(values, first + len(extras), some[1:], root.results[0], after)
        symbol = lowering.weights[weight]
        return Convolution(lowering, group, root, window, symbol, shape(weight), target, places, region, piece, pieces)

    if (shuffle := shuffle_after(lowering, group, outside)) is not None:
        source = _with_own_border(lowering, root, as_image(lowering.place(outside[root.arg("input")])))
        beside = None if bias is None else outside[bias]
        parts = [*pieces(lowering, shuffle, beside, [outside[v] for v in extras])]
        for number, (target, places) in enumerate(parts):
            _plain(found(target, places, piece=number, pieces=len(parts)), source)
        return
    target = as_image(planes_for(lowering, group) or lowering.image(result)).permuted([0, 2, 3, 1])
    # A bias lies along channels; the same tensor as an operand of what follows lies along the last dim.
    places = [] if bias is None else [lowering.place(outside[bias]).broadcast(target.shape)]
    for value in extras:
        place = lowering.place(outside[value])
        place = as_image(place.broadcast(shape(result))).permuted([0, 2, 3, 1])
        is_apart = place.strides[-1] not in (0, 1) and not reads_planes(lowering, group)
        places.append(lowering.copy(place, like=root) if is_apart else place)
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


def _with_own_border(lowering: Lowering, root: SchemaOp, source: Place) -> Place:
    """The image in the border that a convolution reads, so that several products make no copies of it."""
    top, left = (0, 0) if lowering.is_cut(root) else border_for(root)[0]
    _, _, h, w = source.shape
    whole = lowering.with_border(source, (top, left), 0.0, root)
    return whole.sliced(1, top, h).sliced(2, left, w).permuted([0, 3, 1, 2])


def _depthwise(found: Convolution, source: Place) -> None:
    lowering, window = found.lowering, found.window
    n, h, w, c = found.target.shape
    kh, kw = window.whole
    flat = lowering.weight(found.symbol, memref((1, kh * kw, c)), c, True)
    taps = Place(flat, (kh, kw, c), row_major((kh, kw, c)))
    (kh, kw), (top, left) = window.size, window.skipped
    b = lowering.memref(taps.sliced(0, top, kh).sliced(1, left, kw))
    if lowering.is_cut(found.root) and not goes_by_rows(lowering, source):
        _inside(found, source, b)
        return
    operands = found.operands(found.extras)
    a = windows_in(found.bordered(source), (n, h, w, kh, kw, c), window)
    op = DepthwiseOp(lowering.memref(a), b, lowering.memref(found.target), operands, found.region)
    lowering.add(op, found.group)


def _small_groups(found: Convolution, source: Place) -> None:
    """A window for each group of channels: one panel has all channels of the result."""
    lowering, window = found.lowering, found.window
    out, inner = found.weight[:2]
    kh, kw = window.whole
    flat = lowering.weight(found.symbol, memref((kh, 1, kw * inner, out)), out, True)
    dims = (kh, kw, inner, out)
    (kh, kw), (top, left) = window.size, window.skipped
    taps = Place(flat, dims, row_major(dims)).sliced(0, top, kh).sliced(1, left, kw)
    _inside(found, source, lowering.memref(taps))


def _inside(found: Convolution, source: Place, taps: SSAValue) -> None:
    """Windows of an image without a border."""
    lowering, window = found.lowering, found.window
    x = lowering.memref(in_border(lowering, source, (0, 0), 0.0, found.root))
    steps = Steps(window.stride, window.padding, window.dilation)
    target, operands = lowering.memref(found.target), found.operands(found.extras)
    lowering.add(DepthwiseInsideOp(x, taps, target, operands, steps, found.region), found.group)


def _plain(found: Convolution, source: Place) -> None:
    lowering, window = found.lowering, found.window
    if lowering.against_winograd(found.group) is None:
        weight = (found.symbol, lowering.panel)
        lower_winograd(lowering, found.root, source, weight, found.target, found.extras, found.region)
        return
    if lowering.is_cut(found.root) or (found.channels is not None and can_be_cut(found.root)):
        x = found.image(source)
        ways = edges_of(window, found.target.shape[1:3], x.shape[1:3])
        if window.groups > 1:
            _grouped(found, x, ways)
        else:
            _cut(found, x, ways)
        return
    if _is_read_as_it_lies(found, source):
        _by_lines(found, source)
        return
    x = found.bordered(source)
    n, h, w, out = found.target.shape
    c = x.shape[3]
    panels = -(-(out // window.groups) // lowering.panel)
    batch, row, column, channel = x.strides
    (kh, kw), (sy, sx), (dy, dx) = window.size, window.stride, window.dilation
    if window.groups > 1:
        _grouped(found, x, ([Edge(0, h, 0, kh, 0)], [Edge(0, w, 0, kw, 0)]))
    elif (kh, kw) == (1, 1):
        a = Place(x.base, (n, h, w, c), (batch, sy * row, sx * column, channel), x.offset)
        filters = found.of_part(found.filters(panels).selected(0, 0), 1)
        merged = [p.viewed((n * h * w, p.shape[-1])) for p in (a, found.target, *found.extras)]
        if all(p is not None for p in merged):
            a, target, *extras = cast("list[Place]", merged)
        else:
            filters = for_lines(filters, n, h)
            target, extras = found.target, found.extras
        product(found, a, lowering.memref(filters), target, extras)
    else:
        filters = found.filters(panels)
        if dx == 1 and column == c and channel == 1 and found.channels is None:
            order = _order(n, h, w)
            dims = (n, h, w), (batch, sy * row, sx * column)
            (first, second, rows), steps = ([of[d] for d in order] for of in dims)
            a = Place(x.base, (first, second, kh, rows, kw * c), (*steps[:2], dy * row, steps[2], 1), x.offset)
            b = for_lines(filters, first, second)
            target, *extras = (p.permuted([*order, 3]) for p in (found.target, *found.extras))
            product(found, a, lowering.memref(b), target, extras, (kh,))
            return
        steps = batch, sy * row, dy * row, dx * column, sx * column, channel
        a = Place(x.base, (n, h, kh, kw, w, c), steps, x.offset)
        b = found.taps(filters, (n, h))
        product(found, a, lowering.memref(b), found.target, found.extras, (kh, kw))


def _unjoined(found: Convolution, parts: Sequence[Place]) -> None:
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


def _is_read_as_it_lies(found: Convolution, source: Place) -> bool:
    """Whether windows are read of an image whose columns lie side by side, as a program is given one: without a border
    the runs of a window's columns are there, one for each channel and row of it.
    """
    window, no_border = found.window, not any(border_for(found.root)[0])
    is_run = source.strides[3] == 1 and source.shape[1] > 1 and window.size[1] >= LEAST_RUN and window.dilation[1] == 1
    return is_run and no_border and window.groups == 1 and not found.pieces and found.channels is None


def _by_lines(found: Convolution, source: Place) -> None:
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
    product(found, a, lowering.memref(b), found.target, found.extras, (c, kh))


def _order(n: int, h: int, w: int) -> tuple[int, int, int]:
    """The dims of images [n, h, w], those that are rows of a product last: a line's columns, or the columns of lines of
    one element, or images of one.
    """
    if w != 1 or (h == 1 and n == 1):
        return 0, 1, 2
    return (0, 2, 1) if h != 1 else (1, 2, 0)


def _cut(found: Convolution, x: Place, ways: tuple[list[Edge], list[Edge]]) -> None:
    """Products of the taps that are in the image: one for each part of the result that has the same ones."""
    lowering, window = found.lowering, found.window
    n, h, w, out = found.target.shape
    c = x.shape[3]
    batch, row, column, channel = x.strides
    (sy, sx), (dy, dx) = window.stride, window.dilation
    panels = -(-out // lowering.panel)
    filters = found.filters(panels)
    tap_row, *within = filters.strides
    if dx != 1 or column != c or channel != 1 or found.channels is not None:
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
            product(found, a, lowering.memref(weights), part(found.target), extras, (y.taps,))


def _cut_apart(found: Convolution, x: Place, filters: Place, ways: tuple[list[Edge], list[Edge]]) -> None:
    """As :func:`_cut` where the columns of a window lie apart, so that each of them is a tap."""
    lowering, window = found.lowering, found.window
    n, c = x.shape[0], x.shape[3]
    batch, row, column, channel = x.strides
    (sy, sx), (dy, dx) = window.stride, window.dilation
    for y in ways[0]:
        for z in ways[1]:
            dims = (n, y.count, y.taps, z.taps, z.count, c)
            start = x.offset + y.start * row + z.start * column
            a = Place(x.base, dims, (batch, sy * row, dy * row, dx * column, sx * column, channel), start)
            b = found.taps(filters, (n, y.count)).sliced(2, y.tap, y.taps).sliced(3, z.tap, z.taps)

            def part(place: Place, y: Edge = y, z: Edge = z) -> Place:
                return place.sliced(1, y.first, y.count).sliced(2, z.first, z.count)

            extras = [part(e) for e in found.extras]
            product(found, a, lowering.memref(b), part(found.target), extras, (y.taps, z.taps))


def _grouped(found: Convolution, x: Place, ways: tuple[list[Edge], list[Edge]]) -> None:
    """Groups of channels are a batch; a column of the window is a tap, since the channels of a group end there. A
    product for each part of the result whose windows have the same taps.
    """
    lowering, window = found.lowering, found.window
    groups, (kh, kw), (sy, sx), (dy, dx) = window.groups, window.whole, window.stride, window.dilation
    n, _, _, out = found.target.shape
    c, batch, row, column, channel = x.shape[3] // groups, *x.strides
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
            taps = by_taps(whole, c, (groups, n, y.count))
            taps = taps.sliced(3, top + y.tap, y.taps).sliced(4, left + z.tap, z.taps)
            a = Place(
                x.base,
                (groups, n, y.count, y.taps, z.taps, z.count, c),
                (c * channel, batch, sy * row, dy * row, dx * column, sx * column, channel),
                x.offset + y.start * row + z.start * column,
            )
            b = Place(packed, taps.shape, (row_major(dense)[0], *taps.strides[1:]), taps.offset)

            def part(place: Place, y: Edge = y, z: Edge = z) -> Place:
                return place.sliced(2, y.first, y.count).sliced(3, z.first, z.count)

            product(found, a, lowering.memref(b), part(target), [part(e) for e in extras], (y.taps, z.taps))


# --- transposed convolutions ------------------------------------------------------------------------------------------


def _transposed(found: Convolution, source: Place) -> None:
    lowering, window = found.lowering, found.window
    n, h, w, out = found.target.shape
    c = source.shape[1]
    ways = phases(window, (h, w))
    border, _ = border_for(found.root)
    if lowering.is_cut(found.root):
        ways, border = cut_phases(window, (h, w), source.shape[2:]), (0, 0)
    x = found.image(source, border)
    batch, row, column, channel = x.strides
    panels = -(-out // lowering.panel)
    dense = (window.size[0], panels, window.size[1] * c, lowering.panel)
    packed = lowering.weight(found.symbol, memref(dense), lowering.panel, False)
    whole = by_taps(Place(packed, dense, row_major(dense)), c, (n, 1))
    (sy, sx) = window.stride
    for y in ways[0]:
        for z in ways[1]:
            dims = (n, y.count, y.taps, z.taps, z.count, c)
            start = x.offset + (border[0] + y.start) * row + (border[1] + z.start) * column
            a = Place(x.base, dims, (batch, row, -row, -column, column, channel), start)
            b = whole.sliced(2, y.tap, y.taps, sy).sliced(3, z.tap, z.taps, sx)
            b = Place(b.base, (n, y.count, *b.shape[2:]), b.strides, b.offset)

            def part(place: Place, y: Phase = y, z: Phase = z) -> Place:
                return place.sliced(1, y.first, y.count, sy).sliced(2, z.first, z.count, sx)

            extras = [part(e) for e in found.extras]
            product(found, a, lowering.memref(b), part(found.target), extras, (y.taps, z.taps))
