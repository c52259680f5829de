"""``tile-scale``: a factor of an operand of a product becomes one of its sums.

Before::

    tile.map %t(%q) { arith.mulf %0, 0.125 }
    tile.brgemm %t, %k, %s() { tile.yield %sum }

After ``tile.brgemm %q, %k, %s() { arith.mulf %sum, 0.125 }``: attention scales its queries before their product with
the keys; in the product's body that costs no walk over them. Also for the right operand, before it is packed.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, ModuleOp
from xdsl.dialects.func import FuncOp

from etir.backends.native.functions import tile_functions
from etir.backends.native.memory import cast_of
from etir.backends.native.places import Place
from etir.backends.native.tile import BrgemmOp, MapOp, PackOp, YieldOp, shape_of
from etir.backends.native.users import drop_unused, is_read_once, only_writer, place_of
from etir.dialects.context import EtContext
from etir.dialects.walking import ops_of
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass

MOST = 1024.0
"""Factors beyond it, and below its reciprocal, stay: sums without them could overflow, or be below the normal numbers,
where those with them are not.
"""


def fold_scales(func: FuncOp) -> None:
    """Every factor of an operand of one product."""
    block = func.body.block
    for op in [op for op in ops_of(block) if isinstance(op, BrgemmOp)]:
        pack = only_writer(op.b)
        for reader, index in ((op, 0), (pack, 0)):
            if not isinstance(reader, (BrgemmOp, PackOp)) or (reader is pack and not is_read_once(op.b)):
                continue
            given = reader.operands[index]
            writer = only_writer(given)
            if isinstance(writer, MapOp) and is_read_once(given):
                _fold(op, reader, index, writer)
    drop_unused(block)


def _factor(op: MapOp) -> arith.ConstantOp | None:
    """The constant that the only input is multiplied with, if that is all."""
    ops = ops_of(op.body.block)
    if len(op.inputs) != 1 or len(ops) != 3:
        return None
    constant, product, last = ops
    if not isinstance(constant, arith.ConstantOp) or not isinstance(product, arith.MulfOp):
        return None
    if not isinstance(constant.value, FloatAttr) or not 1 / MOST <= abs(constant.value.value.data) <= MOST:
        return None
    both = {product.lhs, product.rhs} == {op.body.block.args[0], constant.result}
    return constant if both and isinstance(last, YieldOp) and last.values[0] is product.result else None


def _fold(op: BrgemmOp, reader: BrgemmOp | PackOp, index: int, writer: MapOp) -> None:
    constant = _factor(writer)
    if constant is None:
        return
    source, given = place_of(writer.inputs[0]), place_of(reader.operands[index])
    # The operand is the map's result under other dims; the map's input has to be so, too.
    plain = place_of(writer.out).viewed(given.shape)
    seen = source.viewed(shape_of(reader.operands[index]))
    if plain is None or not plain.is_same(given):
        permuted = _as_permuted(place_of(writer.out), given)
        seen = None if permuted is None else source.permuted(permuted)
    if seen is None or (isinstance(reader, BrgemmOp) and seen.strides[-1] != 1 and seen.shape[-1] != 1):
        return
    cast = cast_of(seen, writer)
    parent = reader.parent
    assert parent is not None
    parent.insert_op_before(cast, reader)
    reader.operands[index] = cast.results[0]
    block = op.body.block
    first = block.first_op
    assert first is not None
    factor = constant.clone()
    product = arith.MulfOp(block.args[0], factor.result)
    factor.location = product.location = writer.location
    block.args[0].replace_uses_with_if(product.result, lambda use: use.operation is not product)
    block.insert_ops_before([factor, product], first)
    parent.erase_op(writer)


def _as_permuted(source: Place, given: Place) -> list[int] | None:
    """The order of dims that makes ``given`` of ``source``, places of one buffer."""
    if len(source.shape) != len(given.shape) or source.offset != given.offset:
        return None
    order: list[int] = []
    for n, s in zip(given.shape, given.strides, strict=True):
        found = [
            d
            for d, dim in enumerate(zip(source.shape, source.strides, strict=True))
            if d not in order and dim[0] == n and (dim[1] == s or n == 1)
        ]
        if not found:
            return None
        order.append(found[0])
    return order


@register_pass
@dataclass(frozen=True)
class TileScalePass(Pass):
    """Move factors of operands of products to their sums"""

    name = "tile-scale"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Every function of the module."""
        for func in tile_functions(module):
            fold_scales(func)
