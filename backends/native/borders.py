"""Which images lie in a border, by the memory that it takes.

A border costs no time: windows that go over the edge of an image read numbers that are there. It costs memory, of the
largest images most, where the kernels that code stands in for have none. So code is planned with borders first. If it
then needs more than the kernels, images of at least so many bytes have none, and are read in parts, each with the taps
that are in the image; the bound is the largest one with which code needs no more, or the one with which it needs least.
The attribute ``native.cut`` of the function has it, in text, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.func import FuncOp

from etir.backends.api.interface import Outlined
from etir.backends.native.compile import kernels_of, processors, tile_function
from etir.backends.native.dialect import GroupOp
from etir.backends.native.functions import CUT
from etir.backends.native.passes.tile_plan import plan_function
from etir.backends.native.sizes import Undecided
from etir.backends.native.windows import can_be_cut, image_bytes
from etir.diagnostics import EtirError
from etir.dialects.schema_op import SchemaOp

MOST_TRIED = 5
"""Bounds that are tried, each of which lowers and plans the function once more."""


def choose_borders(outlined: Outlined, cpus: Sequence[str]) -> None:
    """Give a function of groups the attribute ``native.cut``, or none, for the processors with these names.

    What cannot be lowered gets none; an error is said when code is made.
    """
    func = outlined.func
    func.attributes.pop(CUT, None)
    sizes = sorted({image_bytes(root): None for root in _readers(func) if can_be_cut(root)}, reverse=True)
    if not sizes:
        return
    try:
        most = kernels_of(outlined).plan_within().size
        best, chosen = _arena(func, cpus), None
        for least in _tried(sizes):
            if best <= most:
                break
            func.attributes[CUT] = IntegerAttr(least, i64)
            if (arena := _arena(func, cpus)) < best:
                best, chosen = arena, func.attributes[CUT]
    except (EtirError, Undecided):
        chosen = None
    func.attributes.pop(CUT, None)
    if chosen is not None:
        func.attributes[CUT] = chosen


def _readers(func: FuncOp) -> Iterator[SchemaOp]:
    """The convolutions and pools."""
    for op in func.body.block.ops:
        if isinstance(op, GroupOp) and op.kind.data in ("convolution", "pool"):
            yield cast(SchemaOp, op.root)


def _tried(sizes: Sequence[int]) -> Iterator[int]:
    """The largest one, then twice as many each time, and at last all."""
    for power in range(MOST_TRIED - 1):
        if (1 << power) < len(sizes):
            yield sizes[(1 << power) - 1]
    yield sizes[-1]


def _arena(func: FuncOp, cpus: Sequence[str]) -> int:
    """Bytes that code needs with its inputs and outputs."""
    made = tile_function(func, processors(cpus)[0])
    return plan_function(made, [None] * len(made.body.block.args))
