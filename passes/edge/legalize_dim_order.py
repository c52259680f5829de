"""`legalize-dim-order`: copies to the contiguous order around kernels that take no other.

Before (the target's pooling takes contiguous tensors only)::

    %y, %i = edge.aten.max_pool2d_with_indices.default(%x, ...)
        : (tensor<1x8x6x6xf32, #et.layout<order = [0, 2, 3, 1]>>)
        -> (tensor<1x8x3x3xf32, #et.layout<order = [0, 2, 3, 1]>>, ...)

After::

    %0 = edge.dim_order_ops._to_dim_order_copy.default(%x, dim_order = [0, 1, 2, 3]) : ... -> tensor<1x8x6x6xf32>
    %1, %2 = edge.aten.max_pool2d_with_indices.default(%0, ...) : (tensor<1x8x6x6xf32>) -> (tensor<1x8x3x3xf32>, ...)
    %y = edge.dim_order_ops._to_dim_order_copy.default(%1, dim_order = [0, 2, 3, 1]) : ...

`aten-to-edge` carries a dim order that the user asked for through every operator that can keep it; whether a kernel
does is in the target's manifest. Only calls that the kernel refuses as they are and takes contiguous are changed; what
it refuses either way is `verify-link`'s to report. Copies that meet cancel in `canonicalize`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from etir.dialects.context import EtContext
from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import dims_of, is_contiguous, order_of, tensor_type
from etir.dialects.et.origin import handed_on
from etir.passes.backend.verify_link import call_failure
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.targets.manifest import load

ToDimOrder: TypeAlias = edge.dim_order_ops._to_dim_order_copy.default


@register_pass
@dataclass(frozen=True)
class LegalizeDimOrderPass(Pass):
    """Put copies around operators whose kernel in ``target`` takes contiguous tensors only."""

    name = "legalize-dim-order"
    target: str = "executorch"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Legalize every method."""
        manifest = load(self.target)
        for method in methods(module):
            for op in list(method.walk()):
                if not isinstance(op, EdgeOp) or isinstance(op, ToDimOrder) or not _has_order(op):
                    continue
                schema = ctx.out_variant(op.SCHEMA)
                if schema is None or call_failure(manifest, op, schema) is None:
                    continue
                if call_failure(manifest, op, schema, contiguous=True) is None:
                    _make_contiguous(op)


def _has_order(op: EdgeOp) -> bool:
    values = (*op.operands, *op.results)
    return any(isinstance(v.type, TensorType) and not is_contiguous(v.type) for v in values)


def _make_contiguous(op: EdgeOp) -> None:
    changes: dict[str, Any] = {}
    for name, value in op.given_args().items():
        if isinstance(value, SSAValue):
            changes[name] = _contiguous(value, op)
        elif isinstance(value, tuple) and any(isinstance(v, SSAValue) for v in value):
            changes[name] = [_contiguous(v, op) if isinstance(v, SSAValue) else v for v in value]
    types = [tensor_type(r.type.element_type, dims_of(r.type)) if _is_tensor(r) else r.type for r in op.results]  # type: ignore
    new = op.with_args(types, **changes)
    Rewriter.insert_op(new, InsertPoint.before(op))
    for old, value in zip(op.results, new.results, strict=True):
        result = value
        if old.type != value.type:
            assert isinstance(old.type, TensorType)
            copy = ToDimOrder.make(
                {"self": value, "dim_order": list(order_of(old.type))}, [old.type], location=op.location
            )
            Rewriter.insert_op(copy, InsertPoint.before(op))
            result = copy.results[0]
        result.name_hint = old.name_hint
        old.replace_all_uses_with(result)
    Rewriter.erase_op(op)


def _is_tensor(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType)


def _contiguous(value: SSAValue, op: Operation) -> SSAValue:
    type = value.type
    if not isinstance(type, TensorType) or is_contiguous(type):
        return value
    wanted = tensor_type(type.element_type, dims_of(type))
    copy = ToDimOrder.make(
        {"self": value, "dim_order": list(order_of(wanted))}, [wanted], location=handed_on(op.location)
    )
    Rewriter.insert_op(copy, InsertPoint.before(op))
    return copy.results[0]
