"""Weights as integers of 8 or 4 bits with scales, and which operators may have them on any target."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from etir.backends.api.conditions import constant, dtypes, not_empty, rank
from etir.backends.api.patterns import Match, condition
from etir.backends.api.quantization import WEIGHT, QuantizedRow, in_blocks
from etir.dialects.experts import EXPERT_LINEAR
from etir.dialects.quant.ops import REDUCED, Uniform

if TYPE_CHECKING:
    import numpy as np

MOST = 127
FEW = 256
"""Numbers of a weight that are no smaller as integers with their scales and an operator more."""
MOST_BIAS = 2.0**29
"""Steps of the products that a bias may have: their sum has 32 bits. A layer with more of them has weights that are
next to nothing beside its bias, and gets a wider scale for them.
"""
BLOCK = 32
"""Numbers of 4 bits that share a scale."""
BOUNDS = {8: (-MOST, MOST), 4: (-8, 7)}
"""The integers that a weight may have, by its bits."""
_DIVISORS = (6.0, 6.5, 7.0, 7.25, 7.5, 7.75, 8.0, 8.5)
"""By what the largest magnitude is divided to have the scales of 4 bits that are tried."""


@condition("a weight of more than a few numbers")
def worth_it(match: Match) -> str | None:
    shape = match.type("weight")
    count = 1
    for size in () if shape is None else shape.get_shape():
        count *= size
    return None if count > FEW else f"a weight of {count} numbers"


@condition("a transposed convolution of one group")
def scales_by_second_dim(match: Match) -> str | None:
    return None if match.arg("transposed") and match.arg("groups") == 1 else "outputs in the first dim of the weight"


_LAYER = (dtypes("float32", of=("weight",)), not_empty(), constant("weight"), worth_it)
_LINEAR, _CONVOLUTION, _TABLE = "aten.linear.default", "aten.convolution.default", "aten.embedding.default"
_ROWS_OF = (*_LAYER, rank("weight", 2), in_blocks(BLOCK))

WEIGHT_ROWS = (
    QuantizedRow(_LINEAR, (), "weight", 0, _ROWS_OF, WEIGHT, 4, BLOCK),
    QuantizedRow(_TABLE, (), "weight", 0, _ROWS_OF, WEIGHT, 4, BLOCK),
    QuantizedRow(EXPERT_LINEAR, (), "weight", 0, _ROWS_OF, WEIGHT, 4, BLOCK),
    QuantizedRow(_LINEAR, (), "weight", 0, _LAYER, WEIGHT),
    QuantizedRow(EXPERT_LINEAR, (), "weight", 0, _LAYER, WEIGHT),
    QuantizedRow(_CONVOLUTION, (), "weight", 1, (*_LAYER, scales_by_second_dim), WEIGHT),
    QuantizedRow(_CONVOLUTION, (), "weight", 0, _LAYER, WEIGHT),
    QuantizedRow(_TABLE, (), "weight", 0, _LAYER, WEIGHT),
)
"""Layers whose weights are multiplied out when they run, by a kernel or inside of a delegate; of tables, the rows that
are looked up.
"""


def weight_rows(block: int = BLOCK) -> tuple[QuantizedRow, ...]:
    """:data:`WEIGHT_ROWS` with a scale for each ``block`` numbers of 4 bits. 0 is one for each output channel; then
    convolutions have 4 bits, too.
    """
    if block == BLOCK:
        return WEIGHT_ROWS
    if block == 0:
        rows = [row for row in WEIGHT_ROWS if row.bits == 8]
        return (*(replace(row, bits=4) for row in rows if row.axis == 0 and row.operator != _TABLE), *rows)
    conditions = (*_LAYER, rank("weight", 2), in_blocks(block))
    return tuple(replace(r, block=block, conditions=conditions) if r.bits == 4 else r for r in WEIGHT_ROWS)


def bounds_of(how: Uniform) -> tuple[int, int]:
    """The integers that a weight is rounded to."""
    return (-REDUCED, REDUCED) if how.reduced else BOUNDS[how.bits]


def quantized_weight(
    weight: np.ndarray, axis: int, least: np.ndarray | None = None, largest: int = MOST
) -> tuple[np.ndarray, np.ndarray]:
    """int8 numbers of the shape of ``weight`` and float32 scales, one for each index of ``axis``, and not below
    ``least``: the largest magnitude is ``largest``. A row of zeros has the scale 1.
    """
    import numpy as np

    others = tuple(d for d in range(weight.ndim) if d != axis)
    most = np.abs(weight).max(axis=others) if weight.size else np.zeros(weight.shape[axis], np.float32)
    scales = np.where(most > 0, most / np.float32(largest), np.float32(1)).astype(np.float32)
    scales = np.maximum(scales, np.finfo(np.float32).tiny if least is None else least).astype(np.float32)
    along = scales.reshape([-1 if d == axis else 1 for d in range(weight.ndim)])
    return np.clip(np.rint(weight / along), -largest, largest).astype(np.int8), scales


def quantized_blocks(weight: np.ndarray, block: int) -> tuple[np.ndarray, np.ndarray]:
    """int8 numbers from -8 to 7 of the shape of a matrix and float32 scales ``[rows, columns / block]``, of which
    bfloat16 holds every one, so that backends with such scales compute the same.

    Of a few scales the one with the least squared error is taken: clipping the largest number of a block by a step
    often costs less than a wider step for all others.
    """
    import numpy as np

    blocks = weight.reshape(-1, block).astype(np.float32)
    most = np.abs(blocks).max(axis=1, keepdims=True)
    low, high = BOUNDS[4]
    best, error, integers = (
        np.ones_like(most),
        np.full(len(blocks), np.inf, np.float32),
        np.zeros(blocks.shape, np.int8),
    )
    for divisor in _DIVISORS:
        scale = as_bfloat16(np.where(most > 0, most / np.float32(divisor), np.float32(1)))
        steps = np.clip(np.rint(blocks / scale), low, high)
        lost = ((steps * scale - blocks) ** 2).sum(axis=1)
        better = lost < error
        best[better], error[better], integers[better] = scale[better], lost[better], steps[better]
    return integers.reshape(weight.shape), best.reshape(weight.shape[0], -1)


def as_bfloat16(scales: np.ndarray) -> np.ndarray:
    """Positive numbers rounded to bfloat16, half to even, and not below its least normal number."""
    import numpy as np

    raw = np.maximum(scales.astype(np.float32), np.finfo(np.float32).tiny).view(np.uint32)
    return ((raw + np.uint32(0x7FFF) + ((raw >> 16) & np.uint32(1))) & np.uint32(0xFFFF0000)).view(np.float32)


def stored_weight(weight: np.ndarray, how: Uniform, least: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The integers of a weight, and its scales: a number for each index of a dim, not below ``least``, or for each
    block of each row.
    """
    if how.bits == 4 and how.block is None:
        integers, scales = quantized_blocks(weight.reshape(len(weight), -1), weight[0].size)
        return integers.reshape(weight.shape), scales.reshape(-1)
    if how.block is not None:
        return quantized_blocks(weight, how.block)
    return quantized_weight(weight, how.axis or 0, least, bounds_of(how)[1])


def multiplied_out(integers: np.ndarray, scales: np.ndarray, how: Uniform) -> np.ndarray:
    """What :func:`stored_weight` stands for, float32."""
    import numpy as np

    if how.block is not None:
        return (integers * np.repeat(scales, how.block, axis=-1)).astype(np.float32)
    along = scales.reshape([-1 if d == (how.axis or 0) else 1 for d in range(integers.ndim)])
    return (integers * along).astype(np.float32)


def stored_bytes(integers: np.ndarray, scales: np.ndarray, how: Uniform) -> int:
    """The size of a weight: its numbers, two in a byte where they have 4 bits, and its scales."""
    return -(-integers.size * how.bits // 8) + scales.nbytes
