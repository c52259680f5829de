"""Where a tensor's elements are while a function is lowered to ``tile``: a memref's start and strides.

Views cost nothing: a permutation, a slice or a broadcast is another place in the same memory. Only a reader that needs
elements side by side, or a view that strides cannot express, makes a copy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from xdsl.ir import SSAValue

from etir.backends.native.sizes import is_known
from etir.backends.native.tile import row_major


@dataclass(frozen=True)
class Place:
    """Elements of ``base``, a memref: the first at ``offset`` floats from its start, dims at ``strides`` floats."""

    base: SSAValue
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def is_dense(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        dense = row_major(self.shape)
        return all(s == d for n, s, d in zip(self.shape, self.strides, dense, strict=True) if n != 1)

    def is_same(self, other: Place) -> bool:
        """Whether both are the same elements of the same memory; strides of dims of length 1 say nothing."""
        if (self.base, self.shape, self.offset) != (other.base, other.shape, other.offset):
            return False
        return all(a == b or n == 1 for n, a, b in zip(self.shape, self.strides, other.strides, strict=True))

    def permuted(self, order: Sequence[int]) -> Place:
        """Dims in another order."""
        shape, strides = [self.shape[d] for d in order], [self.strides[d] for d in order]
        return Place(self.base, tuple(shape), tuple(strides), self.offset)

    def broadcast(self, shape: Sequence[int]) -> Place:
        """The same elements for every index of new and of longer dims."""
        lead = len(shape) - len(self.shape)
        strides = [0] * lead
        for n, given, s in zip(shape[lead:], self.shape, self.strides, strict=True):
            assert given in (n, 1)
            strides.append(s if given == n and n != 1 else 0)
        return Place(self.base, tuple(shape), tuple(strides), self.offset)

    def sliced(self, dim: int, start: int, count: int, step: int = 1) -> Place:
        """``count`` indices of a dim, from ``start``."""
        shape, strides = [*self.shape], [*self.strides]
        shape[dim] = count
        offset = self.offset + start * strides[dim]
        strides[dim] *= step
        return Place(self.base, tuple(shape), tuple(strides), offset)

    def selected(self, dim: int, index: int) -> Place:
        """One index of a dim, which is gone."""
        there = self.sliced(dim, index, 1)
        shape, strides = [*there.shape], [*there.strides]
        del shape[dim], strides[dim]
        return Place(self.base, tuple(shape), tuple(strides), there.offset)

    def _viewed_sizes(self, wanted: tuple[int, ...]) -> Place | None:
        """:meth:`viewed` where numbers are known at run time: runs end where products are the same expression."""
        if self.is_dense:
            return Place(self.base, wanted, row_major(wanted), self.offset)
        old = [(n, s) for n, s in zip(self.shape, self.strides, strict=True) if n != 1]
        strides: list[int] = [0] * len(wanted)
        first, have, need = 0, 1, 1
        run: list[tuple[int, int]] = []
        for d, n in enumerate(wanted):
            if n == 1:
                continue
            need *= n
            while have != need and old and (need % have == 0 or not run):
                run.append(old.pop(0))
                have *= run[-1][0]
            if have != need:
                continue
            if any(s != n_ * t for (_, s), (n_, t) in pairwise(run)):
                return None
            size = run[-1][1]
            for inner in reversed(range(first, d + 1)):
                strides[inner] = size if wanted[inner] != 1 else 0
                size *= wanted[inner]
            first, have, need, run = d + 1, 1, 1, []
        return None if run or old or need != 1 else Place(self.base, wanted, tuple(strides), self.offset)

    def viewed(self, shape: Sequence[int]) -> Place | None:
        """The same elements in order under other dims, or None where strides cannot say it or there are not as many.

        Dims of both sides are matched in runs of equal products, as torch's ``computeStride`` does; a run can be
        viewed when its old dims are one loop.
        """
        wanted = tuple(shape)
        known = is_known((*wanted, *self.shape))
        if known and math.prod(wanted) != math.prod(self.shape):
            return None
        if math.prod(wanted) == 0:
            return Place(self.base, wanted, row_major(wanted), self.offset)
        if not is_known((*wanted, *self.shape, *self.strides)):
            return self._viewed_sizes(wanted)
        old = [(n, s) for n, s in zip(self.shape, self.strides, strict=True) if n != 1]
        strides: list[int] = [0] * len(wanted)
        at = len(old)
        new = len(wanted)
        while new > 0:
            if wanted[new - 1] == 1:
                new -= 1
                continue
            at -= 1
            run, step = old[at]
            have, need = run, 1
            first = new
            while True:
                if need < have:
                    new -= 1
                    need *= wanted[new]
                elif have < need:
                    at -= 1
                    if old[at][1] != have * step:
                        return None
                    have *= old[at][0]
                else:
                    break
            size = step
            for d in reversed(range(new, first)):
                strides[d] = size
                size *= wanted[d]
        return Place(self.base, wanted, tuple(strides), self.offset)
