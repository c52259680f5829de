"""`gate-group-layers`: a gate and the layer that it is multiplied with are one operator.

Before, as `join-group-layers` leaves it::

    %g, %u = edge.etir.int4_group_dynamic_linear_pair.default(%x, [%w0, %w1], ..., columns = [1536, 1536])
    %a = edge.aten.silu.default(%g)
    %y = edge.aten.mul.Tensor(%a, %u)

After::

    %y = edge.etir.int4_group_dynamic_linear_gated.default(%x, [%w0, %w1], ..., columns = 1536, activation = "silu")

Of a prompt, what the layers and the activation write takes as long as a third of the products, since it is more than
the caches hold; the operator combines results while they are near. Either layer may be the gate, through SiLU or GELU.
The bits are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import OpResult, SSAValue

from etir.dialects.context import EtContext
from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import EdgeOp
from etir.llm.passes.one_operator import OneOperator, to_one_operator
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import PatternRewriter

KERNEL = "etir::int4_group_dynamic_linear_gated.out"
PAIR = "etir.int4_group_dynamic_linear_pair.default"


@register_pass
@dataclass(frozen=True)
class GateGroupLayersPass(Pass):
    """Multiply two layers of one input, one of them through an activation, with one operator, if ``target`` has it."""

    name = "gate-group-layers"
    target: str = "executorch"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E0601 for an unknown target."""
        to_one_operator(ctx, module, self.target, KERNEL, GateOfPair)


class GateOfPair(OneOperator):
    """activation(gate) * other, where both are layers of one operator that nothing else reads."""

    name = "gate-of-pair"

    def rewrite(self, op: edge.aten.mul.Tensor, rewriter: PatternRewriter) -> None:
        for active, other in ((op.self_, op.other), (op.other, op.self_)):
            found = _activation(active)
            if found is not None and isinstance(other, SSAValue):
                gate, function = found
                break
        else:
            return rewriter.notify_match_failure("no factor is an activation")
        pair = gate.owner
        if not isinstance(pair, EdgeOp) or pair.op_name != PAIR or other.owner is not pair or gate is other:
            return rewriter.notify_match_failure("the factors are not two layers of one operator")
        if any(value.has_more_than_one_use() for value in (gate, active, other)):
            return rewriter.notify_match_failure("a layer is read by something else")
        if gate.type != other.type or op.result.type != gate.type:
            return rewriter.notify_match_failure("layers of different sizes")
        assert isinstance(gate, OpResult)
        order = slice(None) if gate.index == 0 else slice(None, None, -1)
        arguments: dict[str, Any] = {"input": pair.arg("input"), "activation": function}
        for name in ("weights", "scales", "minimums", "sums"):
            arguments[name] = list(pair.arg(name))[order]
        arguments["columns"] = list(pair.arg("columns"))[0]
        made = self.operator.make(arguments, [op.result.type])
        made.results[0].name_hint = op.result.name_hint
        self.made += 1
        rewriter.replace_op(op, made)
        return None


def _activation(value: SSAValue) -> tuple[SSAValue, str] | None:
    """What an activation is of, and the operator's name of it; None: the value is of another kind."""
    op = value.owner
    if isinstance(op, edge.aten.silu.default):
        return op.self_, "silu"
    if isinstance(op, edge.aten.gelu.default):
        return op.self_, "gelu" if op.approximate == "none" else "gelu_tanh"
    return None
