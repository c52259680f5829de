"""Convolutions whose lines are products with one right operand, under schedules that no processor's model may choose.

Tiles that go on from one line in the next, or are whole lines; taps between which sums rest in the result; several
steps of depth one after the other, with and without a rest.
"""

from __future__ import annotations

from etir.backends.native.kernels.template import set_schedule
from etir.backends.native.tile import BrgemmOp, row_major

from etir_testing.native.random_functions import Function, epilogue, sizes

MOST_ROWS = 5
"""Of a tile of one vector: the processor with the fewest registers has eight."""


def lines(function: Function, count: int = 6) -> None:
    """Add convolutions; some have a depth of several runs of sums, two dims of taps, or images before the lines."""
    chance, wide = function.random, function.panel
    for number in range(count):
        images, h, w = chance.randint(1, 2), chance.randint(2, 7), chance.randint(1, 9)
        taps = (chance.randint(1, 3), chance.randint(1, 3))[: chance.randint(1, 2)]
        k, n = (chance.randint(270, 290) if number % 3 == 0 else sizes(chance, (4, 8))), sizes(chance, (wide, 8))
        together = chance.randint(2, h)
        row, panels = (w + 2) * k, -(-n // wide)
        image = (h + sum(taps)) * row
        steps = (row, chance.choice([k, row]))[: len(taps)]
        a = function.strided((images, h, *taps, w, k), (image, row, *steps, k, 1), (images + 1) * image)
        dense = (*taps, panels, k, wide)
        b = function.strided((images, h, *dense), (0, 0, *row_major(dense)))
        extra = [function.tensor((images, h, w, n)) for _ in range(chance.randint(0, 2))]
        schedule = {
            "tile": [chance.choice([min(together * w, MOST_ROWS), chance.randint(1, min(together * w, MOST_ROWS))]), 1],
            "depth": k,
            "rows": w,
            "lines": together,
            "unroll": chance.choice([1, 3, 4]),
            **({"taps": 1} if chance.random() < 0.7 else {}),
        }
        body = epilogue(chance, 1 + len(extra))

        def make(of, out, a=a, b=b, extra=extra, body=body, taps=taps, schedule=schedule):  # type: ignore[no-untyped-def]
            op = BrgemmOp(of(a), of(b), out, [of(x) for x in extra], body.clone(), taps)
            set_schedule(op, schedule)
            return op

        function.step((images, h, w, n), make)
