"""Random elements of rows by their numbers."""

from __future__ import annotations

import numpy as np

from etir.backends.native.gather import GatherOp

from etir_testing.native.random_functions import Function, epilogue, sizes


def gathered(function: Function, count: int = 8) -> None:
    """Rows of any length from shorter and longer ones, with numbers that are repeated for rows, and some outside."""
    chance = function.random
    for number in range(count):
        lead = tuple(chance.randint(1, 3) for _ in range(chance.randint(0, 3)))
        given, made = chance.randint(1, 40), sizes(chance, (8, 16))
        a = function.tensor((*lead, given), columns=number % 2 == 0)
        at = function.tensor((*lead, made))
        numbers = function.inputs[at][2]
        numbers[:] = function.numbers.integers(-1 if number == 0 else 0, given + (number == 0), numbers.size)
        extra = [function.tensor((*lead, made)) for _ in range(chance.randint(0, 2))]
        body = epilogue(chance, 1 + len(extra))
        assert np.isfinite(numbers).all()
        function.step(
            (*lead, made),
            lambda of, out, a=a, n=at, e=extra, b=body: GatherOp(of(a), of(n), out, [of(x) for x in e], b.clone()),
        )
