"""Random products whose columns, and elements of whose rows, lie apart, as the channels of planes do."""

from __future__ import annotations

from xdsl.ir import SSAValue

from etir.backends.native.memory import cast_of
from etir.backends.native.places import Place
from etir.backends.native.tile import BrgemmOp, row_major

from etir_testing.native.random_functions import Function, epilogue, sizes


def planes(function: Function, count: int = 10) -> None:
    """Planes are read, added and written, or channels that lie side by side; by lines, by taps and by few rows."""
    chance, wide = function.random, function.panel
    for number in range(count):
        m, k, n = sizes(chance, (1, 6, 14)), sizes(chance, (5, 16)), sizes(chance, (wide, 8))
        lines = chance.choice([1, 2, 5])

        def operand(columns: int, is_apart: bool, m: int = m, lines: int = lines) -> int:
            if not is_apart:
                return function.tensor((lines, m, columns))
            return function.strided((lines, m, columns), (m, 1, lines * m + chance.choice([0, 3])))

        is_read, is_written = ((True, True), (True, False), (False, True))[number % 3]
        taps = chance.randint(2, 3) if number % 4 == 1 else 0
        of_windows = (lines, taps, m, k), (m + taps, 1, 1, lines * (m + taps))
        a = function.strided(*of_windows) if taps else operand(k, is_read)
        extras = [operand(n, chance.random() < 0.7) for _ in range(chance.choice([0, 1, 2]))]
        of_taps = (taps,) if taps else ()
        panels = (*of_taps, -(-n // wide), k, wide)
        b = function.strided((lines, *panels), (0, *row_major(panels)))
        body = epilogue(chance, 1 + len(extras))

        def target(out: SSAValue, m: int = m, n: int = n, lines: int = lines, is_apart: bool = is_written) -> SSAValue:
            if not is_apart:
                return out
            return cast_of(Place(out, (n, lines, m), row_major((n, lines, m))).permuted([1, 2, 0])).results[0]

        shape = (n, lines, m) if is_written else (lines, m, n)
        function.step(
            shape,
            lambda of, out, a=a, b=b, e=extras, body=body, taps=of_taps, to=target: BrgemmOp(
                of(a), of(b), to(out), [of(x) for x in e], body.clone(), taps
            ),
        )
