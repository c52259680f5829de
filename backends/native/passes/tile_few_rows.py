"""``tile-few-rows``: products of few rows read their right operand as it lies.

Before::

    tile.pack %keys, %k : memref<2x8x32xf32, strided<[256, 1, 8]>>, memref<2x1x8x32xf32>
    tile.brgemm %q, %k, %s() : memref<2x4x8xf32>, memref<2x1x8x32xf32>, memref<2x4x32xf32>
    tile.pack %values, %v : memref<2x32x8xf32>, memref<2x1x32x32xf32>
    tile.brgemm %p, %v, %o() : memref<2x4x32xf32>, memref<2x1x32x32xf32>, memref<2x4x8xf32>

After, where ``%keys`` has the depth side by side and ``%values`` the columns::

    tile.reduce "sum" %keys, %s(%q) { arith.mulf } : memref<2x4x32x8xf32, strided<[256, 0, 8, 1]>>, ...
    tile.brgemm %p, %values, %o() : memref<2x4x32xf32>, memref<2x1x32x8xf32>, memref<2x4x8xf32>

Panels pay when many rows read them. A decoder that makes a token at a time would copy the keys and values of all tokens
before it, and have room for them twice. What follows a sum of products goes over the sums in a map of its own. A single
column is read by as many rows as there are where memory is to be saved: its panel is many times as large. So is what
has columns side by side and any number of rows; few columns, which fill no panel, are in narrower ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from etir.backends.native.asked import saves
from etir.backends.native.body import Body
from etir.backends.native.functions import tile_functions
from etir.backends.native.memory import cast_of
from etir.backends.native.places import Place
from etir.backends.native.sizes import is_known
from etir.backends.native.tile import BrgemmOp, MapOp, PackOp, ReduceOp, YieldOp, body_of, shape_of
from etir.backends.native.users import drop_unused, is_read_once, only_writer, place_of, readers_of
from etir.dialects.context import EtContext
from etir.dialects.walking import ops_of
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass

MOST_ROWS = 8
"""Rows of a product for which its right operand is not worth a copy."""
MOST_SUMS = 4
"""Rows for which every element of the result is a sum along both operands: each reads the whole right operand."""
ALL_ROWS, SAVING_SUMS = 1 << 62, 64
"""The same where memory is to be saved."""
PANELS = (32, 16, 8, 4)
"""Columns of a panel of a matrix as it lies, where they divide the matrix."""
NARROW, LEAST_OF_FEW = (3, 2), 16
"""The same of a matrix of fewer columns than these where memory is to be saved: a panel would be mostly empty."""


def read_as_it_lies(func: FuncOp) -> None:
    """Every product of few rows whose right operand is packed for it alone. Where memory is to be saved, products of
    many rows, and several of one operand, are taken as well.
    """
    block = func.body.block
    for op in [op for op in ops_of(block) if isinstance(op, BrgemmOp)]:
        pack = only_writer(op.b)
        if op.taps is not None or not isinstance(pack, PackOp):
            continue
        is_saved = saves(func, "panels")
        rows, sums = (ALL_ROWS, SAVING_SUMS) if is_saved else (MOST_ROWS, MOST_SUMS)
        if not is_saved and not is_read_once(op.b):
            continue
        m = shape_of(op.a)[-2]
        source = place_of(pack.source)
        is_fixed = is_known((m, *source.shape, *source.strides, source.offset))
        if (not is_fixed and not is_saved) or (is_fixed and m > rows) or place_of(op.b).shape != shape_of(pack.to):
            continue
        is_column = source.shape[-1] == 1
        if source.strides[-1] == 1 and not is_column:
            _columns(op, pack, source, is_saved)
        elif not is_fixed:
            continue
        elif source.strides[-2] == 1 and (m <= sums or (is_column and is_saved)):
            _sums(op, pack, source)
    drop_unused(block)


def _columns(op: BrgemmOp, pack: PackOp, source: Place, is_saved: bool) -> None:
    """The matrix in panels whose rows lie apart."""
    *batch, k, n = source.shape
    *steps, row, _ = source.strides
    if not is_known((n, row)):
        return
    widths = (*PANELS, *NARROW) if is_saved and n < LEAST_OF_FEW else PANELS
    panel = next((p for p in widths if n % p == 0 and p <= shape_of(pack.to)[-1]), None)
    if panel is None:
        return
    as_panels = Place(source.base, (*batch, n // panel, k, panel), (*steps, panel, row, 1), source.offset)
    packed = op.b
    op.operands[1] = _put(op, cast_of(as_panels, op))
    _drop(pack, packed)


def _sums(op: BrgemmOp, pack: PackOp, source: Place) -> None:
    """A sum along the depth for every element of the result."""
    a, c = place_of(op.a), place_of(op.c)
    lead = len(source.shape) - 2
    m, k = a.shape[-2:]
    n = source.shape[-1]
    if a.strides[-1] not in (0, 1) or not is_known((*a.strides, a.offset, *c.strides, c.offset)):
        return
    dims = (*source.shape[:lead], m, n, k)
    right = Place(source.base, dims, (*source.strides[:lead], 0, *source.strides[:-3:-1]), source.offset)
    left = Place(a.base, dims, (*a.strides[:lead], a.strides[-2], 0, a.strides[-1]), a.offset)
    region = body_of(2)
    made = Body(region.block, {})
    region.block.add_op(YieldOp(made.mul(*region.block.args)))
    operands = [_put(op, cast_of(place, op)) for place in (right, left)]
    _put(op, ReduceOp("sum", operands[0], op.c, operands[1:], region))
    follows = op.body.block.first_op
    if not isinstance(follows, YieldOp) or follows.values[0] is not op.body.block.args[0]:
        _put(op, MapOp(op.c, [op.c, *op.extra], op.body.clone()))
    packed = op.b
    op.detach()
    op.erase()
    _drop(pack, packed)


def _drop(pack: PackOp, packed: SSAValue) -> None:
    """Erase a copy that nothing reads any more."""
    if not readers_of(packed):
        pack.detach()
        pack.erase()


def _put(op: BrgemmOp, made: Operation) -> SSAValue:
    """Put an operation before a product; its result, or the product's."""
    made.location = op.location
    parent = op.parent
    assert parent is not None
    parent.insert_op_before(made, op)
    return made.results[0] if made.results else op.c


@register_pass
@dataclass(frozen=True)
class TileFewRowsPass(Pass):
    """Let products of few rows read their right operand as it lies, without panels"""

    name = "tile-few-rows"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Every function of the module."""
        for func in tile_functions(module):
            read_as_it_lies(func)
