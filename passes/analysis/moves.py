"""Kernels that move elements inside of the memory of an operand that dies, and the calls that they can do it for.

A row says with ``in_place`` that the kernel can; whether it does for one call is a matter of sizes, which it and this
module know alike (``runtime/kernels/copy/rearrange.h``, ``shuffle.cc``). It moves pieces along cycles, and
remembers on the stack which it has moved. Permutations that move single elements are left to the copy, which has tiles
for them and is faster than any cycle. Sizes that change at run time only get smaller, and with them what is asked here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from etir.dialects.dtypes import dtype_of
from etir.dialects.et.arguments import Item, ListArg
from etir.dialects.et.instructions import CallOp
from etir.dialects.et.layout import is_contiguous
from etir.dialects.et.values import BufferOp

Moves: TypeAlias = Callable[[CallOp, SSAValue, BufferOp], bool]
"""Whether a call can put its result, a buffer, into the memory of an operand, for all sizes up to the types' ones."""

MOST_PIECES = 1 << 14
"""Pieces that a kernel can tell apart."""

LEAST_BYTES = 128
"""Bytes of the pieces of a permutation from which on finding their places is no more than moving them."""

ROW_BYTES = 4096
"""Room for the rows that ``pixel_shuffle`` mixes."""


def _permutes(op: CallOp, operand: SSAValue, result: BufferOp) -> bool:
    """Whether the pieces that ``permute_copy`` moves are long enough and not too many."""
    dims = op.template.data[1]
    shape, size = _plain(operand.type), _plain(result.result.type)
    if shape is None or size is None or not isinstance(dims, ListArg) or len(dims.items) != len(shape):
        return False
    order = [_wrapped(dim, len(shape)) for dim in dims.items]
    moving = [dim for dim in order if dim is not None and shape[dim] != 1]
    if None in order or size != [shape[dim] for dim in order if dim is not None]:
        return False
    staying = [dim for dim in range(len(shape)) if shape[dim] != 1]
    piece = _itemsize(operand.type)
    while moving and moving[-1] == staying[-1]:
        piece *= shape[moving.pop()]
        staying.pop()
    while moving and moving[0] == staying[0]:
        del moving[0], staying[0]
    return piece >= LEAST_BYTES and math.prod(shape[dim] for dim in moving) <= MOST_PIECES


def _shuffles(op: CallOp, operand: SSAValue, result: BufferOp) -> bool:
    """Whether the rows that ``pixel_shuffle`` mixes have room, and are not too many."""
    factor = op.template.data[1]
    shape, size = _plain(operand.type), _plain(result.result.type)
    if shape is None or size is None or not isinstance(factor, int) or len(shape) < 3 or factor < 1:
        return False
    *batch, channels, height, width = shape
    if size != [*batch, channels // factor**2, height * factor, width * factor]:
        return False
    return factor * width * _itemsize(operand.type) <= ROW_BYTES and factor**2 * height <= MOST_PIECES


MOVES: Mapping[str, Moves] = {"aten::permute_copy.out": _permutes, "aten::pixel_shuffle.out": _shuffles}


def _plain(type: Attribute) -> list[int] | None:
    """The sizes of a contiguous tensor that has elements."""
    if not isinstance(type, TensorType) or not is_contiguous(type) or math.prod(type.get_shape()) == 0:
        return None
    return list(type.get_shape())


def _wrapped(dim: Item, rank: int) -> int | None:
    return dim % rank if isinstance(dim, int) and -rank <= dim < rank else None


def _itemsize(type: Attribute) -> int:
    assert isinstance(type, TensorType)
    return dtype_of(type.element_type).itemsize
