"""How the dims of a value lie: a *layout* lists the value's dims in the order of storage, with -1 for an added 1.

An image of dims (N, C, H, W) with its channels last has the layout ``(0, 2, 3, 1)``; a sequence (N, C, L) that a 2-D
convolution works on ``(0, 2, -1, 1)``; the default is ``(0, 1, ..., rank - 1)``. Dims of size 1 move freely: two
layouts that agree in the order of the other dims hold the same bytes, and a reshape leads from one to the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from etir.backends.xnnpack.shapes import Dims

Layout: TypeAlias = tuple[int, ...]

NHWC: Layout = (0, 2, 3, 1)
SEQUENCE: Layout = (0, 2, -1, 1)
"""A sequence (N, C, L) as an image of width 1."""


def default_layout(rank: int) -> Layout:
    """The layout of a tensor in the default dim order."""
    return tuple(range(rank))


def stored_dims(dims: Sequence[int], layout: Layout) -> Dims:
    """The dims in the order of storage."""
    return tuple(1 if d < 0 else dims[d] for d in layout)


def significant(layout: Layout, units: frozenset[int]) -> Layout:
    """The layout without added dims and without those in ``units``, which have size 1 for certain."""
    return tuple(d for d in layout if d >= 0 and d not in units)


def same_bytes(a: Layout, b: Layout, units: frozenset[int]) -> bool:
    """Whether two layouts of one value hold the same bytes."""
    return significant(a, units) == significant(b, units)


def aligned(layout: Layout, rank: int, lower: int) -> Layout:
    """The layout of an operand of rank ``lower`` that broadcasts against one of ``rank`` dims in ``layout``.

    Dims that the operand does not have become added ones; leading added ones are left out.
    """
    missing = rank - lower
    found = [d - missing if d >= missing else -1 for d in layout]
    while found and found[0] < 0:
        found.pop(0)
    return tuple(found)
