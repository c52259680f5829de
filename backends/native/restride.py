"""What is read of a buffer, when the buffer's elements come to lie elsewhere.

A rewrite that gives a buffer other strides, or puts it into another one, has to say every view of it anew. A view is a
start and steps along its own dims; each of them moves along one dim of the buffer, or the view cannot be said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from etir.backends.native.places import Place
from etir.backends.native.sizes import is_known


@dataclass(frozen=True)
class Moved:
    """``extent`` indices that were ``old`` floats apart, and are ``new`` floats apart now."""

    extent: int
    old: int
    new: int


def moved(place: Place, dims: Sequence[Moved], first: int = 0) -> tuple[tuple[int, ...], int] | None:
    """The strides of a place, and its distance from the first element, when dims of its memory are moved; the first
    element was at ``first``. None where the place is no part of these dims, or steps over their ends. The dims are
    those of different floats each (``is_injective``).
    """
    if not is_known((*place.shape, *place.strides, place.offset)):
        return None
    dims = sorted((dim for dim in dims if dim.extent > 1), key=lambda dim: -dim.old)
    rest, offset = place.offset - first, 0
    ends: list[int] = []
    for dim in dims:
        start = rest // dim.old
        rest -= start * dim.old
        offset += start * dim.new
        ends.append(start)
    if rest or any(end < 0 for end in ends):
        return None
    strides: list[int] = []
    for n, s in zip(place.shape, place.strides, strict=True):
        if n == 1 or s == 0:
            strides.append(0)
            continue
        number = next((number for number, dim in enumerate(dims) if 0 < dim.old <= s), None)
        if number is None or s % dims[number].old:
            return None
        steps = s // dims[number].old
        ends[number] += steps * (n - 1)
        strides.append(steps * dims[number].new)
    if any(end >= dim.extent for end, dim in zip(ends, dims, strict=True)):
        return None
    return tuple(strides), offset
