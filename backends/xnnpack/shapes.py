"""The dims of a node's results, by its operands' dims and its attributes: what the verifier and legalization share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TypeAlias, cast

from etir.backends.xnnpack.schema import KEEP_DIMS, TRANSPOSED, NodeKind

Dims: TypeAlias = tuple[int, ...]
Attributes: TypeAlias = Mapping[str, int | float | tuple[int, ...]]
Rule: TypeAlias = Callable[[Sequence[Dims], Attributes], Dims]


def result_dims(kind: NodeKind, operands: Sequence[Dims], attributes: Attributes) -> Dims:
    """The dims of the (first) result. Raises ``ValueError`` with the reason when the operands do not fit."""
    return _RULES.get(kind.name, _same)(operands, attributes)


def _same(operands: Sequence[Dims], attributes: Attributes) -> Dims:
    return operands[0]


def _need(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)


def _broadcast(operands: Sequence[Dims], attributes: Attributes) -> Dims:
    rank = max(len(d) for d in operands)
    padded = [(1,) * (rank - len(d)) + d for d in operands]
    out: list[int] = []
    for sizes in zip(*padded, strict=True):
        size = max(sizes) if 0 not in sizes else 0
        _need(all(s in (1, size) for s in sizes), f"dims {' and '.join(str(list(d)) for d in operands)} do not fit")
        out.append(size)
    return tuple(out)


def _int(attributes: Attributes, name: str) -> int:
    return cast(int, attributes[name])


def _list(attributes: Attributes, name: str) -> Dims:
    return cast(Dims, attributes[name])


def _image(dims: Dims) -> None:
    _need(len(dims) == 4, f"expected an image of 4 dims (N, H, W, C), not {list(dims)}")


def _window(
    attributes: Attributes, size: int, along: str, kernel: str, stride: str, *, has_dilation: bool = True
) -> int:
    sides = ("top", "bottom") if along == "height" else ("left", "right")
    padded = size + sum(_int(attributes, f"padding_{side}") for side in sides)
    dilation = _int(attributes, f"dilation_{along}") if has_dilation else 1
    extent = (_int(attributes, f"{kernel}_{along}") - 1) * dilation + 1
    step = _int(attributes, f"{stride}_{along}")
    _need(step > 0 and extent > 0, f"{kernel} and {stride} are positive")
    _need(padded >= extent, f"a {kernel} of {extent} does not fit into {padded}")
    return (padded - extent) // step + 1


def _conv(operands: Sequence[Dims], attributes: Attributes) -> Dims:
    image, kernel = operands[0], operands[1]
    _image(image)
    _need(len(kernel) == 4, f"expected a filter of 4 dims, not {list(kernel)}")
    groups = _int(attributes, "groups")
    channels = _int(attributes, "group_input_channels") * groups
    _need(image[3] == channels, f"the image has {image[3]} channels, the node {channels}")
    _need(
        kernel[1:3] == (_int(attributes, "kernel_height"), _int(attributes, "kernel_width")),
        f"the filter {list(kernel)} is not of the node's size",
    )
    out = _int(attributes, "group_output_channels") * groups
    _need(prod(kernel) == prod(kernel[1:3]) * out * channels // groups, f"the filter {list(kernel)} does not fit")
    height, width = (
        _window(attributes, image[i], along, "kernel", "subsampling") for i, along in ((1, "height"), (2, "width"))
    )
    return (image[0], height, width, out)


def _transposed(operands: Sequence[Dims], attributes: Attributes) -> Dims:
    image = operands[0]
    _image(image)
    sizes: list[int] = []
    for i, along, sides in ((1, "height", ("top", "bottom")), (2, "width", ("left", "right"))):
        kernel = (_int(attributes, f"kernel_{along}") - 1) * _int(attributes, f"dilation_{along}") + 1
        grown = (image[i] - 1) * _int(attributes, f"subsampling_{along}") + kernel
        grown += _int(attributes, f"adjustment_{along}")
        sizes.append(grown - sum(_int(attributes, f"padding_{side}") for side in sides))
    return (image[0], *sizes, _int(attributes, "group_output_channels") * _int(attributes, "groups"))


def _pool(operands: Sequence[Dims], attributes: Attributes, *, has_dilation: bool = True) -> Dims:
    image = operands[0]
    _image(image)
    height, width = (
        _window(attributes, image[i], along, "pooling", "stride", has_dilation=has_dilation)
        for i, along in ((1, "height"), (2, "width"))
    )
    return (image[0], height, width, image[3])


def _average_pool(operands: Sequence[Dims], attributes: Attributes) -> Dims:
    """XNNPACK's average pool has no dilation: ExecuTorch writes 0 as the one of its node."""
    return _pool(operands, attributes, has_dilation=False)


def _arg_max(operands: Sequence[Dims], attributes: Attributes) -> Dims:
    image = operands[0]
    _image(image)
    sizes: list[int] = []
    for i, along, sides in ((1, "height", ("top", "bottom")), (2, "width", ("left", "right"))):
        size = image[i] + sum(_int(attributes, f"padding_{side}") for side in sides)
        sizes.append(-(-size // max(_int(attributes, f"pooling_{along}"), 1)))
    return (image[0], *sizes, image[3])


def _global_pool(operands: Sequence[Dims], attributes: Attributes) -> Dims:
    image = operands[0]
    _image(image)
    return (image[0], 1, 1, image[3]) if _int(attributes, "flags") & KEEP_DIMS else (image[0], image[3])


def _fully_connected(operands: Sequence[Dims], attributes: Attributes) -> Dims:
    image, weight = operands[0], operands[1]
    _need(len(weight) == 2, f"expected a filter of 2 dims (outputs, inputs), not {list(weight)}")
    columns, depth = reversed(weight) if _int(attributes, "flags") & TRANSPOSED else weight
    _need(bool(image) and image[-1] == depth, f"the last dim of {list(image)} is not the filter's {depth}")
    return (*image[:-1], columns)


def _matmul(operands: Sequence[Dims], attributes: Attributes) -> Dims:
    left, right = operands
    _need(len(left) == len(right) >= 2, f"{list(left)} and {list(right)} are not batches of matrices")
    columns, depth = (right[-2], right[-1]) if _int(attributes, "flags") & TRANSPOSED else (right[-1], right[-2])
    _need(left[-1] == depth, f"{list(left)} times {list(right)}: the inner dims differ")
    return (*_broadcast([left[:-2], right[:-2]], attributes), left[-2], columns)


def _transpose(operands: Sequence[Dims], attributes: Attributes) -> Dims:
    perm = _list(attributes, "perm")
    _need(sorted(perm) == list(range(len(operands[0]))), f"{list(perm)} is no permutation of {list(operands[0])}")
    return tuple(operands[0][p] for p in perm)


def _reshape(operands: Sequence[Dims], attributes: Attributes) -> Dims:
    shape, count = _list(attributes, "new_shape"), prod(operands[0])
    known = prod(d for d in shape if d)
    _need(shape.count(0) <= 1, f"{list(shape)} leaves more than one dim to be inferred")
    if 0 in shape:
        _need(count % known == 0, f"{list(operands[0])} cannot become {list(shape)}")
        return tuple(d or count // known for d in shape)
    _need(count == known, f"{list(operands[0])} cannot become {list(shape)}")
    return shape


def _pad(operands: Sequence[Dims], attributes: Attributes) -> Dims:
    before, after = _list(attributes, "pre_paddings"), _list(attributes, "post_paddings")
    _need(len(before) == len(after) == len(operands[0]), "there is one padding for each dim, before and after")
    return tuple(a + d + b for a, d, b in zip(before, operands[0], after, strict=True))


def _slice(operands: Sequence[Dims], attributes: Attributes) -> Dims:
    offsets, sizes = _list(attributes, "offsets"), _list(attributes, "sizes")
    _need(len(offsets) == len(sizes) == len(operands[0]), "there is one offset and one size for each dim")
    out = tuple(size or dim - offset for offset, size, dim in zip(offsets, sizes, operands[0], strict=True))
    _need(
        all(offset + size <= dim for offset, size, dim in zip(offsets, out, operands[0], strict=True)),
        f"the slice at {list(offsets)} of {list(out)} is not inside {list(operands[0])}",
    )
    return out


def _cat(operands: Sequence[Dims], attributes: Attributes) -> Dims:
    axis, first = _int(attributes, "axis"), operands[0]
    _need(0 <= axis < len(first), f"axis {axis} is not a dim of {list(first)}")
    _need(
        all(len(d) == len(first) and d[:axis] + d[axis + 1 :] == first[:axis] + first[axis + 1 :] for d in operands),
        f"{' and '.join(str(list(d)) for d in operands)} differ beside dim {axis}",
    )
    return (*first[:axis], sum(d[axis] for d in operands), *first[axis + 1 :])


def _resize(operands: Sequence[Dims], attributes: Attributes) -> Dims:
    image = operands[0]
    _image(image)
    return (image[0], _int(attributes, "new_height"), _int(attributes, "new_width"), image[3])


_RULES: dict[str, Rule] = {
    **dict.fromkeys(("add", "subtract", "multiply", "div", "minimum", "maximum", "prelu"), _broadcast),
    **dict.fromkeys(("conv2d", "depthwise_conv2d"), _conv),
    "conv_transpose2d": _transposed,
    "avg_pooling2d": _average_pool,
    "max_pooling2d": _pool,
    "arg_max_pooling2d": _arg_max,
    "global_avg_pooling2d": _global_pool,
    "fully_connected": _fully_connected,
    "batch_matrix_multiply": _matmul,
    "static_transpose": _transpose,
    "static_reshape": _reshape,
    "static_constant_pad": _pad,
    "static_slice": _slice,
    **{f"concatenate{i}": _cat for i in range(2, 6)},
    "static_resize_bilinear2d": _resize,
}
"""Rules by the node's name; the others keep the dims of their first operand."""
