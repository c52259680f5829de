"""Operators that copy what ``as_strided`` reads, or write it into a copy, as the operators that they are made of.

torch defines them on the storage of their tensor: ``as_strided_copy`` is ``as_strided`` and a copy,
``as_strided_scatter`` copies all of the storage. In a module they stand for the elements of their operand in row-major
order, so that they stay only where that is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from xdsl.ir import Block, Operation, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.aten.base import AtenOp
from etir.dialects.aten.recorded_layout import SELF_LAYOUT, TRACED_AS_COPIES
from etir.dialects.et.layout import Dim, dims_of, tensor_type
from etir.lowering.build.dims import as_int_if_const
from etir.lowering.build.sizes import SizePool
from etir.lowering.errors import E0418
from etir.lowering.import_fx.layouts import is_whole_storage, self_layout
from etir.lowering.import_fx.types import dim_of, type_of_tensor

STORAGE_VIEWS = frozenset({"aten.as_strided.default", "aten.as_strided_.default"})
STORAGE_COPIES = frozenset(
    {"aten.as_strided_copy.default", "aten.as_strided_scatter.default", "aten._reshape_alias_copy.default"}
)


_RESIZES = [
    [f"{name}_"]
    for name in ("as_strided", "t", "transpose", "swapaxes", "swapdims", "squeeze", "unsqueeze", "resize", "resize_as")
]
"""In-place operators that give a tensor other sizes and strides."""


def record_layout(op: Operation, node: fx.Node) -> None:
    """Record the layout of the operand of ``as_strided``, to check against it what follows from the program."""
    operand = node.args[0] if node.args else None
    if any(str(n.target).split(".")[1:2] in _RESIZES for n in node.graph.nodes):
        # torch records one tensor for what a value was and for what it is after such an operator.
        return
    if isinstance(operand, fx.Node) and (known := self_layout(operand.meta.get("val"))) is not None:
        op.attributes[SELF_LAYOUT] = known


def without_storage_copy(
    node: fx.Node, name: str, arguments: Sequence[Any], keywords: Mapping[str, Any], block: Block
) -> SSAValue | None:
    """The result of one of :data:`STORAGE_COPIES`; None where the operator may stay. Raises error E0418."""
    operand = node.args[0] if node.args else None
    if not isinstance(operand, fx.Node):
        return None
    tensor, is_seen = operand.meta.get("val"), not _is_traced_as_copy(operand)
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
        return None
    if is_seen and is_whole_storage(tensor):
        return None
    names = ["self", "src", "size", "stride", "storage_offset"]
    if "scatter" not in name:
        names.remove("src")
    given: dict[str, Any] = {**dict(zip(names, arguments, strict=False)), **keywords}
    if "scatter" in name:
        if not is_seen:
            raise E0418.error(f"'{name}': the trace has another storage than the tensor that {operand.name} returns")
        return _scatter(given, tensor, block)
    viewed = _add(block, aten.as_strided.default, type_of_tensor(node.meta["val"]), **given)
    if is_seen and (known := self_layout(tensor)) is not None:
        viewed.owner.attributes[SELF_LAYOUT] = known  # type: ignore[union-attr]
    return _add(block, aten.clone.default, viewed.type, self=viewed, memory_format="contiguous")


def _is_traced_as_copy(node: fx.Node) -> bool:
    """Whether a tensor is a view of one that eager mode returns as it is, and torch's trace copies."""
    while node.op == "call_function":
        name = str(node.target)
        if name in TRACED_AS_COPIES:
            return True
        schema = getattr(node.target, "_schema", None)
        is_view = schema is None or any(r.alias_info is not None for r in schema.returns)
        viewed = node.args[0] if node.args and is_view else None
        if not isinstance(viewed, fx.Node):
            return False
        node = viewed
    return False


def _scatter(given: dict[str, Any], tensor: torch.Tensor, block: Block) -> SSAValue | None:
    """A copy of all of the storage, written, and seen as the tensor was."""
    dims, strides = [dim_of(s) for s in tensor.shape], [dim_of(s) for s in tensor.stride()]
    if any(stride == 0 and size != 1 for size, stride in zip(dims, strides, strict=True)):
        # torch scatters into a plain copy of a tensor that has elements several times.
        return None
    source, self = given.pop("src"), given.pop("self")
    known, bytes, type = self_layout(tensor), dim_of(tensor.untyped_storage().nbytes()), type_of_tensor(tensor)
    row = tensor_type(type.element_type, [as_int_if_const(bytes // tensor.element_size())])
    # The storage may have sizes that a view of it does not have.
    sources = [self, *block.args, *(result for op in block.ops for result in op.results)]
    pool = SizePool(lambda op: _added(block, op), sources, lambda operator: operator, {})

    def number(size: Dim) -> int | SSAValue:
        found = pool.evaluate(size)
        if found is None:
            raise E0418.error(f"'aten.as_strided_scatter.default': {size} is no size of its tensor")
        return found if isinstance(found, int) else pool.scalar(found)

    offset = number(dim_of(tensor.storage_offset()))
    size = [number(dims_of(row)[0])]
    stored = _add(block, aten.as_strided.default, row, self=self, size=size, stride=[1], storage_offset=0)
    if known is not None:
        stored.owner.attributes[SELF_LAYOUT] = known  # type: ignore[union-attr]
    copy = _add(block, aten.clone.default, row, self=stored, memory_format="contiguous")
    if given.get("storage_offset") is None:
        given["storage_offset"] = offset
    part = _add(block, aten.as_strided.default, source.type, self=copy, **given)
    _add(block, aten.copy_.default, part.type, self=part, src=source)
    return _add(
        block, aten.as_strided.default, type,
        self=copy, size=[number(d) for d in dims], stride=[number(s) for s in strides], storage_offset=offset,
    )  # fmt: skip


def _added(block: Block, op: Operation) -> Operation:
    block.add_op(op)
    return op


def _add(block: Block, operator: type[AtenOp], type: Any, /, **arguments: Any) -> SSAValue:
    op = operator.make(arguments, [type])
    block.add_op(op)
    return op.results[0]
