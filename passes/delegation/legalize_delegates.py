"""`legalize-delegates`: outlined functions in the dialects of their backends.

Before::

    func.func private @forward_xnnpack_0(%x: ...) -> ... attributes {backend.delegate = "xnnpack"} {
      %w = et.get_weight @fc : tensor<4x8xf32>
      %0 = edge.aten.linear.default(%x, %w) : ...

After, every operation that computes is one of the backend's dialect; what it is, is the backend's business. The method
that calls the function does not change. A backend without a dialect keeps its functions as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr, UnitAttr, UnknownLoc
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from etir.backends.api.interface import Outlined
from etir.backends.api.registry import Delegate, register_dialect
from etir.dialects.context import EtContext
from etir.dialects.et.origin import standing_for
from etir.passes.delegation.attributes import LEGAL, delegate_of
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import RewriteLimit


@register_pass
@dataclass(frozen=True)
class LegalizeDelegatesPass(Pass):
    """Rewrite every outlined function into the dialect of its backend; ``only`` names the backends to do."""

    name = "legalize-delegates"
    only: tuple[str, ...] = ()

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E1106 for what a backend claimed and cannot express, and what backends raise themselves."""
        limit = ctx.attachments.get(RewriteLimit)
        ctx.attachments.set(RewriteLimit, None)  # half a function is in no dialect: it is all of one or nothing
        try:
            for delegate, outlined in outlined_functions(ctx, module):
                if LEGAL in outlined.func.attributes or (self.only and delegate.name not in self.only):
                    continue
                if limit is not None and limit.left <= 0:
                    break
                if delegate.backend.dialect_name:
                    register_dialect(ctx, delegate.backend.dialect_name)
                delegate.backend.legalize(outlined, delegate.options)
                outlined.func.attributes[LEGAL] = UnitAttr()
                if limit is not None:
                    limit.count_function(outlined.name, standing_for(UnknownLoc(), outlined.func.walk()))
        finally:
            ctx.attachments.set(RewriteLimit, limit)


def outlined_functions(ctx: EtContext, module: ModuleOp) -> list[tuple[Delegate, Outlined]]:
    """The outlined functions of a module with their backends, in order. Raises E1101, E1107 and E1110."""
    named: dict[str, Operation] = {}
    for op in module.body.block.ops:
        name = op.properties.get("sym_name")
        if isinstance(name, StringAttr):
            named[name.data] = op
    found: list[tuple[Delegate, Outlined]] = []
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and (delegate := delegate_of(op)) is not None:
            found.append((delegate, Outlined(ctx, module, op, named)))
    return found
