"""Which images are planes, as the program has them, where memory is short: a channel of an image after the other.

Products write planes that the program gives back, whoever reads the image besides, and read images and what they add to
their sums as planes, if they are. A sum can lie over what is added where both lie the same way. So what is added to
planes is made as planes, if memory asks for that, and what is added to these: a residual block after another. A pool
before them is copied to planes, row by row (``tile-rows``).
"""

from __future__ import annotations

from typing import cast

from xdsl.ir import Use

from etir.backends.native.asked import saves
from etir.backends.native.dialect import GroupOp
from etir.backends.native.functions import PLANES, RESIDUALS
from etir.backends.native.lowering.function import Lowering, is_join, shape
from etir.backends.native.places import Place
from etir.backends.native.windows import window_of
from etir.dialects.schema_op import SchemaOp


def planes_for(lowering: Lowering, group: GroupOp) -> Place | None:
    """The planes that a convolution writes: those that the program gives back, where others read the image as well, or
    a buffer, if the image is added to planes; None for an image with its channels side by side.
    """
    result = group.outputs[0]
    if _is_given_back(lowering, group):
        return lowering.result(result)
    if not _is_product(lowering, group) or not is_added(lowering, group):
        return None
    lowering.places[result] = made = lowering.dense_buffer(shape(result))
    return made


def is_added(lowering: Lowering, group: GroupOp) -> bool:
    """Whether the image of a convolution or a pool, which is no output, is to be planes since it is added to planes and
    memory is short. Those may be planes for the same reason.
    """
    if group not in lowering.added:
        result = group.outputs[0]
        uses = [] if result in lowering.outputs else list(result.uses)
        is_apart = not any(isinstance(use.operation, SchemaOp) and is_join(use.operation) for use in uses)
        lowering.added[group] = is_apart and any(_adds(lowering, use) for use in uses)
    return lowering.added[group] and saves(lowering.func, RESIDUALS)


def reads_planes(lowering: Lowering, group: GroupOp) -> bool:
    """Whether a convolution reads an image, and what it adds to its sums, as planes, if they are. Products do, where
    that saves memory.
    """
    return _is_product(lowering, group) and saves(lowering.func, PLANES)


def _is_product(lowering: Lowering, group: GroupOp) -> bool:
    if group.kind.data != "convolution":
        return False
    return window_of(cast(SchemaOp, group.root)).transposed or lowering.against_winograd(group) is not None


def _is_given_back(lowering: Lowering, group: GroupOp) -> bool:
    """Whether the program has planes of an image of a product; an image that nobody else reads is copied to them at
    last, unless it is a sum that should lie over what is added.
    """
    result = group.outputs[0]
    if result not in lowering.outputs or not reads_planes(lowering, group):
        return False
    return not result.has_one_use() or saves(lowering.func, RESIDUALS)


def _adds(lowering: Lowering, use: Use) -> bool:
    """Whether an image is added to planes where it is read."""
    reader, index = use.operation, use.index
    if not isinstance(reader, GroupOp) or not _is_product(lowering, reader):
        return False
    root = cast(SchemaOp, reader.root)
    if reader.body.block.args[index] in root.operands or shape(reader.inputs[index]) != shape(reader.outputs[0]):
        return False
    return _is_given_back(lowering, reader) or is_added(lowering, reader)
