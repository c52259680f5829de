"""Transforms of Winograd's F(2x2, 3x3): images with and without borders, odd sizes, gaps between rows and points."""

from __future__ import annotations

from etir.backends.native.winograd import POINTS, WINDOW, WinogradInputOp, WinogradOutputOp, tiles_of

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
