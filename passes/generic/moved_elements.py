"""What `canonicalize` finds in operators that move elements: windows that lie side by side are other dims of the image,
and a gather of the same numbers for all of a row takes rows.

Models write patches of an image as ``unfold`` and ``fold`` (MobileViT v2), and positions as a gather of a column of
numbers that is expanded to the rows (Funnel). As views, permutations and ``index_select`` other passes know them.
Numbers that are repeated for all heads, as rows of a matrix (ProphetNet), are expanded along dims of their own. Images
that are made as large as they are, as the largest of several that are joined (SegFormer), stay where they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType
from xdsl.ir import Attribute, SSAValue

from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import is_contiguous, is_static, tensor_of, tensor_type
from etir.dialects.schema_op import SchemaOp
from etir.passes.infra.rewriting import Pattern, PatternRewriter

MOST_DIMS = 8
"""Dims of a tensor that every target takes."""
VIEWS = (
    edge.aten.view_copy.default,
    edge.aten.unsqueeze_copy.default,
    edge.aten.permute_copy.default,
    edge.aten.transpose_copy.int,
)
"""Operators that put all elements of a tensor under other dims."""


class WindowsSideBySide(Pattern):
    """``im2col`` and ``col2im`` with strides of the windows' sizes, without padding, are permutations: every element of
    the image is in one window.
    """

    name = "windows-side-by-side"

    def rewrite(self, op: edge.aten.im2col.default | edge.aten.col2im.default, rewriter: PatternRewriter) -> None:
        given, result = tensor_of(op.self_), tensor_of(op.result)
        kernel = _pair(op.arg("kernel_size"))
        plain = all(is_static(t) and is_contiguous(t) for t in (given, result))
        if not plain or kernel != _pair(op.arg("stride")) or any(_pair(op.arg("padding"))):
            rewriter.notify_match_failure("windows that lie over each other or outside of the image")
            return
        if any(n != 1 and d != 1 for n, d in zip(kernel, _pair(op.arg("dilation")), strict=True)):
            rewriter.notify_match_failure("windows with gaps")
            return
        image = result if isinstance(op, edge.aten.col2im.default) else given
        *outer, channels, height, width = image.get_shape()
        if height % kernel[0] or width % kernel[1] or 0 in image.get_shape():
            rewriter.notify_match_failure("a part of the image is in no window")
            return
        rows, columns, n = height // kernel[0], width // kernel[1], len(outer)
        if isinstance(op, edge.aten.im2col.default):
            apart = [*outer, channels, rows, kernel[0], columns, kernel[1]]
            order = [*range(n), n, n + 2, n + 4, n + 1, n + 3]
        else:
            apart = [*outer, channels, *kernel, rows, columns]
            order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
        moved = _permuted(rewriter, op, _viewed(rewriter, op, op.self_, apart), order)
        rewriter.replace_op(op, [_viewed(rewriter, op, moved, [*result.get_shape()], result)])


class GatherOfRows(Pattern):
    """``gather`` by numbers that are the same along all other dims, and go through these, is ``index_select``."""

    name = "gather-of-rows"

    def rewrite(self, op: edge.aten.gather.default, rewriter: PatternRewriter) -> None:
        expanded = op.index.owner
        source, result = tensor_of(op.self_), tensor_of(op.result)
        if not isinstance(expanded, edge.aten.expand_copy.default) or not is_static(source) or not is_static(result):
            return
        numbers, shape = tensor_of(expanded.self_), source.get_shape()
        if not shape or not is_static(numbers) or not all(map(is_contiguous, (numbers, source, result))):
            return
        dim = op.arg("dim") % len(shape)
        wanted = result.get_shape()
        count = wanted[dim]
        alike = [n for d, n in enumerate(reversed(numbers.get_shape())) if len(shape) - 1 - d != dim]
        if any(n != 1 for n in alike) or numbers.get_num_dims() < len(shape) - dim:
            rewriter.notify_match_failure("numbers that differ along another dim")
            return
        if (*wanted[:dim], *wanted[dim + 1 :]) != (*shape[:dim], *shape[dim + 1 :]) or 0 in wanted:
            rewriter.notify_match_failure("a part of each other dim")
            return
        if numbers.get_shape()[dim - len(shape)] != count:
            rewriter.notify_match_failure("one number for all")
            return
        index = _viewed(rewriter, op, expanded.self_, [count])
        taken = edge.aten.index_select.default.make(
            {"self": op.self_, "dim": dim, "index": index}, [result], location=op.location
        )
        rewriter.replace_op(op, taken)


class GatherOfRepeatedRows(Pattern):
    """``gather`` along the last dim by rows of numbers that are repeated, and viewed and cast then, is one by numbers
    that are cast first and expanded along dims of their own: where they are constants, each is there once.
    """

    name = "gather-of-repeated-rows"

    def rewrite(self, op: edge.aten.gather.default, rewriter: PatternRewriter) -> None:
        repeat = _repeated(op.index)
        if repeat is None:
            return
        numbers, source, index = map(tensor_of, (repeat.self_, op.self_, op.index))
        times, shape, wanted = repeat.arg("repeats"), source.get_shape(), index.get_shape()
        if not all(is_static(t) and is_contiguous(t) for t in (numbers, source, index)) or 0 in wanted:
            return
        if op.arg("dim") % len(shape) != len(shape) - 1 or wanted[:-1] != shape[:-1]:
            rewriter.notify_match_failure("along another dim, or of a part of the rows")
            return
        lengths = [*[1] * (len(times) - numbers.get_num_dims()), *numbers.get_shape()]
        if times[-1] != 1 or lengths[-1] != wanted[-1] or math.prod(times) == 1:
            rewriter.notify_match_failure("no rows that are repeated")
            return
        outer = [
            pair for time, length in zip(times[:-1], lengths, strict=False) for pair in ((1, time), (length, length))
        ]
        kept = [(before, after) for before, after in outer if after != 1]
        rows = [after for _, after in kept]
        if len(rows) >= MOST_DIMS:
            rewriter.notify_match_failure("more dims than tensors may have")
            return
        once = _cast(rewriter, op, repeat.self_, index.element_type)
        once = _viewed(rewriter, op, once, [*(before for before, _ in kept), wanted[-1]])
        size = [*rows, wanted[-1]]
        given = {"self": once, "size": size}
        type = tensor_type(index.element_type, size)
        expanded = rewriter.insert_op(edge.aten.expand_copy.default.make(given, [type], location=op.location))
        viewed = _viewed(rewriter, op, op.self_, [*rows, shape[-1]])
        given = {"self": viewed, "dim": len(rows), "index": expanded.results[0]}
        type = tensor_type(source.element_type, size)
        gathered = rewriter.insert_op(edge.aten.gather.default.make(given, [type], location=op.location))
        rewriter.replace_op(op, [_viewed(rewriter, op, gathered.results[0], [*wanted], tensor_of(op.result))])


class ResizeToSameSize(Pattern):
    """An image that is resized to its own size is itself, whatever factors say. Linear filters add a neighbor whose
    share is 0: ``x + 0 * x`` makes NaN of what is infinite, as they do. What makes the image does it, before views.
    """

    name = "resize-to-same-size"

    def rewrite(
        self,
        op: edge.aten.upsample_nearest2d.vec
        | edge.aten.upsample_nearest2d.default
        | edge.aten.upsample_bilinear2d.vec
        | edge.aten.upsample_bilinear2d.default,
        rewriter: PatternRewriter,
    ) -> None:
        image = SSAValue.get(op.operands[0])
        type = tensor_of(image)
        if image.type != op.result.type or not is_static(type) or not isinstance(type.element_type, AnyFloat):
            rewriter.notify_match_failure("the size changes, or may")
            return
        if isinstance(op, edge.aten.upsample_nearest2d.vec | edge.aten.upsample_nearest2d.default):
            rewriter.replace_op(op, [image])
            return
        views: list[SchemaOp] = []
        while isinstance(image.owner, VIEWS) and image.has_one_use():
            views.append(image.owner)
            image = image.owner.self_
        given = {"self": image, "other": image, "alpha": 0}
        made = edge.aten.add.Tensor.make(given, [image.type], location=op.location)
        image = rewriter.insert_op(made).results[0]
        for view in reversed(views):
            image = rewriter.insert_op(view.with_args(self=image)).results[0]
        rewriter.replace_op(op, [image])


def _repeated(value: SSAValue) -> edge.aten.repeat.default | None:
    """The repetition of integers whose result a value is, viewed and cast at most once."""
    casts = 0
    while isinstance(value.owner, edge.aten.view_copy.default | edge.dim_order_ops._to_dim_order_copy.default):
        before = value.owner.self_
        casts += tensor_of(before).element_type != tensor_of(value).element_type
        value = before
    repeat = value.owner
    is_integer = isinstance(tensor_of(value).element_type, IntegerType)
    return repeat if isinstance(repeat, edge.aten.repeat.default) and is_integer and casts <= 1 else None


def _cast(rewriter: PatternRewriter, op: SchemaOp, value: SSAValue, element_type: Attribute) -> SSAValue:
    given = tensor_of(value)
    if given.element_type == element_type:
        return value
    arguments = {"self": value, "dtype": element_type, "dim_order": [*range(given.get_num_dims())]}
    made = edge.dim_order_ops._to_dim_order_copy.default.make(
        arguments, [tensor_type(element_type, given.get_shape())], location=op.location
    )
    return rewriter.insert_op(made).results[0]


def _viewed(
    rewriter: PatternRewriter,
    op: SchemaOp,
    value: SSAValue,
    shape: Sequence[int],
    type: TensorType[Attribute] | None = None,
) -> SSAValue:
    type = tensor_type(tensor_of(value).element_type, shape) if type is None else type
    made = edge.aten.view_copy.default.make({"self": value, "size": [*shape]}, [type], location=op.location)
    return rewriter.insert_op(made).results[0]


def _permuted(rewriter: PatternRewriter, op: SchemaOp, value: SSAValue, order: Sequence[int]) -> SSAValue:
    given = tensor_of(value)
    type = tensor_type(given.element_type, [given.get_shape()[d] for d in order])
    made = edge.aten.permute_copy.default.make({"self": value, "dims": [*order]}, [type], location=op.location)
    return rewriter.insert_op(made).results[0]


def _pair(given: Sequence[int]) -> tuple[int, int]:
    first, last = given[0], given[-1]
    return first, last
