"""Pass ``apply-pdl``: rewrite with patterns that a user wrote in PDL text, without any Python.

``apply-pdl{file=fusions.mlir}`` with, in that file::

    pdl.pattern @silu : benefit(1) {
      %x = pdl.operand
      %s = pdl.operation "aten.sigmoid.default" (%x : !pdl.value)
      %v = pdl.result 0 of %s
      %m = pdl.operation "aten.mul.Tensor" (%x, %v : !pdl.value, !pdl.value)
      pdl.rewrite %m {
        %f = pdl.operation "aten.silu.default" (%x : !pdl.value)
        pdl.replace %m with %f
      }
    }

turns ``x * sigmoid(x)`` into ``silu(x)`` at the location of both. ``pdl_patterns.py`` says what a pattern may contain.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from etir.dialects.context import EtContext
from etir.passes.infra.base import Pass
from etir.passes.infra.pdl_patterns import load_patterns
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import apply_patterns_greedily


@register_pass
@dataclass(frozen=True)
class ApplyPdlPass(Pass):
    """Apply the PDL patterns of a file until none matches."""

    name = "apply-pdl"

    file: str

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Rewrite in place. Raises E0508 for an unusable file, E0501 for patterns that do not converge; warns of
        attributes that match any value (E0510).
        """
        apply_patterns_greedily(ctx, module, load_patterns(self.file, ctx))
