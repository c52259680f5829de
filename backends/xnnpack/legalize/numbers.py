"""Numbers as arrays and as bytes. NumPy has no bfloat16: its numbers are float32 arrays here, rounded to 8 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from etir.dialects.dtypes import DType

BF16 = "bfloat16"


def bfloat16(array: np.ndarray) -> np.ndarray:
    """The upper halves of float32 numbers, rounded to the nearest, ties to even, as 16-bit integers."""
    import numpy as np

    bits = np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def widened(halves: np.ndarray) -> np.ndarray:
    """The float32 numbers whose upper halves are given as 16-bit integers."""
    import numpy as np

    return (halves.astype(np.uint32) << 16).view(np.float32)


def stored_as(row: DType) -> str:
    """The NumPy dtype of the stored numbers of a torch dtype: 16-bit integers for bfloat16."""
    return "uint16" if row.torch_name == BF16 else str(row.numpy_name)


def rounded(array: np.ndarray, row: DType) -> np.ndarray:
    """An array's numbers as a torch dtype has them."""
    return widened(bfloat16(array)) if row.torch_name == BF16 else array.astype(str(row.numpy_name))


def to_stored(array: np.ndarray, row: DType) -> np.ndarray:
    """An array's numbers as they are stored, in C order."""
    import numpy as np

    return bfloat16(array) if row.torch_name == BF16 else np.ascontiguousarray(array, dtype=row.numpy_name)
