"""float32 constants in 16 bits, where that loses nothing: scales of weights are half as large in a file.

float16 goes first, which more processors and kernels convert; its subnormal numbers are left out, since a processor may
take them for 0. bfloat16 has the range of float32, and eight bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

_LEAST_NORMAL = 2.0**-14
"""Of float16."""


def in_sixteen_bits(array: np.ndarray) -> tuple[str, np.ndarray] | None:
    """The torch name of a dtype of 16 bits that holds every number of a float32 array, and the array as it is stored,
    bfloat16 as uint16; None where there is none.
    """
    import numpy as np

    array = np.ascontiguousarray(array, np.float32)
    with np.errstate(over="ignore"):
        half = array.astype(np.float16)
    if ((half == array) & np.isfinite(array) & ((np.abs(array) >= _LEAST_NORMAL) | (array == 0))).all():
        return "float16", half
    bits = array.view(np.uint32)
    if not (bits & 0xFFFF).any() and np.isfinite(array).all():
        return "bfloat16", (bits >> 16).astype(np.uint16)
    return None
