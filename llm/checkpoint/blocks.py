"""Weights as a GGUF file stores them: blocks of integers that are kept exactly.

``Q4_0``, ``Q4_1`` and ``Q8_0`` are 32 integers with a scale in float16, and for ``Q4_1`` a minimum. They become int8
numbers with a scale for each group of 32, the form that quantized weights have everywhere in etir; multiplying them out
and rounding them again would lose what the publisher's calibration has found.

A minimum m is told as a zero point in float32, ``-m / d``, so that ``(q - zero) * d`` is ``d * q + m``. Both are
float16, so that ``-zero * d`` rounded to float16 is m again: nothing is lost.

The layouts are those of llama.cpp's ``ggml-common.h``, through the package ``gguf``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

GROUP = 32
"""Numbers that share a scale."""
KEPT = {"Q4_0": 4, "Q4_1": 4, "Q8_0": 8}
"""Types that are kept as they are, with the bits of their integers."""
FLOATS = ("F32", "F16", "BF16", "F64")
"""Types that hold numbers, not blocks."""


@dataclass(frozen=True)
class Blocks:
    """A matrix as integers: int8 ``[rows, columns]``, float32 scales ``[rows, columns / 32]`` that float16 holds, and
    zero points like these where there are minimums. ``value = (integer - zero) * scale``.
    """

    bits: int
    integers: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None = None

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest integer that the type has."""
        if self.bits == 8:
            return -128, 127
        return (-8, 7) if self.zeros is None else (0, 15)

    def multiplied_out(self) -> np.ndarray:
        """float32 ``[rows, columns]``, as kernels compute it."""
        groups = self.integers.reshape(*self.scales.shape, GROUP).astype(np.float32)
        if self.zeros is not None:
            groups = groups - self.zeros[..., None]
        return (groups * self.scales[..., None]).reshape(self.integers.shape)


def blocks_of(type: str, raw: np.ndarray) -> Blocks:
    """The integers of rows of a type of :data:`KEPT`: uint8 ``[rows, bytes of a row]``."""
    rows = len(raw)
    if type == "Q8_0":
        parts = raw.reshape(rows, -1, 2 + GROUP)
        integers = parts[..., 2:].copy().view(np.int8)
        return Blocks(8, integers.reshape(rows, -1), _halves(parts, 0))
    lead = 2 if type == "Q4_0" else 4
    parts = raw.reshape(rows, -1, lead + GROUP // 2)
    nibbles = np.concatenate([parts[..., lead:] & 15, parts[..., lead:] >> 4], axis=-1).astype(np.int8)
    scales = _halves(parts, 0)
    if type == "Q4_0":
        return Blocks(4, (nibbles - 8).reshape(rows, -1), scales)
    least = _halves(parts, 2)
    # Without a scale a block is its minimum: that is the scale then, and the integers are 0.
    flat = scales == 0
    nibbles[flat] = 0
    scales = np.where(flat, np.where(least == 0, np.float32(1), np.abs(least)), scales)
    return Blocks(4, nibbles.reshape(rows, -1), scales, -least / scales)


def _halves(parts: np.ndarray, at: int) -> np.ndarray:
    """The float16 numbers at a place of each block, as float32."""
    return parts[..., at : at + 2].copy().view("<f2").astype(np.float32)[..., 0]
