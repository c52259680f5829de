"""`lift-delegates`: what blobs compute as operators of the edge dialect, in the place of the calls.

Before::

    et.delegate @lowered_0 "XnnpackBackend" = #et.blob<"sha256:51ab...", 712>
    ...
    %1 = backend.call_delegate @lowered_0(%x) on "XnnpackBackend" : (tensor<2x8xf32>) -> tensor<2x4xf32>

After::

    %1 = edge.aten.linear.default(%x, %w, %b) : (tensor<2x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<2x4xf32>

From there on a program that ExecuTorch has lowered goes wherever others go: to other backends, to the kernels of a
target, through the passes. Only backends that say what their graphs mean can be lifted (`Backend.lift`); other calls
stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from etir.backends.api.registry import backend_of_runtime_id
from etir.backends.errors import E1108
from etir.dialects.backend.ops import CallDelegateOp
from etir.dialects.context import EtContext
from etir.dialects.et.payloads import DelegateOp, NamedDataOp
from etir.dialects.text import source_location
from etir.lowering.build.builder import Builder, rank
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import PatternRewriter


@register_pass
@dataclass(frozen=True)
class LiftDelegatesPass(Pass):
    """Replace calls of blobs by the operators that they stand for, where their backends know them."""

    name = "lift-delegates"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E1103 and E1108 for blobs of another version and broken ones, E1108 for a blob whose outputs are not
        what the call has, or with a node that no operator stands for.
        """
        blobs = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, DelegateOp)}
        entries = [op for op in module.body.block.ops if isinstance(op, NamedDataOp)]
        named = {op.key.data: op.value.data.data for op in entries}
        lifted: dict[str, None] = {}
        for call in [op for op in module.walk() if isinstance(op, CallDelegateOp)]:
            blob = blobs.get(call.callee.root_reference.data)
            backend = None if blob is None or blob.compile_specs else backend_of_runtime_id(blob.backend.data)
            if blob is None or backend is None:
                continue
            builder = Builder(PatternRewriter(call, call.location, InsertPoint.before(call)), "edge")
            found = backend.lift(blob.value.data.data, named, builder, call.arguments)
            if found is None:
                continue
            results = [_as_declared(builder, x, result) for x, result in zip(found, call.outputs, strict=True)]
            for old, new in zip(call.outputs, results, strict=True):
                if old.type != new.type:
                    raise E1108.error(
                        f"@{blob.sym_name.data} gives {new.type} where the call has {old.type}",
                        source_location(call.location),
                    )
                old.replace_all_uses_with(new)
            Rewriter.erase_op(call)
            lifted[blob.sym_name.data] = None
        for op in module.walk():
            if isinstance(op, CallDelegateOp):
                lifted.pop(op.callee.root_reference.data, None)
        for name in lifted:
            Rewriter.erase_op(blobs[name])
        if len(lifted) == len(blobs):
            for op in entries:
                Rewriter.erase_op(op)


def _as_declared(builder: Builder, value: SSAValue, declared: SSAValue) -> SSAValue:
    """A scalar is a tensor of one dim inside of a delegate."""
    scalar = isinstance(declared.type, TensorType) and not declared.type.get_num_dims()
    return builder.view(value, []) if scalar and rank(value) else value
