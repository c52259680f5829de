"""Constants in 16 bits: only where that loses nothing."""

from __future__ import annotations

import numpy as np
import pytest

from etir.dialects.narrow import in_sixteen_bits


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (0.25, "float16"),
        (-65504.0, "float16"),
        (0.0, "float16"),
        (2.0**-14, "float16"),
        (2.0**-15, "bfloat16"),
        (2.0**100, "bfloat16"),
        (2.0**-100 * 1.5, "bfloat16"),
        (1 + 2.0**-10, "float16"),
        (0.1, None),
        (2.0**-15 * (1 + 2.0**-9), None),
        (65504.0 + 16, None),
        (np.inf, None),
        (np.nan, None),
    ],
)
def test_numbers(number: float, name: str | None) -> None:
    """What is stored stands for the same numbers."""
    array = np.array([[1.0, number], [0.5, -2.0]], np.float32)
    found = in_sixteen_bits(array)
    assert (None if found is None else found[0]) == name
    if found is None:
        return
    stored = found[1]
    back = stored.astype(np.float32) if name == "float16" else (stored.astype(np.uint32) << 16).view(np.float32)
    assert stored.itemsize == 2 and (back == array).all()
