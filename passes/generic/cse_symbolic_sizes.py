"""`cse-symbolic-sizes`: one runtime value for each symbolic size.

Before::

    %0 = edge.aten.sym_size.int(%x, dim = 0) : (tensor<?x8xf32, #et.layout<dims = [s0, 8]>>) -> i64
    %1 = edge.aten.sym_size.int(%y, dim = 0) : (tensor<?x4xf32, #et.layout<dims = [s0, 4]>>) -> i64

After: ``%1`` is gone, ``%0`` stands for it.

Two sizes with the same expression are the same number, whatever tensors they are read from. Besides saving instructions
this ends lifetimes: a tensor is no longer kept for its shape alone. Only sizes that come earlier in the same block, or
in a block around it, are used, so that the value always exists.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import Rewriter

from etir.dialects.aten import ops as aten
from etir.dialects.context import EtContext
from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import dims_of, tensor_of
from etir.dialects.sym.expr import SymExpr
from etir.dialects.walking import ops_of
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass


@register_pass
@dataclass(frozen=True)
class CseSymbolicSizesPass(Pass):
    """Read every symbolic size once."""

    name = "cse-symbolic-sizes"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Share in every method."""
        for method in methods(module):
            _share(method.body.block, {})


def _share(block: Block, known: dict[SymExpr, SSAValue]) -> None:
    """Share inside a block; ``known`` is the same again afterwards."""
    added: list[SymExpr] = []
    for op in ops_of(block):
        if isinstance(op, (aten.sym_size.int, edge.aten.sym_size.int)):
            size = dims_of(tensor_of(op.self_))[op.dim]
            if isinstance(size, SymExpr):
                if size in known:
                    op.results[0].replace_all_uses_with(known[size])
                    Rewriter.erase_op(op)
                    continue
                known[size] = op.results[0]
                added.append(size)
        for region in op.regions:
            for inner in region.blocks:
                _share(inner, known)
    for size in added:
        del known[size]
