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

from etir.backends.native.sizes import at_least, is_known, most

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
    """Whether two different indices never are one float, by the criterion that each dim steps over all inner ones. Of
    sizes that are known at run time only it has to be proven for all that there may be.
    """
    span = 0
    dims = [(abs(s) if is_known((s,)) else s, n) for n, s in zip(shape, strides, strict=True) if n != 1]
    for s, n in sorted(dims, key=lambda dim: (most(dim[0]), most(dim[1]))):
        if is_known((n,)) and n < 1:
            continue
        if not at_least(s, span + 1):
            return False
        span += (n - 1) * s
    return True


Part = tuple[Sequence[int], Sequence[int], int]
"""The shape, the strides and the first float of a part of an array."""


def follow_one_another(parts: Sequence[Part]) -> bool:
    """Whether parts are what one dim of an array is cut into, in order, whatever its size is: no two have a float in
    common.
    """
    (shape, strides, first), *others = parts
    whole = [*shape]
    for there, steps, offset in others:
        if tuple(steps) != tuple(strides) or len(there) != len(whole):
            return False
        equal = [n == m for n, m in zip(whole, there, strict=True)]
        cut = [
            dim
            for dim, stride in enumerate(strides)
            if all(equal[:dim] + equal[dim + 1 :]) and offset - first == whole[dim] * stride
        ]
        if not cut:
            return False
        whole[cut[0]] += there[cut[0]]
    return is_injective(whole, strides)
