"""Gradients that torch computes in one operator each, for joint graphs of forward and backward.

Autograd's other formulas are made of ordinary operators by the time that a joint graph is imported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import bf16, f16, f32, i1
from etir.lowering.build.builder import Builder, dims, element, rank
from etir.lowering.decompose_aten.decomposition import decomposition
from etir.lowering.decompose_aten.families.attention import bool_to_additive, flash_attention_scale
from etir.lowering.decompose_aten.families.contraction import matmul
from etir.lowering.decompose_aten.families.rearrange import triangle_mask

Ints = Sequence[int]


@decomposition(aten._scaled_dot_product_flash_attention_for_cpu_backward.default)
def flash_attention_backward(
    b: Builder,
    gradient: SSAValue,
    query: SSAValue,
    key: SSAValue,
    value: SSAValue,
    out: SSAValue,
    logsumexp: SSAValue,
    dropout: float,
    is_causal: bool,
    mask: SSAValue | None,
    scale: float | None,
) -> list[SSAValue] | None:
    """The weights again from the logarithms of their sums, then the gradient of softmax between two products (Dao et
    al., 2022, arXiv:2205.14135, algorithm 4). Joint graphs hand the weights themselves in the place of the logarithms:
    torch's decomposition of the forward operator returns those
    """
    scale = flash_attention_scale(b, query, scale)
    if scale is None or dropout:
        return b.notify_match_failure("it has dropout, or the width of the heads is dynamic")
    if dims(query)[-3] != dims(key)[-3]:
        return b.notify_match_failure("heads share keys")
    narrow = element(query)
    if narrow in (f16, bf16):
        gradient, query, key, value, out = (b.cast(t, f32) for t in (gradient, query, key, value, out))
    if rank(logsumexp) == rank(query):
        weights = b.cast(logsumexp, element(query))
    else:
        scores = b.mul(matmul(b, query, b.transpose(key, -2, -1)), scale)
        if is_causal:
            mask = triangle_mask(b, b.size(query, -2), b.size(key, -2), 0, "le")
        if mask is not None:
            type = element(scores)
            scores = b.add(scores, bool_to_additive(b, mask, type) if element(mask) == i1 else b.cast(mask, type))
        weights = b.exp(b.sub(scores, b.unsqueeze(b.cast(logsumexp, element(scores)), -1)))
    through = matmul(b, gradient, b.transpose(value, -2, -1))
    last = rank(out) - 1
    share = b.sum(b.mul(gradient, out), [last], True)
    inner = b.mul(b.mul(weights, b.sub(through, share)), scale)
    results = [
        matmul(b, inner, key),
        matmul(b, b.transpose(inner, -2, -1), query),
        matmul(b, b.transpose(weights, -2, -1), gradient),
    ]
    return [b.cast(r, narrow) for r in results]


@decomposition(aten._cdist_backward.default)
def cdist_backward(b: Builder, gradient: SSAValue, x: SSAValue, y: SSAValue, p: float, distances: SSAValue) -> SSAValue:
    """For each pair the gradient of its norm by the difference, summed over the second points; 0 where they meet"""
    difference = b.sub(b.unsqueeze(x, -2), b.unsqueeze(y, -3))
    gradient, distances = b.unsqueeze(gradient, -1), b.unsqueeze(distances, -1)
    sign = b.sign(difference)
    if p == 0:
        slope = b.mul(difference, 0.0)
    elif p == 1:
        slope = sign
    elif p == math.inf:
        largest = b.eq(b.abs(difference), distances)
        slope = b.mul(sign, b.cast(largest, element(x)))
    else:
        meet = b.eq(distances, 0)
        if p == 2:
            slope = b.div(difference, distances)
        else:
            part = b.mul(sign, b.pow(b.abs(difference), p - 1))
            slope = b.div(part, b.pow(distances, p - 1))
        slope = b.where(meet, 0.0, slope)
    return b.sum(b.mul(gradient, slope), [rank(slope) - 2])


@decomposition(aten.convolution_backward.default)
def convolution_backward(
    b: Builder,
    gradient: SSAValue,
    x: SSAValue,
    weight: SSAValue,
    bias_sizes: Ints | None,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    transposed: bool,
    output_padding: Ints,
    groups: int,
    mask: Sequence[bool],
) -> list[SSAValue] | None:
    """One dim as two with a height of 1. Of a transposed convolution, which is the gradient of a plain one: that plain
    convolution of the gradient, and the plain one's gradient by the weight with input and output exchanged
    """
    root = b.rewriter.root
    if rank(x) == 3:
        wide = [b.unsqueeze(t, -2) for t in (gradient, x, weight)]
        settings = [[fill, *given] for fill, given in zip((1, 0, 1), (stride, padding, dilation), strict=True)]
        types = [
            like.type if wanted else result.type
            for like, result, wanted in zip((wide[1], wide[2], root.results[2]), root.results, mask, strict=True)
        ]
        tall = b.results(
            aten.convolution_backward.default,
            *(*wide, bias_sizes, *settings, transposed, [0, *output_padding], groups, mask),
            types=types,
        )
        return [
            b.squeeze(t, -2) if wanted and i < 2 else t for i, (t, wanted) in enumerate(zip(tall, mask, strict=True))
        ]
    if not transposed:
        return b.notify_match_failure("it is in the form that kernels have")
    zeros = [0] * len(padding)
    results = [root.results[i].type for i in range(3)]
    none = [b.full([0], 0, element(x)) for _ in range(3)]
    by_input, by_weight, by_bias = none
    if mask[0]:
        by_input = b(
            aten.convolution.default,
            *(gradient, weight, None, stride, padding, dilation, False, zeros, groups),
            types=[results[0]],
        )
    if mask[1]:
        by_weight = b.results(
            aten.convolution_backward.default,
            *(x, gradient, weight, None, stride, padding, dilation, False, zeros, groups, [False, True, False]),
            types=[none[0].type, results[1], none[0].type],
        )[1]
    if mask[2]:
        by_bias = b.sum(gradient, [0, *range(2, rank(gradient))])
    return [by_input, by_weight, by_bias]
