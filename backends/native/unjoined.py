"""Convolutions of what is joined, without joining it: a sum of convolutions of the parts.

An image has its channels side by side, so that all of a concatenation is there from its first part on, beside what the
other parts are made of. With the saving ``unjoined`` the parts have memory of their own, if one convolution alone reads
the whole: it is a product of each part with the weight of its channels, which adds to the one before. As many results
are written as there are parts, so there are few, and the result has less than half of the bytes of the whole.
"""

from __future__ import annotations

import math

from xdsl.ir import Region, SSAValue

from etir.backends.api.patterns import operator_of
from etir.backends.native.body import Body
from etir.backends.native.dialect import GroupOp
from etir.backends.native.dims import dims
from etir.backends.native.shared import AS_IMAGES
from etir.backends.native.sizes import is_known
from etir.backends.native.tile import YieldOp, body_of
from etir.backends.native.users import inline
from etir.backends.native.windows import border_for, can_be_cut, window_of
from etir.dialects.schema_op import SchemaOp

UNJOINED = "unjoined"
"""The saving that asks for it."""
SHUFFLE = "aten.pixel_shuffle.default"
"""What has a convolution write its pixels elsewhere."""
MOST_PARTS = 8
"""Parts of a join: each of them but the first reads and writes the result once more."""


def convolution_of(join: SchemaOp) -> GroupOp | None:
    """The convolution that alone reads a join, if it can be a sum."""
    if operator_of(join) not in AS_IMAGES:
        return None
    uses = [*join.results[0].uses]
    group = uses[0].operation if len(uses) == 1 else None
    if not isinstance(group, GroupOp) or group.kind.data != "convolution":
        return None
    root, given = group.root, group.body.block.args[uses[0].index]
    if not isinstance(root, SchemaOp) or root.arg("input") is not given or not given.has_one_use():
        return None
    parts = [dims(part) for part in join.arg("tensors")]
    result, shape, window = dims(group.outputs[0]), dims(join.results[0]), window_of(root)
    if not is_known((*shape, *result)) or join.arg("dim") % len(shape) != 1 or window.groups != 1 or window.transposed:
        return None
    if len(parts) > MOST_PARTS or any(len(part) != len(shape) or 0 in part for part in parts):
        return None
    if 2 * math.prod(result) > math.prod(shape) or (any(border_for(root)[0]) and not can_be_cut(root)):
        return None
    return None if any(operator_of(use.operation) == SHUFFLE for use in group.outputs[0].uses) else group


def adding(region: Region) -> Region:
    """A body with one more argument, which is added to the first one."""
    made = body_of(len(region.block.args) + 1)
    first, *others, before = made.block.args
    total: SSAValue = Body(made.block, {}).add(first, before)
    made.block.add_op(YieldOp(inline(region.block, [total, *others], made.block, {})))
    return made
