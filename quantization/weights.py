"""Weights as int8 numbers with a scale for each index of one dim, and which operators may have them on any target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from etir.backends.api.conditions import constant, dtypes, not_empty
from etir.backends.api.patterns import Match, condition
from etir.backends.api.quantization import QuantizedRow

if TYPE_CHECKING:
    import numpy as np

MOST = 127


@condition("a weight of more than a few numbers")
def worth_it(match: Match) -> str | None:
    shape = match.type("weight")
    count = 1
    for size in () if shape is None else shape.get_shape():
        count *= size
    return None if count > FEW else f"a weight of {count} numbers"


FEW = 256
"""Numbers of a weight that are no smaller as integers with their scales and an operator more."""

_LAYER = (dtypes("float32", of=("weight",)), not_empty(), constant("weight"), worth_it)

WEIGHT_ROWS = (
    QuantizedRow("aten.linear.default", (), "weight", conditions=_LAYER),
    QuantizedRow("aten.convolution.default", (), "weight", conditions=_LAYER),
)
"""Layers whose weights are multiplied out when they run, by a kernel or inside of a delegate."""


def quantized_weight(weight: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """int8 numbers of the shape of ``weight`` and float32 scales, one for each index of ``axis``: the largest magnitude
    is 127. A row of zeros has the scale 1.
    """
    import numpy as np

    others = tuple(d for d in range(weight.ndim) if d != axis)
    most = np.abs(weight).max(axis=others) if weight.size else np.zeros(weight.shape[axis], np.float32)
    scales = np.where(most > 0, most / np.float32(MOST), np.float32(1)).astype(np.float32)
    scales = np.maximum(scales, np.finfo(np.float32).tiny)
    along = scales.reshape([-1 if d == axis else 1 for d in range(weight.ndim)])
    return np.clip(np.rint(weight / along), -MOST, MOST).astype(np.int8), scales
