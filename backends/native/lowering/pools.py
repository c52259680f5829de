"""Pools: the largest numbers, or the means, of windows of an image whose channels lie side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.ir import Region

from etir.backends.native.body import Body
from etir.backends.native.dialect import GroupOp
from etir.backends.native.lowering.convolution import goes_by_rows, in_border, windows_in
from etir.backends.native.lowering.function import Lowering, Outside, lowers, members, shape
from etir.backends.native.lowering.planes import is_added
from etir.backends.native.lowering.reductions import reduce_to
from etir.backends.native.places import Place
from etir.backends.native.sizes import is_known
from etir.backends.native.tile import PoolOp, YieldOp, body_of, identity
from etir.backends.native.uneven import Run, uneven_runs
from etir.backends.native.windows import (
    Window,
    as_image,
    border_for,
    counts_inside,
    divisor_of,
    edges_of,
    image_shape,
    takes_largest,
    window_of,
)
from etir.dialects.schema_op import SchemaOp


@lowers("pool")
def lower_pool(lowering: Lowering, group: GroupOp, outside: Outside) -> None:
    """Windows without weights."""
    _lower_pool(lowering, group, outside)
    result = group.outputs[0]
    if is_added(lowering, group):
        lowering.places[result] = lowering.dense(lowering.places[result])


def _lower_pool(lowering: Lowering, group: GroupOp, outside: Outside) -> None:
    (root,) = members(group)
    given = lowering.place(outside[root.arg("self")])
    source = as_image(given)
    if (runs := uneven_runs(root)) is not None:
        _uneven_pool(lowering, group, in_border(lowering, source, (0, 0), 0.0, root), runs)
        return
    window = window_of(root)
    dims = image_shape(root.results[0], given.shape)
    if lowering.is_cut(root) and (counts_inside(root) or not goes_by_rows(lowering, source)):
        _cut_pool(lowering, group, in_border(lowering, source, (0, 0), 0.0, root))
        return
    if dims[2:] == (1, 1) and _is_whole(root, window, source) and goes_by_rows(lowering, source):
        found = _target(lowering, group, given, dims).selected(3, 0).selected(2, 0)
        reduce_to(lowering, "max" if takes_largest(root) else "mean", source, found, group)
        return
    border, value = border_for(root)
    x = in_border(lowering, source, border, value, root)
    skipped = [b - p for b, p in zip(border, window.padding, strict=True)]
    x = Place(x.base, x.shape, x.strides, x.offset + skipped[0] * x.strides[1] + skipped[1] * x.strides[2])
    c = _target(lowering, group, given, dims).permuted([0, 2, 3, 1])
    n, h, w, channels = c.shape
    a = windows_in(x, (n, h, w, *window.size, channels), window)
    _add_pool(lowering, group, a, c)


def _target(lowering: Lowering, group: GroupOp, given: Place, dims: tuple[int, ...]) -> Place:
    """The image that a pool makes."""
    result = group.outputs[0]
    if len(shape(result)) in (3, 4) and len(shape(result)) == len(given.shape):
        return as_image(lowering.image(result))
    target = lowering.new_image((dims[0], dims[1], dims[2], dims[3]), (0, 0), 0.0)
    found = target.viewed(shape(result))
    assert found is not None
    lowering.places[result] = found
    return target


def _is_whole(root: SchemaOp, window: Window, source: Place) -> bool:
    """Whether one window has the whole image: a plane is reduced where it lies then."""
    n, c, h, w = source.shape
    is_one = is_known((n, c, h, w)) and window.size == (h, w) and not any(window.padding)
    return is_one and divisor_of(root) in (None, h * w)


def _add_pool(lowering: Lowering, group: GroupOp, a: Place, c: Place) -> None:
    """The largest numbers or means of windows a [n, h, w, rows, columns, c]; or sums of shares of another number of
    elements than windows have.
    """
    (root,) = members(group)
    kind, body = "max" if takes_largest(root) else "mean", identity()
    divisor = divisor_of(root)
    if divisor not in (None, a.shape[3] * a.shape[4]):
        kind, body = "sum", _shares(cast(int, divisor))
    lowering.add(PoolOp(kind, lowering.memref(a), lowering.memref(c), [], body), group)


def _shares(divisor: int) -> Region:
    """An element divided by a number."""
    region = body_of(1)
    build = Body(region.block, {})
    region.block.add_op(YieldOp(build.mul(region.block.args[0], 1 / divisor)))
    return region


def _cut_pool(lowering: Lowering, group: GroupOp, x: Place) -> None:
    """Of the taps that are in the image."""
    window = window_of(members(group)[0])
    c = as_image(lowering.image(group.outputs[0])).permuted([0, 2, 3, 1])
    n, h, w, channels = c.shape
    ways = edges_of(window, (h, w), x.shape[1:3])
    for y in ways[0]:
        for z in ways[1]:
            start = Place(x.base, x.shape, x.strides, x.offset + y.start * x.strides[1] + z.start * x.strides[2])
            a = windows_in(start, (n, y.count, z.count, y.taps, z.taps, channels), window)
            _add_pool(lowering, group, a, c.sliced(1, y.first, y.count).sliced(2, z.first, z.count))


def _uneven_pool(lowering: Lowering, group: GroupOp, x: Place, runs: tuple[Sequence[Run], Sequence[Run]]) -> None:
    """Windows of several sizes: one operation for those of a size, at one distance from each other."""
    c = as_image(lowering.image(group.outputs[0])).permuted([0, 2, 3, 1])
    n, _, _, channels = c.shape
    batch, row, column, _ = x.strides
    for y in runs[0]:
        for z in runs[1]:
            a = Place(
                x.base,
                (n, y.count, z.count, y.taps, z.taps, channels),
                (batch, y.stride * row, z.stride * column, row, column, 1),
                x.offset + y.start * row + z.start * column,
            )
            _add_pool(lowering, group, a, c.sliced(1, y.first, y.count, y.step).sliced(2, z.first, z.count, z.step))
