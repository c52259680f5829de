"""Random elements from elsewhere: tables for any dims, of tensors whose dims lie in any order."""

from __future__ import annotations

from xdsl.ir import SSAValue

from etir.backends.native.memory import cast_of
from etir.backends.native.places import Place
from etir.backends.native.take import Numbers, TakeOp
from etir.backends.native.tile import row_major

from etir_testing.native.random_functions import Function


def taken(function: Function, count: int = 16) -> None:
    """Dims in order, backwards, with edges repeated and mirrored, or by numbers without an order."""
    chance = function.random

    def numbers(n: int) -> Numbers:
        kind = chance.randint(0, 6)
        if kind == 0:
            return range(n)[::-1]
        if kind == 1:
            return [chance.randrange(n) for _ in range(chance.randint(1, 2 * n))]
        if kind == 2:
            before, after = chance.randrange(n), chance.randrange(n)
            return [abs(i) if i < n else 2 * (n - 1) - i for i in range(-before, n + after)]
        if kind == 3:
            return [min(max(i, 0), n - 1) for i in range(-chance.randint(0, 3), n + chance.randint(0, 20))]
        if kind == 4:
            factor = chance.choice([2, 3, 1.5, 0.4])
            return [min(int(i / factor), n - 1) for i in range(max(1, int(n * factor)))]
        return None

    for number in range(count):
        sizes = [chance.choice([1, 2, 3, 4, 7, 8, 16, 17, 33]) for _ in range(chance.randint(1, 4))]
        if number % 4 == 3:
            sizes = [*sizes[:2], 70]
        tables = [numbers(n) for n in sizes]
        shape = tuple(n if t is None else len(t) for n, t in zip(sizes, tables, strict=True))
        a = function.dense(tuple(sizes)) if number % 3 == 0 else function.tensor(tuple(sizes), number % 2 == 0)
        order = [*range(len(sizes))]
        if number % 4 == 2:
            chance.shuffle(order)
        dims = tuple(shape[d] for d in order)

        def target(out: SSAValue, dims: tuple[int, ...] = dims, order: list[int] = order) -> SSAValue:
            if order == [*range(len(order))]:
                return out
            back = [order.index(d) for d in range(len(order))]
            return cast_of(Place(out, dims, row_major(dims)).permuted(back)).results[0]

        function.step(dims, lambda of, out, a=a, t=tables, to=target: TakeOp(of(a), to(out), t))
