"""Convolutions of volumes as convolutions of images, for targets whose kernel takes images only.

The depth taps become channels: for every tap a slice of the padded volume, side by side with the channel's others, and
every output depth an image of the batch::

    out[n, :, d] = sum over k of conv2d(x[n, :, d * stride + k * dilation], weight[:, :, k])

A transposed convolution is the same of the volume with zeros between its depths and the taps in reverse order.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.lowering.build.builder import Builder, dims, rank
from etir.lowering.decompose_aten.decomposition import decomposition

Ints = Sequence[int]
DEPTH = 2


def _pad_depth(b: Builder, x: SSAValue, before: int, after: int) -> SSAValue:
    """Zeros before and after the depths, or fewer depths where an amount is negative."""
    if before < 0 or after < 0:
        end = b.sizes(x)[DEPTH] - max(-after, 0)
        x = b.slice(x, DEPTH, max(-before, 0), end)
    amounts = [0, 0, 0, 0, max(before, 0), max(after, 0)]
    return b(aten.constant_pad_nd.default, x, amounts, 0) if any(amounts) else x


def _spread_depth(b: Builder, x: SSAValue, step: int) -> SSAValue:
    """``step - 1`` zeros between the depths."""
    if step == 1:
        return x
    batch, channels, depth, rows, columns = b.sizes(x)
    spread = b(aten.constant_pad_nd.default, b.unsqueeze(x, DEPTH + 1), [0, 0, 0, 0, 0, step - 1], 0)
    merged = b.view(spread, [batch, channels, depth * step, rows, columns])
    return b.slice(merged, DEPTH, 0, depth * step - (step - 1))


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
    """One convolution of images whose channels are the depth taps"""
    if rank(weight) != 5:
        b.notify_match_failure("it is no convolution of volumes")
        return None
    shape = dims(weight)
    taps = shape[DEPTH]
    if not all(isinstance(d, int) for d in shape) or not isinstance(taps, int):
        b.notify_match_failure("the sizes of the weight are not constants")
        return None
    reach = dilation[0] * (taps - 1)
    if transposed:
        front = reach - padding[0]
        x = _pad_depth(b, _spread_depth(b, x, stride[0]), front, front + output_padding[0])
        step, offsets = 1, [reach - k * dilation[0] for k in range(taps)]
        # [in, out / groups, k, ...] to [in * k, out / groups, ...]
        weight = b.view(b.permute(weight, (0, 2, 1, 3, 4)), [shape[0] * taps, shape[1], shape[3], shape[4]])  # type: ignore[operator]
    else:
        x = _pad_depth(b, x, padding[0], padding[0])
        step, offsets = stride[0], [k * dilation[0] for k in range(taps)]
        weight = b.view(weight, [shape[0], shape[1] * taps, shape[3], shape[4]])  # type: ignore[operator]
    batch, channels, depth, rows, columns = b.sizes(x)
    found = (depth - (reach + 1)) // step + 1
    slices = [b.slice(x, DEPTH, first, (found - 1) * step + (first + 1), step) for first in offsets]
    stacked = b.cat([b.unsqueeze(part, DEPTH) for part in slices], DEPTH)
    images = b.view(b.permute(stacked, (0, 3, 1, 2, 4, 5)), [batch * found, channels * taps, rows, columns])
    rest = (stride[1:], padding[1:], dilation[1:], transposed, output_padding[1:], groups)
    result = b(aten.convolution.default, images, weight, bias, *map(_listed, rest))
    _, outputs, height, width = b.sizes(result)
    return b.permute(b.view(result, [batch, found, outputs, height, width]), (0, 2, 1, 3, 4))


def _listed(value: Ints | bool | int) -> list[int] | bool | int:
    return list(value) if isinstance(value, Sequence) else value
