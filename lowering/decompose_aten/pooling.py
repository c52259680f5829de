"""Pooling of all ranks as the core two-dimensional operators.

One dim is two with a height of 1. Three are two steps, over height and width and then over depth, which is exact for a
maximum, and for a mean of windows that all count the same number of elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from etir.dialects.dtypes import i64
from etir.lowering.builder import Builder, dims, rank
from etir.lowering.decompose_aten.decomposition import decomposition
from etir.lowering.sizes import SizeLike

Ints = Sequence[int]
Pooling = Callable[[SSAValue], SSAValue]
MAX_POOL = "aten.max_pool2d_with_indices.default"
AVG_POOL = "aten.avg_pool2d.default"


def _triple(values: Ints) -> list[int]:
    return list(values) * 3 if len(values) == 1 else list(values)


@decomposition("aten.max_pool2d.default")
def max_pool2d(
    b: Builder, x: SSAValue, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> SSAValue:
    """The values of ``max_pool2d_with_indices``"""
    return b.results(MAX_POOL, x, kernel, stride, padding, dilation, ceil_mode)[0]


@decomposition("aten.max_pool1d.default", "aten.max_pool1d_with_indices.default")
def max_pool1d(
    b: Builder, x: SSAValue, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Sequence[SSAValue]:
    """``max_pool2d_with_indices`` with a height of 1"""
    wide = [[1, *kernel], [1, *(stride or kernel)], [0, *padding], [1, *dilation]]
    results = b.results(MAX_POOL, b.unsqueeze(x, -2), *wide, ceil_mode)
    return [b.squeeze(r, -2) for r in results[: len(b.rewriter.root.results)]]


@decomposition("aten.max_pool3d.default")
def max_pool3d(
    b: Builder, x: SSAValue, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> SSAValue:
    """``max_pool2d_with_indices`` over height and width, then over depth"""
    stride = stride or kernel
    settings = [_triple(values) for values in (kernel, stride, padding, dilation)]
    plane = [values[1:] for values in settings]
    depth = [[values[0], rest] for values, rest in zip(settings, (1, 1, 0, 1), strict=True)]
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


@decomposition("aten.avg_pool1d.default")
def avg_pool1d(
    b: Builder, x: SSAValue, kernel: Ints, stride: Ints, padding: Ints, ceil_mode: bool, count_padding: bool
) -> SSAValue:
    """``avg_pool2d`` with a height of 1"""
    wide = [[1, *kernel], [1, *(stride or kernel)], [0, *padding]]
    return b.squeeze(b(AVG_POOL, b.unsqueeze(x, -2), *wide, ceil_mode, count_padding), -2)


@decomposition("aten.avg_pool3d.default")
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
    """``avg_pool2d`` over height and width, then over depth"""
    settings = [_triple(values) for values in (kernel, stride or kernel, padding)]
    if divisor is not None or ceil_mode or (any(settings[2]) and not count_padding):
        return b.no_match("the windows do not all count the same number of elements")
    plane = [values[1:] for values in settings]
    depth = [[values[0], rest] for values, rest in zip(settings, (1, 1, 0), strict=True)]
    return _in_two_steps(b, x, lambda t: b(AVG_POOL, t, *plane), lambda t: b(AVG_POOL, t, *depth))


@decomposition("aten.adaptive_avg_pool1d.default")
def adaptive_avg_pool1d(b: Builder, x: SSAValue, size: Ints) -> SSAValue:
    """``mean`` for a size of 1, else ``_adaptive_avg_pool2d`` with a height of 1"""
    if size[0] == 1:
        return b.mean(x, [-1], True)
    return b.squeeze(b("aten._adaptive_avg_pool2d.default", b.unsqueeze(x, -2), [1, size[0]]), -2)


@decomposition("aten.adaptive_avg_pool2d.default", "aten.adaptive_avg_pool3d.default", numbers=("output_size",))
def adaptive_avg_pool(b: Builder, x: SSAValue, size: Sequence[SizeLike]) -> SSAValue:
    """``mean`` for sizes of 1, nothing for the input's sizes, else the core form"""
    count = len(size)
    if all(s == 1 for s in size):
        return b.mean(x, range(-count, 0), True)
    if tuple(size) == dims(x)[-count:]:
        return x
    return b(f"aten._adaptive_avg_pool{count}d.default", x, size, types=[b.rewriter.root.results[0].type])


@decomposition("aten._adaptive_avg_pool3d.default")
def adaptive_avg_pool3d(b: Builder, x: SSAValue, size: Ints) -> SSAValue | None:
    """``avg_pool3d`` where the sizes divide the input's"""
    kernel = _exact_windows(x, size)
    if kernel is None:
        return b.no_match("the windows differ in size")
    return b("aten.avg_pool3d.default", x, kernel, types=[b.rewriter.root.results[0].type])


@decomposition(
    "aten.adaptive_max_pool1d.default", "aten.adaptive_max_pool2d.default", "aten.adaptive_max_pool3d.default"
)
def adaptive_max_pool(b: Builder, x: SSAValue, size: Ints) -> Sequence[SSAValue | None] | None:
    """``max_pool2d_with_indices`` where the sizes divide the input's; else ``index_select`` and ``amax``, by dim"""
    kernel = _exact_windows(x, size)
    if kernel is not None and len(size) == 2:
        return b.results(MAX_POOL, x, kernel)
    if kernel is not None and len(size) == 1:
        return [b.squeeze(r, -2) for r in b.results(MAX_POOL, b.unsqueeze(x, -2), [1, *kernel])]
    if b.rewriter.root.results[1].first_use is not None:
        return b.no_match("the windows differ in size, and their indices are used")
    if any(not isinstance(given, int) for given in dims(x)[rank(x) - len(size) :]):
        return b.no_match("the size is only known at run time")
    for i, wanted in enumerate(size):
        x = _largest_of_windows(b, x, rank(x) - len(size) + i, wanted)
    return [x, None]


def _largest_of_windows(b: Builder, x: SSAValue, position: int, count: int) -> SSAValue:
    """The maximum of ``count`` windows that cover a dim evenly; shorter ones repeat their last element."""
    total = dims(x)[position]
    assert isinstance(total, int)
    bounds = [(i * total // count, -(-(i + 1) * total // count)) for i in range(count)]
    longest = max((end - start for start, end in bounds), default=1)
    windows = [[min(start + k, end - 1) for k in range(longest)] for start, end in bounds]
    sizes = b.sizes(x)
    index = b.view(b.constant(windows, i64), [count * longest])
    spread = b("aten.index_select.default", x, position, index)
    return b.amax(b.view(spread, [*sizes[:position], count, longest, *sizes[position + 1 :]]), [position + 1])


def _exact_windows(x: SSAValue, size: Ints) -> list[int] | None:
    """The common size of all windows, when the input is that many times the output."""
    windows: list[int] = []
    for given, wanted in zip(dims(x)[rank(x) - len(size) :], size, strict=True):
        if not isinstance(given, int) or wanted == 0 or given % wanted:
            return None
        windows.append(given // wanted)
    return windows
