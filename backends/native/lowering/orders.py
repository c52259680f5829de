"""The order in which the dims of a result lie in memory.

A result whose dims lie as those of what it is made of may lie over it, and nothing is turned: a map of an image under
other dims, as the two halves of split attention, or the sum of these, has the image's channels side by side.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from xdsl.ir import SSAValue

from etir.backends.native.lowering.function import Lowering, shape
from etir.backends.native.places import Place
from etir.backends.native.sizes import is_known, most


def turned(place: Place) -> list[int] | None:
    """The dims of a place as they lie in memory; None where elements of the last one lie side by side, or of none."""
    if not is_known((*place.shape, *place.strides)):
        return None
    order = sorted(range(len(place.shape)), key=lambda d: -place.strides[d] if place.shape[d] != 1 else -sys.maxsize)
    if not order or order[-1] == len(order) - 1:
        return None
    # Dims of one stride are repeated.
    steps = [place.strides[d] for d in order if place.shape[d] != 1]
    return order if steps[-1:] == [1] and len({*steps}) == len(steps) else None


def reordered(place: Place) -> list[int] | None:
    """The dims of a place as they lie in memory, where that is another order, elements of the last one lie side by
    side, and there are no gaps, as heads that are next to each other in each row; else None. Sizes may be known at run
    time only.
    """
    dims = range(len(place.shape))
    order = sorted(dims, key=lambda d: -most(place.strides[d]) if place.shape[d] != 1 else -sys.maxsize)
    is_other = [d for d in order if place.shape[d] != 1] != [d for d in dims if place.shape[d] != 1]
    return order if is_other and order[-1] == dims[-1] and place.permuted(order).is_dense else None


def result_in_order(lowering: Lowering, value: SSAValue, order: Sequence[int], wanted: Sequence[int]) -> Place:
    """Where a group writes what may have its dims ``wanted`` in this order: channels side by side where it is an image,
    and as ``Lowering.result`` where it has a place already.
    """
    if lowering.has_place(value):
        return lowering.result(value, wanted)
    dims = shape(value)
    if len(dims) == 4 and [*wanted] == [*dims] and order[-1] == 1:
        return lowering.image(value)
    made = lowering.dense_buffer(tuple(wanted[d] for d in order)).permuted(
        [[*order].index(d) for d in range(len(order))]
    )
    found = made.viewed(dims)
    if found is None:
        return lowering.result(value, wanted)
    lowering.places[value] = found
    return made
