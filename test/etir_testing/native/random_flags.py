"""Random operations of ``tile`` on truth values."""

from __future__ import annotations

from etir.backends.native.flags import FlagsOp

from etir_testing.native.random_functions import Function


def truths(function: Function, count: int = 3) -> None:
    """Truth values as floats: fewer than a vector, with a remainder, and more than a unit of work."""
    for number in range(count):
        last = function.random.randint(2050, 2100) if number == 0 else function.random.randint(1, 40)
        shape = (function.random.randint(1, 3), last)
        given = function.truth(shape)
        function.step(shape, lambda operand, out, given=given: FlagsOp(operand(given), out))
