"""Views of a buffer whose elements come to lie elsewhere, element by element."""

from __future__ import annotations

import itertools
import random

from xdsl.ir import Block

from etir.backends.native.places import Place
from etir.backends.native.restride import Moved, moved
from etir.backends.native.tile import memref

BASE = Block(arg_types=[memref((1 << 20,))]).args[0]


def addresses(place: Place) -> list[int]:
    """The floats of a place, in the order of its indices."""
    steps = (range(0, n * s, s) if s else [0] * n for n, s in zip(place.shape, place.strides, strict=True))
    return [place.offset + sum(found) for found in itertools.product(*steps)]


def test_elements_are_the_same() -> None:
    chance = random.Random(0)
    for _ in range(500):
        extents = [chance.randint(2, 6) for _ in range(chance.randint(1, 3))]
        old: list[int] = []
        new: list[int] = []
        first = chance.randint(0, 40)
        for row in (old, new):
            size = chance.choice([1, 3])
            for extent in reversed(extents):
                row.insert(0, size)
                size = size * extent + chance.randint(0, 5)
        dims = [Moved(n, a, b) for n, a, b in zip(extents, old, new, strict=True)]
        is_at = {
            first + sum(i * a for i, a in zip(index, old, strict=True)): sum(
                i * b for i, b in zip(index, new, strict=True)
            )
            for index in itertools.product(*map(range, extents))
        }
        shape: list[int] = []
        strides: list[int] = []
        offset = first
        for extent, stride in zip(extents, old, strict=True):
            start = chance.randrange(extent)
            step = chance.randint(1, 2)
            shape.append(chance.randint(1, (extent - 1 - start) // step + 1))
            strides.append(stride * step)
            offset += start * stride
        if chance.random() < 0.3:  # the same for every index of a dim
            shape.append(3)
            strides.append(0)
        place = Place(BASE, tuple(shape), tuple(strides), offset)
        chance.shuffle(dims)
        found = moved(place, dims, first)
        assert found is not None, (place, dims)
        there = Place(BASE, place.shape, found[0], found[1])
        assert addresses(there) == [is_at[address] for address in addresses(place)]


def test_what_is_no_part() -> None:
    """Steps over the end of a row, floats between rows, and what begins before the first element or after the last."""
    rows = [Moved(4, 10, 8), Moved(8, 1, 1)]
    assert moved(Place(BASE, (4, 8), (10, 1), 0), rows) == ((8, 1), 0)
    for shape, strides, offset in (
        ((4, 8), (10, 1), 1),
        ((4, 4), (10, 1), 8),
        ((5, 8), (10, 1), 0),
        ((2, 8), (5, 1), 0),
        ((4,), (7,), 0),
        ((40,), (1,), 0),
    ):
        assert moved(Place(BASE, shape, strides, offset), rows) is None, (shape, strides, offset)
    assert moved(Place(BASE, (4,), (10,), 4), rows, 5) is None
