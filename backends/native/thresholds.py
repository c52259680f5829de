"""Numbers of bytes from which on a saving applies: of images that have no border or are not transformed, and of what
is joined late. Each one that is tried lowers and plans a function once more, so there are few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from xdsl.dialects.func import FuncOp

from etir.backends.api.patterns import operator_of
from etir.backends.native.dialect import GroupOp
from etir.backends.native.kinds import WITH_WINDOWS
from etir.backends.native.lowering.function import JOINS, bytes_in, shape
from etir.backends.native.windows import can_be_cut, image_bytes
from etir.dialects.schema_op import SchemaOp
from etir.dialects.walking import ops_of

MOST_TRIED = 5
"""Bounds for borders that are tried."""
MOST_LATE = 3
"""Bounds for what is joined late that are tried."""


def cut_sizes(func: FuncOp) -> list[int]:
    """The bytes of images that can have no border, the largest first."""
    return sorted({image_bytes(root): None for root in _readers(func) if can_be_cut(root)}, reverse=True)


def late_sizes(func: FuncOp) -> list[int]:
    """The bytes of what is joined, and of images that are read, the largest first; none where there are no images:
    steps of a recurrent layer have no branch that needs most.
    """
    images = [image_bytes(root) for root in _readers(func)]
    if not images:
        return []
    joins = [op for op in ops_of(func.body.block) if isinstance(op, SchemaOp) and operator_of(op) in JOINS]
    sizes = [bytes_in(shape(op.results[0])) for op in joins]
    return sorted(dict.fromkeys([*sizes, *images]), reverse=True)


def _readers(func: FuncOp) -> Iterator[SchemaOp]:
    """The convolutions and pools."""
    for op in func.body.block.ops:
        if isinstance(op, GroupOp) and op.kind.data in WITH_WINDOWS:
            yield cast(SchemaOp, op.root)


def some_of(sizes: Sequence[int], most: int = MOST_TRIED) -> Iterator[int]:
    """The largest one, then twice as many each time, and at last all."""
    for power in range(most - 1):
        if (1 << power) < len(sizes):
            yield sizes[(1 << power) - 1]
    if sizes:
        yield sizes[-1]
