"""`batched-products-to-layers`: products of a batch with constant matrices are rows that choose a matrix each.

Before, as heads of attention have them, or experts that are all computed::

    %w = et.get_weight @w : tensor<4x32x64xf32>
    %y = edge.aten.bmm.default(%x, %w) : (tensor<4x?x32xf32>, tensor<4x32x64xf32>) -> tensor<4x?x64xf32>

After, with the rows of all matrices below each other, and a number for each row of ``%x``::

    %w = et.get_weight @w_rows : tensor<256x32xf32>
    %0 = edge.etir.expert_linear.default(%rows, %w, %numbers, columns = 64) : ... -> tensor<?x64xf32>

So they are quantized like the layers of experts (`experts-to-layers`), whose kernels take rows that follow each other
and have one matrix together. Only for targets with these kernels: `lower-expert-layers` would make a loop over the rows
elsewhere, which takes longer than the product. For the same reason a matrix that the kernels do not take stays.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from etir.dialects.context import EtContext
from etir.dialects.dtypes import f32
from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import Dim, dims_of, is_contiguous, tensor_of, tensor_type
from etir.dialects.experts import declare, expert_op
from etir.interpret.numpy_ops.groups import LANES
from etir.lowering.build.builder import Builder
from etir.passes.analysis.constants import ConstantStore
from etir.passes.backend.fuse_quantized.grouped import kernel_name
from etir.passes.backend.fuse_quantized.kernels import Kernels
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily
from etir.quantization.passes.experts_to_layers import matrices_as_rows
from etir.targets.manifest import load

GROUP = 32
"""Numbers that have a scale: depths are multiples of it."""


@register_pass
@dataclass(frozen=True)
class BatchedProductsToLayersPass(Pass):
    """Write products of a batch with constant matrices of float32 as ``etir.expert_linear``.

    ``target`` is whose kernels may be called, ``libraries`` those of its libraries that it does not always have.
    """

    name = "batched-products-to-layers"
    target: str = "executorch"
    libraries: tuple[str, ...] = ()

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Matrices whose bytes are not loaded stay as they are. Raises E0601 for an unknown target."""
        kernels = Kernels(module, load(self.target), self.libraries)
        if not all(kernels.has(kernel_name(bits, "expert_linear")) for bits in (4, 8)):
            return
        store = ConstantStore(module)
        made = False
        for method in methods(module):
            pattern = _Product(store)
            apply_patterns_greedily(ctx, method, [pattern])
            made = made or pattern.made
        if made:
            declare(module)


class _Product(Pattern):
    """``bmm(x, matrices)`` with constant ``matrices``."""

    name = "batched-products-to-layers"

    def __init__(self, store: ConstantStore):
        self.store = store
        self.made = False
        self._numbers: dict[tuple[Dim, Dim], SSAValue] = {}

    def rewrite(self, op: edge.aten.bmm.default, rewriter: PatternRewriter) -> None:
        given, matrices = op.self_, op.mat2
        if not self.store.is_constant(matrices):
            return rewriter.notify_match_failure("the second factor is no constant")
        type = tensor_of(matrices)
        count, depth, columns = shape = type.get_shape()
        if 0 in shape or any(tensor_of(v).element_type != f32 for v in (given, matrices)):
            return rewriter.notify_match_failure("matrices of another dtype than float32, or none")
        if count < 2 or depth % GROUP or -(-columns // LANES) * LANES * 8 > columns * 9:
            return rewriter.notify_match_failure(f"no kernel takes {count} matrices of {depth}x{columns}")
        if not is_contiguous(tensor_of(given)) or not is_contiguous(tensor_of(op.result)):
            return rewriter.notify_match_failure("rows do not follow each other")
        weight = matrices_as_rows(self.store, matrices, op)
        rewriter.insert_op(weight)
        b = Builder(rewriter, "edge")
        sizes = b.sizes(given)
        input = b.view(given, [-1, depth])
        arguments = {
            "input": input,
            "weight": weight.results[0],
            "experts": self._of_rows(b, given),
            "columns": columns,
        }
        layer = expert_op().make(
            arguments, [tensor_type(f32, (dims_of(tensor_of(input))[0], columns))], location=op.location
        )
        rewriter.insert_op(layer)
        rewriter.replace_op(op, [b.view(layer.results[0], [*sizes[:2], columns])])
        self.made = True
        return None

    def _of_rows(self, b: Builder, given: SSAValue) -> SSAValue:
        """The number of its matrix for each row of ``[count, n, depth]``: int64 ``[count * n]``."""
        count, rows = dims_of(tensor_of(given))[:2]
        assert isinstance(count, int)
        key = (count, rows)
        if key not in self._numbers:
            numbers = b.unsqueeze(b.arange(count), 1)
            self._numbers[key] = b.view(b.expand(numbers, [count, b.size(given, 1)]), [-1])
        return self._numbers[key]
