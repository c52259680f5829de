"""`to-out-variant`: from functional operators to kernel calls over buffers, one operation per instruction.

Before::

    func.func @forward(%x: tensor<2x8xf32>) -> tensor<2x4xf32> {
      %w = et.get_weight @w : tensor<4x8xf32>
      %y = edge.aten.linear.default(%x, %w) : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<2x4xf32>
      func.return %y : tensor<2x4xf32>
    }

After::

    et.method @forward {
      %x = et.buffer : tensor<2x8xf32>
      %w = et.get_weight @w : tensor<4x8xf32>
      %y = et.buffer : tensor<2x4xf32>
      et.inputs %x
      et.call "aten::linear.out"(%x, %w, none, %y) -> %y
      et.return %y
    }

``method.py`` lowers a method, ``calls.py`` finds the out variant and writes the call's arguments, ``in_place.py``
decides where a result may be written directly (state, results of control flow), ``views.py`` and ``outputs.py`` find
views and outputs a place, and ``control_flow.py`` turns regions into blocks and jumps, with results in
destination-passing style: handles are never moved, since a moved one keeps pointing at memory that the next branch
reuses.
"""

from etir.lowering.to_out_variant.driver import ToOutVariantPass

__all__ = ["ToOutVariantPass"]
