"""Random images made larger and smaller."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from etir.backends.native.memory import cast_of
from etir.backends.native.places import Place
from etir.backends.native.resize import ResizeOp
from etir.backends.native.tile import row_major

from etir_testing.native.random_functions import Function, epilogue, sizes


def resized(function: Function, count: int = 16) -> None:
    """Any sizes and scales, with channels or columns side by side, some of more columns than a line on the stack."""
    chance = function.random
    for number in range(count):
        lead = tuple(chance.randint(1, 2) for _ in range(chance.randint(0, 2)))
        h, w, rows, columns = (chance.randint(1, 12) for _ in range(4))
        columns = chance.choice([257, 300, 530]) if number % 5 == 4 else columns * chance.choice([1, 1, 3])
        c = sizes(chance, (4, 16)) if columns < 200 else chance.randint(1, 5)
        aligned = chance.random() < 0.5
        scales = [chance.choice([given / made, chance.random()]) for given, made in ((h, rows), (w, columns))]
        image = function.tensor((*lead, h, w, c))
        is_plane = number % 2 == 1
        lead_steps = [math.prod((*lead[d + 1 :], rows, columns, c)) for d in range(len(lead))]
        extra = []
        if chance.random() < 0.5:
            steps = (columns, 1, rows * columns) if is_plane else (columns * c, c, 1)
            extra = [function.strided((*lead, rows, columns, c), (*lead_steps, *steps))]
        body = epilogue(chance, 1 + len(extra))
        order = [*range(len(lead)), len(lead) + 1, len(lead) + 2, len(lead)] if is_plane else None
        shape = (*lead, c, rows, columns) if is_plane else (*lead, rows, columns, c)

        def target(out: SSAValue, shape: tuple[int, ...] = shape, order: list[int] | None = order) -> SSAValue:
            return out if order is None else cast_of(Place(out, shape, row_major(shape)).permuted(order)).results[0]

        function.step(
            shape,
            lambda of, out, a=image, e=extra, s=scales, b=body, n=aligned, to=target: ResizeOp(
                of(a), to(out), [of(x) for x in e], s, b.clone(), aligned=n
            ),
        )
