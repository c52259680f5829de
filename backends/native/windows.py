"""Windows of convolutions and pools, of images of two dims or of one: what their arguments say, in one form.

A signal [n, c, l] is an image of one row.

A convolution has a window of the taps that are in the image for some element of its result. The others read its border
of zeros alone: eight of nine where an image of 1x1 has windows of 3x3, as in the last layers of a network for small
images. Their weights stay in the file and are not read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import is_
from weakref import WeakKeyDictionary

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import SSAValue

from etir.backends.api.patterns import operator_of
from etir.backends.native.dims import dims
from etir.backends.native.places import Place
from etir.backends.native.sizes import Size, at_least, is_known, most
from etir.dialects.schema_op import SchemaOp

Pair = tuple[int, int]


@dataclass(frozen=True)
class Window:
    """Rows and columns of everything that a window has. Its first tap reads ``padding`` before the image, or as much
    inside of it where that is negative.

    ``skipped`` are the taps of a weight before the first one of the window, ``whole`` all taps of the weight.
    """

    size: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1
    transposed: bool = False
    skipped: Pair = (0, 0)
    whole: Pair = (0, 0)


def _shape(value: SSAValue) -> tuple[int, ...]:
    return dims(value)


def as_pair(given: Sequence[int], rank: int = 2, default: int = 1) -> Pair:
    """Numbers of rows and columns; one number stands for both, or for columns where there are no rows."""
    return (default, given[-1]) if rank == 1 else (given[0], given[-1])


_KNOWN: WeakKeyDictionary[SchemaOp, tuple[tuple[object, ...], Window]] = WeakKeyDictionary()
"""The windows that have been asked for, with the types and arguments that they are made of."""


def window_of(op: SchemaOp) -> Window:
    """The window of a convolution or of a pool.

    Lowering asks some ten times for each, and is done several times: it is found once, as long as the operation has the
    very same types and arguments, which are immutable. Sizes that are known at run time only are the module's, too.
    """
    types = [value.type for value in (*op.operands, *op.results)]
    now = (*types, *op.properties, *op.properties.values())
    known = _KNOWN.get(op)
    if known is not None and len(known[0]) == len(now) and all(map(is_, known[0], now)):
        return known[1]
    window = _window_of(op)
    if not any(isinstance(type, TensorType) and DYNAMIC_INDEX in type.get_shape() for type in types):
        _KNOWN[op] = now, window
    return window


def _window_of(op: SchemaOp) -> Window:
    name = operator_of(op)
    if name == "aten.convolution.default":
        dims = _shape(op.arg("weight"))[2:]
        rank = len(dims)
        window = Window(
            as_pair(dims, rank),
            as_pair(op.arg("stride"), rank),
            as_pair(op.arg("padding"), rank, 0),
            as_pair(op.arg("dilation"), rank),
            op.arg("groups"),
            bool(op.arg("transposed")),
            whole=as_pair(dims, rank),
        )
        if window.transposed:
            return window
        return _without_zeros(window, _extents(op.results[0]), _extents(op.arg("input")))
    if name == "aten.mean.dim":
        return Window(as_pair(_shape(op.arg("self"))[-2:]))
    rank = len(_shape(op.arg("self"))) - 2
    if "adaptive" in name:
        extents, wanted = _extents(op.arg("self")), as_pair(op.arg("output_size"), rank)
        step = (extents[0] // wanted[0], extents[1] // wanted[1])
        return Window(step, step)
    size = as_pair(op.arg("kernel_size"), rank)
    stride = as_pair(op.arg("stride") or op.arg("kernel_size"), rank)
    dilation = as_pair(op.arg("dilation"), rank) if takes_largest(op) else (1, 1)
    return Window(size, stride, as_pair(op.arg("padding"), rank, 0), dilation)


def _extents(value: SSAValue) -> tuple[int, ...]:
    """Rows and columns of an image or of a signal."""
    return (1, *_shape(value)[2:])[-2:]


def _without_zeros(window: Window, result: Sequence[int], given: Sequence[int]) -> Window:
    """The window without the taps at its ends that read zeros around an image [h, w] for each element of a result."""
    size, padding, skipped = [*window.size], [*window.padding], [0, 0]
    for d in (0, 1):
        taps = _taps_inside(window, d, result[d], given[d])
        if taps:
            size[d], skipped[d] = len(taps), taps[0]
            padding[d] -= taps[0] * window.dilation[d]
    pairs = ((one[0], one[1]) for one in (size, padding, skipped))
    return replace(window, **dict(zip(("size", "padding", "skipped"), pairs, strict=True)))


def _taps_inside(window: Window, d: int, count: int, given: int) -> range:
    """The taps from the first to the last one that is in the image for some of ``count`` indices of dim ``d``; none
    where sizes are known at run time only.
    """
    if not is_known((count, given)):
        return range(0)
    size, stride, padding, step = window.size[d], window.stride[d], window.padding[d], window.dilation[d]
    inside = [t for t in range(size) if any(0 <= i * stride - padding + t * step < given for i in range(count))]
    return range(inside[0], inside[-1] + 1) if inside else range(0)


def as_image(place: Place) -> Place:
    """A place [n, c, l] as [n, c, 1, l]."""
    if len(place.shape) == 4:
        return place
    n, c, length = place.shape
    batch, channel, column = place.strides
    return Place(place.base, (n, c, 1, length), (batch, channel, length * column, column), place.offset)


def image_shape(result: SSAValue, given: Sequence[int]) -> tuple[int, int, int, int]:
    """The dims [n, c, h, w] of a pool's result, which may have lost those of length 1; ``given`` are its operand's."""
    dims = _shape(result)
    if len(dims) == len(given):
        n, c, h, w = dims if len(dims) == 4 else (*dims[:2], 1, dims[2])
        return n, c, h, w
    return given[0], given[1], 1, 1


@dataclass(frozen=True)
class Phase:
    """Of a transposed convolution, the indices ``first``, ``first + stride``, ... of a dim of the result: ``count`` of
    them read taps from ``tap`` on, every ``step``-th; index i reads at ``i + start`` with the first tap and one less
    with each.
    """

    first: int
    count: int
    tap: int
    taps: int
    start: int


def phases(window: Window, result: Sequence[int]) -> tuple[list[Phase], list[Phase]]:
    """The phases of the rows and of the columns of a transposed convolution's result [..., h, w]."""
    ways: tuple[list[Phase], list[Phase]] = ([], [])
    for way, extent, size, stride, padding in zip(
        ways, result[-2:], window.size, window.stride, window.padding, strict=True
    ):
        for first in range(min(stride, extent)):
            tap = (first + padding) % stride
            count = -(-(extent - first) // stride)
            way.append(Phase(first, count, tap, -(-(size - tap) // stride), (first + padding - tap) // stride))
    return ways


def border_for(op: SchemaOp) -> tuple[Pair, float]:
    """The border that a convolution or a pool wants around the image that it reads, and the number in it."""
    window = window_of(op)
    border = [*window.padding]
    if operator_of(op) == "aten.convolution.default":
        if not window.transposed:
            return _border_of(window, _extents(op.results[0]), _extents(op.arg("input"))), 0.0
        result, given = ((1, *_shape(v)[2:])[-2:] for v in (op.results[0], op.arg("input")))
        border = [0, 0]
        for d, way in enumerate(phases(window, result)):
            for phase in way:
                border[d] = max(border[d], phase.taps - 1 - phase.start, phase.count + phase.start - given[d])
        return (border[0], border[1]), 0.0
    dims = _shape(op.arg("self"))
    given = (1, *dims[2:])[-2:]
    result = image_shape(op.results[0], dims)
    # A last window that is cut reads beyond the padding.
    for d in (0, 1):
        reach = (result[2 + d] - 1) * window.stride[d] + (window.size[d] - 1) * window.dilation[d] + 1
        if is_known((reach, given[d])):
            border[d] = max(border[d], reach - given[d] - window.padding[d])
    return (border[0], border[1]), -math.inf if takes_largest(op) else 0.0


def _border_of(window: Window, result: Sequence[int], given: Sequence[int]) -> Pair:
    """Rows and columns that a convolution reads around an image [h, w]: a side has as many as the other one."""
    border = [*window.padding]
    for d in (0, 1):
        if window.size[d] != window.whole[d]:
            reach = (result[d] - 1) * window.stride[d] + (window.size[d] - 1) * window.dilation[d] + 1
            border[d] = max(0, border[d], reach - given[d] - window.padding[d])
    return border[0], border[1]


# --- windows without a border -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Edge:
    """Indices of a dim of a result whose windows have the same taps in the image: ``count`` indices from ``first`` on,
    ``taps`` taps from ``tap`` on; the first index reads at ``start`` with the first of them.
    """

    first: int
    count: int
    tap: int
    taps: int
    start: int


def edges(count: int, given: int, stride: int, start: int, taps: int, step: int) -> list[Edge]:
    """The indices of a dim, by the taps that are inside of ``given`` elements: index i reads at ``i stride + start +
    t step`` with tap t. None of the indices may be without taps; the list is empty where one is.
    """
    if not is_known((count, given)):
        return _edges_of_sizes(count, given, stride, start, taps, step)
    found: list[Edge] = []
    for i in range(count):
        first = i * stride + start
        inside = [t for t in range(taps) if 0 <= first + t * step < given]
        if not inside:
            return []
        tap, some = inside[0], len(inside)
        if found and (found[-1].tap, found[-1].taps) == (tap, some):
            found[-1] = Edge(found[-1].first, found[-1].count + 1, tap, some, found[-1].start)
        else:
            found.append(Edge(i, 1, tap, some, first + tap * step))
    return found


def _edges_of_sizes(count: int, given: int, stride: int, start: int, taps: int, step: int) -> list[Edge]:
    """:func:`edges` of sizes: some indices at both ends, and one part between them.
    The list is empty where there may be no such part, or no number of indices after it.
    """
    before, reach = max(0, -start), (taps - 1) * step
    after = count - given + start + reach
    if stride != 1 or step < 1 or isinstance(after, Size) or not at_least(count, before + max(0, after) + 1):
        return []
    after = max(0, after)
    end = count - after
    first = [Edge(i, 1, -((i + start) // step), taps + (i + start) // step, (i + start) % step) for i in range(before)]
    # Tap ``taps - 1`` of index ``end`` is the first one that is not in the image.
    last = [Edge(end + i, 1, 0, taps - i // step - 1, end + i + start) for i in range(after)]
    found = [*first, Edge(before, end - before, 0, taps, before + start), *last]
    return found if all(edge.taps > 0 for edge in found) else []


def edges_of(window: Window, result: Sequence[int], given: Sequence[int]) -> tuple[list[Edge], list[Edge]]:
    """The rows and the columns of a result [h, w] by the taps that are inside of an image [h, w]."""
    rows, columns = (
        edges(result[d], given[d], window.stride[d], -window.padding[d], window.size[d], window.dilation[d])
        for d in (0, 1)
    )
    return rows, columns


def cut_phases(window: Window, result: Sequence[int], given: Sequence[int]) -> tuple[list[Phase], list[Phase]]:
    """The phases of a transposed convolution in parts, each with the taps that are inside of an image [h, w]; a list is
    empty where some part has none.
    """
    ways: tuple[list[Phase], list[Phase]] = ([], [])
    for d, way in enumerate(phases(window, result)):
        stride = window.stride[d]
        for phase in way:
            parts = edges(phase.count, given[d], 1, phase.start, phase.taps, -1)
            if not parts:
                return [], []
            for part in parts:
                first, tap = phase.first + part.first * stride, phase.tap + part.tap * stride
                ways[d].append(Phase(first, part.count, tap, part.taps, part.start))
    return ways


def is_depthwise(op: SchemaOp) -> bool:
    """Whether an operator is a convolution with a window for each channel."""
    if operator_of(op) != "aten.convolution.default":
        return False
    return window_of(op).groups == _shape(op.arg("weight"))[0] > 1


MOST_IN_GROUP = 8
"""Channels of a group whose windows ``tile.depthwise_inside`` does in less time than products do."""


def has_small_groups(op: SchemaOp) -> bool:
    """Whether an operator is a convolution with a window for each of several groups of few channels: a power of two, so
    that vectors of any processor have whole groups, or groups whole vectors; as many of the result as of the image.
    """
    if operator_of(op) != "aten.convolution.default":
        return False
    window, (outer, inner, *_) = window_of(op), _shape(op.arg("weight"))
    is_even = 1 < inner <= MOST_IN_GROUP and inner & (inner - 1) == 0 and outer == window.groups * inner
    return window.groups > 1 and is_even and not window.transposed


MEANS = ("aten.avg_pool1d.default", "aten.avg_pool2d.default")
"""Pools of means whose windows the operator names."""


def own_divisor(op: SchemaOp) -> int | None:
    """The divisor that a pool of means has in place of its number of elements."""
    return op.arg("divisor_override") if "divisor_override" in op.SCHEMA.index else None


def takes_largest(op: SchemaOp) -> bool:
    """Whether a pool is of largest numbers, not of means."""
    return "max_pool" in operator_of(op)


def divisor_of(op: SchemaOp) -> int | None:
    """What sums of windows are divided by where that is one number, whatever part of a window is in the image."""
    if operator_of(op) not in MEANS or counts_inside(op):
        return None
    return own_divisor(op) or math.prod(window_of(op).size)


def counts_inside(op: SchemaOp) -> bool:
    """Whether an operator is a pool of means of what is in the image alone, and has windows that reach beyond it."""
    if operator_of(op) not in MEANS or own_divisor(op) is not None:
        return False
    return not (any(op.arg("padding")) and op.arg("count_include_pad")) and any(border_for(op)[0])


def can_be_cut(op: SchemaOp) -> bool:
    """Whether a convolution or a pool can be done on an image without a border: in parts, each with the taps that are
    in the image. Every window has one at least. Sizes are known, or those of a convolution without strides are large
    enough for it at their least. Windows for each channel have an operation that needs no parts, and no sizes; those of
    groups of few channels have no other, nor have means of what is in the image.
    """
    window = window_of(op)
    is_pool = operator_of(op) != "aten.convolution.default"
    given = _shape(op.arg("self" if is_pool else "input"))
    result = _shape(op.results[0])
    if len(given) != len(result) or len(given) not in (3, 4) or not any(border_for(op)[0]):
        return False
    if is_depthwise(op):
        return not window.transposed
    if has_small_groups(op):
        return False
    is_plain = not is_pool and not window.transposed and window.stride == (1, 1)
    is_fixed = is_known((*given[1:], *result[1:]))  # Of any number of examples.
    if not (is_fixed or is_plain):
        return False
    if is_pool and not takes_largest(op) and not counts_inside(op) and divisor_of(op) is None:
        return False
    if not is_pool and window.groups > 1 and (window.transposed or not is_fixed):
        return False
    ways = cut_phases if window.transposed else edges_of
    # A signal is an image of one row.
    return all(ways(window, (1, *result[2:])[-2:], (1, *given[2:])[-2:]))


def image_bytes(op: SchemaOp) -> int:
    """Bytes of the image that a convolution or a pool reads, at most."""
    return 4 * most(math.prod(_shape(op.arg("input" if operator_of(op) == "aten.convolution.default" else "self"))))
