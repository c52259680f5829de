"""Scaled dot-product attention and the softmax forms around it.

The form is as small as the mask allows: scaled query, two products, one softmax, and for a mask one ``add``, as in
torch, where a bool mask becomes 0 and minus infinity too. So all that each layer does with a mask is arithmetic, which
delegates claim, and what is made of the mask itself is the same in every layer and computed once.

torch gives 0 for a row whose mask hides everything, where softmax alone gives NaN. Such rows hide nothing here, and the
result is multiplied by 0 in them and by 1 elsewhere; this is left out when there can be no such row (no mask, causal,
or a mask that ``value_range`` sees through).

Heads that share keys and values (``enable_gqa``, or keys and values repeated with ``repeat_interleave``) are
multiplied as more query rows: nothing is copied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import bf16, f16, f32, i1
from etir.dialects.et.layout import Dim, tensor_type
from etir.lowering.build.builder import Builder, dims, element, rank
from etir.lowering.build.dims import wrap
from etir.lowering.build.sizes import SizeLike
from etir.lowering.decompose_aten.decomposition import decomposition
from etir.lowering.decompose_aten.families.contraction import matmul
from etir.lowering.decompose_aten.families.rearrange import triangle_mask
from etir.lowering.decompose_aten.value_range import every_row_has_true, never_minus_infinity


@decomposition(aten._safe_softmax.default)
def safe_softmax(b: Builder, x: SSAValue, dim: int, dtype: object) -> SSAValue:
    """``_softmax``, with 0 where all of a row is minus infinity"""
    if dtype is not None:
        x = b.cast(x, dtype)  # type: ignore[arg-type]
    position = wrap(dim, rank(x))
    result = b(aten._softmax.default, x, position, False)
    if never_minus_infinity(x):
        return result
    hidden = b.eq(b.amax(x, [position], True), -math.inf)
    return b(aten.where.self, hidden, b.as_tensor(0, element(result)), result)


@decomposition(aten.scaled_dot_product_attention.default)
def scaled_dot_product_attention(
    b: Builder,
    query: SSAValue,
    key: SSAValue,
    value: SSAValue,
    mask: SSAValue | None,
    dropout: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> SSAValue | None:
    """``softmax(query * scale @ key^T + mask) @ value``"""
    if scale is None:
        width = b.size(query, -1)
        if isinstance(width, int):
            scale = 1 / math.sqrt(width) if width else 1.0
        else:
            number = b(aten.full.default, [], width.value, dtype=f32, types=[tensor_type(f32, [])])
            query = b.div(query, b.cast(b.sqrt(number), element(query)))
            scale = 1.0
    rows, columns = b.size(query, -2), b.size(key, -2)
    visible: SSAValue | None = None
    if is_causal:
        mask = bool_to_additive(b, triangle_mask(b, rows, columns, 0, "le"), element(query))
    elif mask is not None:
        mask, visible = additive_mask(b, mask, element(query))
    key, value = _without_repeats(key, value)
    shape = [*b.sizes(query)[:-1], b.size(value, -1)]
    group = _group(b, query, key) if rank(query) > 2 else 1
    if scale != 1:
        query = b.mul(query, scale)
    if group != 1:
        outer = b.sizes(query)[:-3]
        query = b.view(query, [*outer, b.size(key, -3), rows * group, b.size(query, -1)])
    scores = matmul(b, query, b.transpose(key, -2, -1))
    if mask is not None:
        scores = b.add(b.view(scores, [*shape[:-1], columns]), mask)
    weights = b(aten._softmax.default, scores, rank(scores) - 1, False)
    if dropout:
        weights = b.results(aten.native_dropout.default, weights, dropout, True)[0]
    if mask is not None and group != 1:
        weights = b.view(weights, [*b.sizes(query)[:-1], columns])
    result = b.view(matmul(b, weights, value), shape)
    return result if visible is None else b.mul(result, visible)


def bool_to_additive(b: Builder, mask: SSAValue, type: Attribute) -> SSAValue:
    """0 where a bool mask is true, minus infinity where it is false."""
    return b(aten.where.self, mask, b.as_tensor(0, type), b.as_tensor(-math.inf, type))


def additive_mask(b: Builder, mask: SSAValue, type: Attribute) -> tuple[SSAValue, SSAValue | None]:
    """What to add to the scores, and the factor of each row of the result: 1, or 0 for rows that the mask hides. These
    hide nothing in what is added. No factors where no row can be hidden.
    """
    last = rank(mask) - 1
    if element(mask) == i1:
        if every_row_has_true(mask):
            return bool_to_additive(b, mask, type), None
        visible = b(aten.any.dim, mask, last, True)
        shown = b(aten.logical_or.default, mask, b(aten.logical_not.default, visible))
        return bool_to_additive(b, shown, type), b.cast(visible, type)
    if never_minus_infinity(mask):
        return b.cast(mask, type), None
    visible = b.ne(b.amax(mask, [last], True), -math.inf)
    shown = b(aten.where.self, visible, mask, b.as_tensor(0, element(mask)))
    return b.cast(shown, type), b.cast(visible, type)


def _group(b: Builder, query: SSAValue, key: SSAValue) -> SizeLike:
    """How many query heads share a key head; 1 for equal numbers, and for a single head, which broadcasts."""
    ours, theirs = dims(query)[-3], dims(key)[-3]
    if isinstance(ours, int) and isinstance(theirs, int):
        return ours // theirs if theirs > 1 and ours > theirs and ours % theirs == 0 else 1
    if ours == theirs or theirs == 1 or ours == 1 or not b.rewriter.root.arg("enable_gqa"):  # type: ignore[attr-defined]
        return 1
    return b.size(query, -3) // b.size(key, -3)


def _without_repeats(key: SSAValue, value: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Keys and values before every head was repeated the same number of times."""
    sources = [_before_repeat(t) for t in (key, value)]
    if sources[0] is None or sources[1] is None or dims(sources[0])[-3] != dims(sources[1])[-3]:
        return key, value
    return sources[0], sources[1]


def _before_repeat(x: SSAValue) -> SSAValue | None:
    """The source of ``[..., h, s, w]`` viewed from ``[..., h, n, s, w]`` expanded from ``[..., h, 1, s, w]``."""
    view = x.owner
    if not isinstance(view, aten.view.default):
        return None
    expand = view.self_.owner
    if not isinstance(expand, aten.expand.default):
        return None
    spread = expand.result
    inner = expand.self_.owner
    if not isinstance(inner, aten.unsqueeze.default):
        return None
    source = inner.self_
    given: Sequence[Dim] = dims(source)
    if len(given) < 3 or wrap(inner.dim, len(given) + 1) != len(given) - 2:
        return None
    expanded, merged = dims(spread), dims(x)
    heads, times = expanded[-4], expanded[-3]
    fits = (*expanded[:-3], *expanded[-2:]) == tuple(given) and len(merged) == len(given)
    if not fits or not isinstance(heads, int) or heads < 2 or merged[-3] != heads * times:
        return None
    return source if (*merged[:-3], *merged[-2:]) == (*given[:-3], *given[-2:]) else None


@decomposition(aten._scaled_dot_product_flash_attention_for_cpu.default)
def flash_attention(
    b: Builder,
    query: SSAValue,
    key: SSAValue,
    value: SSAValue,
    dropout: float,
    is_causal: bool,
    mask: SSAValue | None,
    scale: float | None,
) -> list[SSAValue | None] | None:
    """The attention, and the logarithms of the sums where they are used: a backward graph needs them"""
    if b.rewriter.root.results[1].first_use is None:
        result = scaled_dot_product_attention(b, query, key, value, mask, dropout, is_causal, scale, False)
        return None if result is None else [result, None]
    scale = flash_attention_scale(b, query, scale)
    if scale is None or dropout:
        return b.notify_match_failure("it has dropout, or the width of the heads is dynamic")
    scores = matmul(b, b.mul(query, scale), b.transpose(key, -2, -1))
    last = rank(scores) - 1
    visible: SSAValue | None = None
    if is_causal:
        causal = triangle_mask(b, b.size(query, -2), b.size(key, -2), 0, "le")
        scores = b.add(scores, bool_to_additive(b, causal, element(scores)))
    elif mask is not None:
        shown, visible = additive_mask(b, mask, element(scores))
        scores = b.add(scores, shown)
    result = matmul(b, b(aten._softmax.default, scores, last, False), value)
    sums = b(aten.logsumexp.default, b.cast(scores, _wide(element(scores))), [last])
    if visible is None:
        return [result, sums]
    hidden = b.as_tensor(-math.inf, element(sums))
    seen = b.ne(b.squeeze(visible, -1), 0)
    return [b.mul(result, visible), b(aten.where.self, seen, sums, hidden)]


def flash_attention_scale(b: Builder, query: SSAValue, scale: float | None) -> float | None:
    """What the products are multiplied with; None when it is dynamic."""
    width = dims(query)[-1]
    if scale is not None or not isinstance(width, int):
        return scale
    return 1 / math.sqrt(width) if width else 1.0


def _wide(type: Attribute) -> Attribute:
    return f32 if type in (f16, bf16) else type


@decomposition(aten._scaled_dot_product_attention_math.default)
def attention_math(
    b: Builder,
    query: SSAValue,
    key: SSAValue,
    value: SSAValue,
    mask: SSAValue | None,
    dropout: float,
    is_causal: bool,
    dropout_mask: SSAValue | None,
    scale: float | None,
    enable_gqa: bool,
) -> list[SSAValue | None] | None:
    """The attention; the weights must not be used"""
    if b.rewriter.root.results[1].first_use is not None or dropout_mask is not None:
        return b.notify_match_failure("the second result is used")
    result = scaled_dot_product_attention(b, query, key, value, mask, dropout, is_causal, scale, enable_gqa)
    return None if result is None else [result, None]
