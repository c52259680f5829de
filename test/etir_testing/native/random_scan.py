"""Random running sums."""

from __future__ import annotations

from etir.backends.native.scan import ScanOp

from etir_testing.native.random_functions import Function, sizes


def scanned(function: Function, count: int = 8) -> None:
    """Along a dim before lanes of any number, or before one."""
    chance = function.random
    for number in range(count):
        lead = tuple(chance.randint(1, 3) for _ in range(chance.randint(0, 3)))
        lanes = 1 if number % 3 == 0 else sizes(chance, (4, 8, 16))
        shape = (*lead, chance.randint(1, 40), lanes)
        a = function.tensor(shape)
        function.step(shape, lambda of, out, a=a: ScanOp(of(a), out))
