"""Random windows for each channel, or for each group of some, of images without a border."""

from __future__ import annotations

from etir.backends.native.inside import DepthwiseInsideOp, Steps

from etir_testing.native.random_functions import Function, epilogue, sizes


def inside(function: Function, count: int = 16) -> None:
    """Windows of any size, stride and dilation at any place of an image or beside it; some of so many channels that
    they are computed by blocks of them.
    """
    chance = function.random
    for number in range(count):
        lead = tuple(chance.randint(1, 2) for _ in range(chance.randint(0, 2)))
        h, w, rows, columns = (chance.randint(1, 12) for _ in range(4))
        c = sizes(chance, (4, 16)) if number % 3 else chance.choice([200, 67, 96])
        group = chance.choice([2, 4, 8, 16, 48]) if number % 4 == 3 else 1
        c *= group
        taps = chance.randint(1, 9 if number % 2 else 3), chance.randint(1, 9 if number % 2 else 3)

        def pair(low: int, high: int) -> tuple[int, int]:
            return chance.randint(low, high), chance.randint(low, high)

        steps = Steps(pair(1, 3), pair(-2, 6), pair(1, 3))
        image, weights = (
            function.tensor((*lead, h, w, c)),
            function.dense((*taps, c) if group == 1 else (*taps, group, c)),
        )
        extra = [function.tensor((*lead, rows, columns, c))] * chance.randint(0, 1)
        body = epilogue(chance, 1 + len(extra))
        function.step(
            (*lead, rows, columns, c),
            lambda of, out, a=image, b=weights, e=extra, s=steps, body=body: DepthwiseInsideOp(
                of(a), of(b), out, [of(x) for x in e], s, body.clone()
            ),
        )
