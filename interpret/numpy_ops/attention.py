"""Scaled dot-product attention."""

from __future__ import annotations

import numpy as np

from etir.interpret.numpy_ops.activation import native_dropout
from etir.interpret.numpy_ops.dtype import BOOL, Array, compute_dtype, to
from etir.interpret.numpy_ops.registry import op


def _attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Array, Array, Array]:
    """The weighted values, the weights, and the logarithm of each row's sum, in the dtype computed in.

    query (*, heads, L, E), key (*, heads, S, E), value (*, heads, S, Ev). A row that is masked entirely gives zeros.
    """
    dtype = compute_dtype(query.dtype)
    q, k, v = (to(x, dtype) for x in (query, key, value))
    scores = np.matmul(q, np.swapaxes(k, -2, -1)) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        if attn_mask is not None:
            raise ValueError("attn_mask and is_causal exclude each other")
        rows, columns = np.ogrid[: scores.shape[-2], : scores.shape[-1]]
        scores = np.where(columns <= rows, scores, -np.inf)
    elif attn_mask is not None:
        scores = np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == BOOL else scores + to(attn_mask, dtype)
    top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isinf(top), 0, top))
    sums = np.sum(weights, axis=-1, keepdims=True)
    weights = weights / np.where(sums == 0, 1, sums)
    if dropout_p:
        weights = native_dropout(weights, dropout_p, True)[0]
    return np.matmul(weights, v), weights, np.squeeze(top + np.log(sums), -1)


def _repeated_heads(x: Array, heads: int) -> Array:
    """Grouped-query attention: each of the key's heads serves as many neighboring query heads."""
    if heads % x.shape[-3]:
        raise ValueError(f"{heads} query heads are not a multiple of {x.shape[-3]} key or value heads")
    return np.repeat(x, heads // x.shape[-3], -3)


@op("aten.scaled_dot_product_attention.default")
def scaled_dot_product_attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Array:
    if enable_gqa:
        key, value = (_repeated_heads(x, query.shape[-3]) for x in (key, value))
    return to(_attention(query, key, value, attn_mask, dropout_p, is_causal, scale)[0], query.dtype)


@op("aten._scaled_dot_product_attention_math.default")
def attention_math(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    dropout_mask: Array | None = None,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Array, Array]:
    """The second result is the weight of every value for every query. The mask is added to the scores, even a bool."""
    if dropout_mask is not None:
        raise ValueError("dropout_mask is not supported")
    if attn_mask is not None:
        attn_mask = to(attn_mask, query.dtype)
    if enable_gqa:
        key, value = (_repeated_heads(x, query.shape[-3]) for x in (key, value))
    result, weights, _ = _attention(query, key, value, attn_mask, dropout_p, is_causal, scale)
    return to(result, query.dtype), to(weights, query.dtype)


@op("aten._scaled_dot_product_flash_attention_for_cpu.default")
def flash_attention_for_cpu(
    query: Array,
    key: Array,
    value: Array,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Array | None = None,
    scale: float | None = None,
) -> tuple[Array, Array]:
    if key.shape[-3] != query.shape[-3]:
        key, value = (_repeated_heads(x, query.shape[-3]) for x in (key, value))
    result, _, log_sums = _attention(query, key, value, attn_mask, dropout_p, is_causal, scale)
    return to(result, query.dtype), log_sums


@op("etir.rotary.default")
def rotary(input: Array, cos: Array, sin: Array) -> Array:
    """Heads ``[batch, positions, heads, width]`` turned by tables ``[1, positions, width]``, by halves of a head."""
    half = input.shape[-1] // 2
    crossed = np.concatenate([-input[..., half:], input[..., :half]], -1)
    return input * cos[:, :, None] + crossed * sin[:, :, None]


@op("etir.cached_attention.default")
def cached_attention(
    query: Array,
    key: Array,
    value: Array,
    start_pos: int,
    attn_mask: Array | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    softcap: float = 0.0,
    sinks: Array | None = None,
    q_zero_points: Array | None = None,
    q_scales: Array | None = None,
    k_zero_points: Array | None = None,
    k_scales: Array | None = None,
    v_zero_points: Array | None = None,
    v_scales: Array | None = None,
) -> Array:
    """Attention of ``[1, n, heads, width]`` over a cache of which ``start_pos + n`` positions are in use.

    With a mask ``[n, capacity]`` all of them are. Scores become ``softcap * tanh(score / softcap)`` where that is not
    0; ``sinks`` ``[heads]`` are one more score of each softmax, without a value. int8 has a scale and a zero point for
    each vector; the result is float32 then.
    """
    if attn_mask is not None and is_causal:
        raise ValueError("attn_mask and is_causal exclude each other")
    dtype = np.dtype(np.float32) if query.dtype == np.int8 else query.dtype
    parts = (query, q_zero_points, q_scales), (key, k_zero_points, k_scales), (value, v_zero_points, v_scales)
    wide = compute_dtype(dtype)
    q, k, v = (np.swapaxes(_dequantized(to(x, wide), zeros, scales), 1, 2) for x, zeros, scales in parts)
    used = start_pos + q.shape[2]
    if start_pos < 0 or used > k.shape[2]:
        raise ValueError(f"positions {start_pos} to {used} of a cache of {k.shape[2]}")
    if attn_mask is None:
        k, v = k[:, :, :used], v[:, :, :used]
    k, v = (_repeated_heads(x, q.shape[1]) for x in (k, v))
    scores = np.matmul(q, np.swapaxes(k, -2, -1)) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    if attn_mask is not None:
        scores = scores + to(attn_mask, wide)
    elif is_causal:
        rows, columns = np.ogrid[: scores.shape[-2], : scores.shape[-1]]
        scores = np.where(columns <= rows + start_pos, scores, -np.inf)
    if sinks is not None:
        last = np.broadcast_to(to(sinks, wide)[None, :, None, None], (*scores.shape[:3], 1))
        scores = np.concatenate([scores, last], -1)
    top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isinf(top), 0, top))
    sums = np.sum(weights, axis=-1, keepdims=True)
    weights = (weights / np.where(sums == 0, 1, sums))[..., : k.shape[2]]
    return to(np.swapaxes(np.matmul(weights, v), 1, 2), dtype)


def _dequantized(x: Array, zero_points: Array | None, scales: Array | None) -> Array:
    if zero_points is None or scales is None:
        return x
    return (x - to(zero_points, x.dtype)) * to(scales, x.dtype)
