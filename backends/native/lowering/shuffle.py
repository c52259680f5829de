"""``pixel_shuffle``: channels become pixels. A convolution that it alone reads writes every pixel where it goes.

Of a result [n, c r r, h, w] that is shuffled by r, the channels ``c r r + i r + j`` for each i and j are an image of c
channels: rows i, i + r, ... and columns j, j + r, ... of [n, c, h r, w r]. With the weight packed in that order
(``spread`` in ``tile.weight``) the convolution is r r products, each of which writes channels side by side, and the
image in between is never there. Where a product of few channels would fill its panels badly, the image is copied.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from xdsl.ir import SSAValue

from etir.backends.api.patterns import operator_of
from etir.backends.native.dialect import GroupOp
from etir.backends.native.kinds import WITH_WINDOWS
from etir.backends.native.lowering.function import Lowering, Outside, members, moves, shape
from etir.backends.native.memory import is_image
from etir.backends.native.places import Place
from etir.backends.native.tile import memref
from etir.backends.native.windows import window_of
from etir.dialects.schema_op import SchemaOp

OPERATOR = "aten.pixel_shuffle.default"
MOST_PADDED = 1.25
"""Columns of the panels of all products over those that one product would have."""


@moves(OPERATOR)
def pixel_shuffle(lowering: Lowering, op: SchemaOp) -> None:
    """Channels become rows and columns: of the same memory, of an image that convolutions read, or of a copy."""
    result = op.results[0]
    if result in lowering.places:
        return
    place = lowering.place(op.arg("self"))
    *outer, c, h, w = place.shape
    factor, rank = op.arg("upscale_factor"), len(outer)
    if rank == 1 and is_image(place) and any(_reads_image(use.operation) for use in result.uses):
        image = lowering.image(result).permuted([0, 2, 3, 1])
        for number, pixels in enumerate(_pixels(image, factor)):
            lowering.copy(place.permuted([0, 2, 3, 1]).sliced(3, number, c // factor**2, factor**2), pixels, op)
        return
    parts = lowering.viewed(place, (*outer, c // factor**2, factor, factor, h, w), op)
    parts = parts.permuted([*range(rank), *(rank + d for d in (0, 3, 1, 4, 2))])
    lowering.places[result] = lowering.viewed(parts, shape(result), op)


def _reads_image(op: object) -> bool:
    return isinstance(op, GroupOp) and op.kind.data in WITH_WINDOWS


def _pixels(image: Place, factor: int) -> Iterator[Place]:
    """The pixels of an image [n, h, w, c] at each place of the squares of ``factor``."""
    _, h, w, _ = image.shape
    for row in range(factor):
        for column in range(factor):
            yield image.sliced(1, row, h // factor, factor).sliced(2, column, w // factor, factor)


def shuffle_after(lowering: Lowering, group: GroupOp, outside: Outside) -> SchemaOp | None:
    """The shuffle that alone reads a convolution, which then writes where that puts its pixels."""
    root, result = members(group)[0], group.outputs[0]
    uses = [*result.uses]
    op = uses[0].operation if len(uses) == 1 else None
    if not isinstance(op, SchemaOp) or operator_of(op) != OPERATOR or result in lowering.outputs:
        return None
    window = window_of(root)
    if len(shape(result)) != 4 or window.transposed or window.groups != 1 or lowering.against_winograd(group) is None:
        return None
    squares, channels = op.arg("upscale_factor") ** 2, shape(result)[1]
    columns = [-(-n // lowering.panel) for n in (channels // squares, channels)]
    if squares == 1 or columns[0] * squares > MOST_PADDED * columns[1]:
        return None
    bias, extras = root.arg("bias"), lowering.extras(group, [], members(group)[1:])
    if bias is not None and outside[bias] not in lowering.weights:
        return None
    return op if all(_of_channels(lowering, outside[v], shape(v), channels) for v in extras) else None


def _of_channels(lowering: Lowering, value: SSAValue, dims: Sequence[int], channels: int) -> bool:
    """Whether a tensor is one number, or one for each channel that the program has as a weight."""
    whole = (1,) * (4 - len(dims)) + tuple(dims)
    return whole == (1, 1, 1, 1) or (whole == (1, channels, 1, 1) and value in lowering.weights)


def pieces(
    lowering: Lowering, op: SchemaOp, bias: SSAValue | None, extras: Sequence[SSAValue]
) -> Iterator[tuple[Place, list[Place]]]:
    """For each pixel of a square: where the result is, and where bias and extra operands are, as [n, h, w, c]."""
    factor = op.arg("upscale_factor")
    image = lowering.image(op.results[0]).permuted([0, 2, 3, 1])
    given = [*([] if bias is None else [bias]), *extras]
    for number, target in enumerate(_pixels(image, factor)):
        c = target.shape[3]
        places: list[Place] = []
        for value in given:
            if math.prod(shape(value)) == 1:
                place = lowering.place(value)
                places.append(Place(place.base, target.shape, (0, 0, 0, 0), place.offset))
                continue
            base = lowering.weight(lowering.weights[value], memref((factor**2, c)), spread=True)
            places.append(Place(base, target.shape, (0, 0, 0, 1), number * c))
        yield target, places
