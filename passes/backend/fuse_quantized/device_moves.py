"""Moves of int8 numbers by the kernels of ExecuTorch's library for Cortex-M: `transpose` and `pad`.

The library's padding is four numbers before and four after, for the last dims; those of images whose channels are
innermost are in the order of the memory. It takes images of one channel or one pixel for such, wherever their channels
are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from etir.dialects.dtypes import i8
from etir.dialects.edge.base import PREFIX, EdgeOp
from etir.dialects.et.layout import dims_of, is_contiguous, order_of, tensor_of
from etir.passes.backend.fuse_quantized.kernels import Kernels
from etir.passes.backend.fuse_quantized.stored import HIGH, IMAGE_ORDER, LOW, PAD
from etir.passes.infra.rewriting import Pattern, PatternRewriter

TRANSPOSE, PADDING = "cortex_m::transpose.out", "cortex_m::pad.out"
PERMUTE = "aten.permute_copy.default"
MOST_DIMS = 4
_IN_MEMORY = (0, 3, 1, 2)
"""Where the padding of each dim of an image stands."""


class DeviceMove(Pattern):
    """``permute_copy`` and ``constant_pad_nd`` of int8 numbers."""

    name = "move-on-a-device"
    roots = (PREFIX + PERMUTE, PREFIX + PAD)

    def __init__(self, kernels: Kernels):
        self.kernels = kernels

    def rewrite(self, op: EdgeOp, rewriter: PatternRewriter) -> None:
        kernel = TRANSPOSE if op.op_name == PERMUTE else PADDING
        type = tensor_of(op.operands[0])
        rank = type.get_num_dims()
        if not self.kernels.has(kernel) or type.element_type != i8 or not 0 < rank <= MOST_DIMS:
            rewriter.notify_match_failure("not int8 numbers of one to four dims, or the target has no such kernel")
            return
        if kernel == TRANSPOSE:
            is_plain = is_contiguous(type) and is_contiguous(tensor_of(op.results[0]))
            found: Any = {"perm": [d % rank for d in op.arg("dims")]} if is_plain else "another dim order"
        else:
            found = padding(op)
        if isinstance(found, str):
            rewriter.notify_match_failure(found)
            return
        arguments = {"input": op.operands[0], **found}
        rewriter.replace_op(op, [self.kernels.make(kernel, arguments, op.results[0].type, rewriter, "moved")])


def padding(op: EdgeOp) -> dict[str, Any] | str:
    """The arguments of the library's padding; why it does not do this one."""
    type = tensor_of(op.operands[0])
    dims, order, pads, value = dims_of(type), order_of(type), list(op.arg("pad")), op.arg("value")
    if order != order_of(tensor_of(op.results[0])) or order not in (tuple(range(len(dims))), IMAGE_ORDER):
        return "another dim order"
    if not all(isinstance(n, int) and n >= 0 for n in pads) or value != int(value) or not LOW <= value <= HIGH:
        return "padding that is computed or negative, or with no number of int8"
    sides = [[0] * MOST_DIMS, [0] * MOST_DIMS]
    for index, number in enumerate(pads):
        sides[index % 2][MOST_DIMS - 1 - index // 2] = number
    is_image = order == IMAGE_ORDER
    if len(dims) == MOST_DIMS and not is_image:
        if not all(isinstance(size, int) for size in dims[1:]):
            return "dynamic sizes"
        is_image = dims[1] == 1 or dims[2:] == (1, 1)
        if is_image and (dims[1] != 1 or any(side[1] for side in sides)):
            return "an image of one channel or one pixel whose channels would be elsewhere"
    before, after = (_in_memory(side) if is_image else side for side in sides)
    return {"pre_pad": before, "post_pad": after, "pad_value": int(value)}


def _in_memory(side: Sequence[int]) -> list[int]:
    found = [0] * MOST_DIMS
    for dim, at in enumerate(_IN_MEMORY):
        found[at] = side[dim]
    return found
