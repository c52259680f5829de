"""Convolutions of volumes as convolutions of images, for targets whose kernel takes images only.

Every output depth is an image of the batch, and every depth tap a convolution of images::

    out[n, :, d] = sum over k of conv2d(x[n, :, d * stride + k * dilation], weight[:, :, k])

The depths are the outermost dim, so that the images of a tap are neighbors in memory. Sums of numbers of 16 bits would
be rounded after each tap: there the taps become channels, side by side with the channel's others, of one convolution.
A transposed convolution is the same of the volume with zeros between its depths and the taps in reverse order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import dtype_of
from etir.lowering.build.builder import Builder, dims, element, rank
from etir.lowering.decompose_aten.decomposition import decomposition

Ints = Sequence[int]
DEPTH = 2


def _pad_depth(b: Builder, x: SSAValue, axis: int, before: int, after: int) -> SSAValue:
    """Zeros before and after the depths, which are dim ``axis``, or fewer depths where an amount is negative."""
    if before < 0 or after < 0:
        end = b.sizes(x)[axis] - max(-after, 0)
        x = b.slice(x, axis, max(-before, 0), end)
    amounts = [*_none_of(rank(x) - axis - 1), max(before, 0), max(after, 0)]
    return b(aten.constant_pad_nd.default, x, amounts, 0) if any(amounts) else x


def _spread_depth(b: Builder, x: SSAValue, axis: int, step: int) -> SSAValue:
    """``step - 1`` zeros between the depths."""
    if step == 1:
        return x
    sizes = b.sizes(x)
    depth = sizes[axis]
    amounts = [*_none_of(rank(x) - axis - 1), 0, step - 1]
    spread = b(aten.constant_pad_nd.default, b.unsqueeze(x, axis + 1), amounts, 0)
    merged = b.view(spread, [*sizes[:axis], depth * step, *sizes[axis + 1 :]])
    return b.slice(merged, axis, 0, depth * step - (step - 1))


def _none_of(dims: int) -> list[int]:
    """The amounts of ``constant_pad_nd`` for the last dims, which are not padded."""
    return [0, 0] * dims


@decomposition(aten.convolution.default)
def convolution_of_volumes(
    b: Builder,
    x: SSAValue,
    weight: SSAValue,
    bias: SSAValue | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
) -> SSAValue | None:
    """A convolution of images for each depth tap, summed; of 16-bit numbers one, whose channels are the taps"""
    if rank(weight) != 5:
        b.notify_match_failure("it is no convolution of volumes")
        return None
    shape = dims(weight)
    taps = shape[DEPTH]
    if not all(isinstance(d, int) for d in shape) or not isinstance(taps, int):
        b.notify_match_failure("the sizes of the weight are not constants")
        return None
    reach = dilation[0] * (taps - 1)
    is_summed = dtype_of(element(x)).itemsize > 2
    if is_summed:
        x = b.permute(x, (2, 0, 1, 3, 4))
    axis = 0 if is_summed else DEPTH
    if transposed:
        front = reach - padding[0]
        x = _pad_depth(b, _spread_depth(b, x, axis, stride[0]), axis, front, front + output_padding[0])
        step, offsets = 1, [reach - k * dilation[0] for k in range(taps)]
    else:
        x = _pad_depth(b, x, axis, padding[0], padding[0])
        step, offsets = stride[0], [k * dilation[0] for k in range(taps)]
    found = (b.sizes(x)[axis] - (reach + 1)) // step + 1
    ends = [(found - 1) * step + (first + 1) for first in offsets]
    ranges = [(first, end, step) for first, end in zip(offsets, ends, strict=True)]
    rest = tuple(map(_listed, (stride[1:], padding[1:], dilation[1:], transposed, output_padding[1:], groups)))
    if is_summed:
        return _summed(b, x, weight, bias, ranges, found, rest)
    return _stacked(b, x, weight, bias, ranges, found, rest)


def _summed(
    b: Builder,
    x: SSAValue,
    weight: SSAValue,
    bias: SSAValue | None,
    ranges: Sequence[tuple[Any, Any, int]],
    found: Any,
    rest: tuple[Any, ...],
) -> SSAValue:
    """The sum of a convolution for each tap, of the depths that it sees: ``x`` has them outermost."""
    _, batch, channels, rows, columns = b.sizes(x)
    shape = [d for i, d in enumerate(b.sizes(weight)) if i != DEPTH]
    total: SSAValue | None = None
    for tap, part in enumerate(ranges):
        images = b.view(b.slice(x, 0, *part), [found * batch, channels, rows, columns])
        kernel = b.view(b.slice(weight, DEPTH, tap, tap + 1), shape)
        one = b(aten.convolution.default, images, kernel, bias if tap == 0 else None, *rest)
        total = one if total is None else b.add(total, one)
    assert total is not None
    _, outputs, height, width = b.sizes(total)
    return b.permute(b.view(total, [found, batch, outputs, height, width]), (1, 2, 0, 3, 4))


def _stacked(
    b: Builder,
    x: SSAValue,
    weight: SSAValue,
    bias: SSAValue | None,
    ranges: Sequence[tuple[Any, Any, int]],
    found: Any,
    rest: tuple[Any, ...],
) -> SSAValue:
    """One convolution of images whose channels are the taps."""
    first, second, taps, *kernel = b.sizes(weight)
    if rest[3]:
        # [in, out / groups, k, ...] to [in * k, out / groups, ...]
        weight = b.view(b.permute(weight, (0, 2, 1, 3, 4)), [first * taps, second, *kernel])
    else:
        weight = b.view(weight, [first, second * taps, *kernel])
    batch, channels, _, rows, columns = b.sizes(x)
    stacked = b.cat([b.unsqueeze(b.slice(x, DEPTH, *part), DEPTH) for part in ranges], DEPTH)
    images = b.view(b.permute(stacked, (0, 3, 1, 2, 4, 5)), [batch * found, channels * taps, rows, columns])
    result = b(aten.convolution.default, images, weight, bias, *rest)
    _, outputs, height, width = b.sizes(result)
    return b.permute(b.view(result, [batch, found, outputs, height, width]), (0, 2, 1, 3, 4))


def _listed(value: Ints | bool | int) -> list[int] | bool | int:
    return list(value) if isinstance(value, Sequence) else value
