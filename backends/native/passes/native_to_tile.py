"""``native-to-tile``: groups become micro-kernels over memory.

Before::

    %y = native.group "product" (%x, %w, %b) { ... linear, gelu ... } : ...

After::

    func.func private @forward_native_0(%x: memref<197x768xf32>, %y: memref<197x3072xf32>) {
      %w = tile.weight "fc1.weight" panel 32 transposed 1 : memref<96x768x32xf32>
      %b = tile.weight "fc1.bias" : memref<3072xf32>
      %e = memref.reinterpret_cast %b to ... : memref<197x3072xf32, strided<[0, 1]>>
      tile.brgemm %x, %w, %y (%e) : ... { ... }

Arguments are the inputs of the delegate and then its outputs; ``lowering/`` says what becomes of each operator. The
methods and the weights stay as they are, so that ``et-run`` runs the module; constants of a function become weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from etir.backends.native import tile
from etir.backends.native.cpu import of_family
from etir.backends.native.lowering import constant_name, lower_function
from etir.dialects.context import EtContext
from etir.dialects.et.program import ConstantOp, WeightOp, dense_bytes
from etir.dialects.et.weights import Blob, BlobAttr
from etir.dialects.walking import ops_of
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


@register_pass
@dataclass(frozen=True)
class NativeToTilePass(Pass):
    """Lower the groups of outlined functions to micro-kernels, for processors of ``family``"""

    name = "native-to-tile"
    family: str = "x86-64"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E1160 for a family that no processor is of."""
        target = of_family(self.family)[0]
        block = module.body.block
        for func in [op for op in ops_of(block) if isinstance(op, FuncOp) and "backend.delegate" in op.attributes]:
            lowered = lower_function(func, target).body.block.first_op
            assert isinstance(lowered, FuncOp)
            lowered.detach()
            block.insert_ops_before([*_constants(func, lowered), lowered], func)
            block.erase_op(func)


def _constants(func: FuncOp, lowered: FuncOp) -> list[WeightOp]:
    """The constants of ``func`` as weights of the module; ``lowered`` reads them by their new names."""
    made: dict[str, WeightOp] = {}
    for number, op in enumerate(op for op in ops_of(func.body.block) if isinstance(op, ConstantOp)):
        symbol = f"{func.sym_name.data}_constant_{number}"
        data = BlobAttr(Blob.of(memoryview(dense_bytes(op.value))))
        made[constant_name(number)] = WeightOp(symbol, op.result.type, data, {"kind": StringAttr("constant")})
    for op in lowered.body.block.ops:
        if isinstance(op, tile.WeightOp) and op.symbol.data in made:
            op.symbol = StringAttr(made[op.symbol.data].sym_name.data)
    return [*made.values()]
