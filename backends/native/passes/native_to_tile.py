"""``native-to-tile``: groups become micro-kernels over memory.

Before::

    %y = native.group "product" (%x, %w, %b) { ... linear, gelu ... } : ...

After, in a module of its own::

    func.func @forward_native_0(%x: memref<197x768xf32>, %y: memref<197x3072xf32>) {
      %w = tile.weight "fc1.weight" panel 32 transposed 1 : memref<96x768x32xf32>
      %b = tile.weight "fc1.bias" : memref<3072xf32>
      %e = memref.reinterpret_cast %b to ... : memref<197x3072xf32, strided<[0, 1]>>
      tile.brgemm %x, %w, %y (%e) : ... { ... }

Arguments are the inputs of the delegate and then its outputs; ``lowering/`` says what becomes of each operator.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from etir.backends.native.cpu import of_family
from etir.backends.native.kernels.brgemm import panel_of
from etir.backends.native.lowering import lower_function
from etir.dialects.context import EtContext
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


@register_pass
@dataclass(frozen=True)
class NativeToTilePass(Pass):
    """Lower groups to micro-kernels: what is left is the functions of ``tile``, for processors of ``family``"""

    name = "native-to-tile"
    family: str = "x86-64"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E1160 for a family that no processor is of."""
        panel = panel_of(of_family(self.family)[0])
        block = module.body.block
        found = [op for op in block.ops if isinstance(op, FuncOp) and "backend.delegate" in op.attributes]
        made = [lower_function(func, panel) for func in found]
        for op in list(block.ops)[::-1]:
            block.erase_op(op, safe_erase=False)
        for part in made:
            func = part.body.block.first_op
            assert func is not None
            func.detach()
            block.add_op(func)
