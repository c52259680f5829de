"""`elide-views`: copies that move no byte become views.

Before::

    %1 = edge.aten.view_copy.default(%0, size = [2, 8]) : (tensor<16xf32>) -> tensor<2x8xf32>
    %2 = edge.aten.select_copy.int(%1, dim = 0, index = 1) : (tensor<2x8xf32>) -> tensor<8xf32>

After::

    %1 = backend.view %0 : tensor<16xf32> -> tensor<2x8xf32>
    %2 = backend.view %1 {offset = 8 : i64} : tensor<2x8xf32> -> tensor<8xf32>

Any reshape of a contiguous tensor is a view; so are squeezing and unsqueezing, a permutation that only moves dims of
size 1, an expansion that repeats nothing, and a slice or selection along the first dim that is longer than 1. Views of
views collapse. A view of a weight is a weight over the same bytes, cut to size, under the other type.

Bytes under another element type (``view.dtype``, complex numbers as pairs of real ones) are a view, too. Runtimes may
have no kernel that copies those, so that what cannot be viewed (a tensor in another dim order, one that a loop carries)
is copied first, as what it is. With dynamic sizes integers of one width are converted, which keeps their bits.

A result with several dynamic dims needs their sizes at run time: those that the operator names, or sizes of its
operand.

Left alone: dynamic tensors whose sizes are not at hand, dynamic tensors with an offset, and what a loop carries, since
the loop overwrites it while the view may still be read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, cast

from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from etir.dialects.backend.ops import ViewOp
from etir.dialects.context import EtContext
from etir.dialects.control.ops import ScanOp, WhileOp
from etir.dialects.dtypes import DType, dtype_of, i64
from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import dims_of, is_contiguous, is_static, order_of, tensor_type
from etir.dialects.et.program import GetWeightOp, WeightOp
from etir.dialects.et.weights import Blob, BlobAttr
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily

Reshape: TypeAlias = (
    edge.aten.view_copy.default
    | edge.aten.squeeze_copy.default
    | edge.aten.squeeze_copy.dim
    | edge.aten.squeeze_copy.dims
    | edge.aten.unsqueeze_copy.default
)
Permute: TypeAlias = edge.aten.permute_copy.default | edge.aten.transpose_copy.int | edge.aten.t_copy.default
Slice: TypeAlias = edge.aten.slice_copy.Tensor | edge.aten.select_copy.int
Copy: TypeAlias = Reshape | Permute | Slice | edge.aten.expand_copy.default


@register_pass
@dataclass(frozen=True)
class ElideViewsPass(Pass):
    """Turn copies that move no byte into views."""

    name = "elide-views"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Rewrite every method; weights seen under another type become weights of their own over the same bytes."""
        symbols = _Weights(module)
        for method in methods(module):
            apply_patterns_greedily(ctx, method, [CopyToView(), Reinterpret(), ViewOfView(), ViewOfWeight(symbols)])


def element_offset(op: EdgeOp) -> int | None:
    """How many elements into its operand a copy starts when it moves no byte; None when it moves some."""
    source = op.operands[0].type
    result = op.results[0].type
    if not isinstance(source, TensorType) or not isinstance(result, TensorType):
        return None
    if not is_contiguous(source) or not is_contiguous(result) or source.element_type != result.element_type:
        return None
    if isinstance(op, Reshape):
        return 0
    dims = dims_of(source)
    if isinstance(op, edge.aten.expand_copy.default):
        return 0 if _without_ones(dims) == _without_ones(dims_of(result)) else None
    if isinstance(op, Permute):
        order = _permutation(op, len(dims))
        kept = [d for d in order if dims[d] != 1]
        return 0 if kept == sorted(kept) else None
    if isinstance(op, Slice) and is_static(source) and is_static(result):
        return _slice_offset(op, source.get_shape(), result.get_shape())
    return None


def _without_ones(dims: tuple[object, ...]) -> list[object]:
    return [d for d in dims if d != 1]


def _permutation(op: Permute, rank: int) -> list[int]:
    if isinstance(op, edge.aten.permute_copy.default):
        return [d % rank for d in op.dims] if rank else []
    order = list(range(rank))
    if rank > 1:
        first, second = (0, 1) if isinstance(op, edge.aten.t_copy.default) else (op.dim0, op.dim1)
        order[first], order[second] = order[second], order[first]
    return order


def _slice_offset(op: Slice, source: tuple[int, ...], result: tuple[int, ...]) -> int | None:
    dim = op.dim % len(source)
    if any(size != 1 for size in source[:dim]):
        return None
    inner = 1
    for size in source[dim + 1 :]:
        inner *= size
    if isinstance(op, edge.aten.select_copy.int):
        return None if isinstance(op.index, SSAValue) else (op.index % source[dim]) * inner
    start, step = op.start, op.step
    if isinstance(start, SSAValue) or isinstance(step, SSAValue) or (step != 1 and result[dim] > 1):
        return None
    start = 0 if start is None else start
    start = min(max(start + source[dim] if start < 0 else start, 0), source[dim])
    return start * inner


class CopyToView(Pattern):
    """A copying operator that moves no byte is a view."""

    name = "copy-to-view"

    def rewrite(self, op: Copy, rewriter: PatternRewriter) -> None:
        offset = element_offset(op)
        if offset is None:
            rewriter.notify_match_failure("bytes move, or the dim order or element type changes")
            return
        source, result = op.self_, op.result
        if source.type == result.type and offset == 0:
            rewriter.replace_op(op, [source])
            return
        types = (cast("TensorType[Attribute]", source.type), cast("TensorType[Attribute]", result.type))
        if not all(is_static(t) for t in types) and offset:
            rewriter.notify_match_failure("the offset of a dynamic tensor is not known")
            return
        named = _named_sizes(op, types[0], types[1])
        if named is None:
            rewriter.notify_match_failure("the runtime cannot compute a shape with several dynamic dims")
            return
        if loop := _carried(source):
            rewriter.notify_match_failure(f"the operand is carried by '{loop.name}', which overwrites it")
            return
        sizes = [_size_value(size, source, rewriter) for size in named]
        rewriter.replace_op(op, ViewOp(source, result.type, offset, sizes))


def _named_sizes(
    op: EdgeOp, source: TensorType[Attribute], result: TensorType[Attribute]
) -> list[SSAValue | int] | None:
    """Where the sizes of the result's dynamic dims come from: a value, or a dim of the operand; None if from nowhere.

    With at most one dynamic dim none is needed, unless there are no elements, which tell nothing.
    """
    dims = dims_of(result)
    dynamic = [i for i, d in enumerate(dims) if not isinstance(d, int)]
    if not dynamic or (len(dynamic) == 1 and 0 not in dims):
        return []
    written = op.size if isinstance(op, edge.aten.view_copy.default) else ()
    found: list[SSAValue | int] = []
    for index in dynamic:
        if index < len(written) and isinstance(size := written[index], SSAValue):
            found.append(size)
        elif dims[index] in dims_of(source):
            found.append(dims_of(source).index(dims[index]))
        else:
            return None
    return found


def _size_value(size: SSAValue | int, source: SSAValue, rewriter: PatternRewriter) -> SSAValue:
    if isinstance(size, SSAValue):
        return size
    return rewriter.insert_op(edge.aten.sym_size.int.make({"self": source, "dim": size}, [i64])).result


def _carried(value: SSAValue) -> Operation | None:
    """The loop that carries ``value`` as a block argument, whose buffer is overwritten while views may live on."""
    owner = value.owner
    if isinstance(owner, Operation):
        return None
    parent = owner.parent_op()
    return parent if isinstance(parent, (WhileOp, ScanOp)) else None


class Reinterpret(Pattern):
    """Bytes under another element type are a view of a contiguous tensor."""

    name = "reinterpret"

    def rewrite(
        self,
        op: edge.aten.view_copy.dtype | edge.aten.view_as_real_copy.default | edge.aten.view_as_complex_copy.default,
        rewriter: PatternRewriter,
    ) -> None:
        source, result = op.self_, op.result
        if source.type == result.type:
            rewriter.replace_op(op, [source])
            return
        types = (cast("TensorType[Attribute]", source.type), cast("TensorType[Attribute]", result.type))
        if not all(is_static(t) for t in types):
            if _converts(*(dtype_of(t.element_type) for t in types)):
                given = {"self": source, "dtype": types[1].element_type, "dim_order": list(order_of(types[1]))}
                rewriter.replace_op(op, edge.dim_order_ops._to_dim_order_copy.default.make(given, [types[1]]))
                return
            rewriter.notify_match_failure("dynamic sizes need a kernel")
            return
        rows = [tensor_type(t.element_type, dims_of(t)) for t in types]
        if source.type != rows[0] or _carried(source):
            copied = edge.dim_order_ops._to_dim_order_copy.default.make(
                {"self": source, "dim_order": list(order_of(rows[0]))}, [rows[0]]
            )
            source = rewriter.insert_op(copied).result
        view = ViewOp(source, rows[1])
        if types[1] == rows[1]:
            rewriter.replace_op(op, view)
            return
        given = {"self": rewriter.insert_op(view).results[0], "dim_order": list(order_of(types[1]))}
        rewriter.replace_op(op, edge.dim_order_ops._to_dim_order_copy.default.make(given, [types[1]]))


def _converts(source: DType, result: DType) -> bool:
    """Whether a conversion keeps the bits: an integer of the same width is another number of the same bits."""
    return source.itemsize == result.itemsize and source.is_integer and result.is_integer


class ViewOfView(Pattern):
    """A view of a view is a view of the base."""

    name = "view-of-view"

    def rewrite(self, op: ViewOp, rewriter: PatternRewriter) -> None:
        base = op.base.owner
        if not isinstance(base, ViewOp):
            return
        start = base.byte_offset + op.byte_offset
        offset, rest = divmod(start, _itemsize(op.result.type))
        if rest:
            rewriter.notify_match_failure(f"the view starts {start} bytes into its base, amid an element")
            return
        if base.base.type == op.result.type and offset == 0:
            rewriter.replace_op(op, [base.base])
        else:
            rewriter.replace_op(op, ViewOp(base.base, op.result.type, offset, op.sizes))


class ViewOfWeight(Pattern):
    """A view of a weight is a weight."""

    name = "view-of-weight"

    def __init__(self, weights: _Weights):
        self.weights = weights

    def rewrite(self, op: ViewOp, rewriter: PatternRewriter) -> None:
        owner = op.base.owner
        if not isinstance(owner, GetWeightOp):
            return
        name = self.weights.view(owner.symbol.root_reference.data, op)
        if name is None:
            rewriter.notify_match_failure("the bytes of the weight are not loaded, and the view is only a part of them")
            return
        rewriter.replace_op(op, GetWeightOp(name, op.result.type))


def _itemsize(type: Attribute) -> int:
    return dtype_of(cast("TensorType[Attribute]", type).element_type).itemsize


class _Weights:
    """The weights of a module, and those made for views of them."""

    def __init__(self, module: ModuleOp):
        self.ops = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, WeightOp)}
        self.taken = {
            name.data: None
            for op in module.body.block.ops
            if isinstance(name := op.properties.get("sym_name"), StringAttr)
        }
        self.known: dict[tuple[str, Attribute, int], str] = {}

    def view(self, symbol: str, op: ViewOp) -> str | None:
        """The symbol of the weight that shows part of another, or None when its bytes cannot be had."""
        key = (symbol, op.result.type, op.element_offset)
        if key in self.known:
            return self.known[key]
        weight = self.ops[symbol]
        if not isinstance(weight.value, BlobAttr) or "external" in weight.attributes:
            return None
        blob = self._part(weight.value.data, op)
        if blob is None:
            return None
        count = 0
        while (name := f"{symbol}_view{count or ''}") in self.taken:
            count += 1
        self.taken[name] = None
        new = WeightOp(name, op.result.type, BlobAttr(blob), dict(weight.attributes))
        new.location = weight.location
        parent = weight.parent
        assert parent is not None
        parent.insert_op_after(new, weight)
        self.ops[name] = new
        self.known[key] = name
        return name

    @staticmethod
    def _part(blob: Blob, op: ViewOp) -> Blob | None:
        type = cast("TensorType[Attribute]", op.result.type)
        size = _itemsize(type)
        for dim in type.get_shape():
            size *= dim
        if size == blob.size:
            return blob
        if not blob.has_data:
            return None
        start = op.byte_offset
        return Blob.of(blob.data[start : start + size])
