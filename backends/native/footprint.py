"""Which floats a memref touches: its dims as few strides as possible.

Windows of an image overlap, broadcast dims repeat: the set of what is touched has fewer dims than the memref. A dim of
``n`` at stride ``q s`` over one of ``m >= q`` at stride ``s`` is one dim of ``q (n - 1) + m`` at stride ``s``; dims of
stride 0 are none. So a convolution's view of an image becomes the image, and whether all of it is written is one look
at each of its floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Footprint:
    """The floats at ``first + sum(i_d stride_d)``, counted from the start of a base; strides are positive, and sorted
    from the largest. ``last`` is the greatest of them.
    """

    first: int
    dims: tuple[tuple[int, int], ...]

    @property
    def last(self) -> int:
        """The last float."""
        return self.first + sum((n - 1) * s for n, s in self.dims)

    def of(self, floats: np.ndarray) -> np.ndarray:
        """The view of an array [floats of the base], of any dtype, that the footprint is."""
        from numpy.lib.stride_tricks import as_strided

        size = floats.itemsize
        return as_strided(floats[self.first :], [n for n, _ in self.dims], [s * size for _, s in self.dims])


def footprint(shape: Sequence[int], strides: Sequence[int], offset: int) -> Footprint:
    """The footprint of a memref; every extent is positive, strides may be negative."""
    first = offset
    dims: list[tuple[int, int]] = []
    for n, s in zip(shape, strides, strict=True):
        first += (n - 1) * min(s, 0)
        if n > 1 and s:
            dims.append((n, abs(s)))
    dims.sort(key=lambda dim: (-dim[1], dim[0]))
    merged: list[tuple[int, int]] = []
    for n, s in reversed(dims):
        if merged and s % merged[-1][1] == 0 and s // merged[-1][1] <= merged[-1][0]:
            m, step = merged.pop()
            merged.append((s // step * (n - 1) + m, step))
        else:
            merged.append((n, s))
    return Footprint(first, tuple(reversed(merged)))


def is_injective(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two different indices never are one float, by the criterion that each dim steps over all inner ones."""
    span = 0
    for s, n in sorted((abs(s), n) for n, s in zip(shape, strides, strict=True) if n > 1):
        if s <= span:
            return False
        span += (n - 1) * s
    return True
