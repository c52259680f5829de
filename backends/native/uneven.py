"""Adaptive pools whose windows have several sizes.

Element i of a dim of ``count`` elements is made of those from ``i given // count`` up to the next whole number from
``(i + 1) given / count``. Windows of one size that lie at one distance from each other are one operation: 8 elements
become 5 by windows of 2 (from 0, 3 and 6) and of 3 (from 1 and 4).
"""

from __future__ import annotations

from dataclasses import dataclass

from etir.backends.api.patterns import operator_of
from etir.backends.native.dims import dims
from etir.backends.native.sizes import is_known
from etir.dialects.schema_op import SchemaOp

MOST_POOLS = 36
"""Operations that a pool may be."""


@dataclass(frozen=True)
class Run:
    """Of a dim of a result, the indices ``first``, ``first + step``, ...: ``count`` of them, whose windows have
    ``taps`` elements from ``start``, ``start + stride``, ... on.
    """

    first: int
    step: int
    count: int
    start: int
    stride: int
    taps: int


def runs_of(given: int, count: int) -> list[Run]:
    """The elements of a dim in as few runs as are found by taking the longest that begins with the first one left."""
    starts = [i * given // count for i in range(count)]
    sizes = [-(-(i + 1) * given // count) - start for i, start in enumerate(starts)]
    left, found = [*range(count)], []
    while left:
        first = left[0]
        best = [first]
        for second in left[1:]:
            run, step, stride = [first], second - first, starts[second] - starts[first]
            while (i := run[-1] + step) in left and starts[i] - starts[run[-1]] == stride and sizes[i] == sizes[first]:
                run.append(i)
            best = run if len(run) > len(best) else best
        step, stride = (best[1] - first, starts[best[1]] - starts[first]) if len(best) > 1 else (1, 1)
        found.append(Run(first, step, len(best), starts[first], stride, sizes[first]))
        left = [i for i in left if i not in best]
    return found


def uneven_runs(op: SchemaOp) -> tuple[list[Run], list[Run]] | None:
    """The rows and columns of an adaptive pool's result; None where windows are of one size, and of other pools. A
    signal is an image of one row.
    """
    if "adaptive" not in operator_of(op):
        return None
    given, result = ((1, *dims(value)[2:])[-2:] for value in (op.arg("self"), op.results[0]))
    if not is_known((*given, *result)) or all(n % count == 0 for n, count in zip(given, result, strict=True)):
        return None
    rows, columns = (runs_of(n, count) for n, count in zip(given, result, strict=True))
    return rows, columns
