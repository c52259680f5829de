"""What a target's own kernels compute on int8, from its manifest: rows for those who decide what is quantized.

A row of the manifest says which operators its kernel computes between dequantize and quantize operators, and which of
their arguments are activations (``quantized``); what else has to hold stands here, by kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from etir.backends.api.conditions import constant, dtypes, given, not_empty, rank
from etir.backends.api.patterns import Condition, Match, condition
from etir.backends.api.quantization import QuantizedRow, in_blocks
from etir.dialects.et.layout import dims_of
from etir.targets.manifest import Manifest

MOST_DEPTH = 66311
"""Products of 255 times 127 of which the sum is less than 2^31."""


@condition("at most 66311 products in a sum")
def sums_fit(match: Match) -> str | None:
    weight = match.type("weight")
    depth = 1
    for size in () if weight is None else weight.get_shape()[1:]:
        depth *= size
    return None if depth <= MOST_DEPTH else f"{depth} products in a sum"


@condition("no transposed convolution")
def not_transposed(match: Match) -> str | None:
    return "transposed" if match.arg("transposed") else None


@condition("a filter for each channel")
def by_channel(match: Match) -> str | None:
    image, weight = match.type("input"), match.type("weight")
    if image is None or weight is None or match.arg("groups") == 1:
        return "one group"
    channels = image.get_shape()[1]
    return None if weight.get_shape()[:2] == (channels, 1) else "filters of several channels"


@condition("operands of the same shape")
def same_shapes(match: Match) -> str | None:
    a, b = match.type("self"), match.type("other")
    if a is None or b is None:
        return "an operand is a number"
    return None if dims_of(a) == dims_of(b) else "operands of different shapes"


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
_ELEMENTS = (dtypes("float32"), not_empty())

GROUP = 32
"""Numbers of a row that kernels for weights in groups have a scale for, or a multiple of."""

_IN_GROUPS = frozenset({"etir::int4_group_dynamic_linear.out"})
"""Kernels whose weights have 4 bits and a scale for each :data:`GROUP` numbers; others have 8 bits and one a row."""

CONDITIONS: dict[str, tuple[Condition, ...]] = {
    "etir::int8_linear.out": _LAYER,
    "etir::int8_conv2d.out": (*_LAYER, rank("input", 4), not_transposed),
    "etir::int8_depthwise_conv2d.out": (*_LAYER, rank("input", 4), not_transposed, by_channel),
    "etir::int8_add.out": (*_ELEMENTS, same_shapes, given("alpha", 1)),
    "etir::int8_mul.out": (*_ELEMENTS, same_shapes),
    "etir::int8_mean.out": (*_ELEMENTS, rank("self", 4), whole_image, fixed_image),
    "etir::int8_lookup.out": _ELEMENTS,
    "etir::int8_dynamic_linear.out": _LAYER,
    "etir::int4_group_dynamic_linear.out": (*_LAYER, rank("weight", 2), in_blocks(GROUP)),
}
"""By kernel, what has to hold of the operator; one that has none here has no row."""

CONSTANTS = constant("weight", "bias")
"""What has to hold besides of a layer that is to be quantized: of one that is, the integers are constants."""


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
        for operator, activations in entry.quantized.items():
            if dynamic != (not activations):
                continue
            weight = "weight" if sums_fit in conditions else ""
            more = (CONSTANTS,) if weight else ()
            row = QuantizedRow(operator, activations, weight, conditions=(*conditions, *more))
            found.append((name, replace(row, bits=4, block=GROUP) if name in _IN_GROUPS else row))
    return tuple(sorted(found, key=lambda item: -len(item[1].conditions)))
