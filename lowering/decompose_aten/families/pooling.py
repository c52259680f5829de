"""Pooling of all ranks as the core two-dimensional operators.

One dim is two with a height of 1. Three are two steps, over height and width and then over depth, which is exact for a
maximum, a sum, and a mean of windows that all count the same number of elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import i64
from etir.lowering.build.builder import Builder, dims, element, rank
from etir.lowering.build.sizes import SizeLike
from etir.lowering.decompose_aten.decomposition import decomposition

Ints = Sequence[int]
Pooling = Callable[[SSAValue], SSAValue]
MAX_POOL = aten.max_pool2d_with_indices.default
AVG_POOL = aten.avg_pool2d.default


def _triple(values: Ints) -> list[int]:
    return list(values) * 3 if len(values) == 1 else list(values)


@decomposition(aten.max_pool2d.default)
def max_pool2d(
    b: Builder, x: SSAValue, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> SSAValue:
    """The values of ``max_pool2d_with_indices``"""
    return b.results(MAX_POOL, x, kernel, stride, padding, dilation, ceil_mode)[0]


@decomposition(aten.max_pool1d.default, aten.max_pool1d_with_indices.default)
def max_pool1d(
    b: Builder, x: SSAValue, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Sequence[SSAValue]:
    """``max_pool2d_with_indices`` with a height of 1"""
    wide = [[1, *kernel], [1, *(stride or kernel)], [0, *padding], [1, *dilation]]
    results = b.results(MAX_POOL, b.unsqueeze(x, -2), *wide, ceil_mode)
    return [b.squeeze(r, -2) for r in results[: len(b.rewriter.root.results)]]


@decomposition(aten.max_pool3d_with_indices.default)
def max_pool3d_with_indices(
    b: Builder, x: SSAValue, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Sequence[SSAValue | None]:
    """``max_pool2d_with_indices`` over height and width, then over depth, where it chooses among their indices"""
    if b.rewriter.root.results[1].first_use is None:
        return [max_pool3d(b, x, kernel, stride, padding, dilation, ceil_mode), None]
    *batch, channels, depth, height, width = b.sizes(x)
    plane, line = _plane_and_depth(kernel, stride or kernel, padding, dilation)
    planes = b.view(x, [*batch, channels * depth, height, width])
    values, places = b.results(MAX_POOL, planes, *plane, ceil_mode)
    new_height, new_width = b.sizes(values)[-2:]
    count = new_height * new_width
    columns = b.view(values, [*batch, channels, depth, count])
    values, chosen = b.results(MAX_POOL, columns, *line, ceil_mode)
    shape = b.sizes(values)
    flat = [*batch, channels, depth * count]
    chosen = b.view(chosen, [*shape[:-2], shape[-2] * shape[-1]])
    in_plane = b(aten.gather.default, b.view(places, flat), len(flat) - 1, chosen)
    above = b(aten.div.Tensor_mode, chosen, _number(b, count), rounding_mode="floor")
    indices = b.add(b.mul(above, _number(b, height * width)), in_plane)
    new = [*batch, channels, shape[-2], new_height, new_width]
    return [b.view(values, new), b.view(indices, new)]


def _plane_and_depth(*settings: Ints) -> tuple[list[list[int]], list[list[int]]]:
    """Kernel, stride, padding and dilation of three dims as those over height and width, and those over depth."""
    triples = [_triple(values) for values in settings]
    return [t[1:] for t in triples], [[t[0], rest] for t, rest in zip(triples, (1, 1, 0, 1), strict=False)]


@decomposition(aten.max_pool3d.default)
def max_pool3d(
    b: Builder, x: SSAValue, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> SSAValue:
    """``max_pool2d_with_indices`` over height and width, then over depth"""
    plane, depth = _plane_and_depth(kernel, stride or kernel, padding, dilation)
    return _in_two_steps(
        b,
        x,
        lambda t: b.results(MAX_POOL, t, *plane, ceil_mode)[0],
        lambda t: b.results(MAX_POOL, t, *depth, ceil_mode)[0],
    )


def _in_two_steps(b: Builder, x: SSAValue, over_plane: Pooling, over_depth: Pooling) -> SSAValue:
    """Pooling of [..., c, d, h, w] over the last two dims, then over the one before."""
    *batch, channels, depth, height, width = b.sizes(x)
    planes = over_plane(b.view(x, [*batch, channels * depth, height, width]))
    new_height, new_width = b.sizes(planes)[-2:]
    columns = over_depth(b.view(planes, [*batch, channels, depth, new_height * new_width]))
    return b.view(columns, [*batch, channels, b.size(columns, -2), new_height, new_width])


@decomposition(aten.avg_pool1d.default)
def avg_pool1d(
    b: Builder, x: SSAValue, kernel: Ints, stride: Ints, padding: Ints, ceil_mode: bool, count_padding: bool
) -> SSAValue:
    """``avg_pool2d`` with a height of 1"""
    wide = [[1, *kernel], [1, *(stride or kernel)], [0, *padding]]
    return b.squeeze(b(AVG_POOL, b.unsqueeze(x, -2), *wide, ceil_mode, count_padding), -2)


@decomposition(aten.avg_pool3d.default)
def avg_pool3d(
    b: Builder,
    x: SSAValue,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_padding: bool,
    divisor: int | None,
) -> SSAValue | None:
    """``avg_pool2d`` over height and width, then over depth, of sums where windows count different numbers"""
    plane, depth = _plane_and_depth(kernel, stride or kernel, padding)
    if divisor is None and not ceil_mode and (count_padding or not any(padding)):
        return _in_two_steps(b, x, lambda t: b(AVG_POOL, t, *plane), lambda t: b(AVG_POOL, t, *depth))
    rest = (ceil_mode, True, 1)
    total = _in_two_steps(b, x, lambda t: b(AVG_POOL, t, *plane, *rest), lambda t: b(AVG_POOL, t, *depth, *rest))
    if divisor is not None:
        return b.div(total, divisor)
    for i, setting in enumerate(zip(_triple(kernel), _triple(stride or kernel), _triple(padding), strict=True)):
        position = rank(x) - 3 + i
        counts = _counts(b, b.size(x, position), b.size(total, position), *setting, count_padding)
        total = b.div(total, b.view(b.cast(counts, element(x)), [-1, *[1] * (2 - i)]))
    return total


def _counts(
    b: Builder, given: SizeLike, windows: SizeLike, kernel: int, stride: int, padding: int, count_padding: bool
) -> SSAValue:
    """How many elements of a dim each window counts [windows]: the padding's, too, or the input's only."""
    start = b.sub(b.mul(b.arange(windows), stride), padding)
    end = b(aten.minimum.default, b.add(start, kernel), _number(b, given + padding))
    if count_padding:
        return b.sub(end, start)
    return b.sub(b(aten.minimum.default, end, _number(b, given)), b.clamp(start, 0))


def _number(b: Builder, size: SizeLike) -> SSAValue:
    """A size as a tensor."""
    return b.add(b.full([1], 0, i64), b.scalar(size))


@decomposition(aten.adaptive_avg_pool1d.default)
def adaptive_avg_pool1d(b: Builder, x: SSAValue, size: Ints) -> SSAValue:
    """``mean`` for a size of 1, else ``_adaptive_avg_pool2d`` with a height of 1"""
    if size[0] == 1:
        return b.mean(x, [-1], True)
    return b.squeeze(b(aten._adaptive_avg_pool2d.default, b.unsqueeze(x, -2), [1, size[0]]), -2)


@decomposition(aten.adaptive_avg_pool2d.default, aten.adaptive_avg_pool3d.default, symint_args=("output_size",))
def adaptive_avg_pool(b: Builder, x: SSAValue, size: Sequence[SizeLike]) -> SSAValue:
    """``mean`` for sizes of 1, nothing for the input's sizes, else the core form"""
    count = len(size)
    if all(s == 1 for s in size):
        return b.mean(x, range(-count, 0), True)
    if tuple(size) == dims(x)[-count:]:
        return x
    core = aten._adaptive_avg_pool2d.default if count == 2 else aten._adaptive_avg_pool3d.default
    return b(core, x, size, types=[b.rewriter.root.results[0].type])


@decomposition(aten._adaptive_avg_pool3d.default)
def adaptive_avg_pool3d(b: Builder, x: SSAValue, size: Ints) -> SSAValue:
    """``avg_pool3d`` where the sizes divide the input's; else the form for two dims twice"""
    kernel = _exact_windows(x, size)
    if kernel is not None:
        return b(aten.avg_pool3d.default, x, kernel, types=[b.rewriter.root.results[0].type])
    pool = aten._adaptive_avg_pool2d.default
    depth, height, width = size
    return _in_two_steps(b, x, lambda t: b(pool, t, [height, width]), lambda t: b(pool, t, [depth, height * width]))


@decomposition(aten.adaptive_max_pool1d.default, aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)
def adaptive_max_pool(b: Builder, x: SSAValue, size: Ints) -> Sequence[SSAValue | None]:
    """``max_pool2d_with_indices`` where the sizes divide the input's; else ``index_select`` and ``max``, by dim"""
    kernel = _exact_windows(x, size)
    if kernel is not None and len(size) == 2:
        return b.results(MAX_POOL, x, kernel)
    if kernel is not None and len(size) == 1:
        return [b.squeeze(r, -2) for r in b.results(MAX_POOL, b.unsqueeze(x, -2), [1, *kernel])]
    places: SSAValue | None = None
    stride: SizeLike = 1
    # The last dim first: of equal elements the first one in memory is found, as torch does.
    for position in reversed(range(rank(x) - len(size), rank(x))):
        total = b.size(x, position)
        windows = _windows(b, total, size[position - rank(x)])
        spread = _in_windows(b, x, position, windows)
        if b.rewriter.root.results[1].first_use is None:
            x = b.amax(spread, [position + 1])
            continue
        x, nth = b.results(aten.max.dim, spread, position + 1, True)
        x, shape = b.squeeze(x, position + 1), [1] * rank(spread)
        shape[position : position + 2] = dims(windows)  # type: ignore[assignment]
        shape[position + 1] = b.size(windows, 1)  # type: ignore[call-overload]
        table = b.expand(b.view(windows, shape), b.sizes(spread))
        own = b.squeeze(b(aten.gather.default, table, position + 1, nth), position + 1)
        inner = None if places is None else b(aten.gather.default, places, position, own)
        offset = own if isinstance(stride, int) and stride == 1 else b.mul(own, b.scalar(stride))
        places = offset if inner is None else b.add(offset, inner)
        stride = stride * total
    return [x, places]


def _windows(b: Builder, total: SizeLike, count: int) -> SSAValue:
    """The positions [count, longest] of ``count`` windows that cover a dim evenly; shorter ones repeat their last."""
    if isinstance(total, int):
        bounds = [(i * total // count, -(-(i + 1) * total // count)) for i in range(count)]
        longest = max((end - start for start, end in bounds), default=1)
        return b.constant([[min(start + k, end - 1) for k in range(longest)] for start, end in bounds], i64)
    number = b.constant([[i] for i in range(count)], i64)
    scaled = b.mul(number, b.scalar(total))
    beyond = b.add(b.add(scaled, b.scalar(total)), count - 1)
    start, end = (b(aten.div.Scalar_mode, t, count, rounding_mode="floor") for t in (scaled, beyond))
    offset = b.arange((total + (2 * count - 2)) // count)
    return b(aten.minimum.default, b.add(start, offset), b.sub(end, 1))


def _in_windows(b: Builder, x: SSAValue, position: int, windows: SSAValue) -> SSAValue:
    """A dim of ``x`` as two: windows and their elements."""
    sizes = b.sizes(x)
    spread = b(aten.index_select.default, x, position, b.view(windows, [-1]))
    return b.view(spread, [*sizes[:position], *b.sizes(windows), *sizes[position + 1 :]])


def _exact_windows(x: SSAValue, size: Ints) -> list[int] | None:
    """The common size of all windows, when the input is that many times the output."""
    windows: list[int] = []
    for given, wanted in zip(dims(x)[rank(x) - len(size) :], size, strict=True):
        if not isinstance(given, int) or wanted == 0 or given % wanted:
            return None
        windows.append(given // wanted)
    return windows
