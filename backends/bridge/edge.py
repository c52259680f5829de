"""Programs in ExecuTorch's edge dialect. Importing this module imports executorch.

The operators are those of ``exir_ops.edge``, dim orders stay dim orders, and every node has a debug handle. The
package's own validity check is left out: it interprets the whole graph, and `verify-edge` has checked the rules.
"""

from __future__ import annotations

from typing import Any

from executorch.exir.capture._config import EdgeCompileConfig
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.passes.dim_order_ops_registry import DimOrderOpsMap
from executorch.exir.passes.executorch_prim_ops_registry import is_sym_op
from executorch.exir.passes.replace_aten_with_edge_pass import DISALLOW_LIST
from executorch.exir.verification.verifier import EXIREdgeDialectVerifier
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from etir.backends.api.interface import Outlined
from etir.dialects.backend.ops import CallDelegateOp
from etir.dialects.edge.base import edge_op
from etir.dialects.schema import OpSchema
from etir.dialects.schema_op import SchemaOp
from etir.lowering.export_fx.program import Exported, export_block
from etir.lowering.export_fx.targets import AtenTargets, Scalar, torch_operator

_TENSOR_OVERLOADS = {f"aten.{name}.Scalar": f"aten.{name}.Tensor" for name in ("add", "sub", "mul", "div")}
_DIM_ORDER_NAMESPACE = "dim_order_ops"


class EdgeTargets(AtenTargets):
    """Operators as ``exir_ops.edge`` has them, except the ones that every dialect of ExecuTorch shares."""

    def find(self, schema: OpSchema) -> Any:
        """The edge operator, made known where ExecuTorch did not know it yet. Raises E0407."""
        if schema.namespace != _DIM_ORDER_NAMESPACE:
            plain = torch_operator(schema.op_name)
            if plain in DISALLOW_LIST or is_sym_op(plain):
                return plain
        edge: Any = exir_ops.edge
        packet = getattr(getattr(edge, schema.namespace), schema.name)
        found = getattr(packet, schema.overload or "default")
        # An operator of the memory formats has its dim order in the edge dialect.
        return DimOrderOpsMap.get(found, found)

    def keywords(self, schema: OpSchema, keywords: dict[str, Any]) -> dict[str, Any]:
        """The keywords as they are: the dialect has dim orders."""
        return keywords

    def as_tensor(self, op: SchemaOp) -> tuple[OpSchema, str, Scalar] | None:
        """Sums, products and their like of a tensor and a number: the dialect has a constant tensor in its place."""
        overload = _TENSOR_OVERLOADS.get(op.SCHEMA.op_name)
        source = op.args()["self"] if overload is not None else None
        if overload is None or not isinstance(source, SSAValue) or source.type != op.results[0].type:
            return None
        number, alpha = op.arg("other"), op.args().get("alpha", 1)
        if not isinstance(number, (int, float)) or not isinstance(alpha, (int, float)):
            return None
        return edge_op(overload).SCHEMA, "other", number if alpha == 1 else number * alpha

    def in_default_order(self, rank: int) -> tuple[Any, dict[str, Any]]:
        """ExecuTorch's copy into another dim order."""
        edge: Any = exir_ops.edge
        return edge.dim_order_ops._to_dim_order_copy.default, {"dim_order": list(range(rank))}


def export_edge(module: ModuleOp, block: Block, *, first_handle: int = 1) -> Exported:
    """A block at the edge level as an exported program in ExecuTorch's edge dialect; the debug handles of its operators
    count from ``first_handle``. Raises E0407.
    """
    verifier = EXIREdgeDialectVerifier(EdgeCompileConfig(_check_ir_validity=False), class_only=True)
    exported = export_block(module, block, EdgeTargets(), [verifier], blobs_as_inputs=True)
    for node in exported.program.graph.nodes:
        node.meta["debug_handle"] = first_handle
        first_handle += node.op == "call_function"
    return exported


def first_handle(outlined: Outlined) -> int:
    """The debug handle of an outlined function's first operator: operators count from 1 through the method that calls
    it, those of its delegates where they are called.
    """
    calls = [op for op in outlined.module.walk() if isinstance(op, CallDelegateOp)]
    call = next((op for op in calls if op.callee.root_reference.data == outlined.name), None)
    handle, op = 1, None if call is None else call.prev_op
    while op is not None:
        inside = outlined.symbols.get(op.callee.root_reference.data) if isinstance(op, CallDelegateOp) else op
        handle += sum(isinstance(inner, SchemaOp) for inner in inside.walk()) if inside is not None else 1
        op = op.prev_op
    return handle
