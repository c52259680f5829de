"""What a target's own kernels compute on int8, from its manifest: rows for those who decide what is quantized.

A row of the manifest says which operators its kernel computes between dequantize and quantize operators, and which of
their arguments are activations (``quantized``); what else has to hold stands here, by kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from etir.backends.api.conditions import (
    constant,
    contiguous,
    dtypes,
    given,
    is_constant,
    not_empty,
    rank,
    static_shapes,
)
from etir.backends.api.patterns import Condition, Match, condition
from etir.backends.api.quantization import QuantizedRow, in_blocks
from etir.dialects.et.layout import dims_of
from etir.targets.manifest import Manifest, load

MOST_DEPTH = 66311
"""Products of 255 times 127 of which the sum is less than 2^31."""
MOST_COMPUTED_DEPTH = 33025
"""The same of 255 times 255."""
MOST_PHASES = 256
"""Of a transposed convolution, the largest stride and kernel in one dim."""

LONG_ROW = 512
"""Numbers of a row whose softmax in fixed point has shares of more than 31 bits (``cortex_m::softmax.out``)."""


@condition("at most 66311 products in a sum")
def sums_fit(match: Match) -> str | None:
    weight = match.type("weight")
    depth = 1
    outputs = 1 if "transposed" in match.op.SCHEMA.index and match.arg("transposed") else 0
    for dim, size in enumerate(() if weight is None else weight.get_shape()):
        depth *= 1 if dim == outputs else size
    return None if depth <= MOST_DEPTH else f"{depth} products in a sum"


@condition("no transposed convolution")
def not_transposed(match: Match) -> str | None:
    return "transposed" if match.arg("transposed") else None


@condition("a transposed convolution of small strides")
def transposed(match: Match) -> str | None:
    weight = match.type("weight")
    if not match.arg("transposed") or weight is None:
        return "not transposed"
    most = max((n for n in (*match.arg("stride"), *weight.get_shape()[2:]) if isinstance(n, int)), default=0)
    return None if most <= MOST_PHASES else f"a stride or a kernel of {most}"


@condition("at most 33025 products in a sum")
def computed_sums_fit(match: Match) -> str | None:
    matrix = match.type("self")
    depth = -1 if matrix is None else matrix.get_shape()[-1]
    if depth < 0:
        return "the number of products in a sum is dynamic"
    return None if depth <= MOST_COMPUTED_DEPTH else f"{depth} products in a sum"


@condition("softmax of the last dim")
def of_rows(match: Match) -> str | None:
    matrix = match.type("self")
    if matrix is None or match.arg("dim") % max(1, matrix.get_num_dims()) != matrix.get_num_dims() - 1:
        return "softmax of another dim than the last"
    return "a result of another dtype" if match.arg("half_to_float") else None


@condition("other operands are constant numbers")
def numbers_beside(match: Match) -> str | None:
    for name, value in match.op.args().items():
        if name == "self" or not isinstance(value, SSAValue):
            continue
        type = match.type(name)
        if not is_constant(value) or type is None or any(size != 1 for size in type.get_shape()):
            return f"'{name}' is no constant number"
    return None


@condition("a convolution of lines or images, or a linear layer")
def planes(match: Match) -> str | None:
    if "transposed" not in match.op.SCHEMA.index:
        return None
    image = match.type("input")
    if image is None or image.get_num_dims() not in (3, 4):
        return "not a convolution of lines or images"
    return not_transposed.failure(match)


@condition("one image")
def one_image(match: Match) -> str | None:
    image = match.type("input")
    return None if image is not None and image.get_shape()[0] == 1 else "several images"


@condition("one group, without gaps")
def whole(match: Match) -> str | None:
    if match.arg("groups") != 1:
        return "several groups"
    return None if set(match.arg("dilation")) <= {1} else "a transposed convolution with gaps"


@condition("rows of less than 512 numbers")
def short_rows(match: Match) -> str | None:
    matrix = match.type("self")
    row = -1 if matrix is None else matrix.get_shape()[-1]
    return None if 0 < row < LONG_ROW else f"a row of {LONG_ROW} numbers or more"


@condition("a filter for each channel")
def by_channel(match: Match) -> str | None:
    image, weight = match.type("input"), match.type("weight")
    if image is None or weight is None or match.arg("groups") == 1:
        return "one group"
    channels = image.get_shape()[1]
    return None if weight.get_shape()[:2] == (channels, 1) else "filters of several channels"


@condition("operands of the same shape, or one of the result's to which the other is expanded")
def shapes_fit(match: Match) -> str | None:
    a, b = match.type("self"), match.type("other")
    if a is None or b is None:
        return "an operand is a number"
    if dims_of(a) == dims_of(b):
        return None
    if a.get_num_dims() != b.get_num_dims() or -1 in (*a.get_shape(), *b.get_shape()):
        return "operands of different shapes, with a dynamic size or another number of dims"
    whole = tuple(max(sizes) for sizes in zip(a.get_shape(), b.get_shape(), strict=True))
    return None if whole in (a.get_shape(), b.get_shape()) else "operands of different shapes, each smaller in a dim"


@condition("the mean of an image")
def whole_image(match: Match) -> str | None:
    dims = match.arg("dim") if "dim" in match.op.SCHEMA.index else None
    if dims is not None:
        return None if sorted(d % 4 for d in dims) == [2, 3] else "other dims than height and width"
    size = match.arg("output_size") if "output_size" in match.op.SCHEMA.index else ()
    return None if tuple(size) == (1, 1) else "not one number for an image"


@condition("an image of fixed size")
def fixed_image(match: Match) -> str | None:
    image = match.type("self")
    return None if image is not None and min(image.get_shape()[2:]) > 0 else "the size of the image is dynamic"


_LAYER = (dtypes("float32"), not_empty(), sums_fit)
_EXPERTS = (dtypes("float32", of=("input", "weight")), not_empty(), sums_fit)
_ELEMENTS = (dtypes("float32"), not_empty())

GROUP = 32
"""Numbers of a row that kernels for weights in groups have a scale for, or a multiple of."""

_IN_GROUPS = frozenset({"etir::int4_group_dynamic_linear.out", "etir::int4_group_dynamic_expert_linear.out"})
"""Kernels whose weights have 4 bits and a scale for each :data:`GROUP` numbers; others have 8 bits and one a row."""

CONDITIONS: dict[str, tuple[Condition, ...]] = {
    "etir::int8_linear.out": _LAYER,
    "etir::int8_conv2d.out": (*_LAYER, rank("input", 3, 4), not_transposed),
    "etir::int8_conv_transpose2d.out": (*_LAYER, rank("input", 3, 4), transposed),
    "etir::int8_float_linear.out": _LAYER,
    "etir::int8_float_conv2d.out": (*_LAYER, rank("input", 3, 4), not_transposed),
    # First, so that other convolutions have the reason of the row above.
    "etir::int8_depthwise_conv2d.out": (by_channel, *_LAYER, rank("input", 3, 4), not_transposed),
    "etir::int8_bmm.out": (*_ELEMENTS, computed_sums_fit),
    "etir::int8_softmax.out": (*_ELEMENTS, of_rows),
    "etir::int8_add.out": (*_ELEMENTS, shapes_fit, given("alpha", 1)),
    "etir::int8_mul.out": (*_ELEMENTS, shapes_fit),
    "etir::int8_mean.out": (*_ELEMENTS, rank("self", 4), whole_image, fixed_image),
    "etir::int8_lookup.out": (*_ELEMENTS, numbers_beside),
    "cortex_m::maximum.out": (*_ELEMENTS, shapes_fit),
    "cortex_m::minimum.out": (*_ELEMENTS, shapes_fit),
    "cortex_m::quantized_activation.out": (*_ELEMENTS, numbers_beside),
    "cortex_m::quantized_add.out": (*_ELEMENTS, shapes_fit, given("alpha", 1)),
    "cortex_m::quantized_avg_pool2d.out": (*_ELEMENTS, rank("self", 4), whole_image, fixed_image),
    "cortex_m::quantized_batch_matmul.out": (*_ELEMENTS, computed_sums_fit, static_shapes()),
    "cortex_m::quantized_conv2d.out": (*_LAYER, planes, static_shapes()),
    "cortex_m::quantized_depthwise_conv2d.out": (by_channel, *_LAYER, planes, static_shapes(), one_image),
    "cortex_m::quantized_linear.out": (*_LAYER, rank("weight", 2), contiguous(), static_shapes()),
    "cortex_m::quantized_mul.out": (*_ELEMENTS, shapes_fit),
    "cortex_m::quantized_transpose_conv2d.out": (*_LAYER, rank("input", 4), transposed, whole, static_shapes()),
    "cortex_m::softmax.out": (*_ELEMENTS, of_rows, static_shapes(), short_rows),
    "etir::int8_dynamic_linear.out": _LAYER,
    "etir::int4_group_dynamic_linear.out": (*_LAYER, rank("weight", 2), in_blocks(GROUP)),
    "etir::int8_group_dynamic_expert_linear.out": _EXPERTS,
    "etir::int4_group_dynamic_expert_linear.out": (*_EXPERTS, in_blocks(GROUP)),
}
"""By kernel, what has to hold of the operator; one that has none here has no row."""

FLOAT_RESULTS = {
    "etir::int8_linear.out": "etir::int8_float_linear.out",
    "etir::int8_conv2d.out": "etir::int8_float_conv2d.out",
}
"""Kernels of layers with those that give float32 for the same integers, where nobody reads the result as such."""

_SECOND_DIM = frozenset({"etir::int8_conv_transpose2d.out", "cortex_m::quantized_transpose_conv2d.out"})
"""Kernels of layers whose weight has its output channels in dim 1."""

CONSTANTS = constant("weight", "bias")
"""What has to hold besides of a layer that is to be quantized: of one that is, the integers are constants."""


def fuses_pairs(target: str, libraries: Sequence[str]) -> bool:
    """Whether one of the libraries that are linked besides what a target always has computes on int8, so that pairs of
    quantize and dequantize operators are of use there, though no kernel may compute them as such.
    """
    manifest = load(target)
    linked = [name for name in libraries if not manifest.libraries.get(name, True)]
    return any(entry.library in linked and any(entry.quantized.values()) for entry in manifest.kernels.values())


def kernel_rows(
    manifest: Manifest, libraries: Sequence[str] = (), *, dynamic: bool = False
) -> tuple[tuple[str, QuantizedRow], ...]:
    """Kernels of a target and what each of them computes, the more special ones first: between dequantize and quantize
    operators, or, if ``dynamic``, of activations that are quantized where they are read, row by row.

    ``libraries`` are those of the target's libraries that are linked besides what it always has.
    """
    found: list[tuple[str, QuantizedRow]] = []
    for name, entry in manifest.kernels.items():
        conditions = CONDITIONS.get(name)
        linked = manifest.libraries.get(entry.library, False) or entry.library in libraries
        if conditions is None or not linked:
            continue
        gives_float = FLOAT_RESULTS.get(name) in manifest.kernels
        for operator, activations in entry.quantized.items():
            if dynamic != (not activations):
                continue
            weight = "weight" if sums_fit in conditions else ""
            more = (CONSTANTS,) if weight else ()
            axis = 1 if name in _SECOND_DIM else 0
            row = QuantizedRow(
                operator, activations, weight, axis, conditions=(*conditions, *more), float_result=gives_float
            )
            found.append((name, replace(row, bits=4, block=GROUP) if name in _IN_GROUPS else row))
    return tuple(sorted(found, key=lambda item: -len(item[1].conditions)))
