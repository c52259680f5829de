"""`externalize-weights`: keep weights in `.ptd` files beside the program instead of inside it.

Before::

    et.weight @linear.weight : tensor<1024x1024xf32> = #et.blob<...> {fqn = "linear.weight"}

After::

    et.weight @linear.weight : tensor<1024x1024xf32> = #et.blob<...> {external = "weights", fqn = "linear.weight"}

The tag names the file (``weights.ptd``); several programs may share one. A weight is found by its name at load time:
its fully qualified name, or its symbol where a pass made it. State may be kept outside as well: its initial bytes are
then copied from the file when a method is loaded, and what a device has learned can be written back to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, TypeGuard

from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.ir import Operation

from etir.dialects.context import EtContext
from etir.dialects.et.payloads import NamedDataOp
from etir.dialects.et.program import StateOp, WeightOp
from etir.passes.analysis.memory_effects import tensor_bytes
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


@register_pass
@dataclass(frozen=True)
class ExternalizeWeightsPass(Pass):
    """Mark weights to be written to a `.ptd` file.

    ``tag`` names the file; ``match`` are shell patterns of names (``layers.*.weight``), all when empty; weights of
    fewer than ``min-bytes`` bytes stay inside. ``what`` says whether weights, state with initial bytes, or both. The
    data that delegates look up by name counts as weights, under its keys.
    """

    name = "externalize-weights"
    tag: str = "weights"
    match: tuple[str, ...] = ()
    min_bytes: int = 0
    what: Literal["weights", "state", "all"] = "weights"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Mark every weight that fits and has no mark yet."""
        for op in module.body.block.ops:
            if isinstance(op, NamedDataOp):
                self._named_data(op)
                continue
            if not self._is_meant(op) or "external" in op.attributes or not isinstance(op.type, TensorType):
                continue
            fqn = op.attributes.get("fqn")
            name = fqn.data if isinstance(fqn, StringAttr) else op.sym_name.data
            if tensor_bytes(op.type) < max(self.min_bytes, 1):
                continue
            if self._matches(name):
                op.attributes["external"] = StringAttr(self.tag)

    def _named_data(self, op: NamedDataOp) -> None:
        meant = self.what != "state" and op.value.data.size >= max(self.min_bytes, 1) and self._matches(op.key.data)
        if meant and "external" not in op.attributes:
            op.attributes["external"] = StringAttr(self.tag)

    def _matches(self, name: str) -> bool:
        return not self.match or any(fnmatchcase(name, pattern) for pattern in self.match)

    def _is_meant(self, op: Operation) -> TypeGuard[WeightOp | StateOp]:
        if isinstance(op, StateOp):
            return self.what != "weights" and op.value is not None
        return isinstance(op, WeightOp) and self.what != "state"
