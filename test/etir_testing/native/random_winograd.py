"""Winograd's F(2x2, 3x3), its transforms and all of it: images with and without borders, odd sizes, gaps between rows
and points.
"""

from __future__ import annotations

from etir.backends.native.tile import BufferOp, memref
from etir.backends.native.winograd import POINTS, WINDOW, WinogradInputOp, WinogradOp, WinogradOutputOp, tiles_of

from etir_testing.native.random_functions import Function, epilogue, sizes


def winograd(function: Function, count: int = 4) -> None:
    """Add transforms of images, and of sums with what follows them."""
    chance = function.random
    for _ in range(count):
        n, channels = chance.randint(1, 2), sizes(chance, (4, 8, 16))
        border = [chance.randint(0, WINDOW - 1) for _ in range(4)]
        h, w = (max(1, WINDOW - sum(border[i : i + 2]), chance.randint(1, 9)) for i in (0, 2))
        row, image = (w + 1) * channels, (h + 1) * (w + 1) * channels
        x = function.strided((n, h, w, channels), (image, row, channels, 1))
        high, wide = h + sum(border[:2]) - WINDOW + 1, w + sum(border[2:]) - WINDOW + 1
        tiles = n * tiles_of(high) * tiles_of(wide)
        function.step(
            (POINTS, tiles, channels), lambda of, out, x=x, border=border: WinogradInputOp(of(x), out, border)
        )
        point = tiles * channels + chance.choice([0, 16])
        m = function.strided((POINTS, tiles, channels), (point, channels, 1))
        extra = [function.tensor((n, high, wide, channels)) for _ in range(chance.randint(0, 2))]
        body = epilogue(chance, 1 + len(extra))

        def make(of, out, m=m, extra=extra, body=body):  # type: ignore[no-untyped-def]
            return WinogradOutputOp(of(m), out, [of(e) for e in extra], body.clone())

        function.step((n, high, wide, channels), make)

        slots, at_once = chance.randint(1, 4), chance.randint(1, 5)
        columns, panel = sizes(chance, (4, 16, 33)), function.panel
        u = function.dense((POINTS, -(-columns // panel), channels, panel))
        added = [function.tensor((n, high, wide, columns)) for _ in range(chance.randint(0, 2))]
        whole = epilogue(chance, 1 + len(added))
        points = [at_once * size + chance.choice([0, 16]) for size in (channels, columns)]

        memory = [
            memref((slots, POINTS, at_once, size), (POINTS * point, point, size, 1))
            for size, point in zip((channels, columns), points, strict=True)
        ]

        def make_all(of, out, x=x, u=u, added=added, whole=whole, memory=memory, border=border):  # type: ignore[no-untyped-def]
            v, m = (BufferOp(type).results[0] for type in memory)
            return WinogradOp(of(x), of(u), out, [of(e) for e in added], (v, m), border, whole.clone())

        function.step((n, high, wide, columns), make_all)
