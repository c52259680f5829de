"""Convolutions of all ranks as the one core ``convolution``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.lowering.build.builder import Builder, dims, element, rank
from etir.lowering.build.sizes import SizeLike
from etir.lowering.decompose_aten.decomposition import decomposition

Ints = Sequence[int]
Sizes = Sequence[SizeLike]

SIZES = ("stride", "padding", "dilation", "output_padding", "groups")
"""The arguments that may be computed from sizes."""


def _per_dim(values: Sizes, count: int) -> list[SizeLike]:
    """One entry for each spatial dim; a single one counts for all."""
    return list(values) * count if len(values) == 1 else list(values)


def convolution(
    b: Builder,
    x: SSAValue,
    weight: SSAValue,
    bias: SSAValue | None,
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    groups: Any,
    *,
    transposed: bool = False,
    output_padding: Sequence[Any] = (0,),
) -> SSAValue | None:
    """``convolution``; an input without batch dim gets one."""
    spatial = rank(weight) - 2
    batched = rank(x) == spatial + 2
    settings = [b.as_sizes(values) for values in (stride, padding, dilation)]
    extra, count = b.as_sizes(output_padding), b.as_size(groups)
    known = [values for values in settings if values is not None]
    if len(known) < len(settings) or extra is None or count is None:
        return b.notify_match_failure("nothing is known about a number")
    result = b(
        aten.convolution.default,
        x if batched else b.unsqueeze(x, 0),
        weight,
        bias,
        *(_per_dim(values, spatial) for values in known),
        transposed,
        _per_dim(extra, spatial),
        count,
    )
    return result if batched else b.squeeze(result, 0)


@decomposition(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default, symint_args=SIZES)
def conv(
    b: Builder,
    x: SSAValue,
    weight: SSAValue,
    bias: SSAValue | None,
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    groups: Any,
) -> SSAValue | None:
    """``convolution``"""
    return convolution(b, x, weight, bias, stride, padding, dilation, groups)


@decomposition(
    aten.conv1d.padding,
    aten.conv2d.padding,
    aten.conv3d.padding,
    aten._convolution_mode.default,
    symint_args=("stride", "dilation", "groups"),
)
def conv_padded_by_name(
    b: Builder,
    x: SSAValue,
    weight: SSAValue,
    bias: SSAValue | None,
    stride: Sequence[Any],
    padding: str,
    dilation: Sequence[Any],
    groups: Any,
) -> SSAValue | None:
    """``convolution``; for ``same`` an odd padding has its extra element at the end, by ``constant_pad_nd``"""
    spatial = rank(weight) - 2
    if padding == "valid":
        return convolution(b, x, weight, bias, stride, (0,), dilation, groups)
    steps = b.as_sizes(dilation)
    if steps is None:
        return b.notify_match_failure("nothing is known about a number")
    totals = [d * (k - 1) for d, k in zip(_per_dim(steps, spatial), b.sizes(weight)[2:], strict=True)]
    odd = [total % 2 for total in totals]
    if any(not isinstance(rest, int) or rest for rest in odd):
        extra = [amount for rest in reversed(odd) for amount in (0, rest)]
        x = b(aten.constant_pad_nd.default, x, extra, 0)
    return convolution(b, x, weight, bias, stride, [total // 2 for total in totals], dilation, groups)


@decomposition(
    aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input, symint_args=SIZES
)
def conv_transpose(
    b: Builder,
    x: SSAValue,
    weight: SSAValue,
    bias: SSAValue | None,
    stride: Sequence[Any],
    padding: Sequence[Any],
    output_padding: Sequence[Any],
    groups: Any,
    dilation: Sequence[Any],
) -> SSAValue | None:
    """``convolution``, transposed"""
    return convolution(
        b, x, weight, bias, stride, padding, dilation, groups, transposed=True, output_padding=output_padding
    )


@decomposition(aten._convolution.default, aten._convolution.deprecated, symint_args=SIZES)
def convolution_with_settings(
    b: Builder,
    x: SSAValue,
    weight: SSAValue,
    bias: SSAValue | None,
    stride: Sequence[Any],
    padding: Sequence[Any],
    dilation: Sequence[Any],
    transposed: bool,
    output_padding: Sequence[Any],
    groups: Any,
    *_settings: bool,
) -> SSAValue | None:
    """``convolution`` without the settings of other devices"""
    return convolution(
        b, x, weight, bias, stride, padding, dilation, groups, transposed=transposed, output_padding=output_padding
    )


@decomposition(aten.conv_tbc.default)
def conv_tbc(b: Builder, x: SSAValue, weight: SSAValue, bias: SSAValue, pad: int) -> SSAValue:
    """``convolution`` of [time, batch, channels] with a [width, in, out] kernel"""
    result = convolution(b, b.permute(x, [1, 2, 0]), b.permute(weight, [2, 1, 0]), bias, (1,), (pad,), (1,), 1)
    assert result is not None
    return b.permute(result, [2, 0, 1])


@decomposition(aten.thnn_conv2d.default, aten.slow_conv3d.default, symint_args=("kernel_size", "stride", "padding"))
def conv_with_kernel_size(
    b: Builder,
    x: SSAValue,
    weight: SSAValue,
    kernel_size: Sequence[Any],
    bias: SSAValue | None,
    stride: Sequence[Any],
    padding: Sequence[Any],
) -> SSAValue | None:
    """``convolution``"""
    if any(
        isinstance(d, int) and isinstance(k, int) and d != k
        for d, k in zip(dims(weight)[2:], kernel_size, strict=False)
    ):
        return b.notify_match_failure("the kernel has another size than the one that is given")
    return convolution(b, x, weight, bias, stride, padding, (1,), 1)


@decomposition(aten.col2im.default, symint_args=("output_size",))
def col2im(
    b: Builder, x: SSAValue, given: Sequence[Any], kernel: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> SSAValue | None:
    """Transposed ``convolution`` that puts each element of a window at its place"""
    size = [s for s in map(b.as_size, given) if s is not None]
    if len(size) != len(given):
        return b.notify_match_failure("nothing is known about the size of the image")
    taps = kernel[0] * kernel[1]
    reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    settings = list(zip(size, padding, reach, stride, strict=True))
    count = [(s + 2 * p - r - 1) // step + 1 for s, p, r, step in settings]
    # How many elements follow the last window: the most that there can be where that is not known.
    rest = [(s + 2 * p - r - 1) % step for s, p, r, step in settings]
    output_padding = [r if isinstance(r, int) else step - 1 for r, step in zip(rest, stride, strict=True)]
    batch = b.sizes(x)[:-2]
    windows = dims(x)[-2]
    if not isinstance(windows, int):
        return b.notify_match_failure("the number of channels is not a constant")
    channels = windows // taps
    lead = batch[0] if batch else 1
    places = [
        [[float(i == k * kernel[1] + n) for n in range(kernel[1])] for k in range(kernel[0])] for i in range(taps)
    ]
    weight = b.constant([[image] for image in places], element(x))
    images = b.view(x, [lead * channels, taps, *count])
    result = convolution(
        b, images, weight, None, stride, padding, dilation, 1, transposed=True, output_padding=output_padding
    )
    assert result is not None
    for i, (wanted, left) in enumerate(zip(size, rest, strict=True)):
        if not isinstance(left, int):
            result = b.slice(result, i - 2, 0, wanted)
    return b.view(result, [*batch, channels, *size])
