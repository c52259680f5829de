"""`externalize-weights`: keep weights in `.ptd` files beside the program instead of inside it.

Before::

    et.weight @linear.weight : tensor<1024x1024xf32> = #et.blob<...> {fqn = "linear.weight"}

After::

    et.weight @linear.weight : tensor<1024x1024xf32> = #et.blob<...> {external = "weights", fqn = "linear.weight"}

The tag names the file (``weights.ptd``); several programs may share one. A weight is found by its name at load time:
its fully qualified name, or its symbol where a pass made it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType

from etir.dialects.context import EtContext
from etir.dialects.et.program import WeightOp
from etir.passes.base import Pass
from etir.passes.memory_effects import tensor_bytes


@dataclass(frozen=True)
class ExternalizeWeightsPass(Pass):
    """Mark weights to be written to a `.ptd` file.

    ``tag`` names the file; ``match`` are shell patterns of names (``layers.*.weight``), all when empty; weights of
    fewer than ``min-bytes`` bytes stay inside.
    """

    name = "externalize-weights"
    tag: str = "weights"
    match: tuple[str, ...] = ()
    min_bytes: int = 0

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Mark every weight that fits."""
        for op in module.body.block.ops:
            if not isinstance(op, WeightOp) or "external" in op.attributes or not isinstance(op.type, TensorType):
                continue
            fqn = op.attributes.get("fqn")
            name = fqn.data if isinstance(fqn, StringAttr) else op.sym_name.data
            if tensor_bytes(op.type) < max(self.min_bytes, 1):
                continue
            if not self.match or any(fnmatchcase(name, pattern) for pattern in self.match):
                op.attributes["external"] = StringAttr(self.tag)
